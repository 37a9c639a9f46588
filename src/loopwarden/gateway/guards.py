"""The guards of the gateway: one for each configured agent and each mode, all from one configuration."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from loopwarden.gateway.attended import AttendedGuard
from loopwarden.gateway.decisions import Decisions
from loopwarden.gateway.observers import Place, Seat, Speaker
from loopwarden.gateway.wire import dump
from loopwarden.journaled_runs import JournaledRuns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.config import Config
    from loopwarden.gateway.observers import Mode, Observers
    from loopwarden.guard import GuardSession, LoopGuard
    from loopwarden.stores import Store
    from loopwarden.telling import Listener

LONGEST_PAUSE: Final = 3.0
"""Seconds that a shared store is left alone at most after it failed: no agent has a guard meanwhile."""


class Guards:
    """Gives the guard of an agent. Agents that are not configured share the one of the global settings.

    Safe to share between threads. As a function it is what the runner takes: the guard of an agent by its id.

    Args:
        config: All settings.
        observers: Told of every event.
        listeners: Told of what is found.
        decisions: What people decided about runs and loops; `None`: nothing.
        store: `memory:`, or the address of a store that several gateways share.
        most: Runs that each guard keeps.

    Attributes:
        shared: Whether the runs are in a store that other gateways may share.
        journaled: Whether it keeps journals, which tell of events that come again.

    Raises:
        StoreError: The store can't be opened.
        MissingExtraError: The package that it needs is not installed.
        ValueError: The address makes no sense.
    """

    def __init__(
        self,
        config: Config,
        observers: Observers,
        listeners: Iterable[Listener] = (),
        *,
        decisions: Decisions | None = None,
        store: str = "memory:",
        most: int,
    ) -> None:
        self._decisions = decisions if decisions is not None else Decisions()
        self._config = config
        self._observers = observers
        self._listeners = tuple(listeners)
        self._most = most
        self._known = frozenset(config.agent_ids)
        self._lock = threading.Lock()
        self._store: Store | str = store
        first = self._made(None, "enforce")
        self._guards: dict[tuple[str | None, Mode], LoopGuard] = {(None, "enforce"): first}
        self.shared = first.shared is not None
        self.journaled = isinstance(first.shared, JournaledRuns)
        if first.shared is not None:
            self._store = first.shared.store  # one set of connections for all

    def __call__(self, agent_id: str) -> LoopGuard:
        """The guard of an agent, for runs in this process."""
        return self.of(agent_id, "enforce")

    def of(self, agent: str | None, mode: Mode) -> LoopGuard:
        """The guard for an agent and a mode."""
        key = (agent if agent in self._known else None), mode
        with self._lock:
            guard = self._guards.get(key)
            if guard is None:
                guard = self._guards[key] = self._made(*key)
        return guard

    def session(self, agent: str | None, mode: Mode, session: str | None) -> GuardSession:
        """The verbs for a session of a client; those of other agents and modes are apart from it."""
        return self.of(agent, mode).session(self.place(agent, mode, session))

    def place(self, agent: str | None, mode: Mode, session: str | None) -> Place:
        """A session of a client as the guard knows it."""
        place = Place(dump([agent, mode, session]).decode())
        place.speaker, place.session = Speaker(agent, mode), session
        return place

    def at_hand(self) -> int:
        """Runs in a store that keeps journals that this gateway was asked about in the last minute."""
        shared = [guard.shared for guard in list(self._guards.values())]
        return sum(runs.at_hand for runs in shared if isinstance(runs, JournaledRuns))

    def reachable(self) -> bool:
        """Whether the shared store answers; asks it, even just after it failed, for as long as that takes."""
        from loopwarden.errors import StoreError

        shared = self.of(None, "enforce").shared
        if shared is None:
            return True
        try:
            shared.outages.ask(lambda: shared.store.read("health"), now=True)
        except StoreError:
            return False
        return True

    async def close_awaited(self) -> None:
        """Give back what is held open for the event loop that is running."""
        for guard in list(self._guards.values()):
            if isinstance(guard.shared, JournaledRuns):
                await guard.shared.close_awaited()

    def close(self) -> None:
        """Give back what the guards hold open."""
        for guard in self._guards.values():
            guard.close()

    def _made(self, agent: str | None, mode: Mode) -> LoopGuard:
        guard = AttendedGuard(
            self._config,
            decisions=self._decisions,
            agent_id=agent,
            mode=mode,
            store=self._store,
            on_verdict=self._listeners,
            record=Seat(self._observers, Speaker(agent, mode)),
            max_runs=self._most,
        )
        if guard.shared is not None:
            guard.shared.outages.longest = LONGEST_PAUSE
        return guard
