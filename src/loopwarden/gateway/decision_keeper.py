"""What people decided, kept in a store: over a restart, and for all gateways on it.

One thread writes behind what was decided here, at once, and fetches what was decided elsewhere. It has a
connection of its own, so that no event ever waits for it. Where the store fails the decisions go on in this
process, and are written when it is back. Where what was kept is lost (a Redis that keeps nothing was started
anew, or the key had to make room) each gateway puts back what it knows.
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError
from loopwarden.gateway.decided import Decided, bounded, changed, packed, unpacked
from loopwarden.stores import open_store
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.gateway.decided import Changes
    from loopwarden.gateway.decisions import Decisions
    from loopwarden.stores import Store

KEY: Final = "decisions:1"
"""Where they are in the store. Another layout has another number, so that gateways of two versions can share
a store."""

FETCH_SECONDS: Final = 1.0
"""How often others' decisions are fetched, and a store that failed is tried again."""

_GAP: Final = 0.02  # seconds between two writes: runs that go on under other names take decisions along
_END: Final = 5.0  # seconds that the end waits for the last write


class DecisionKeeper:
    """Keeps decisions, from now on until it is closed. What is kept already is read before it is made.

    Args:
        decisions: What to keep.
        address: The store, as for `open_store`.
        most: Keys that the store keeps.
        there: Whether there may be a store already; without one it is made with the first decision.
        clock: Seconds since the epoch, as the decisions have it.
        pause: Seconds between two looks at the store.
    """

    def __init__(
        self,
        decisions: Decisions,
        address: str,
        *,
        most: int,
        there: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.time,
        pause: float = FETCH_SECONDS,
    ) -> None:
        self._decisions = decisions
        self._address = address
        self._most = most
        self._there = there
        self._clock = clock
        self._pause = pause
        self._store: Store | None = None
        self._name: str | None = None
        self._seen: bytes | None = None
        self._damaged: bytes | None = None
        self._failing = False
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._round_over = threading.Condition()
        decisions.noted = self._wake.set
        self._round()
        self._thread = threading.Thread(target=self._work, name="loopwarden-decisions", daemon=True)
        self._thread.start()

    def settle(self, seconds: float) -> bool:
        """Wait until all that was decided is kept; not for a store that failed the last time.

        Args:
            seconds: How long at most.

        Returns:
            Whether it is kept.
        """
        with self._round_over:
            self._round_over.wait_for(lambda: self._failing or not self._decisions.changes(), seconds)
        return not self._decisions.changes()

    def close(self) -> None:
        """Write what is left, and give the store back."""
        self._ending.set()
        self._wake.set()
        self._thread.join(_END)
        if self._store is not None and not self._thread.is_alive():
            self._store.close()
            self._store = None

    def _work(self) -> None:
        ending = False
        while not ending:
            self._wake.wait(FETCH_SECONDS if self._failing else self._pause)
            self._wake.clear()
            ending = self._ending.is_set()
            if not ending or self._decisions.changes():
                self._round()
            self._ending.wait(_GAP)

    def _round(self) -> None:
        try:
            self._decisions.forget_old()
            changes = self._decisions.changes()
            if changes or self._store is not None or self._there():
                self._look(changes)
        except StoreError as error:
            self._failed(str(error))
        except Exception as error:  # noqa: BLE001 - a fault beside the guard never breaks the agent
            self._failed(f"{type(error).__name__}: {error}")
        else:
            if self._failing:
                log.logger.warning("what people decide is kept again")
            self._failing = False
        with self._round_over:
            self._round_over.notify_all()

    def _failed(self, why: str) -> None:
        if not self._failing:
            log.logger.error("what people decide can't be kept, it holds in this process only: %s", why)
        self._failing = True

    def _look(self, changes: Changes) -> None:
        if self._store is None:
            self._store = open_store(self._address, max_runs=self._most)
        data = self._store.read(KEY)
        known = self._decisions.cells()
        if data == self._seen and not changes:
            return
        found = self._unpacked(data)
        anew = found is None or self._name not in {None, found.name}
        if found is not None and not anew:
            self._decisions.adopt(found.cells, {})  # also where the store can be read only
        if changes or (anew and known):
            data, found = self._store.update(KEY, lambda data: self._merged(data, changes))
        self._seen = data
        if found is not None:
            self._name = found.name
            self._decisions.adopt(found.cells, changes)

    def _merged(self, data: bytes | None, changes: Changes) -> tuple[bytes, tuple[bytes, Decided]]:
        """What to keep instead, and it again for the answer."""
        found = self._unpacked(data) or Decided(secrets.token_hex(8), {})
        cells = found.cells
        if self._name not in {None, found.name}:  # lost meanwhile: what is known here is part of it
            cells = changed(cells, self._decisions.cells())
        kept = Decided(found.name, bounded(changed(cells, changes), self._clock()))
        packed_up = packed(kept)
        return packed_up, (packed_up, kept)

    def _unpacked(self, data: bytes | None) -> Decided | None:
        """What is kept; `None` where it is nothing, or damaged."""
        if data is None:
            return None
        try:
            return unpacked(data)
        except ValueError as error:
            if data != self._damaged:
                self._damaged = data
                log.logger.error(
                    "what people decided is damaged where it is kept, it begins afresh: %s", error
                )
            return None
