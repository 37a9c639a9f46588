"""A file that one process holds at a time: the lock ends with the process, however it ends."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_LONGEST_PID: Final = 20


class TakenError(Exception):
    """Another process has the lock.

    Attributes:
        owner: `process PID`, as it wrote down itself, or `another process`.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        super().__init__(f"in use by {owner}")


def take(path: Path) -> int:
    """Take the lock of a file, which is made if it is missing, and write down who has it.

    Returns:
        A descriptor; the lock is held until it is closed. On Windows there is no such lock, and everybody
        gets it.

    Raises:
        TakenError: Another process has it.
        OSError: The file can't be made, or the disk has no locks.
    """
    descriptor = os.open(path, _FLAGS, 0o600)
    try:
        _lock(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    with suppress(OSError):  # a full disk: the lock is held all the same
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def _lock(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise TakenError(_owner(descriptor)) from None


def _owner(descriptor: int) -> str:
    with suppress(OSError):
        text = os.read(descriptor, _LONGEST_PID).strip()
        if text.isdigit():
            return f"process {text.decode()}"
    return "another process"
