"""Everything fails.

## What it sees
The newest calls all failed, in whatever way, and two or more tools are involved. It only warns.

## Why it matters
When a machine is down, a login has expired or a path is wrong, a model often tries every tool it has. The
single failures differ, so nothing else adds them up.

## When it stays silent
At the first success; for failures of a single tool (`repeated_failure`); after a new write. Failures of
one model reply count once.

## What it doesn't catch
Results that say no in prose without a flag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loopwarden.core.finding import Finding

if TYPE_CHECKING:
    from loopwarden.core.log import Entry
    from loopwarden.core.profile import ToolUse

OPTIONS = ("detectors.failureStreak", "warningThreshold", "resetOnWrite")
EXAMPLE = "fg" * 6
LEGEND = (
    ("f", "fetch", {"url": "https://example.org/{n}"}, "!host {n} is down"),
    ("g", "read", {"path": "/data/{n}"}, "!no such file: part {n}"),
)

KEY: Final = "failures"


class FailureStreak:
    """The newest calls that failed in a row.

    Attributes:
        count: Turns in which calls failed.
        turn: The last of them.
        first: The first tool.
        several: Whether a second tool is involved.
    """

    __slots__ = ("count", "first", "several", "turn")

    def __init__(self) -> None:
        self.count = 0
        self.turn = -1
        self.first: str | None = None
        self.several = False

    def fold(self, entry: Entry) -> None:
        """The next call with its outcome."""
        outcome = entry.outcome
        if outcome is None or not outcome.flags & 1:
            if self.count:
                self.clear()
            return
        if not self.count:
            self.first = entry.use.tool
        elif entry.use.tool != self.first:
            self.several = True
        if entry.turn != self.turn:
            self.count += 1
            self.turn = entry.turn

    def clear(self) -> None:
        """Something succeeded, or a new write made what follows a new experiment."""
        self.count = 0
        self.turn = -1
        self.several = False

    def judge(self, use: ToolUse, warning: int, history: int) -> Finding | None:
        """Judge any call; the row is seen within a window of `history` calls."""
        count = min(self.count, history)
        if count < warning or not self.several:
            return None
        seen = f"The last {count} calls all failed, with several tools."
        return Finding("failure_streak", "warning", count, warning, KEY, seen, (), (use.tool,))
