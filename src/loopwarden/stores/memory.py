"""A store in this process: for tests, and the measure of the others."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from loopwarden.stores import IDLE_SECONDS, MAX_RUNS, check_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.stores import Answer, Change

_stores: Final[weakref.WeakSet[MemoryStore]] = weakref.WeakSet()


class MemoryStore:
    """Keeps bytes in a dict. A child made by `fork` goes on with a copy of its own.

    Args:
        idle_seconds: What nobody changed for this long is forgotten.
        max_runs: Most keys that are kept.
        clock: Seconds that don't go back.

    Raises:
        ValueError: `idle_seconds` or `max_runs` is out of range.
    """

    def __init__(
        self,
        *,
        idle_seconds: float = IDLE_SECONDS,
        max_runs: int = MAX_RUNS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_bounds(idle_seconds, max_runs)
        self._idle = idle_seconds
        self._most = max_runs
        self._clock = clock
        self._kept: OrderedDict[str, tuple[bytes, float]] = OrderedDict()  # idle for longest first
        self._lock = threading.Lock()
        _stores.add(self)

    def update(self, key: str, change: Change[Answer]) -> Answer:
        """As `Store.update`."""
        with self._lock:
            data, answer = change(self._find(key))
            if data is None:
                self._kept.pop(key, None)
            else:
                self._put(key, data)
            return answer

    def read(self, key: str) -> bytes | None:
        """As `Store.read`."""
        with self._lock:
            return self._find(key)

    def move(self, key: str, to: str) -> None:
        """As `Store.move`."""
        with self._lock:
            data = self._find(key)
            if data is not None:
                del self._kept[key]
                self._put(to, data)

    def delete(self, key: str) -> None:
        """As `Store.delete`."""
        with self._lock:
            self._kept.pop(key, None)

    def close(self) -> None:
        """As `Store.close`."""
        with self._lock:
            self._kept.clear()

    def _find(self, key: str) -> bytes | None:
        self._forget()
        found = self._kept.get(key)
        return found[0] if found is not None else None

    def _put(self, key: str, data: bytes) -> None:
        self._kept[key] = data, self._clock()
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def _forget(self) -> None:
        oldest = self._clock() - self._idle
        while self._kept and next(iter(self._kept.values()))[1] < oldest:
            self._kept.popitem(last=False)


def _after_fork() -> None:
    for store in list(_stores):
        store._lock = threading.Lock()  # noqa: SLF001 - one module


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
