"""What people decided on the page about runs and loops, at hand for every event.

To look is to look into a dictionary; nobody waits for the place where decisions are kept. Who keeps them
(`decision_keeper.py`) takes away what changed here, and brings what changed elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from loopwarden.gateway.decided import LOOPS, RUNS, SECONDS, bounded, changed

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.gateway.decided import Cell, Cells, Changes

_CHANGES: Final = 10_000
_NOTHING: Final = -1.0


class Decisions:
    """What people decided, by the names of runs and loops (see `names`). Thread-safe and bounded.

    Of more than 10,000 runs, or 64 loops of a run, the decisions that are oldest are forgotten.

    Args:
        clock: Seconds since the epoch.

    Attributes:
        noted: Called when something was decided here; set by who keeps it. With `None` nobody does. Called
            with a lock held: it must not wait.
        heard: Told the name of each run about which something was decided elsewhere; set by who shows it.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.noted: Callable[[], None] | None = None
        self.heard: Callable[[str], None] | None = None
        self._clock = clock
        self._lock = threading.Lock()
        self._paused: OrderedDict[str, float] = OrderedDict()
        self._released: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()
        self._changes: OrderedDict[Cell, float | None] = OrderedDict()

    def pause(self, run: str) -> None:
        """The guard keeps out of a run."""
        with self._lock:
            self._set(run, "", self._clock())

    def resume(self, run: str) -> None:
        """The guard goes on in a run."""
        with self._lock:
            self._drop(run, "")

    def __bool__(self) -> bool:
        """Whether anything is decided."""
        return bool(self._paused or self._released)

    def is_paused(self, run: str) -> bool:
        """Whether the guard keeps out of a run."""
        return run in self._paused

    def release(self, run: str, loop: str) -> None:
        """A loop of a run is let through."""
        with self._lock:
            self._set(run, loop, self._clock())

    def hold(self, run: str, loop: str) -> None:
        """A loop is guarded again."""
        with self._lock:
            self._drop(run, loop)

    def move(self, old: str, new: str) -> None:
        """A run goes on under another name; what was decided about either holds."""
        if old == new or not (old in self._paused or old in self._released):
            return
        with self._lock:
            moved = dict(self._released.get(old, ()))
            if old in self._paused:
                moved[""] = self._paused[old]
            for loop, at in moved.items():
                self._drop(old, loop)
                self._set(new, loop, at)

    def is_released(self, run: str, loop: str) -> bool:
        """Whether a loop of a run is let through."""
        return loop in self._released.get(run, ())

    def released(self, run: str) -> list[str]:
        """The loops of a run that are let through, the oldest decision first."""
        with self._lock:
            return list(self._released.get(run, ()))

    # --- kept

    def cells(self) -> Cells:
        """All that is decided."""
        with self._lock:
            return self._cells()

    def changes(self) -> Changes:
        """What was decided here and is not yet kept."""
        with self._lock:
            return dict(self._changes)

    def adopt(self, kept: Cells, changes: Changes) -> None:
        """What is kept holds, and what was decided here since.

        Args:
            kept: All that is kept now.
            changes: What `changes` gave before, where it is among it.
        """
        with self._lock:
            for cell, at in changes.items():
                if self._changes.get(cell, _NOTHING) == at:
                    del self._changes[cell]
            before = self._cells().keys()
            after = self._become(changed(kept, self._changes))
            others = {run for run, _ in before ^ after}
        self._tell(others)

    def forget_old(self) -> None:
        """Forget what is too old to count."""
        if not self:
            return
        with self._lock:
            before, oldest = self._cells(), self._clock() - SECONDS
            if all(at >= oldest for at in before.values()):
                return
            after = self._become(before)
            gone = {run for run, _ in before.keys() - after.keys()}
        self._tell(gone)

    def _tell(self, runs: set[str]) -> None:
        if self.heard is not None:
            for run in runs:
                self.heard(run)

    # --- with the lock held

    def _set(self, run: str, loop: str, at: float) -> None:
        if loop:
            loops = self._released.get(run, OrderedDict())
            _put(loops, loop, at, LOOPS)
            _put(self._released, run, loops, RUNS)
        else:
            _put(self._paused, run, at, RUNS)
        self._note((run, loop), at)

    def _drop(self, run: str, loop: str) -> None:
        if loop:
            loops = self._released.get(run)
            if loops is not None:
                loops.pop(loop, None)
                if not loops:
                    del self._released[run]
        else:
            self._paused.pop(run, None)
        self._note((run, loop), None)

    def _note(self, cell: Cell, at: float | None) -> None:
        if self.noted is not None:
            _put(self._changes, cell, at, _CHANGES)
            self.noted()

    def _cells(self) -> Cells:
        cells = {(run, ""): at for run, at in self._paused.items()}
        for run, loops in self._released.items():
            cells.update({(run, loop): at for loop, at in loops.items()})
        return cells

    def _become(self, cells: Cells) -> Cells:
        """Put new dictionaries in the place of the old ones, which others look into."""
        paused: OrderedDict[str, float] = OrderedDict()
        released: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()
        cells = bounded(cells, self._clock())
        for (run, loop), at in cells.items():
            if loop:
                released.setdefault(run, OrderedDict())[loop] = at
                released.move_to_end(run)
            else:
                paused[run] = at
        self._paused, self._released = paused, released
        return cells


def _put(where: OrderedDict[Any, Any], name: Any, value: Any, most: int) -> None:
    where[name] = value
    where.move_to_end(name)
    while len(where) > most:
        where.popitem(last=False)
