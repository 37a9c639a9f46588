"""Our own standard input and output as bytes: whole lines out, and nothing else ever on standard output."""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress
from typing import Final

CHUNK: Final = 64 * 1024
"""Bytes that are read at once; what a pipe holds on Linux."""

_LAST_SECONDS: Final = 1.0
"""For what is being written when all is over."""


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte.

    Raises:
        OSError: `BrokenPipeError` where nobody reads any more.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class Client:
    """The client's side: our standard input and output.

    From here on the two descriptors lead elsewhere: what anything in this process prints goes to standard
    error, and children read nothing.
    """

    def __init__(self) -> None:
        self._in = os.dup(0)
        self._out: int | None = os.dup(1)
        self._lock = threading.RLock()
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        try:
            os.dup2(2, 1)
        except OSError:  # there is no standard error
            os.dup2(nothing, 1)
        os.close(nothing)

    def read(self) -> bytes:
        """The next bytes; empty at the end."""
        return os.read(self._in, CHUNK)

    def write(self, data: bytes) -> None:
        """Write whole lines, or a part of one between `hold` and `release`; nothing once it is closed.

        Raises:
            OSError: Nobody reads any more.
        """
        with self._lock:
            if self._out is not None:
                write_all(self._out, data)

    def is_read(self) -> bool:
        """Whether somebody may still read what is written; false where the system can't tell."""
        out = self._out
        if out is None or not hasattr(select, "poll"):
            return False
        poll = select.poll()
        poll.register(out, 0)  # that the other end is closed is told unasked
        return not poll.poll(0)

    def hold(self) -> None:
        """A line that comes in parts begins: others wait until `release`."""
        self._lock.acquire()

    def release(self) -> None:
        """The line is over."""
        self._lock.release()

    def close_output(self) -> None:
        """The client reads the end; not while somebody writes and it does not read."""
        if not self._lock.acquire(timeout=_LAST_SECONDS):
            return
        try:
            if self._out is not None:
                out, self._out = self._out, None
                os.close(out)
        finally:
            self._lock.release()

    def close_input(self) -> None:
        """What the client writes from now on fails, as it would with the server itself."""
        with suppress(OSError):
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, self._in)
            os.close(nothing)
