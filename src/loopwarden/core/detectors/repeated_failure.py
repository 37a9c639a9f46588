"""One tool that fails in the same way, whatever is tried.

## What it sees
The newest outcomes of one tool are failures with one fingerprint (the message with times, ids, paths and the
like masked), from two or more variants of the arguments, or with two or more different texts. Calls of
other tools in between do not end the row; a success of the tool does.

## Why it matters
A login that is refused whatever flags are tried, a query that is rejected in every spelling, a command
that prints another time with the same error: the calls or the results differ, the failure does not.
The message says which of them it is.

## When it stays silent
When the cause differs: status codes, errno and small counts are kept apart. Timeouts neither count nor
end a row. After a new write the row starts again.
A refusal holds up one call only; the next one is the probe, since other arguments may well succeed.

## What it doesn't catch
Failures told in prose by a result that is no error (`stagnation` may), and one call that fails in one way
(`generic_repeat` counts it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loopwarden.core.finding import Finding, short

if TYPE_CHECKING:
    from loopwarden.core.log import Entry
    from loopwarden.core.profile import ToolUse
    from loopwarden.events import Level

OPTIONS = ("detectors.repeatedFailure", "warningThreshold", "criticalThreshold", "resetOnWrite")
EXAMPLE = "f" * 23
LEGEND = (("f", "exec", {"command": "deploy --try {n}"}, "!permission denied"),)

_TOOLS: Final = 256
"""Tools whose rows are kept; the oldest is forgotten first."""

_SAID: Final = "what it said differed at most in times, ids and the like"
_HOW: Final = {
    (True, False): ", although other arguments were tried",
    (False, True): f", always with the same arguments: {_SAID}",
    (True, True): f", although other arguments were tried: {_SAID}",
}
"""What the model is told, by `Row.varied`; where nothing varied `generic_repeat` counts the calls."""


class Row:
    """One tool's newest failures.

    Attributes:
        failure: Their fingerprint.
        turns: One for each turn in which the tool failed, oldest first: its number, and up to two
            signatures and two outcomes that differ.
    """

    __slots__ = ("failure", "turns")

    def __init__(self, failure: bytes) -> None:
        self.failure = failure
        self.turns: list[tuple[int, tuple[bytes, ...], tuple[bytes, ...]]] = []

    def add(self, turn: int, signature: bytes, outcome: bytes, memory: int) -> None:
        """The next failure; only the last `memory` turns are kept."""
        turns = self.turns
        if turns and turns[-1][0] == turn:
            _, signatures, outcomes = turns[-1]
            turns[-1] = turn, _two(signatures, signature), _two(outcomes, outcome)
            return
        turns.append((turn, (signature,), (outcome,)))
        if len(turns) > memory:
            del turns[0]

    @property
    def varied(self) -> tuple[bool, bool]:
        """Whether more than one thing was tried, and whether the failures read differently."""
        _, tried, said = self.turns[0]
        return (
            len(tried) > 1 or any(signatures != tried for _, signatures, _ in self.turns),
            len(said) > 1 or any(outcomes != said for _, _, outcomes in self.turns),
        )


class Failures:
    """The rows of all tools that are failing now."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}

    def fold(self, entry: Entry) -> None:
        """The next call with its outcome."""
        outcome = entry.outcome
        if outcome is None:
            return
        tool = entry.use.tool
        if not outcome.flags:
            if self.rows:
                self.rows.pop(tool, None)
            return
        if outcome.failure is None:
            if not outcome.flags & 1:
                self.rows.pop(tool, None)
            return
        row = self.rows.get(tool)
        if row is None or row.failure != outcome.failure:
            self.rows.pop(tool, None)
            row = self.rows[tool] = Row(outcome.failure)
            if len(self.rows) > _TOOLS:
                del self.rows[next(iter(self.rows))]
        row.add(entry.turn, entry.signature, outcome.fingerprint, 2 * entry.use.critical)

    def copy(self) -> Failures:
        """The same, apart; for looking ahead."""
        other = Failures()
        for tool, row in self.rows.items():
            same = other.rows[tool] = Row(row.failure)
            same.turns = row.turns[:]
        return other

    def clear(self) -> None:
        """A new write: what follows is a new experiment."""
        self.rows.clear()

    def judge(self, use: ToolUse) -> Finding | None:
        """Judge a call of a tool that may be failing."""
        row = self.rows.get(use.tool)
        if row is None:
            return None
        count = len(row.turns)
        if count < use.warning:
            return None
        how = _HOW.get(row.varied)
        if how is None:
            return None
        level: Level = "warning"
        threshold = use.warning
        if count >= use.critical:
            level, threshold = "critical", use.critical
        seen = f"{use.tool} failed {count} times in a row in the same way{how}."
        loop = key(use, row.failure)
        return Finding("repeated_failure", level, count, threshold, loop, seen, (), (use.tool,))


def key(use: ToolUse, failure: bytes) -> str:
    """The name of the loop."""
    return f"failure:{use.tool}:{short(failure)}"


def _two(values: tuple[bytes, ...], value: bytes) -> tuple[bytes, ...]:
    return values if len(values) > 1 or value in values else (*values, value)
