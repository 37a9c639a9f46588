"""A program in a terminal of its own, with scripted keystrokes."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from typing import TYPE_CHECKING, Final, Self

from tests.agents.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

SECONDS: Final = 60.0
"""How long something is waited for."""


class Terminal:
    """The program runs while the `with` block does.

    Args:
        command: What is run.
        folder: Where.
        environment: All of its variables.
        size: Rows and columns.
    """

    def __init__(
        self,
        command: list[str],
        folder: Path,
        environment: Mapping[str, str],
        size: tuple[int, int] = (40, 100),
    ) -> None:
        self._start = command, folder, environment, size
        self._screen = Screen(*size)

    def __enter__(self) -> Self:
        command, folder, environment, size = self._start
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *raised: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(SECONDS)
        os.close(self._ours)

    def press(self, keys: str) -> None:
        """Type; a carriage return is the enter key."""
        os.write(self._ours, keys.encode())

    @property
    def shown(self) -> str:
        """What the screen shows."""
        return self._screen.text

    def await_text(self, text: str) -> None:
        """Wait until this is shown; white space and frames do not count.

        Raises:
            AssertionError: It does not come.
        """
        wanted = _squeezed(text)
        self.await_that(lambda: wanted in _squeezed(self.shown), text)

    def await_that(self, happened: Callable[[], bool], what: str) -> None:
        """Wait until something has happened.

        Raises:
            AssertionError: It does not.
        """
        until = time.monotonic() + SECONDS
        while not happened():
            assert time.monotonic() < until, f"{what!r} does not come:\n{self.shown}"
            time.sleep(0.05)

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            while piece := os.read(self._ours, 65536):
                self._screen.feed(decoder.decode(piece))
        except OSError:  # the program has ended
            pass


def _squeezed(text: str) -> str:
    return re.sub(r"[\s│]+", "", text)
