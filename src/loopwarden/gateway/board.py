"""What the live page shows: the runs of the last while, in memory only.

The guard tells of every event (`Board.observer`, an `Observer`), the runner of what happens in its runs (the
board is a `Watcher`). A run of the runner is told of by both, which come in any order; what they say of a
call is put together by its id. Nothing here is written to disk: a restarted gateway begins with an empty
board, which the runner's journal may fill, since the board takes old happenings as well as new ones.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.gateway.card import Card, failed
from loopwarden.gateway.decisions import Decisions
from loopwarden.gateway.names import run_name
from loopwarden.gateway.watching import happened

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.core.settings import Settings
    from loopwarden.events import Event, Verdict
    from loopwarden.gateway.observers import Speaker
    from loopwarden.gateway.rows import NoteKind
    from loopwarden.runner.happenings import Happening
    from loopwarden.telling import Observer

_RUNS: Final = 300
_CALLS: Final = 300
_ALL_CALLS: Final = 20_000
_FEW: Final = 20
"""Calls left to a run that was idle for longest when all runs together have too many."""

_MOVED: Final = 1000


class Board:
    """The runs that the page shows. Thread-safe.

    Args:
        decisions: What people decided, shared with the guards.
        show_arguments: Whether arguments, tasks and what models and people say are kept and shown, masked and
            shortened. Names, verdicts and counts always are.
        most_runs: Runs kept; those that are over go first, then those idle for longest.
        most_calls: Calls kept of one run.
        all_calls: Calls kept of all runs together.
        clock: Seconds since the epoch.

    Attributes:
        decisions: As given.
        changed: Told the name of each run that changed; set by who streams. Called without the board's lock.
        revision: Grows with every change.
    """

    def __init__(
        self,
        decisions: Decisions | None = None,
        *,
        show_arguments: bool = True,
        most_runs: int = _RUNS,
        most_calls: int = _CALLS,
        all_calls: int = _ALL_CALLS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.decisions = decisions if decisions is not None else Decisions()
        self.changed: Callable[[str], None] | None = None
        self.revision = 0
        self._shows = show_arguments
        self._most_runs = most_runs
        self._most_calls = most_calls
        self._most_all = max(all_calls, _FEW * most_runs)
        self._clock = clock
        self._lock = threading.Lock()
        self._cards: OrderedDict[str, Card] = OrderedDict()
        self._moved: OrderedDict[str, str] = OrderedDict()
        self._all = 0

    def observer(self, speaker: Callable[[], Speaker]) -> Observer:
        """What a guard is given as `record`; `speaker` says whose event it tells of just now."""
        return _Eye(self, speaker)

    def __call__(self, happening: Happening) -> None:
        """Something happened in a run of the runner: see `Watcher`."""
        name = run_name(happening.agent, "enforce", happening.session, happening.run)
        with self._lock:
            card = self._card(name, happening.session, happening.run, happening.agent, happening.time)
            before = len(card.calls)
            happened(card, happening)
            self._all += len(card.calls) - before
            self._bound()
        self._tell(name)

    def saw(
        self,
        speaker: Speaker,
        session: str | None,
        event: Event,
        verdict: Verdict,
        compared: bytes | None,
        settings: Settings,
    ) -> None:
        """An event that a guard answered: see `Observer`."""
        agent, mode = speaker
        name, now = run_name(agent, mode, session, event.run_id), self._clock()
        with self._lock:
            if type(event) is Compaction and event.continues is not None:
                self._move(run_name(agent, mode, session, event.continues), name, event.run_id)
            if name not in self._cards and not isinstance(event, ToolCall | Compaction):
                return  # it came late: the run is over and gone
            card = self._card(name, session, event.run_id, agent, now)
            before = len(card.calls)
            card.observes = settings.mode == "observe" or settings.enabled is None
            self._take(card, event, verdict, compared, settings, now)
            self._all += len(card.calls) - before
            self._bound()
        self._tell(name)

    def forgot(self, speaker: Speaker, session: str | None, run: str | None) -> None:
        """A host says that a run is over."""
        name = run_name(*speaker, session, run)
        with self._lock:
            card = self._cards.get(name)
            if card is not None and card.trigger is None:
                card.ended("over", self._clock())
        if card is not None:
            self._tell(name)

    def did(self, name: str, kind: NoteKind, text: str = "", *, loop: str = "") -> None:
        """Somebody did something to a run on the page, or to a loop of it."""
        with self._lock:
            card = self._cards.get(name)
            if card is not None:
                card.note(kind, self._clock(), text)
                if kind == "released":
                    card.released(loop)
                elif kind == "held":
                    card.held(loop)
        self._tell(name)

    def touch(self, name: str) -> None:
        """Something is new about a run that no event tells of, as what was decided at another gateway."""
        self._tell(name)

    def card(self, name: str) -> Card | None:
        """A run as it is now, in a copy whose rows are to be read only; by an old name too."""
        with self._lock:
            card = self._cards.get(self._moved.get(name, name))
            return None if card is None else _copied(card)

    def cards(self) -> list[Card]:
        """All runs, the latest in use first; only to look at names, counts and times."""
        with self._lock:
            return list(reversed(self._cards.values()))

    def copies(self, names: list[str]) -> list[Card]:
        """Several runs as by `card`; those that are gone are left out."""
        with self._lock:
            return [_copied(card) for name in names if (card := self._cards.get(name)) is not None]

    def _take(
        self,
        card: Card,
        event: Event,
        verdict: Verdict,
        compared: bytes | None,
        settings: Settings,
        now: float,
    ) -> None:
        if type(event) is ToolCall:
            self._call(card, event, verdict, compared, now)
        elif type(event) is Outcome:
            call = card.known_call(event.call_id)
            if call is not None:
                card.ended_call(call, failed=failed(event), compared=compared, now=now)
                card.found(verdict, call)
        elif type(event) is Compaction:
            card.goes_on()
            card.compacted("guard", now)
            if settings.enabled is not False and not self.decisions.is_paused(card.name):
                card.arm(settings.post_compaction_window)
            card.found(verdict, None)
        elif type(event) is UserMessage:
            if card.trigger is None:
                card.note("user", now)
        elif type(event) is Retraction:
            card.retracted(event.call_ids)
        if verdict.action == "abort":
            card.stopped(verdict, now)

    def _call(
        self, card: Card, event: ToolCall, verdict: Verdict, compared: bytes | None, now: float
    ) -> None:
        call = card.known_call(event.call_id)
        refused = verdict.action in {"block", "abort"}
        if not refused:
            card.goes_on()
        if call is not None and call.by_guard and call.state == "refused" and not refused:
            if self.decisions.is_released(card.name, call.loop or ""):
                card.let_through(call)
                return
        elif call is not None and call.by_guard and call.state == "open":
            return
        signature = card.signature(event.tool, event.arguments, compared)
        if call is None or call.by_guard:
            call = card.call(event.tool, event.arguments, event.call_id, event.turn_id, signature, now)
        else:
            card.recompared(call, signature)
        call.by_guard = True
        call.skipped = self.decisions.is_paused(card.name)
        card.answered(call, verdict)

    def _card(self, name: str, session: str | None, run: str | None, agent: str | None, now: float) -> Card:
        card = self._cards.get(name)
        if card is None:
            card = self._cards[name] = Card(
                name,
                session,
                run,
                agent,
                now,
                most_calls=self._most_calls,
                show_arguments=self._shows,
            )
        self._cards.move_to_end(name)
        card.seen = max(card.seen, now)
        return card

    def _move(self, old: str, new: str, run: str | None) -> None:
        """A run goes on under another id: it is one run on the page."""
        card = self._cards.pop(old, None) if old != new else None
        if card is None:
            return
        replaced = self._cards.pop(new, None)
        self._all -= 0 if replaced is None else len(replaced.calls)
        card.renamed(new, run)
        self._cards[new] = card
        self._moved[old] = new
        while len(self._moved) > _MOVED:
            self._moved.popitem(last=False)

    def _bound(self) -> None:
        while len(self._cards) > self._most_runs:
            over = next((name for name, card in self._cards.items() if card.ending is not None), None)
            gone = self._cards.pop(over if over is not None else next(iter(self._cards)))
            self._all -= len(gone.calls)
        if self._all > self._most_all:
            for card in self._cards.values():
                self._all -= card.trim(_FEW)
                if self._all <= self._most_all * 0.9:
                    break

    def _tell(self, name: str) -> None:
        self.revision += 1
        if self.changed is not None:
            self.changed(name)


class _Eye:
    """What guards tell the board through."""

    def __init__(self, board: Board, speaker: Callable[[], Speaker]) -> None:
        self._board = board
        self._speaker = speaker

    def saw(
        self,
        session_id: str | None,
        event: Event,
        verdict: Verdict,
        compared: bytes | None,
        settings: Settings,
    ) -> None:
        self._board.saw(self._speaker(), session_id, event, verdict, compared, settings)

    def forgot(self, session_id: str | None, run_id: str | None) -> None:
        self._board.forgot(self._speaker(), session_id, run_id)


def _copied(card: Card) -> Card:
    """A copy that does not change in size while it is read."""
    fresh: Any = copy(card)
    for name in ("calls", "notes", "loops", "colours", "counts", "tools"):
        setattr(fresh, name, copy(getattr(card, name)))
    result: Card = fresh
    return result
