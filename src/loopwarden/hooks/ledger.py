"""What is kept of each session between two hook processes, beside the guard's own state.

One event of a session is one transaction (`BEGIN IMMEDIATE`), so that hook processes that overlap take turns.
Kept are ids, names, digests and what was answered; no arguments and no results.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from loopwarden.errors import StoreError
from loopwarden.hooks.damage import file_at, is_damage, set_aside
from loopwarden.hooks.ledger_file import can_write, opened, opened_to_read, roll_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from loopwarden.hooks.damage import File

WAIT_SECONDS: Final = 1.5
"""How long an event waits for those of other processes."""

_IDLE_SECONDS: Final = 14 * 24 * 3600.0
"""Sessions and deeds that are older are forgotten."""

_MOST_CALLS: Final = 128
"""Calls that are remembered per session; the oldest go first."""

_MOST_SESSIONS: Final = 10_000
_MOST_RELEASED: Final = 64
_MOST_SUMMARIES: Final = 16

_MOST_NAMES: Final = 64
"""Runs that go on under another name, and sub-agents that were ended; the oldest are forgotten first."""

_KEPT: Final = (
    "released",
    "calls",
    "turns",
    "runs",
    "made",
    "told",
    "summaries",
    "compacted",
    "goes_on",
    "ended",
    "batched",
    "endings",
    "unguarded",
    "fault_noted",
    "fault_told",
)
"""Attributes of a session that have no column."""

_PUT: Final = """INSERT INTO sessions (host, session, project, begun, seen, paused, data)
    VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (host, session) DO UPDATE SET
    project = excluded.project, seen = excluded.seen, paused = excluded.paused, data = excluded.data"""
_DEED: Final = ("at", "host", "session", "project", "tool", "action", "detector", "count", "key")


@dataclass(slots=True, kw_only=True)
class Call:
    """A call that was met.

    Attributes:
        id: The host's id, or one that was made up.
        digest: Of tool and arguments.
        run: Its run.
        refused: Whether it was refused.
        asked: Whether a person was asked.
        over: Whether its end was met.
        out: What was printed last about it, for a hook that is called twice.
        err: The same, on standard error.
        code: The same, the exit code.
        note: What the model is to be told with the result.
    """

    id: str
    digest: str
    run: str | None
    refused: bool = False
    asked: bool = False
    over: bool = False
    out: str = ""
    err: str = ""
    code: int = 0
    note: str = ""


@dataclass(slots=True, kw_only=True)
class Turn:
    """Calls of a run that overlap, as far as they can be told to be of one reply.

    Attributes:
        number: Counts the run's turns.
        open: Ids of calls that are not over.
        over: Digests of calls that are.
    """

    number: int = 0
    open: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)

    def next(self, by: int = 1) -> None:
        """Begin the next turn; `by` 0: nothing of this one is open any more."""
        self.number += by
        self.open.clear()
        self.over.clear()


@dataclass(slots=True, kw_only=True)
class Session:
    """What is remembered of a session.

    Attributes:
        host: The coding agent.
        name: The session's id.
        project: The folder it works in.
        paused: Whether the guard keeps quiet.
        released: Loops that a person let pass, by key.
        calls: The newest calls, oldest first.
        turns: The turn of each run.
        runs: The newest run of each agent; the main one is the empty name.
        made: How many call ids were made up.
        told: Whether requests to the model are told of between the calls of a run, so that turns are known.
        summaries: Digests of summaries that histories began with, the newest last; `None`: no request to the
            model was seen yet.
        compacted: Whether a compaction was seen between two runs, which counts for the next one.
        goes_on: Runs that go on under another name of the host's: the first name of each.
        ended: Sub-agents whose run was ended, and why.
        batched: Whether the host tells of the ends of batches.
        endings: Runs that end with their next batch or request to the model, and what is said then.
        unguarded: What was wrong with the configuration at the last event; empty: nothing.
        fault_noted: Whether the log of faults has such a fault of the session.
        fault_told: Whether the person was told of one.
    """

    host: str
    name: str
    project: str = ""
    paused: bool = False
    released: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    turns: dict[str, Turn] = field(default_factory=dict)
    runs: dict[str, str | None] = field(default_factory=dict)
    made: int = 0
    told: bool = False
    summaries: list[str] | None = None
    compacted: bool = False
    goes_on: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    batched: bool = False
    endings: dict[str, str] = field(default_factory=dict)
    unguarded: str = ""
    fault_noted: bool = False
    fault_told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """Something the guard did.

    Attributes:
        at: Seconds since the epoch.
        host: The coding agent.
        session: Its session.
        project: The folder it works in.
        tool: Tool of the call.
        action: What was done; `released` where a person had let the loop pass.
        detector: Who found it.
        count: How often.
        key: The loop.
    """

    at: float
    host: str
    session: str
    project: str
    tool: str | None
    action: str
    detector: str | None
    count: int
    key: str | None


class Ledger:
    """The file with all sessions. Safe to share between threads and processes.

    Args:
        path: The file; made if it is missing, for its owner only.
        wait_seconds: How long to wait for other processes.
        clock: Seconds since the epoch.
    """

    def __init__(
        self, path: Path, *, wait_seconds: float = WAIT_SECONDS, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._wait = wait_seconds
        self._clock = clock
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file: File | None = None

    @contextmanager
    def session(self, host: str, name: str) -> Iterator[Session]:
        """A session, to be changed in one transaction; what the block raises undoes it.

        Raises:
            StoreError: The file can't be used; so for all methods.
        """
        with self._transaction() as connection:
            found = connection.execute(
                "SELECT project, paused, data FROM sessions WHERE host = ? AND session = ?", (host, name)
            ).fetchone()
            session = Session(host=host, name=name) if found is None else _session(host, name, *found)
            yield session
            now = self._clock()
            row = (host, name, session.project, now, now, session.paused, _data(session))
            connection.execute(_PUT, row)
            if found is None:
                self._prune(connection, now)

    def done(self, deed: Deed) -> None:
        """Remember what the guard did; inside or outside of a `session` block."""
        with self._transaction() as connection:
            connection.execute(
                f"INSERT INTO deeds VALUES ({', '.join('?' * len(_DEED))})",  # noqa: S608 - question marks only
                [getattr(deed, name) for name in _DEED],
            )

    def sessions(self, since: float) -> list[tuple[Session, float, float]]:
        """Sessions with an event since then, newest first: each with its first and its last moment."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT host, session, project, paused, data, begun, seen FROM sessions WHERE seen >= ? "
                "ORDER BY seen DESC",
                (since,),
            ).fetchall()
        return [(_session(*row[:5]), row[5], row[6]) for row in rows]

    def deeds(self, since: float) -> list[Deed]:
        """What was done since then, oldest first."""
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT {', '.join(_DEED)} FROM deeds WHERE at >= ? ORDER BY at",  # noqa: S608 - names of columns
                (since,),
            ).fetchall()
        return [Deed(**dict(zip(_DEED, row, strict=True))) for row in rows]

    def close(self) -> None:
        """Give the file back; a later use opens it anew."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _prune(self, connection: sqlite3.Connection, now: float) -> None:
        connection.execute("DELETE FROM sessions WHERE seen < ?", (now - _IDLE_SECONDS,))
        connection.execute(
            "DELETE FROM sessions WHERE rowid IN "
            "(SELECT rowid FROM sessions ORDER BY seen DESC LIMIT -1 OFFSET ?)",
            (_MOST_SESSIONS,),
        )
        connection.execute("DELETE FROM deeds WHERE at < ?", (now - _IDLE_SECONDS,))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            connection = self._connection
            if connection is not None and connection.in_transaction:  # `done` inside of `session`
                yield connection
                return
            connection = self._begun()
            try:
                yield connection
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise self._fault(error) from error
            finally:
                roll_back(connection)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A transaction, or, where nothing can be written, what can be read."""
        if can_write(self.path):
            with self._transaction() as connection:
                yield connection
            return
        try:
            with closing(opened_to_read(self.path)) as connection:
                yield connection
        except sqlite3.Error as error:
            raise StoreError(f"{self.path.name}: {error}") from error

    def _begun(self) -> sqlite3.Connection:
        """A transaction; in a new file where the one that was there is damaged."""
        try:
            return self._begin()
        except StoreError:
            if self._file == file_at(self.path):
                raise
        return self._begin()

    def _begin(self) -> sqlite3.Connection:
        if self._connection is not None and file_at(self.path) != self._file:
            self.close()  # it was removed, or set aside by another process
        try:
            connection = self._connection or self._open()
            connection.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, OSError) as error:
            raise self._fault(error) from error
        return connection

    def _open(self) -> sqlite3.Connection:
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self._file = file_at(self.path)
        self._connection = opened(self.path, self._wait)
        return self._connection

    def _fault(self, error: Exception) -> StoreError:
        self.close()
        if is_damage(error):
            set_aside(self.path, self._file)
        return StoreError(f"{self.path.name}: {error}")


