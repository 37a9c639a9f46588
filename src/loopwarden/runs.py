"""The runs of a guard in this process: apart from each other, and bounded in number."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

from loopwarden.core.profile import ToolUses
from loopwarden.core.run_state import RunState
from loopwarden.core.snapshot import pack, unpack
from loopwarden.stores import IDLE_SECONDS, check_bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from loopwarden.core.settings import Settings

Key: TypeAlias = tuple[str | None, str | None]
"""Session id and run id."""


class Runs:
    """Live states by session and run. Not safe to share between threads without a lock.

    Args:
        settings: The settings of all runs.
        most: Runs kept at once; the one that was idle for longest is forgotten first.
        idle_seconds: Runs that were idle for longer are forgotten when a new one begins.
        clock: Seconds that don't go back.

    Attributes:
        newest_key: Key of the run used last, `None` where that is not known.
        newest: Its state; calls of one run mostly follow each other.

    Raises:
        ValueError: `most` or `idle_seconds` is out of range.
    """

    __slots__ = (
        "_clock",
        "_idle",
        "_most",
        "_settings",
        "_states",
        "_touched",
        "_uses",
        "newest",
        "newest_key",
    )

    def __init__(
        self,
        settings: Settings,
        most: int,
        idle_seconds: float = IDLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_bounds(idle_seconds, most)
        self._idle = idle_seconds
        self._clock = clock
        self._touched: dict[Key, float] = {}  # up to when a run was the newest
        self._settings = settings
        self._uses = ToolUses(settings)
        self._most = most
        self._states: OrderedDict[Key, RunState] = OrderedDict()
        self.newest: RunState
        self.newest_key: Key | None = None

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._states)

    def get(self, key: Key) -> RunState:
        """The state of a run; a new one if it is not known."""
        states = self._states
        state = states.get(key)
        if state is None:
            state = RunState(self._settings, self._uses, scoped=key[1] is not None)
            self._put(key, state)
        else:
            self._touch()
            states.move_to_end(key)
            self.newest_key, self.newest = key, state
        return state

    def move(self, key: Key, to: Key) -> None:
        """A run goes on under another key, in place of what is there; nothing if it is not known."""
        state = self._states.get(key)
        if state is not None:
            self.forget(key)
            self._put(to, state)

    def forget(self, key: Key) -> None:
        """A run is over."""
        self._touch()
        self._states.pop(key, None)
        self._touched.pop(key, None)
        self.newest_key = None

    def save(self, key: Key) -> bytes | None:
        """A run's state as JSON; `None` for one that is not known."""
        state = self._states.get(key)
        return pack(state) if state is not None else None

    def restore(self, key: Key, saved: bytes) -> None:
        """Go on from a saved state.

        Raises:
            StoreError: It is damaged, or of another version; the run stays as it was.
        """
        self._put(key, unpack(saved, self._settings, self._uses))

    def _put(self, key: Key, state: RunState) -> None:
        now = self._touch()
        states, touched = self._states, self._touched
        states[key] = state
        states.move_to_end(key)
        touched[key] = now
        while len(states) > self._most or touched[next(iter(states))] < now - self._idle:
            del touched[states.popitem(last=False)[0]]
        self.newest_key, self.newest = key, state

    def _touch(self) -> float:
        """The newest run was in use up to now, which is returned."""
        now = self._clock()
        if self.newest_key is not None:
            self._touched[self.newest_key] = now
        return now
