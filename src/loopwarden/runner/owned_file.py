"""A file that one process owns: a lock beside it, which goes with the process however it ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final

from loopwarden.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

_TRIES: Final = 20


def lock_beside(path: Path) -> Path:
    """The lock of a file."""
    return path.with_name(f"{path.name}.lock")


def own(path: Path) -> IO[str]:
    """Take a file for this process, as long as the answer is open.

    Raises:
        StoreError: Another process has it; the text names the file and that process.
        OSError: The lock can't be made.
    """
    lock = lock_beside(path)
    for _ in range(_TRIES):
        stream = os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="ascii")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = _owner(stream)
            stream.close()
            raise StoreError(f"{path} is in use by {who}; end it, or name another file") from None
        except BaseException:
            stream.close()
            raise
        if _same(stream, lock):
            stream.truncate(0)
            stream.write(f"{os.getpid()}\n")
            stream.flush()
            return stream
        stream.close()  # it was removed in between
    raise StoreError(f"{path}: its lock {lock.name} is being removed again and again")


def _owner(stream: IO[str]) -> str:
    with suppress(OSError, ValueError):
        return f"process {int(stream.read(20))}"
    return "another process"


def _same(stream: IO[str], lock: Path) -> bool:
    try:
        found = lock.stat()
    except OSError:
        return False
    held = os.fstat(stream.fileno())
    return (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino)
