"""What a run's calls and outcomes add up to, and what the detectors find in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.core.detectors import cycle, generic_repeat, global_circuit_breaker, known_poll_no_progress
from loopwarden.core.detectors.cycle import Cycle
from loopwarden.core.detectors.ping_pong import Alternation
from loopwarden.core.log import NEVER, Log
from loopwarden.core.rows import Rows

if TYPE_CHECKING:
    from loopwarden.core.finding import Finding
    from loopwarden.core.fingerprint import Observed
    from loopwarden.core.log import Entry
    from loopwarden.core.profile import ToolUse
    from loopwarden.core.settings import Settings


class Evidence:
    """The calls of a run and everything that is counted over them.

    Attributes:
        log: The calls whose turn is over.
        rows: Calls in a row.
    """

    __slots__ = ("_alternation", "_cycle", "_settings", "log", "rows")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        depth = cycle.memory(settings.warning_threshold, settings.critical_threshold)
        self.log = Log(settings.history_size, depth)
        self.rows = Rows()
        self._alternation = Alternation()
        self._cycle = Cycle()

    def take(self, settings: Settings) -> None:
        """Judge by these settings from here."""
        self._settings = settings

    def close_turn(self, entries: list[Entry]) -> None:
        """The turn of these calls is over."""
        log = self.log
        cycle = self._cycle
        for entry in entries:
            position = log.append(entry)
            if entry.outcome is None and entry.shared is not None:
                self._mark(entry)
            self._alternation.push(entry.signature, entry.use, position)
            if cycle.period:
                cycle.push(log)
        self.rows.close_turn(log.floor)

    def _mark(self, group: Entry) -> None:
        """A call still runs, of which a twin has ended."""
        for one in self.rows.pending:
            if one.twin is group and one.outcome is not None and one.outcome.flags:
                self.log.marked[group.position] = one.outcome

    def settle(self, group: Entry, shared: bytes, outcome: Observed) -> None:
        """A call whose turn was over has its outcome; `shared` is that of its identical siblings too."""
        position = group.position
        if not self.log.settle(position, shared):
            return
        if outcome.flags:
            self.log.marked[position] = outcome
        self._cycle.compare(self.log, position)

    def reset(self) -> None:
        """A new write: what follows is a new experiment, but for polls and what an edit does not touch."""
        self.log.reset()
        self.rows.clear()

    def without(self, positions: set[int], others: list[Entry]) -> None:
        """Roll calls back; `others` are entries elsewhere, whose positions are kept up."""
        rows = self.rows
        rows.remove({one for one in rows.standing() if (one.twin or one).position in positions})
        self.log, moved = self.log.without(positions)
        for entry in {*others, *(one.twin or one for one in rows.standing())}:
            entry.position = moved.get(entry.position, NEVER)
        self._alternation = Alternation()
        self._cycle = Cycle()
        entries = list(self.log.entries())
        for entry in entries:
            self._alternation.push(entry.signature, entry.use, entry.position)
        self.rows.refold(entries, self.log.floor)

    def find(self, use: ToolUse, name: bytes, identical: int, refused: int) -> tuple[Finding | None, bool]:
        """Judge a call.

        Args:
            use: What kind of call it is.
            name: Its signature.
            identical: Its number among the identical calls of its turn.
            refused: Refused calls that add to its streak.

        Returns:
            The most severe finding, of equals the first in the order of precedence; and whether the
            breaker's condition holds, whichever detector is named.
        """
        log = self.log
        rows = self.rows
        if (
            name not in log.known
            and not refused
            and not rows.failing
            and not rows.waiting
            and rows.stagnation.count < use.warning
            and identical <= use.critical
        ):
            return None, False
        if rows.waiting:
            rows = rows.settled(log.floor)
        found: Finding | None = None
        settings = self._settings
        if rows.failing and rows.unknown.count >= settings.unknown_tool_threshold:
            found = rows.unknown.judge(use, settings.unknown_tool_threshold, settings.history_size)
        breaks = False
        count, streak = log.counts(name, use.poll)
        streak += refused
        if not use.waits and (
            count >= use.warning
            or streak >= use.warning
            or identical > use.critical
            or name == self._alternation.other
        ):
            found, breaks = self._find_repeats(found, use, name, count, streak, identical)
        if (self._cycle.period or log.again > 1) and settings.detectors.cycle and log.repeated(name):
            alternating = self._alternation.unbroken(log.end) if name == self._alternation.other else 0
            found = _stricter(found, self._cycle.judge(use, name, log, alternating, log.floor))
        if rows.failing or rows.stagnation.count >= use.warning:
            found = self._find_rows(found, use, rows)
        return found, breaks

    def _find_repeats(
        self, found: Finding | None, use: ToolUse, name: bytes, count: int, streak: int, identical: int
    ) -> tuple[Finding | None, bool]:
        switches = self._settings.detectors
        repeats = switches.known_poll_no_progress if use.poll else switches.generic_repeat
        breaks = streak >= use.breaker
        if breaks:
            found = found or global_circuit_breaker.judge(use, name, streak)
        if use.poll and repeats and streak >= use.warning:
            found = _stricter(found, known_poll_no_progress.judge(use, name, streak))
        if switches.ping_pong and name == self._alternation.other:
            history = self._settings.history_size
            found = _stricter(found, self._alternation.judge(use, name, self.log, history))
        if repeats:
            if not use.poll and (count >= use.warning or streak >= use.critical):
                found = _stricter(found, generic_repeat.judge(use, name, count, streak))
            if identical > use.critical:
                found = _stricter(found, generic_repeat.judge_batch(use, name, identical))
        return found, breaks

    def _find_rows(self, found: Finding | None, use: ToolUse, rows: Rows) -> Finding | None:
        settings = self._settings
        switches = settings.detectors
        if rows.failing and not use.waits:
            if switches.unknown_tool_churn and rows.churn.count >= settings.unknown_tool_threshold:
                found = _stricter(
                    found, rows.churn.judge(use, settings.unknown_tool_threshold, settings.history_size)
                )
            if switches.repeated_failure:
                found = _stricter(found, rows.failures.judge(use))
            if switches.failure_streak and rows.streak.count >= settings.warning_threshold:
                found = _stricter(
                    found, rows.streak.judge(use, settings.warning_threshold, settings.history_size)
                )
        if switches.stagnation and rows.stagnation.count >= use.warning:
            found = _stricter(found, rows.stagnation.judge(use, settings.history_size))
        return found


def _stricter(one: Finding | None, other: Finding | None) -> Finding | None:
    """The more severe of two findings; of equals the first."""
    if other is None:
        return one
    if one is None or (other.level == "critical" and one.level == "warning"):
        return other
    return one
