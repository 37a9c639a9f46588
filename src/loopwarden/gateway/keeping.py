"""What the runs have come to, in a database that outlives the gateway.

The runs live in memory. What changed is written behind, all in one transaction, a moment later and when the
gateway ends. A gateway that is killed loses what was not yet written: see `gateway/desk.py`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError
from loopwarden.stores import IDLE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_VERSION: Final = 1
_APPLICATION: Final = 0x6C776777
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS runs (
    name TEXT PRIMARY KEY, changed REAL NOT NULL, state BLOB NOT NULL, answers BLOB NOT NULL
) WITHOUT ROWID
"""

_READ: Final = "SELECT state, answers FROM runs WHERE name = ?"
_DELETE_BEYOND: Final = (
    "DELETE FROM runs WHERE name NOT IN (SELECT name FROM runs ORDER BY changed DESC LIMIT ?)"
)


class Keeping:
    """States of runs by name. Safe to share between threads.

    Only for who holds the folder's lock.

    Args:
        path: The database; made for its owner only.

    Raises:
        StoreError: It can't be made or read, or is another program's.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{path}: {error}") from None
        try:
            self._begin()
        except sqlite3.Error as error:
            self._connection.close()
            raise StoreError(f"{path}: {error}; move the file away to begin afresh") from None
        except StoreError:
            self._connection.close()
            raise

    def _begin(self) -> None:
        ask = self._connection.execute
        owner = ask("PRAGMA application_id").fetchone()[0]
        version = ask("PRAGMA user_version").fetchone()[0]
        tables = ask("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if (owner, version) != (_APPLICATION, _VERSION) and tables:
            raise StoreError(f"{self._path}: not the database of a gateway of this version")
        ask("PRAGMA journal_mode = WAL")
        ask("PRAGMA synchronous = NORMAL")
        ask(_SCHEMA)
        if not tables:
            ask(f"PRAGMA application_id = {_APPLICATION}")
            ask(f"PRAGMA user_version = {_VERSION}")
        ask("DELETE FROM runs WHERE changed < ?", (time.time() - IDLE_SECONDS,))

    def names(self, most: int) -> list[str]:
        """Names of the runs that changed last, the oldest first; others are deleted.

        Raises:
            StoreError: They can't be read.
        """
        with self._lock:
            try:
                self._connection.execute(_DELETE_BEYOND, (most,))
                rows = self._connection.execute("SELECT name FROM runs ORDER BY changed").fetchall()
            except sqlite3.Error as error:
                raise StoreError(f"{self._path}: {error}") from None
        return [row[0] for row in rows]

    def read(self, name: str) -> tuple[bytes, bytes] | None:
        """State of a run and its last answers; `None` for none.

        Raises:
            StoreError: It can't be read.
        """
        with self._lock:
            try:
                row = self._connection.execute(_READ, (name,)).fetchone()
            except sqlite3.Error as error:
                raise StoreError(f"{self._path}: {error}") from None
        return (bytes(row[0]), bytes(row[1])) if row is not None else None

    def write(self, states: Iterable[tuple[str, bytes, bytes]], gone: Iterable[str]) -> None:
        """Keep states with their answers and drop others, all or nothing.

        Raises:
            StoreError: They can't be written; nothing was.
        """
        now = time.time()
        with self._lock:
            ask = self._connection
            try:
                ask.execute("BEGIN IMMEDIATE")
                ask.executemany("DELETE FROM runs WHERE name = ?", [(name,) for name in gone])
                ask.executemany(
                    "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)",
                    [(name, now, state, answers) for name, state, answers in states],
                )
                ask.execute("COMMIT")
            except sqlite3.Error as error:
                if ask.in_transaction:
                    ask.execute("ROLLBACK")
                raise StoreError(f"{self._path}: {error}") from None

    def close(self) -> None:
        """Give the database back."""
        with self._lock:
            self._connection.close()
