"""The tables of the journal, and how its file is opened."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

LAYOUT: Final = 1
"""Version of the tables; a file of another one is refused."""

APPLICATION: Final = 0x4C576A72
"""The application id in the head of a journal: the letters LWjr."""

WAIT_SECONDS: Final = 0.1
"""How long a statement waits for a program that reads the file from beside."""

_TABLES: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, agent TEXT NOT NULL, began REAL NOT NULL, touched REAL NOT NULL, history BLOB
);
CREATE INDEX sessions_touched ON sessions (touched);
CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, session TEXT NOT NULL,
    agent TEXT NOT NULL, trigger TEXT NOT NULL, parent TEXT, task TEXT NOT NULL, began REAL NOT NULL,
    ended REAL, state TEXT NOT NULL, code TEXT, message TEXT, answer TEXT,
    requests INTEGER NOT NULL DEFAULT 0, input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0, evidence BLOB, followed INTEGER NOT NULL DEFAULT 0,
    kept INTEGER NOT NULL DEFAULT 0, size INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX runs_session ON runs (session, number);
CREATE INDEX runs_state ON runs (state, number);
CREATE INDEX runs_interrupted ON runs (session) WHERE state = 'interrupted' AND followed = 0;
CREATE TABLE happenings (
    run INTEGER NOT NULL, number INTEGER NOT NULL, time REAL NOT NULL, kind TEXT NOT NULL,
    data TEXT NOT NULL, PRIMARY KEY (run, number)
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {LAYOUT};
COMMIT;
"""
_WHOSE: Final = (
    "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
    "FROM pragma_application_id, pragma_user_version"
)


def connect(path: Path) -> sqlite3.Connection:
    """Open a journal; it is made, for its owner only, if it is missing.

    Raises:
        StoreError: It can't be opened, or belongs to another program or version.
    """
    connection = None
    try:
        _make(path)
        connection = sqlite3.connect(
            path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
        )
        _prepare(connection, path)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, OSError):
            raise StoreError(f"{path}: {error.strerror or error}") from error
        if isinstance(error, sqlite3.Error):
            raise StoreError(f"{path}: {error}") from error
        raise
    return connection


def _make(path: Path) -> None:
    """The file, closed to other people."""
    number = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        found = os.fstat(number)
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            os.fchmod(number, 0o600)
    finally:
        os.close(number)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    owner, layout, tables = connection.execute(_WHOSE).fetchone()
    if owner == APPLICATION and layout != LAYOUT:
        raise StoreError(f"{path} has layout {layout}, this version needs {LAYOUT}; name another file")
    if owner != APPLICATION and (owner or tables):
        raise StoreError(f"{path} is a database of another program; name another file")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA temp_store = MEMORY")
    if owner != APPLICATION:
        connection.executescript(_TABLES)
