"""A store in an SQLite file: many processes on one machine.

One short write transaction an update (`BEGIN IMMEDIATE`) over a write-ahead log, so that a process that is
killed in the middle leaves what was there before. A process has one connection, and its threads take turns.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from loopwarden.errors import StoreError
from loopwarden.stores import IDLE_SECONDS, MAX_RUNS, check_bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from loopwarden.stores import Answer, Change

Result = TypeVar("Result")

WAIT_SECONDS: Final = 5.0
"""How long an update waits by default for other processes to finish theirs."""

LAYOUT: Final = 1
"""Version of the tables; a file of another one is refused."""

_OURS: Final = 0x6C77_6472
"""The application id in the head of our files, by which they are told from those of other programs."""

_WHOSE: Final = (
    "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
    "FROM pragma_application_id, pragma_user_version"
)
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS runs (key TEXT PRIMARY KEY, touched REAL NOT NULL, state BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS runs_touched ON runs (touched)",
    f"PRAGMA application_id = {_OURS}",
    f"PRAGMA user_version = {LAYOUT}",
)
_FIND: Final = "SELECT state FROM runs WHERE key = ? AND touched >= ?"
_PUT: Final = (
    "INSERT INTO runs (key, touched, state) VALUES (?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET touched = excluded.touched, state = excluded.state"
)
_DELETE: Final = "DELETE FROM runs WHERE key = ?"
_DELETE_IDLE: Final = "DELETE FROM runs WHERE touched < ?"
_DELETE_BEYOND: Final = (
    "DELETE FROM runs WHERE rowid IN (SELECT rowid FROM runs ORDER BY touched DESC, rowid DESC "
    "LIMIT -1 OFFSET ?)"
)

_FIRST_PAUSE: Final = 0.0005
_LONGEST_PAUSE: Final = 0.01

_stores: Final[weakref.WeakSet[SqliteStore]] = weakref.WeakSet()

_stopped: Final[list[SqliteStore]] = []
"""Stores that wait for a fork to be over."""

_inherited: Final[list[sqlite3.Connection]] = []
"""Connections of a parent process; a child must neither use nor close them."""


class SqliteStore:
    """Keeps bytes in a table.

    Args:
        path: The file; made if it is missing, for its owner only. Its folder must be there, on a disk of
            this machine.
        idle_seconds: What nobody changed for this long is forgotten.
        max_runs: Most keys that are kept.
        wait_seconds: How long an update waits for other processes to finish theirs.
        clock: Seconds since the epoch, the same for all processes.

    Raises:
        StoreError: The file can't be made, read or written, or belongs to another program or version.
        ValueError: `idle_seconds` or `max_runs` is out of range.
    """

    _connection: sqlite3.Connection | None = None
    _process = 0

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        idle_seconds: float = IDLE_SECONDS,
        max_runs: int = MAX_RUNS,
        wait_seconds: float = WAIT_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_bounds(idle_seconds, max_runs)
        self.path = Path(path).expanduser().absolute()
        self._idle = idle_seconds
        self._most = max_runs
        self._wait = wait_seconds
        self._clock = clock
        self._lock = threading.RLock()
        self._file = (0, 0)
        with self._transaction():
            pass
        _stores.add(self)

    def update(self, key: str, change: Change[Answer]) -> Answer:
        """As `Store.update`."""
        with self._transaction() as connection:
            now = self._clock()
            row = self._run(connection, _FIND, key, now - self._idle)
            data, answer = change(row[0] if row is not None else None)
            if data is None:
                self._run(connection, _DELETE, key)
            else:
                self._run(connection, _PUT, key, now, data)
                if row is None:
                    self._run(connection, _DELETE_IDLE, now - self._idle)
                    self._run(connection, _DELETE_BEYOND, self._most)
            return answer

    def read(self, key: str) -> bytes | None:
        """As `Store.read`."""
        with self._lock:
            row = self._run(self._open(), _FIND, key, self._clock() - self._idle)
        return row[0] if row is not None else None

    def move(self, key: str, to: str) -> None:
        """As `Store.move`."""
        with self._transaction() as connection:
            now = self._clock()
            row = self._run(connection, _FIND, key, now - self._idle)
            if row is not None:
                self._run(connection, _DELETE, key)
                self._run(connection, _PUT, to, now, row[0])

    def delete(self, key: str) -> None:
        """As `Store.delete`."""
        with self._transaction() as connection:
            self._run(connection, _DELETE, key)

    def __del__(self) -> None:
        self._drop()

    def close(self) -> None:
        """As `Store.close`."""
        with self._lock:
            self._drop()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction; whatever goes wrong in it, nothing is changed."""
        with self._lock:
            connection = self._open()
            self._run(connection, "BEGIN IMMEDIATE")
            try:
                yield connection
                self._run(connection, "COMMIT")
            except BaseException:
                if self._connection is not None and connection.in_transaction:
                    self._run(connection, "ROLLBACK")
                raise

    def _run(self, connection: sqlite3.Connection, statement: str, *values: object) -> tuple[Any, ...] | None:
        """Run one statement; after a fault the connection is given up, so that the next update makes one.

        Returns:
            The first row, `None` if there is none.
        """
        try:
            row: tuple[Any, ...] | None = self._patiently(
                lambda: connection.execute(statement, values).fetchone()
            )
        except sqlite3.Error as error:
            self._drop()
            raise self._fault(error) from error
        return row

    def _patiently(self, work: Callable[[], Result]) -> Result:
        """Try again while other processes write; how long SQLite itself waits grows too fast to be fair."""
        until = time.monotonic() + self._wait
        pause = _FIRST_PAUSE
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                    raise
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that waiting processes don't meet
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _open(self) -> sqlite3.Connection:
        """This process's connection; another one when the file was replaced."""
        if self._connection is not None and self._process != os.getpid():
            _inherited.append(self._connection)
            self._connection = None
        if self._connection is not None and self._found() != self._file:
            self._drop()
        if self._connection is None:
            self._connection = self._connect()
            self._process = os.getpid()
            self._file = self._found()
        return self._connection

    def _found(self) -> tuple[int, int]:
        try:
            found = self.path.stat()
        except OSError:
            return 0, 0
        return found.st_dev, found.st_ino

    def _connect(self) -> sqlite3.Connection:
        connection = None
        try:
            if not self.path.exists():
                self.path.touch(mode=0o600)
            connection = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
            self._prepare(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.Error | OSError):
                raise self._fault(error) from error
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        owner, layout, tables = self._patiently(lambda: connection.execute(_WHOSE).fetchone())
        if owner == _OURS and layout != LAYOUT:
            raise StoreError(
                f"{self.path} has layout {layout}, this version needs {LAYOUT}; name another file"
            )
        if owner != _OURS and (owner or tables):
            raise StoreError(f"{self.path} is a database of another program; name another file")
        self._patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
        connection.execute("PRAGMA synchronous = NORMAL")
        if owner != _OURS:
            self._patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute("COMMIT")

    def _fault(self, error: Exception) -> StoreError:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return StoreError(f"{self.path}: {reason}")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._process == os.getpid():
            connection.close()  # rolls back what was not committed


def _before_fork() -> None:
    """No connection may go through a fork: it is closed between two updates, and made again when needed."""
    for store in sorted(_stores, key=id):
        store._lock.acquire()  # noqa: SLF001 - one module
        _stopped.append(store)
        store._drop()  # noqa: SLF001 - one module


def _after_fork() -> None:
    while _stopped:
        _stopped.pop()._lock.release()  # noqa: SLF001 - one module


def _after_fork_in_child() -> None:
    _stopped.clear()
    for store in list(_stores):
        store._lock = threading.RLock()  # noqa: SLF001 - one module


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
