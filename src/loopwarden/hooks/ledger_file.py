"""The file of the ledger, as SQLite opens it: to write in it, or only to read it."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

_PAUSE_SECONDS: Final = 0.005
_READ_SECONDS: Final = 1.0

_LAYOUT: Final = 1
_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS sessions (
        host TEXT, session TEXT, project TEXT NOT NULL, begun REAL NOT NULL, seen REAL NOT NULL,
        paused INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (host, session))""",
    "CREATE INDEX IF NOT EXISTS sessions_seen ON sessions (seen)",
    """CREATE TABLE IF NOT EXISTS deeds (
        at REAL NOT NULL, host TEXT NOT NULL, session TEXT NOT NULL, project TEXT NOT NULL, tool TEXT,
        action TEXT NOT NULL, detector TEXT, count INTEGER NOT NULL, key TEXT)""",
    "CREATE INDEX IF NOT EXISTS deeds_at ON deeds (at)",
    f"PRAGMA user_version = {_LAYOUT}",
)


def can_write(path: Path) -> bool:
    """Whether this user may write a database: its folder and, where there is one, the file."""
    return os.access(path.parent, os.W_OK | os.X_OK) and (os.access(path, os.W_OK) or not path.exists())


def opened(path: Path, wait_seconds: float) -> sqlite3.Connection:
    """The file with its tables, made where they are missing.

    Args:
        path: The file, which is there.
        wait_seconds: How long to wait for other processes.

    Raises:
        StoreError: It was written by a later version.
        sqlite3.Error: It can't be used.
    """
    connection = sqlite3.connect(path, timeout=wait_seconds, isolation_level=None, check_same_thread=False)
    try:
        _use_log(connection, wait_seconds)
        connection.execute("PRAGMA synchronous = NORMAL")
        _lay_out(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def opened_to_read(path: Path) -> sqlite3.Connection:
    """Any database as it is; with the ledger's empty tables if there is no file.

    Raises:
        sqlite3.Error: It can't be read.
    """
    if not path.exists():
        connection = sqlite3.connect(":memory:", isolation_level=None)
        _lay_out(connection, path)
        return connection
    address = f"{path.resolve().as_uri()}?mode=ro"
    connection = sqlite3.connect(address, uri=True, timeout=_READ_SECONDS)
    try:
        connection.execute("PRAGMA schema_version")
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
            raise
        # The log of writes needs a file beside this one, which can't be made; nobody can write either.
        return sqlite3.connect(f"{address}&immutable=1", uri=True)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def roll_back(connection: sqlite3.Connection) -> None:
    """After a fault; after a commit, or where the connection was closed, there is nothing to do."""
    with suppress(sqlite3.ProgrammingError):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _use_log(connection: sqlite3.Connection, wait_seconds: float) -> None:
    """Others may be at it; SQLite doesn't wait for this one."""
    until = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _lay_out(connection: sqlite3.Connection, path: Path) -> None:
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    if layout > _LAYOUT:
        raise StoreError(f"{path} was written by a later version of loopwarden")
    if layout < _LAYOUT:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute("COMMIT")
