"""The journal: sessions with their messages, runs, and all that happened in them, in one SQLite file.

It is the agent's own transcript, with arguments and results, and so for the owner only. One process owns a
file. What can't be written now (the disk is full, another program holds the file) is kept for later within
bounds, and never breaks a run.
"""

from __future__ import annotations

import errno
import sqlite3
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from loopwarden.errors import StoreError
from loopwarden.runner.happenings import Happening
from loopwarden.runner.journal_tables import connect
from loopwarden.runner.journal_writes import followed, happened, touched, trimmed
from loopwarden.runner.kept import KeptRun, KeptSession
from loopwarden.runner.owned_file import give_back, own
from loopwarden.runner.plain_json import from_json
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from loopwarden.runner.journal_writes import Write

MOST_WAITING: Final = 10_000
MOST_WAITING_BYTES: Final = 256_000_000
"""Writes that wait for the file to be writable again; beyond, the oldest are lost, and that is logged."""

LARGEST_HISTORY: Final = 64_000_000
"""Bytes of the message history of one session; a larger one is not kept."""

PAUSE_SECONDS: Final = 1.0
"""After a write that failed, the next ones wait so long before they try."""

_RUN: Final = (
    "id, session, agent, trigger, parent, task, began, ended, state, code, message, answer, requests, "
    "input_tokens, output_tokens, kept"
)
_RUNS_OF: Final = "(SELECT count(*) FROM runs WHERE session = sessions.id)"
_TRIM_EVERY: Final = 2_000
"""Happenings after which the bounds are looked at."""

_PASSING: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
    }
)
"""What may be over a moment later."""


_FULL: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE})
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class DiskFullError(StoreError):
    """There is no room for a journal."""


