"""Asks the person at the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
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

_READ: Final = 4096


def asking() -> Ask | None:
    """Asks yes or no; `None` where nobody is at the keyboard."""
    if sys.platform == "win32" or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    return _Keyboard(sys.stdin.fileno())


class _Keyboard:
    """Asks one question after the other, whoever asks: agents that run at once share the terminal.

    Args:
        keys: Descriptor of the terminal.
    """

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._turn = asyncio.Lock()

    async def __call__(self, question: str) -> bool:
        """Anything but a yes is a no. The event loop goes on meanwhile, so that Ctrl-C ends the run.

        What was typed before the question is no answer to it.
        """
        shown = clean(question, _LONGEST + 1)
        if len(shown) > _LONGEST:
            typer.echo(f"{shown[:_SHOWN]}... is too long to be asked for; the answer is no", err=True)
            return False
        async with self._turn:
            self._forget_typed()
            # a line of its own: what goes on beside it may be shown before the answer
            typer.echo(f"{shown} [y/N]", err=True)
            return (await self._line()).strip().lower() in (b"y", b"yes")

    def _forget_typed(self) -> None:
        import termios  # there is none on Windows

        with contextlib.suppress(termios.error):
            termios.tcflush(self._keys, termios.TCIFLUSH)

    async def _line(self) -> bytes:
        """The next line; what there is of it where the terminal is closed."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        typed = bytearray()

        def read() -> None:
            piece = b""
            with contextlib.suppress(OSError):
                piece = os.read(self._keys, _READ)
            typed.extend(piece)
            if not piece or b"\n" in piece or len(typed) > _READ:
                loop.remove_reader(self._keys)
                ended.set()

        loop.add_reader(self._keys, read)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._keys)
        return bytes(typed).partition(b"\n")[0]