def _data(session: Session) -> bytes:
    """What has no column; bounded."""
    del session.calls[:-_MOST_CALLS]
    del session.released[:-_MOST_RELEASED]
    if session.summaries is not None:
        del session.summaries[:-_MOST_SUMMARIES]
    for names in (session.goes_on, session.ended, session.endings):
        for name in list(names)[:-_MOST_NAMES]:
            del names[name]
    kept = {call.run for call in session.calls} | set(session.runs.values())
    session.turns = {run: turn for run, turn in session.turns.items() if (run or None) in kept}
    session.endings = {run: text for run, text in session.endings.items() if (run or None) in kept}
    return orjson.dumps({name: getattr(session, name) for name in _KEPT})


def _session(host: str, name: str, project: str, paused: int, data: bytes) -> Session:
    """From a row; one that can't be read begins afresh, but stays paused."""
    session = Session(host=host, name=name, project=project, paused=bool(paused))
    try:
        kept: dict[str, Any] = orjson.loads(data)
        calls = [Call(**call) for call in kept["calls"]]
        turns = {run: Turn(**turn) for run, turn in kept["turns"].items()}
        values = {**{name: kept[name] for name in _KEPT if name in kept}, "calls": calls, "turns": turns}
    except (ValueError, TypeError, KeyError, AttributeError):
        return session
    for field_name, value in values.items():
        setattr(session, field_name, value)
    return session
