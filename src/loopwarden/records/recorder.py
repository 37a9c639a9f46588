"""Writes the run record: told of every event by the guard, it keeps sums and appends entries."""

from __future__ import annotations

import logging
import math
import os
import secrets
import weakref
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError
from loopwarden.events import Compaction, ToolCall
from loopwarden.records.entry import Entry, name_of
from loopwarden.records.places import default_path, open_record
from loopwarden.records.tallies import MAX_RUNS, OwnTallies, SharedTallies
from loopwarden.records.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from loopwarden.core.settings import Settings
    from loopwarden.events import Event, Verdict
    from loopwarden.records.places import Record
    from loopwarden.records.tallies import Key, Shared, Tallies
    from loopwarden.records.tally import Noted

_ID_BYTES: Final = 6

_recorders: weakref.WeakSet[RunRecorder] = weakref.WeakSet()


def _now() -> datetime:
    return datetime.now(UTC)


class RunRecorder:
    """Keeps the run record of one guard, or of several.

    Thread-safe and fork-safe; several processes may write to the same file. Runs that are still open when
    the program ends are recorded as closed then.

    Args:
        path: File of the record: SQLite if it ends in `.db`, `.sqlite` or `.sqlite3`, else JSON lines; `None`
            for `default_path()`. Nothing is opened or made before the first entry.
        agent: Name of the agent, which each run is recorded with.
        payloads: Whether the arguments of calls in a loop (and the result of the call that a run was ended
            after) are recorded too: on one line, shortened, credentials masked.
        store: Where the sums of runs are kept between programs that take turns in a run, as command hooks do;
            `None`: in memory.
        rotate_bytes: For JSON lines: size at which the file is renamed and a new one begun; `None`: never.
        now: The time of day, to put another clock in its place in tests.

    Raises:
        ValueError: `rotate_bytes` is below 1, or given for a database.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        agent: str | None = None,
        payloads: bool = False,
        store: Shared | None = None,
        rotate_bytes: int | None = None,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self.path = Path(path) if path is not None else default_path()
        self._record: Record = open_record(self.path, rotate_bytes=rotate_bytes)
        self._agent = agent
        self._payloads = payloads
        self._now = now
        self._tallies: Tallies = OwnTallies() if store is None else SharedTallies(store)
        weakref.finalize(self, _finish, self._tallies, self._record, now)  # at the end of the program, too
        _recorders.add(self)

    def saw(
        self,
        session_id: str | None,
        event: Event,
        verdict: Verdict,
        compared: bytes | None,
        settings: Settings,
    ) -> None:
        """Record an event that the guard has answered; the guard calls this.

        Raises:
            OSError: Entries could not be written; they are lost, the sums go on.
            StoreError: The same.
        """
        if settings.enabled is False:
            return
        key = session_id, event.run_id
        if type(event) is Compaction and event.continues is not None and event.continues != event.run_id:
            self._tallies.move((session_id, event.continues), key)
        begins = compared is not None if type(event) is ToolCall else type(event) is Compaction

        def take(tally: Tally | None) -> tuple[Tally | None, list[Entry]]:
            entries: list[Entry] = []
            if tally is None:
                if not begins:  # it came late: the run is over
                    return None, entries
                tally = Tally(secrets.token_hex(_ID_BYTES))
                begun = {"agent": name_of(self._agent), "mode": settings.mode, "enabled": settings.enabled}
                entries += _entries(key, tally, [("begun", begun)], self._now, event.at)
            noted = tally.saw(event, verdict, compared, settings, payloads=self._payloads)
            entries += _entries(key, tally, noted, self._now, event.at)
            return tally, entries

        entries = self._tallies.update(key, take)
        if entries:
            if entries[0].kind == "begun":
                entries += _ended(self._tallies.drain(MAX_RUNS), "quiet", self._now)
            self._record.write(entries)

    def forgot(self, session_id: str | None, run_id: str | None) -> None:
        """Record that a run is over; the guard calls this.

        Raises:
            OSError: It could not be written.
            StoreError: The same.
        """
        key = session_id, run_id
        tally = self._tallies.update(key, lambda found: (None, found))
        if tally is not None:
            self._record.write(_ended([(key, tally)], "forgotten", self._now))

    def close(self) -> None:
        """Record the end of all runs (of those in a store: nothing) and give the file back.

        Later events open it anew.

        Raises:
            OSError: It could not be written.
            StoreError: The same.
        """
        _close(self._tallies, self._record, self._now)

    def _after_fork(self) -> None:
        """A child process has runs of its own; those of its parent go on there."""
        self._tallies.after_fork()
        self._record.after_fork()


def _entries(
    key: Key, tally: Tally, noted: Iterable[Noted], now: Callable[[], datetime], at: object = None
) -> Iterator[Entry]:
    for kind, details in noted:
        moment = now().astimezone(UTC).isoformat(timespec="milliseconds")
        yield Entry(
            id=tally.name,
            kind=kind,
            time=moment.replace("+00:00", "Z"),
            session=name_of(key[0]),
            run=name_of(key[1]),
            at=_seconds(at),
            calls=tally.calls,
            details=details,
        )


def _seconds(at: object) -> float | None:
    """A host's time, if it is one."""
    if isinstance(at, bool) or not isinstance(at, int | float):
        return None
    try:
        seconds = float(at)
    except OverflowError:  # no clock has run for so long
        return None
    return seconds if math.isfinite(seconds) else None


def _ended(runs: Iterable[tuple[Key, Tally]], why: str, now: Callable[[], datetime]) -> list[Entry]:
    return [entry for key, tally in runs for entry in _entries(key, tally, tally.ended(why), now)]


def _close(tallies: Tallies, record: Record, now: Callable[[], datetime]) -> None:
    try:
        entries = _ended(tallies.drain(0), "closed", now)
        if entries:
            record.write(entries)
    finally:
        record.close()


def _finish(tallies: Tallies, record: Record, now: Callable[[], datetime]) -> None:
    """As `_close`, where nobody could be told of a fault."""
    try:
        _close(tallies, record, now)
    except (OSError, StoreError) as error:
        logging.getLogger("loopwarden").error("the run record could not be ended: %s", error)  # noqa: TRY400 - nothing to trace


def _after_fork() -> None:
    for recorder in list(_recorders):
        recorder._after_fork()  # noqa: SLF001 - one module


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
