"""A tool that does not exist, asked for again and again.

## What it sees
The newest calls in a row are of one tool and each failed because a tool of one and the same name does not
exist; the arguments do not matter. There is no warning: such a call can't succeed.

## Why it matters
A model that has made up a tool tends to try it with ever new arguments, which no comparison of arguments
would find.

## When it stays silent
When the failure is another one (a file that is not found is no missing tool), when another call comes
between, and below the threshold. Failures of one model reply count once. It has no switch.

## What it doesn't catch
Ever new names (`unknown_tool_churn`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.core.finding import Finding

if TYPE_CHECKING:
    from loopwarden.core.log import Entry
    from loopwarden.core.profile import ToolUse

OPTIONS = ("unknownToolThreshold", "historySize")
EXAMPLE = "u" * 12
LEGEND = (("u", "search_web", {"query": "try {n}"}, "!Unknown tool: search_web"),)


class UnknownRow:
    """The newest calls in a row that failed for want of one tool.

    Attributes:
        tool: The tool that was called.
        missing: The name that does not exist.
        count: Turns in which it failed.
        turn: The last of them.
    """

    __slots__ = ("count", "missing", "tool", "turn")

    def __init__(self) -> None:
        self.tool: str | None = None
        self.missing: str | None = None
        self.count = 0
        self.turn = -1

    def fold(self, entry: Entry) -> None:
        """The next call with its outcome."""
        outcome = entry.outcome
        if outcome is None or outcome.missing is None:
            self.count = 0
            self.tool = None
            return
        if entry.use.tool != self.tool or outcome.missing != self.missing:
            self.tool, self.missing, self.count, self.turn = entry.use.tool, outcome.missing, 0, -1
        if entry.turn != self.turn:
            self.count += 1
            self.turn = entry.turn

    def judge(self, use: ToolUse, threshold: int, history: int) -> Finding | None:
        """Judge a call; the row is seen within a window of `history` calls."""
        count = min(self.count, history)
        if count < threshold or use.tool != self.tool:
            return None
        seen = f"The tool {self.missing} does not exist; it was asked for {count} times in a row."
        return Finding(
            "unknown_tool_repeat", "critical", count, threshold, key(use.tool), seen, (), (use.tool,)
        )


def key(tool: str) -> str:
    """The name of the loop."""
    return f"unknown_tool:{tool}"