class Journal:
    """Writes down what happens, and answers what is known. Safe to share between threads.

    Writing never raises; reading raises `StoreError`.

    Args:
        path: The file; it is made if it is missing, its folder too, for the owner only.
        clock: Seconds since the epoch.
        pause: Seconds, as `PAUSE_SECONDS`.

    Attributes:
        newly_interrupted: Ids of the runs that were still open in the file: their process died.

    Raises:
        DiskFullError: There is no room for the file.
        StoreError: The file can't be used, or another process owns it; the text names both.
    """

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.time, pause: float = PAUSE_SECONDS
    ) -> None:
        self.path = path.expanduser().absolute()
        self._clock = clock
        self._pause = pause
        self._lock = threading.RLock()
        self._waiting: deque[list[Write]] = deque()
        self._waiting_bytes = 0
        self._newest: dict[tuple[str, str], list[Write]] = {}
        self._retry_at = 0.0
        self._lost = 0
        self._added = 0
        self._told = False
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._owned = own(self.path)
        except OSError as error:
            raise _unusable(error, f"{self.path}: {error.strerror or error}") from error
        try:
            self._connection: sqlite3.Connection | None = connect(self.path)
            try:
                self.newly_interrupted = self._find_interrupted()
            except BaseException:
                self._connection.close()
                raise
        except BaseException as error:
            give_back(self._owned)
            if isinstance(error, sqlite3.Error):
                raise _unusable(error, f"{self.path}: {error}") from error
            if isinstance(error, StoreError) and error.__cause__ is not None:
                raise _unusable(error.__cause__, str(error)) from error
            raise

    def close(self) -> None:
        """Write what still waits, and give the file up. Runs that are open are interrupted from then on."""
        with self._lock:
            if self._connection is not None:
                self._retry_at = 0.0
                self._flush()
                self._connection.close()
                self._connection = None
                give_back(self._owned)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, happening: Happening) -> None:
        """Write down what happened; a `Watcher`."""
        writes = list(happened(happening))
        self._added += 1
        if self._added % _TRIM_EVERY == 0:
            writes += trimmed()
        self._write(writes)

    __call__ = add

    def open_session(self, session: str, agent: str) -> None:
        """A session begins, or is used again."""
        now = self._clock()
        self._write([touched(session, agent, now)])

    def save_history(self, session: str, agent: str, history: bytes) -> None:
        """Keep the messages of a session, in place of those kept before."""
        if len(history) > LARGEST_HISTORY:
            log.logger.warning("journal: the history of a session is too large to be kept")
            return
        self._write(
            [
                touched(session, agent, self._clock()),
                ("UPDATE sessions SET history = ? WHERE id = ?", (history, session)),
            ],
            in_place_of=("history", session),
        )

    def history(self, session: str) -> bytes | None:
        """The messages of a session, as they were given; `None`: there are none."""
        return self._value("SELECT history FROM sessions WHERE id = ?", session)

    def put_evidence(self, run: str, evidence: bytes) -> None:
        """Keep what the guard knows of a run that goes on (`LoopGuard.save`), in place of what was kept."""
        self._write(
            [("UPDATE runs SET evidence = ? WHERE id = ?", (evidence, run)), followed(run)],
            in_place_of=("evidence", run),
        )

    def evidence(self, run: str) -> bytes | None:
        """What was kept of a run that goes on or was interrupted; `None` for others."""
        return self._value("SELECT evidence FROM runs WHERE id = ?", run)

    def interrupted(self) -> list[KeptRun]:
        """Runs in the middle of which the process died, and from which no later run has gone on yet.

        A later run of the same session has when it has put evidence, or has ended. Newest first.
        """
        return self._runs("WHERE state = 'interrupted' AND followed = 0 ORDER BY number DESC")

    def sessions(self, limit: int = 1_000) -> list[KeptSession]:
        """The sessions, those used last first."""
        return self._sessions("ORDER BY touched DESC, id LIMIT ?", limit)

    def session(self, session: str) -> KeptSession | None:
        """One session; `None`: not known."""
        return next(iter(self._sessions("WHERE id = ?", session)), None)

    def runs(
        self,
        session: str | None = None,
        agent: str | None = None,
        state: str | None = None,
        limit: int = 100,
    ) -> list[KeptRun]:
        """The runs, newest first; `None` stands for any."""
        return self._runs(
            "WHERE (?1 IS NULL OR session = ?1) AND (?2 IS NULL OR agent = ?2) "
            "AND (?3 IS NULL OR state = ?3) ORDER BY number DESC LIMIT ?4",
            session,
            agent,
            state,
            limit,
        )

    def run(self, run: str) -> KeptRun | None:
        """One run; `None`: not known."""
        return next(iter(self._runs("WHERE id = ?", run)), None)

    def happenings(self, run: str, after: int = 0, limit: int = 1_000) -> list[Happening]:
        """What happened in a run, in order, from the one after number `after` on."""
        rows = self._rows(
            "SELECT h.kind, r.agent, r.session, r.id, h.time, h.number, h.data FROM happenings h "
            "JOIN runs r ON r.number = h.run WHERE r.id = ? AND h.number > ? ORDER BY h.number LIMIT ?",
            run,
            after,
            limit,
        )
        names = ("kind", "agent", "session", "run", "time", "number")
        return [Happening(**dict(zip(names, row[:6], strict=True)), data=from_json(row[6])) for row in rows]

    def _find_interrupted(self) -> frozenset[str]:
        """Mark runs that were open when their process died; their ids."""
        found = set()
        message = "the process ended in the middle of the run"
        for number, run, session, agent in self._rows(
            "SELECT number, id, session, agent FROM runs WHERE state = 'open'"
        ):
            last, at = self._rows("SELECT max(number), max(time) FROM happenings WHERE run = ?", number)[0]
            ended = Happening(
                kind="ended",
                agent=agent,
                session=session,
                run=run,
                time=self._clock() if at is None else at,
                number=(last or 0) + 1,
                data={"reason": "interrupted", "code": None, "message": message, "answer": None},
            )
            self.add(ended)
            found.add(run)
        self._write(list(trimmed()))
        return frozenset(found)

    def _write(self, writes: list[Write], *, in_place_of: tuple[str, str] | None = None) -> None:
        """Write now, or keep it for later, in place of what still waits under the same name.

        Nothing to write costs nothing: text comes in many pieces.
        """
        if not writes:
            return
        with self._lock:
            if self._connection is None:
                return
            waiting = None if in_place_of is None else self._newest.get(in_place_of)
            self._waiting_bytes += _size(writes)
            if waiting:
                self._waiting_bytes -= _size(waiting)
                waiting[:] = writes
            else:
                self._waiting.append(writes)
                if in_place_of is not None:
                    self._newest[in_place_of] = writes
            while len(self._waiting) > 1 and self._is_too_much():
                self._drop_oldest()
                self._lost += 1
                if self._lost == 1:
                    log.logger.error("journal %s: can't be written for too long; some is lost", self.path)
            if time.monotonic() >= self._retry_at:
                self._flush()

    def _is_too_much(self) -> bool:
        return len(self._waiting) > MOST_WAITING or self._waiting_bytes > MOST_WAITING_BYTES

    def _drop_oldest(self) -> None:
        oldest = self._waiting.popleft()
        self._waiting_bytes -= _size(oldest)
        oldest.clear()  # nothing can take its place any more

    def _flush(self) -> None:
        while self._waiting:
            try:
                self._apply(self._waiting[0])
            except sqlite3.Error as error:
                if error.sqlite_errorcode & 0xFF in _PASSING:
                    if self._retry_at == 0.0:
                        log.logger.warning("journal %s: %s; kept for later", self.path, error)
                    self._retry_at = time.monotonic() + self._pause
                    return
                if not self._told:
                    log.logger.error("journal %s: %s; not written", self.path, error)
                    self._told = True
            self._drop_oldest()
        self._newest.clear()
        self._retry_at = 0.0

    def _apply(self, writes: Iterable[Write]) -> None:
        connection = self._connection
        if connection is None:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement, values in writes:
                connection.execute(statement, _storable(values))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise

    def _rows(self, statement: str, *values: object) -> list[Any]:
        with self._lock:
            if self._connection is None:
                raise StoreError(f"{self.path}: it is closed")
            self._flush()
            try:
                return self._connection.execute(statement, _storable(values)).fetchall()
            except (sqlite3.Error, OverflowError) as error:
                raise StoreError(f"{self.path}: {error}") from error

    def _value(self, statement: str, *values: object) -> bytes | None:
        rows = self._rows(statement, *values)
        value = rows[0][0] if rows else None
        return value if isinstance(value, bytes) else None

    def _runs(self, where: str, *values: object) -> list[KeptRun]:
        names = _RUN.split(", ")
        rows = self._rows(f"SELECT {_RUN} FROM runs {where}", *values)  # noqa: S608 - our own words only
        return [KeptRun(**dict(zip(names, row, strict=True))) for row in rows]

    def _sessions(self, where: str, *values: object) -> list[KeptSession]:
        rows = self._rows(
            f"SELECT id, agent, began, touched, {_RUNS_OF} FROM sessions {where}",  # noqa: S608 - our own words only
            *values,
        )
        names = ("id", "agent", "began", "touched", "runs")
        return [KeptSession(**dict(zip(names, row, strict=True))) for row in rows]


def _storable(values: Iterable[object]) -> tuple[Any, ...]:
    """Values as SQLite takes them: half of a surrogate pair is no text."""
    return tuple(
        value.encode("utf-8", "replace").decode() if isinstance(value, str) else value for value in values
    )


def _size(writes: Iterable[Write]) -> int:
    """About how many bytes the values take."""
    return sum(len(value) for _, values in writes for value in values if isinstance(value, str | bytes))


def _unusable(error: BaseException, message: str) -> StoreError:
    """A `DiskFullError` where `error` says that there is no room."""
    code = error.sqlite_errorcode if isinstance(error, sqlite3.Error) else None
    full = code in _FULL or (isinstance(error, OSError) and error.errno in _NO_ROOM)
    return (DiskFullError if full else StoreError)(message)
