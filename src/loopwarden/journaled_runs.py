"""The runs of a guard in a store that keeps journals: each event is one more line.

Each program keeps the states that it works with and takes the steps that others have put into the journal
since, so what goes over the wire is the event and not the state. Events of many runs go in one round trip. An
outcome is compared by what its call was, so it is put there only while nothing else comes in between.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import orjson

from loopwarden.core.snapshot import VERSION, pack, unpack
from loopwarden.errors import StoreError
from loopwarden.events import ALLOW, Outcome, ToolCall
from loopwarden.live_runs import Answered, LiveRun, Over, Told
from loopwarden.shared_runs import SharedRuns, key_text
from loopwarden.stores.journal import AwaitableStore, Entry, Found
from loopwarden.stores.waiting import Waited, finished
from loopwarden.telemetry import log
from loopwarden.telemetry.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from loopwarden.core.settings import Settings
    from loopwarden.events import Event, Verdict
    from loopwarden.live_runs import Line
    from loopwarden.runs import Key
    from loopwarden.stores.journal import AwaitedJournals, JournalStore

LAYOUT: Final = "j1"
"""Version of the lines; the layout of the states in them has its own."""

KEPT: Final = 1024
KEPT_SECONDS: Final = 60.0
"""States that are kept at hand, and for how long after they were used; another look at the store makes them
again."""

_LONGEST: Final = 200
_NAMED: Final = f"{LAYOUT}{VERSION}:"

STEPS: Final = 128
SIZE: Final = 65_536
"""Steps, and bytes of them, after which a journal is written anew as a state."""

TRY_SECONDS: Final = 10.0
"""How long an outcome goes on trying while other programs are faster."""

_journaled: Final[weakref.WeakSet[JournaledRuns]] = weakref.WeakSet()


class JournaledRuns(SharedRuns):
    """Stored journals by session and run. Safe to share between threads, and by a child after a fork.

    Args:
        settings: The settings of all runs.
        store: Where they are.
        strict: Whether a state that can't be read is an error; else its run starts afresh.
        clock: Seconds that don't go back.
    """

    __slots__ = ("__weakref__", "_clock", "_faults", "_journals", "_kept", "_lock")

    def __init__(
        self,
        settings: Settings,
        store: JournalStore,
        *,
        strict: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(settings, store, strict=strict, clock=clock)
        self._journals = store
        self._clock = clock
        self._kept: OrderedDict[str, LiveRun] = OrderedDict()
        self._faults = Faults()
        self._lock = threading.Lock()
        _journaled.add(self)

    def get(self, key: Key) -> JournaledRun:  # type: ignore[override]  # answers the same
        """As `SharedRuns.get`."""
        return JournaledRun(self, key)

    @property
    def at_hand(self) -> int:
        """Runs whose states are kept in this process: those of the last minute, a bounded number of them."""
        return len(self._kept)

    def move(self, key: Key, to: Key) -> None:
        """As `SharedRuns.move`."""
        self._drop(key, to)
        self._outages.ask(lambda: self._store.move(self._name(key), self._name(to)))

    def forget(self, key: Key) -> None:
        """As `SharedRuns.forget`."""
        self._drop(key)
        self._outages.ask(lambda: self._store.delete(self._name(key)))

    def save(self, key: Key) -> bytes | None:
        """As `SharedRuns.save`."""
        name = self._name(key)
        live = self._kept_or_new(name, key)
        look = Entry(name, live.place, b"", alone=False)
        (found,) = self._outages.ask(lambda: self._journals.append([look]))
        if isinstance(found, StoreError):
            raise found
        live.follow(found)
        if live.place is None:
            return None
        saved = pack(live.state)
        self._keep(name, live)
        return saved

    def restore(self, key: Key, saved: bytes) -> None:
        """As `SharedRuns.restore`."""
        state = pack(unpack(saved, self._settings, self._uses))
        self._drop(key)
        self._outages.ask(lambda: self._store.update(self._name(key), lambda _: (state + b"\n", None)))

    def tell(self, events: Sequence[Told]) -> list[Answered]:
        """Answer events of different runs, in as few round trips as may be.

        Of several events one that is at fault is let through; a single one raises its fault.

        Raises:
            StoreError: The store is out of order.
        """
        if self._settings.enabled is False:
            return [Answered(ALLOW)] * len(events)
        return self._outages.ask(lambda: finished(self._tell(events, Waited(self._journals))))

    async def tell_awaited(self, events: Sequence[Told]) -> list[Answered]:
        """As `tell`, on an event loop; a store that can't be awaited is asked in a thread."""
        if self._settings.enabled is False:
            return [Answered(ALLOW)] * len(events)
        store = self._journals
        if not isinstance(store, AwaitableStore):
            import asyncio

            return await asyncio.to_thread(self.tell, events)
        return await self._outages.ask_awaited(lambda: self._tell(events, store.awaited()))

    async def close_awaited(self) -> None:
        """Give back what is held open for the event loop that is running."""
        if isinstance(self._journals, AwaitableStore):
            await self._journals.awaited().close()

    async def _tell(self, events: Sequence[Told], journals: AwaitedJournals) -> list[Answered]:
        turns = [self._turn(told) for told in events]
        until = self._clock() + TRY_SECONDS
        self._each(turns, lambda turn: turn.prepare(careful=self._strict))
        while waiting := [turn for turn in turns if turn.answer is None]:
            if self._clock() >= until:
                raise StoreError(f"other programs were faster for {TRY_SECONDS:g} seconds")
            for turn, found in zip(
                waiting, await journals.append([turn.entry for turn in waiting]), strict=True
            ):
                turn.found = found
            self._each(waiting, self._follow)
        for turn in turns:
            if turn.keeps:
                await self._end(turn, journals)
        return [turn.answer or Answered(ALLOW) for turn in turns]

    def _turn(self, told: Told) -> _Turn:
        key = told.session, told.event.run_id
        name = self._name(key)
        return _Turn(told, name, self._kept_or_new(name, key))

    def _each(self, turns: Sequence[_Turn], step: Callable[[_Turn], None]) -> None:
        """Do something with each; what one raises is not the fault of the others."""
        for turn in turns:
            try:
                step(turn)
            except Exception:
                if len(turns) == 1:
                    raise
                self._faults.tell("fault in the guard: the call is let through")
                turn.answer, turn.keeps = Answered(ALLOW), False

    def _follow(self, turn: _Turn) -> None:
        live, found, line = turn.live, turn.found, turn.line
        if not isinstance(found, Found):
            raise found or StoreError("the store says nothing")
        live.follow(found)
        if live.damage is not None and self._strict:
            raise live.damage
        if not found.done:
            turn.look()
        elif line is None:
            turn.answer = Answered(ALLOW)
        else:
            turn.answer = live.take(line.mark, line.step, len(line.data))

    async def _end(self, turn: _Turn, journals: AwaitedJournals) -> None:
        """Write long journals anew, and damaged ones; keep the state at hand."""
        live, name = turn.live, turn.entry.key
        damage, live.damage = live.damage, None
        if damage is not None:
            run = log.one_word(turn.told.event.run_id)
            log.logger.warning("store: %s; the run starts afresh: run=%s", damage, run)
        if live.place is not None and (damage is not None or live.steps >= STEPS or live.size >= SIZE):
            place = await journals.rewrite(name, live.place, live.written())
            if place is not None:
                live.place, live.steps, live.size = place, 0, 0
        self._keep(name, live)

    # --- at hand: who works with a state takes it away, so that no other thread does

    def _kept_or_new(self, name: str, key: Key) -> LiveRun:
        with self._lock:
            live = self._kept.pop(name, None)
        return live if live is not None else LiveRun(lambda: self._new(key), self._settings, self._uses)

    def _keep(self, name: str, live: LiveRun) -> None:
        live.used = now = self._clock()
        with self._lock:
            kept = self._kept
            kept.pop(name, None)
            kept[name] = live
            while len(kept) > KEPT or next(iter(kept.values())).used < now - KEPT_SECONDS:
                kept.popitem(last=False)

    def _drop(self, *keys: Key) -> None:
        with self._lock:
            for key in keys:
                self._kept.pop(self._name(key), None)

    @staticmethod
    def _name(key: Key) -> str:
        try:
            name = orjson.dumps(key)
        except TypeError:  # names that are no text, or no whole one
            return LAYOUT + key_text(key)
        return f"{_NAMED}{name.decode()}" if len(name) <= _LONGEST else LAYOUT + key_text(key)


