"""Standard input, output and error of the commands, also where the process was started without them.

`loopwarden status >&-` in a job of cron has no standard output. What has nothing to print ends as ever; what
has ends as where the disk is full.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

from loopwarden_hook import fill_streams

_OUTPUT = "standard output"


class _Closed(io.FileIO):
    """Standard output of a process that has none."""

    def write(self, _: Any) -> int:
        """Raise: it can't be written.

        Raises:
            OSError: Always.
        """
        raise OSError(errno.EBADF, "it is closed", _OUTPUT)


def open_streams() -> None:
    """Make `sys.stdin`, `sys.stdout` and `sys.stderr` usable; a screen may not show every character."""
    fill_streams()
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    if sys.stdout is None:
        # without a buffer, which would try again at the end of the program and make its exit code another one
        sys.stdout = io.TextIOWrapper(_Closed(1, "w", closefd=False), encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w", closefd=False)), encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush_output() -> None:
    """Write what was printed.

    Raises:
        OSError: It can't be written, as on a full disk; it says what could not.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, _OUTPUT) from error


def drop_output() -> None:
    """Nobody reads on; Python would complain once more when it closes the streams at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
