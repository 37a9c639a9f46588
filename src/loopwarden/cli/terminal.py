"""Asks the person at the terminal."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

import typer

from loopwarden.masking import clean

if TYPE_CHECKING:
    from loopwarden.runner.seams import Ask

_LONGEST: Final = 10_000
"""Characters of a question; a longer one is answered with no, as nobody could read it to its end."""

_SHOWN: Final = 300
"""Characters of such a question that are shown."""


def asking() -> Ask | None:
    """Asks yes or no; `None` where nobody is at the keyboard."""
    return _ask if sys.stdin.isatty() and sys.stderr.isatty() else None


async def _ask(question: str) -> bool:
    """Anything but a yes is a no. The event loop goes on meanwhile, so that Ctrl-C ends the run."""
    shown = clean(question, _LONGEST + 1)
    if len(shown) > _LONGEST:
        typer.echo(f"{shown[:_SHOWN]}... is too long to be asked for; the answer is no", err=True)
        return False
    typer.echo(f"{shown} [y/N] ", nl=False, err=True)
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        if not answered.done():
            answered.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin, read)
    try:
        return (await answered).strip().lower() in ("y", "yes")
    finally:
        loop.remove_reader(sys.stdin)
