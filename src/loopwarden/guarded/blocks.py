"""Blocks of `guard.run()`: which run the calls in them belong to, and which block of a run is its last."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

current_run: Final[ContextVar[str | None]] = ContextVar("loopwarden_run", default=None)
"""The run that calls of guarded functions belong to."""


class Blocks:
    """The blocks of one guard that are open in this process, by the name of their run.

    Blocks of one name may lie in each other or beside each other, in threads and tasks. Safe to share
    between threads; after a fork the child calls `after_fork`.
    """

    __slots__ = ("_held", "_lock")

    def __init__(self) -> None:
        self._held: dict[str, list[int]] = {}  # by name the threads that opened a block
        self._lock = threading.Lock()

    @contextmanager
    def block(self, name: str, forget: Callable[[], None]) -> Iterator[None]:
        """Calls in this block belong to the run `name`; the last one of that name ends with `forget`."""
        with self._lock:
            self._held.setdefault(name, []).append(threading.get_ident())
        token = current_run.set(name)
        try:
            yield
        finally:
            if self._left(name):
                forget()
            current_run.reset(token)

    def _left(self, name: str) -> bool:
        """A block ends; whether it was the last one of its name."""
        own = threading.get_ident()
        with self._lock:
            threads = self._held.get(name, [])
            if own in threads:
                threads.remove(own)
            elif threads:  # it began in another thread
                threads.pop()
            if not threads:
                self._held.pop(name, None)
            return not threads

    def after_fork(self) -> None:
        """A child process goes on with the blocks of the thread that made it; it has no others."""
        own = threading.get_ident()
        mine = {name: [one for one in threads if one == own] for name, threads in self._held.items()}
        self._held = {name: threads for name, threads in mine.items() if threads}
        self._lock = threading.Lock()
