"""Sessions of coding agents as people look at them: which are live, what was done; pause, resume, allow."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import StoreError
from loopwarden.hooks.hosts import HOSTS
from loopwarden.hooks.ledger import Ledger
from loopwarden.hooks.places import SESSIONS_FILE
from loopwarden.hooks.settings import project_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.hooks.ledger import Deed, Session

LIVE_MINUTES: Final = 30
"""A session is live when its last event is not older."""

_ALL: Final = 0.0
_REFUSALS: Final = frozenset({"block", "abort"})
_WORDS: Final = {"warn": "warned", "block": "refused", "abort": "ended", "released": "let_pass"}
"""What was done, as people read it; everything else was only observed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A session.

    Attributes:
        session: What is remembered of it.
        begun: Its first event, in seconds since the epoch.
        seen: Its last event.
        live: Whether that is not long ago.
    """

    session: Session
    begun: float
    seen: float
    live: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How it stands.

    Attributes:
        sessions: Live sessions, the newest first.
        deeds: What was done today, the oldest first.
        since: When today began, in seconds since the epoch.
    """

    sessions: list[Seen] = field(default_factory=list)
    deeds: list[Deed] = field(default_factory=list)
    since: float = 0.0

    def by_project(self) -> dict[str, Counter[str]]:
        """How often what was done today, in each project."""
        found: dict[str, Counter[str]] = {}
        for deed in self.deeds:
            found.setdefault(deed.project, Counter())[what(deed)] += 1
        return found

    def refused(self) -> list[dict[str, Any]]:
        """The loops that were refused today, the newest last, each with its key."""
        found: dict[tuple[str, str, str | None], dict[str, Any]] = {}
        for deed in self.deeds:
            if deed.action in _REFUSALS and deed.key is not None:
                row = found.pop((deed.host, deed.session, deed.key), {"times": 0})
                found[deed.host, deed.session, deed.key] = {
                    "host": deed.host,
                    "session": deed.session,
                    "project": deed.project,
                    "tool": deed.tool,
                    "detector": deed.detector,
                    "count": deed.count,
                    "times": row["times"] + 1,
                    "key": deed.key,
                }
        return list(found.values())


def what(deed: Deed) -> str:
    """What was done, as people read it; where a run can't be ended, its calls are refused."""
    host = HOSTS.get(deed.host)
    if deed.action == "abort" and host is not None and not host.aborts:
        return _WORDS["block"]
    return _WORDS.get(deed.action, "observed")


class Sessions:
    """The sessions of a state folder.

    Args:
        state: The state folder.
        now: Seconds since the epoch.
        live_minutes: When a session counts as live.
    """

    def __init__(self, state: Path, now: float | None = None, live_minutes: float = LIVE_MINUTES) -> None:
        self._path = state / SESSIONS_FILE
        self._ledger = Ledger(self._path)
        self._now = time.time() if now is None else now
        self._first = self._now - 60 * live_minutes

    def status(self) -> Status:
        """How it stands now.

        Raises:
            StoreError: The file can't be used; so for all methods.
        """
        day = time.localtime(self._now)
        midnight = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))
        live = [one for one in self._seen(self._first) if one.live]
        return Status(sessions=live, deeds=self._ledger.deeds(midnight), since=midnight)

    def find(self, name: str | None, folder: Path) -> Seen:
        """The session that people mean.

        Args:
            name: Its id or the beginning of one; without it, the only live one in a folder.
            folder: That folder.

        Raises:
            StoreError: There is none, or more than one.
        """
        if name is None:
            here = project_folder(folder)
            found = [one for one in self._seen(self._first) if _inside(one.session.project, here)]
            missing = "no live session in this folder"
        else:
            every = self._seen(_ALL)
            same = [one for one in every if one.session.name == name]
            found = same or [one for one in every if name and one.session.name.startswith(name)]
            missing = f"no session begins with {name!r}"
        if len(found) == 1:
            return found[0]
        if found:
            raise StoreError(f"more than one session: {_names(found)}; name one")
        live = [one for one in self._seen(self._first) if one.live]
        raise StoreError(f"{missing}; live are: {_names(live) or 'none'}")

    def pause(self, seen: Seen, *, paused: bool) -> bool:
        """Have the guard keep quiet in a session, or not; the answer is whether that is new."""
        with self._changed(seen) as session:
            new = session.paused != paused
            session.paused = paused
        return new

    def allow(self, key: str) -> list[Session]:
        """Let a loop pass in the sessions where it was refused.

        Args:
            key: Of the loop, or the beginning of one.

        Raises:
            StoreError: No loop has it, or more than one.
        """
        refused = [
            (deed.host, deed.session, deed.key)
            for deed in self._ledger.deeds(_ALL)
            if deed.action in _REFUSALS and deed.key is not None
        ]
        every = {one for _, _, one in refused}
        keys = every & {key} or {one for one in every if key and one.startswith(key)}
        if not keys:
            raise StoreError(
                f"no loop with the key {key!r} was refused; loopwarden status lists those of today"
            )
        if len(keys) > 1:
            raise StoreError(f"more than one key begins with {key!r}: {', '.join(sorted(keys))}")
        (whole,) = keys
        there = {(host, name) for host, name, one in refused if one == whole}
        done: list[Session] = []
        for seen in self._seen(_ALL):
            if (seen.session.host, seen.session.name) in there:
                with self._changed(seen) as session:
                    if whole not in session.released:
                        session.released.append(whole)
                done.append(session)
        return done

    def close(self) -> None:
        """Give the file back."""
        self._ledger.close()

    @contextmanager
    def _changed(self, seen: Seen) -> Iterator[Session]:
        """A session to be changed, which is no event of it: its last moment stays."""
        ledger = Ledger(self._path, clock=lambda: seen.seen)
        with closing(ledger), ledger.session(seen.session.host, seen.session.name) as session:
            yield session

    def _seen(self, since: float) -> list[Seen]:
        return [
            Seen(session=session, begun=begun, seen=seen, live=seen >= self._first)
            for session, begun, seen in self._ledger.sessions(since)
        ]


def _inside(project: str, folder: Path) -> bool:
    return bool(project) and project_folder(Path(project)) == folder


def _names(found: Iterable[Seen]) -> str:
    return ", ".join(f"{one.session.name} ({one.session.host}, {one.session.project})" for one in found)
