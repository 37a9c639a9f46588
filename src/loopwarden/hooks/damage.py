"""A database that SQLite finds damaged is set aside, so that the hooks go on with a new one.

Only what can't heal counts: a file that is locked, or can't be read or written, stays where it is.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from loopwarden.errors import StoreError
from loopwarden.hooks.faults import note_fault
from loopwarden.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from loopwarden.stores import Change

SUFFIX: Final = ".damaged"
"""What the name of a file that was set aside ends with; one is kept."""

File: TypeAlias = tuple[int, int]
"""A file by device and number, whatever its name."""

Result = TypeVar("Result")

_CODES: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_BESIDE: Final = ("-wal", "-shm")


def is_damage(error: BaseException | None) -> bool:
    """Whether it says, or was raised because SQLite said, that a database is damaged."""
    if isinstance(error, StoreError):
        error = error.__cause__
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _CODES


def file_at(path: Path) -> File | None:
    """The file of a name; `None` if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def set_aside(path: Path, damaged: File | None) -> bool:
    """Rename a damaged file, and what SQLite keeps beside it; the log of faults has a line about it.

    Args:
        path: Its name.
        damaged: The file that was found damaged; a new one, which another process has begun, stays.

    Returns:
        Whether the damaged file is out of the way.
    """
    aside = path.with_name(path.name + SUFFIX)
    try:
        with _alone(path.parent):
            if damaged is None or file_at(path) != damaged:
                return damaged is not None
            for end in _BESIDE:  # first: a new database must not find the log of this one
                old, new = path.with_name(path.name + end), aside.with_name(aside.name + end)
                new.unlink(missing_ok=True)
                with suppress(FileNotFoundError):
                    old.replace(new)
            path.replace(aside)
    except OSError:
        return False
    note_fault(path.parent, f"{path.name} was damaged and is now {aside.name}; a new one was begun")
    return True


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process sets a file of this folder aside meanwhile; Windows renames no open file anyway."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class RunsStore:
    """A `Store` in an SQLite file, which begins afresh when the file is damaged.

    Args:
        path: The file.
        wait_seconds: How long an update waits for other processes.

    Raises:
        StoreError: The file can't be used.
    """

    def __init__(self, path: Path, wait_seconds: float) -> None:
        self._path = path
        self._store = self._afresh(lambda: SqliteStore(path, wait_seconds=wait_seconds))

    def update(self, key: str, change: Change[Result]) -> Result:
        """As `Store.update`."""
        return self._afresh(lambda: self._store.update(key, change))

    def read(self, key: str) -> bytes | None:
        """As `Store.read`."""
        return self._afresh(lambda: self._store.read(key))

    def move(self, key: str, to: str) -> None:
        """As `Store.move`."""
        self._afresh(lambda: self._store.move(key, to))

    def delete(self, key: str) -> None:
        """As `Store.delete`."""
        self._afresh(lambda: self._store.delete(key))

    def close(self) -> None:
        """As `Store.close`."""
        self._store.close()

    def _afresh(self, work: Callable[[], Result]) -> Result:
        there = file_at(self._path)
        try:
            return work()
        except StoreError as error:
            if not is_damage(error) or not set_aside(self._path, there):
                raise
        return work()
