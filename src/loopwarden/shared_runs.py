"""The runs of a guard in a shared store: each event is one atomic change of the stored state.

The same small interface as `Runs`, so that the guard need not know which it has.
"""

from __future__ import annotations

import json
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, cast

from loopwarden.core.profile import ToolUses
from loopwarden.core.run_state import RunState
from loopwarden.core.snapshot import VERSION, pack, unpack
from loopwarden.errors import StoreError
from loopwarden.outages import Outages
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.core.settings import Settings
    from loopwarden.events import Event, Verdict
    from loopwarden.runs import Key
    from loopwarden.stores import Answer, Store

_LONGEST_NAME: Final = 200
"""Characters of the names in a key; longer ones are digested."""


def key_text(key: Key) -> str:
    """What a run is stored under: unlike for unlike runs, and for states of another layout."""
    names = json.dumps(key, default=repr, separators=(",", ":"))
    if len(names) > _LONGEST_NAME:
        names = blake2b(names.encode(), digest_size=32).hexdigest()
    return f"{VERSION}:{names}"


class SharedRuns:
    """Stored states by session and run. Safe to share between threads, as far as the store is.

    While the store is out of order every use raises `StoreError`. The log says once that it is, and once
    that it is back.

    Args:
        settings: The settings of all runs.
        store: Where they are.
        strict: Whether a state that can't be read is an error; else its run starts afresh.
        clock: Seconds that don't go back.

    Attributes:
        newest_key: Always `None`: nothing is kept from one event to the next.
        newest: Never set.
    """

    __slots__ = ("_outages", "_settings", "_store", "_strict", "_uses", "newest", "newest_key")

    def __init__(
        self,
        settings: Settings,
        store: Store,
        *,
        strict: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._uses = ToolUses(settings)
        self._store = store
        self._strict = strict
        self._outages = Outages("store", clock)
        self.newest: SharedRun
        self.newest_key: Key | None = None

    @property
    def store(self) -> Store:
        """Where they are."""
        return self._store

    @property
    def outages(self) -> Outages:
        """How patient it is with the store."""
        return self._outages

    def get(self, key: Key) -> SharedRun:
        """A run; whether it is known turns out with its first event."""
        return SharedRun(self, key)

    def move(self, key: Key, to: Key) -> None:
        """A run goes on under another key, in place of what is there; nothing if it is not known.

        Raises:
            StoreError: The store is out of order; so for all methods.
        """
        self._outages.ask(lambda: self._store.move(key_text(key), key_text(to)))

    def forget(self, key: Key) -> None:
        """A run is over."""
        self._outages.ask(lambda: self._store.delete(key_text(key)))

    def save(self, key: Key) -> bytes | None:
        """A run's state as JSON; `None` for one that is not known."""
        return self._outages.ask(lambda: self._store.read(key_text(key)))

    def restore(self, key: Key, saved: bytes) -> None:
        """Go on from a saved state.

        Raises:
            StoreError: It is damaged, or of another version; the run stays as it was.
        """
        state = unpack(saved, self._settings, self._uses)
        self._outages.ask(lambda: self._store.update(key_text(key), lambda _: (pack(state), None)))

    def read_beside(self, name: str) -> bytes | None:
        """What an adapter put beside the runs under a name of its own; `None` for nothing."""
        return self._outages.ask(lambda: self._store.read(f"{VERSION}:{name}"))

    def put_beside(self, name: str, data: bytes) -> None:
        """Keep something of an adapter's own beside the runs."""
        self._outages.ask(lambda: self._store.update(f"{VERSION}:{name}", lambda _: (data, None)))

    def change(self, key: Key, step: Callable[[RunState], Answer]) -> Answer:
        """One step of a run, as one atomic change; `step` may be taken more than once, on fresh copies."""
        if self._settings.enabled is False:
            return step(self._new(key))

        def stepped(data: bytes | None) -> tuple[bytes | None, tuple[Answer | None, StoreError | None]]:
            try:
                state = self._new(key) if data is None else unpack(data, self._settings, self._uses)
                damage = None
            except StoreError as error:
                if self._strict:
                    return data, (None, error)
                state, damage = self._new(key), error
            answer = step(state)
            return pack(state), (answer, damage)

        answer, damage = self._outages.ask(lambda: self._store.update(key_text(key), stepped))
        if damage is not None:
            if self._strict:
                raise damage
            log.logger.warning("store: %s; the run starts afresh: run=%s", damage, log.one_word(key[1]))
        return cast("Answer", answer)

    def close(self) -> None:
        """Give back what the store holds open."""
        self._store.close()

    def _new(self, key: Key) -> RunState:
        return RunState(self._settings, self._uses, scoped=key[1] is not None)


class SharedRun:
    """One stored run; what `RunState` answers, this answers.

    Attributes:
        compared: As for `RunState`, after `apply`.
    """

    __slots__ = ("_key", "_runs", "compared")

    def __init__(self, runs: SharedRuns, key: Key) -> None:
        self._runs = runs
        self._key = key
        self.compared: bytes | None = None

    def apply(self, event: Event) -> Verdict:
        """As `RunState.apply`."""

        def step(state: RunState) -> tuple[Verdict, bytes | None]:
            state.compared = None
            return state.apply(event), state.compared

        verdict, self.compared = self._runs.change(self._key, step)
        return verdict

    def call(
        self, tool: str, arguments: object, call_id: str, turn_id: str | None, at: float | None
    ) -> Verdict:
        """As `RunState.call`."""
        return self._runs.change(self._key, lambda state: state.call(tool, arguments, call_id, turn_id, at))

    def outcome(
        self, call_id: str, result: object, error: str | None, unknown_tool: str | None, timed_out: bool
    ) -> Verdict:
        """As `RunState.outcome`."""
        return self._runs.change(
            self._key, lambda state: state.outcome(call_id, result, error, unknown_tool, timed_out)
        )
