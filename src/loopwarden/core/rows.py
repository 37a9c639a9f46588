"""The detectors that look at calls in a row, fed in the order of the calls.

Outcomes may come in another order than the calls. A call waits here until it has its outcome, and the
ones after it wait with it, but no more than `WAITING`: a call that never ends must not stop the count.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

from loopwarden.core.detectors.failure_streak import FailureStreak
from loopwarden.core.detectors.repeated_failure import Failures
from loopwarden.core.detectors.stagnation import Stagnation
from loopwarden.core.detectors.unknown_tool_churn import Churn
from loopwarden.core.detectors.unknown_tool_repeat import UnknownRow
from loopwarden.core.fingerprint import FAILED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.core.log import Entry

WAITING: Final = 64
"""Calls that wait for the outcome of an earlier one."""


class Rows:
    """The rows of one run.

    Attributes:
        unknown: Failures for want of one tool.
        churn: Failures for want of any tool.
        failures: Failures of each tool.
        streak: Failures of all tools.
        stagnation: Equal answers of one tool.
        failing: Whether any row of failures may be going on.
        pending: Calls that don't count yet; one that is asked for is put at the end.
        waiting: Calls of turns that are over which don't count yet, since an earlier one still runs.
    """

    __slots__ = ("churn", "failing", "failures", "pending", "stagnation", "streak", "unknown", "waiting")

    def __init__(self) -> None:
        self.unknown = UnknownRow()
        self.churn = Churn()
        self.failures = Failures()
        self.streak = FailureStreak()
        self.stagnation = Stagnation()
        self.failing = False
        self.waiting = 0
        self.pending: list[Entry] = []

    @property
    def present(self) -> int:
        """Calls of the present turn."""
        return len(self.pending) - self.waiting

    def standing(self) -> list[Entry]:
        """Calls that have a place in the log and don't count yet."""
        return self.pending[: self.waiting]

    def remove(self, entries: set[Entry]) -> None:
        """Calls are rolled back before they counted."""
        self.waiting -= sum(1 for entry in self.pending[: self.waiting] if entry in entries)
        self.pending = [entry for entry in self.pending if entry not in entries]

    def close_turn(self, floor: int) -> None:
        """The turn of all calls so far is over: those that have their outcome count now.

        Args:
            floor: Position of the first call after the newest reset.
        """
        pending = self.pending
        if len(pending) == 1 and pending[0].outcome is not None:
            self._fold(pending.pop(), floor)
            self.waiting = 0
            return
        taken = 0
        for entry in pending:
            if entry.outcome is None and len(pending) - taken <= WAITING:
                break
            self._fold(entry, floor)
            taken += 1
        del pending[:taken]
        self.waiting = len(pending)

    def settled(self, floor: int) -> Rows:
        """The rows as they are when calls that still run are passed over; for reading only."""
        if not self.waiting:
            return self
        rows = Rows()
        rows.unknown, rows.streak, rows.stagnation = (
            copy(self.unknown),
            copy(self.streak),
            copy(self.stagnation),
        )
        rows.churn, rows.failures = self.churn.copy(), self.failures.copy()
        rows.failing = self.failing
        for entry in self.pending[: self.waiting]:
            rows._fold(entry, floor)
        return rows

    def refold(self, entries: Iterable[Entry], floor: int) -> None:
        """Start again from these calls, after some were rolled back.

        Args:
            entries: The calls that are kept, with their outcomes.
            floor: Position of the first call after the newest reset.
        """
        worked = self.churn.worked
        pending, waiting = self.pending, self.waiting
        self.__init__()  # type: ignore[misc]  # all fields start again
        self.churn.worked = worked
        self.pending, self.waiting = pending, waiting
        first = next((one.position for one in self.standing() if one.twin is None), None)
        for entry in entries:
            if entry.position == first:
                break
            self._fold(entry, floor)

    def clear(self) -> None:
        """A new write: the rows that an edit may end start again."""
        self.failures.clear()
        self.streak.clear()

    def _fold(self, entry: Entry, floor: int) -> None:
        outcome = entry.outcome
        if entry.use.waits:
            return
        if outcome is None:  # it has not failed, and says nothing of what its tool's outcomes are
            self.unknown.fold(entry)
            self.churn.fold(entry)
            self.streak.fold(entry)
            self.stagnation.fold(entry)
            return
        if outcome.flags & FAILED:
            self.failing = True
        elif not self.failing:
            if entry.use.tool not in self.churn.worked:
                self.churn.fold(entry)
            self.stagnation.fold(entry)
            return
        self.unknown.fold(entry)
        if (entry.twin or entry).position >= floor:
            self.failures.fold(entry)
            self.streak.fold(entry)
        if not outcome.flags & FAILED:
            self.failing = bool(self.failures.rows)
        self.churn.fold(entry)
        self.stagnation.fold(entry)
