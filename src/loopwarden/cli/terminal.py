"""Asks the person at the terminal."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import typer

from loopwarden.masking import clean

if TYPE_CHECKING:
    from loopwarden.runner.seams import Ask

_LONGEST = 2_000


def asking() -> Ask | None:
    """Asks yes or no; `None` where nobody is at the keyboard."""
    return _ask if sys.stdin.isatty() and sys.stderr.isatty() else None


async def _ask(question: str) -> bool:
    """Anything but a yes is a no. The event loop goes on meanwhile, so that Ctrl-C ends the run."""
    typer.echo(f"{clean(question, _LONGEST)} [y/N] ", nl=False, err=True)
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
