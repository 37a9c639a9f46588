"""Where the sums of runs are kept: in this process, or in the store that several programs share."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from loopwarden.records.tally import Tally, dump, load

if TYPE_CHECKING:
    from collections.abc import Callable

Key: TypeAlias = tuple[str | None, str | None]
"""Session id and run id."""

Answer = TypeVar("Answer")

Change: TypeAlias = "Callable[[Tally | None], tuple[Tally | None, Answer]]"
"""From the sums of a run (`None`: it is not known) to those that are kept (`None`: none), and an answer. May
be called more than once; only its last call counts."""

_LONGEST_NAME: Final = 200
"""Characters of the names in a store's key; longer ones are digested."""

MAX_RUNS: Final = 10_000
"""Runs whose sums are kept in memory at once."""


class Tallies(Protocol):
    """Sums by run; safe to share between threads."""

    def update(self, key: Key, change: Change[Answer]) -> Answer:
        """Change the sums of a run and give the answer of the change.

        Raises:
            StoreError: They can't be reached.
        """

    def move(self, key: Key, to: Key) -> None:
        """A run goes on under another key, in place of what is there; nothing if it is not known.

        Raises:
            StoreError: As for `update`.
        """

    def drain(self, most: int) -> list[tuple[Key, Tally]]:
        """Take out the runs that were quiet for longest, so that `most` are left; of shared ones none."""

    def after_fork(self) -> None:
        """Called in a child process: the runs of its parent go on there."""


class OwnTallies:
    """In this process."""

    def __init__(self) -> None:
        self._tallies: OrderedDict[Key, Tally] = OrderedDict()
        self._lock = threading.Lock()

    def update(self, key: Key, change: Change[Answer]) -> Answer:
        """See `Tallies`."""
        with self._lock:
            tally, answer = change(self._tallies.get(key))
            if tally is None:
                self._tallies.pop(key, None)
            else:
                self._tallies[key] = tally
                self._tallies.move_to_end(key)
        return answer

    def move(self, key: Key, to: Key) -> None:
        """See `Tallies`."""
        with self._lock:
            tally = self._tallies.pop(key, None)
            if tally is not None:
                self._tallies[to] = tally

    def drain(self, most: int) -> list[tuple[Key, Tally]]:
        """See `Tallies`."""
        with self._lock:
            return [self._tallies.popitem(last=False) for _ in range(len(self._tallies) - most)]

    def after_fork(self) -> None:
        """See `Tallies`."""
        self._lock = threading.Lock()
        self._tallies.clear()


class Shared(Protocol):
    """What is needed of a store, see `loopwarden.stores.Store`."""

    def update(self, key: str, change: Callable[[bytes | None], tuple[bytes | None, Answer]]) -> Answer:
        """Change what is stored under a key, atomically."""

    def move(self, key: str, to: str) -> None:
        """Put what is stored under `key` under `to`."""


class SharedTallies:
    """In a store, so that the programs that take turns in a run count on."""

    def __init__(self, store: Shared) -> None:
        self._store = store

    def update(self, key: Key, change: Change[Answer]) -> Answer:
        """See `Tallies`."""

        def over_bytes(stored: bytes | None) -> tuple[bytes | None, Answer]:
            tally, answer = change(load(stored) if stored is not None else None)
            return (dump(tally) if tally is not None else None), answer

        return self._store.update(_name(key), over_bytes)

    def move(self, key: Key, to: Key) -> None:
        """See `Tallies`."""
        self._store.move(_name(key), _name(to))

    def drain(self, most: int) -> list[tuple[Key, Tally]]:  # noqa: ARG002 - others may still be at these runs
        """See `Tallies`."""
        return []

    def after_fork(self) -> None:
        """See `Tallies`."""


def _name(key: Key) -> str:
    """What the sums of a run are stored under, apart from the guard's own state of the run."""
    names = json.dumps(key, default=repr, separators=(",", ":"))
    if len(names) > _LONGEST_NAME:
        names = blake2b(names.encode(), digest_size=32).hexdigest()
    return f"record:{names}"
