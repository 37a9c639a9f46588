"""A file that one process owns: a lock beside it, which goes with the process however it ends."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError
from loopwarden.process_lock import TakenError, take

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TRIES: Final = 20


def lock_beside(path: Path) -> Path:
    """The lock of a file."""
    return path.with_name(f"{path.name}.lock")


def own(path: Path) -> int:
    """Take a file for this process, until `give_back`.

    Raises:
        StoreError: Another process has it; the text names the file and that process.
        OSError: The lock can't be made.
    """
    lock = lock_beside(path)
    for _ in range(_TRIES):
        try:
            descriptor = take(lock)
        except TakenError as taken:
            raise StoreError(f"{path} is in use by {taken.owner}; end it, or name another file") from None
        if _same(descriptor, lock):
            return descriptor
        give_back(descriptor)  # it was removed in between
    raise StoreError(f"{path}: its lock {lock.name} is being removed again and again")


def give_back(owned: int) -> None:
    """Others may have the file that `own` took."""
    os.close(owned)


@contextmanager
def owned(path: Path) -> Iterator[None]:
    """Own a file while inside; faults as of `own`."""
    descriptor = own(path)
    try:
        yield
    finally:
        give_back(descriptor)


def _same(descriptor: int, lock: Path) -> bool:
    try:
        found = lock.stat()
    except OSError:
        return False
    held = os.fstat(descriptor)
    return (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino)
