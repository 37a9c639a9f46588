"""The record as an SQLite database, to which threads and processes may write at once."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError
from loopwarden.records.entry import from_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from loopwarden.records.entry import Entry

APPLICATION: Final = 0x4C577272
"""`application_id` of a record: the letters LWrr."""

VERSION: Final = 1
"""`user_version`: changes with the tables."""

_OWNER: Final = 0o600
_OWNER_FOLDER: Final = 0o700
_PATIENCE_SECONDS: Final = 2.0
"""How long a write waits for other processes; the agent waits with it."""

_PAUSE_SECONDS: Final = 0.02
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    time TEXT NOT NULL,
    entry TEXT NOT NULL
)
"""
_INSERT: Final = "INSERT INTO entries (id, kind, time, entry) VALUES (?, ?, ?, ?)"

_inherited: list[sqlite3.Connection] = []
"""Connections of a parent process: they must be neither used nor closed."""


class SqliteRecord:
    """Appends entries to a database that only its owner may read.

    Args:
        path: The file; it and its folder are made with the first entry.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()

    def write(self, entries: Sequence[Entry]) -> None:
        """Append the entries, all or none.

        Raises:
            StoreError: It is no record, is locked for too long, or can't be written.
            OSError: The file can't be made.
        """
        rows = [(entry.id, entry.kind, entry.time, entry.to_json().decode()) for entry in entries]
        with self._lock:
            try:
                connection = self._open()
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(_INSERT, rows)
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._drop()
                raise StoreError(f"{self._path}: {error}") from error

    def close(self) -> None:
        """Give the file back; a later write opens it anew."""
        with self._lock:
            self._drop()

    def after_fork(self) -> None:
        """In a child process: a lock and a connection of its own."""
        self._lock = threading.Lock()
        if self._connection is not None:
            _inherited.append(self._connection)
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(mode=_OWNER_FOLDER, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, _OWNER))
            connection = sqlite3.connect(
                self._path, timeout=_PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                if not _check(connection, self._path):
                    _make(connection)
                connection.execute("PRAGMA synchronous = NORMAL")
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def read_database(path: Path) -> Iterator[Entry]:
    """The entries in the order in which they were written.

    Raises:
        OSError: There is no such file.
        StoreError: It is no record, or can't be read.
    """
    path.stat()
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        ) as connection:
            if not _check(connection, path):
                return
            for (text,) in connection.execute("SELECT entry FROM entries ORDER BY number"):
                entry = from_json(text) if isinstance(text, str) else None
                if entry is not None:
                    yield entry
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error


def _check(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the tables are there; an empty database has none yet.

    Raises:
        StoreError: It is a database of something else, or of a newer loopwarden.
    """
    connection.execute("BEGIN")  # one look: another process may be making the tables
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    connection.execute("COMMIT")
    if (application, version) == (APPLICATION, VERSION):
        return True
    if application == APPLICATION and version > VERSION:
        raise StoreError(f"{path}: a run record of version {version}; this loopwarden knows {VERSION}")
    if tables and application != APPLICATION:
        raise StoreError(f"{path}: a database, but no run record")
    return False


def _make(connection: sqlite3.Connection) -> None:
    """Make the tables; other processes may be at it."""
    patience = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError:  # SQLite does not wait here by itself
            if time.monotonic() >= patience:
                raise
            time.sleep(_PAUSE_SECONDS)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_TABLES)
    connection.execute("CREATE INDEX IF NOT EXISTS entries_by_id ON entries (id)")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