class _Turn:
    """An event on its way."""

    __slots__ = ("answer", "entry", "found", "keeps", "line", "live", "told")

    def __init__(self, told: Told, name: str, live: LiveRun) -> None:
        self.told = told
        self.live = live
        self.answer: Answered | None = None
        self.found: Found | StoreError | None = None
        self.line: Line | None = None
        self.keeps = type(told.event) is not Over  # whether the state is of use afterwards
        self.entry = Entry(name, live.place, b"" if self.keeps else None, alone=False)

    def prepare(self, *, careful: bool) -> None:
        """What to send first: the event itself, where that can be said without a look at the store."""
        live = self.live
        if self.keeps and live.known(self.told.mark) is None and not (careful and live.place is None):
            self._send(current=False)

    def look(self) -> None:
        """The event was not put there, and all is known that was: what to send now, or the answer."""
        self.answer = self.live.known(self.told.mark)
        if self.answer is None:
            self._send(current=True)

    def _send(self, *, current: bool) -> None:
        event = self.told.event
        if not isinstance(event, Over):
            self.line = self.live.line(event, self.told.mark, current=current)
            data = self.line.data if self.line is not None else b""
            self.entry = Entry(self.entry.key, self.live.place, data, alone=type(event) is Outcome)


class JournaledRun:
    """One stored run; what `RunState` answers, this answers.

    Attributes:
        compared: As for `RunState`, after `apply`.
    """

    __slots__ = ("_key", "_runs", "compared")

    def __init__(self, runs: JournaledRuns, key: Key) -> None:
        self._runs = runs
        self._key = key
        self.compared: bytes | None = None

    def apply(self, event: Event) -> Verdict:
        """As `RunState.apply`."""
        (answer,) = self._runs.tell([Told(self._key[0], event)])
        self.compared = answer.compared
        return answer.verdict

    def call(
        self, tool: str, arguments: object, call_id: str, turn_id: str | None, at: float | None
    ) -> Verdict:
        """As `RunState.call`."""
        return self.apply(
            ToolCall(
                tool=tool, arguments=arguments, call_id=call_id, turn_id=turn_id, at=at, run_id=self._key[1]
            )
        )

    def outcome(
        self, call_id: str, result: object, error: str | None, unknown_tool: str | None, timed_out: bool
    ) -> Verdict:
        """As `RunState.outcome`."""
        return self.apply(
            Outcome(
                call_id=call_id,
                result=result,
                error=error,
                unknown_tool=unknown_tool,
                timed_out=timed_out,
                run_id=self._key[1],
            )
        )


def _after_fork() -> None:
    for runs in list(_journaled):
        runs._lock = threading.Lock()  # noqa: SLF001 - one module


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
