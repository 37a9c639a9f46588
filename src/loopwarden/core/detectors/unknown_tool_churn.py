"""One made-up tool after the other.

## What it sees
The newest calls in a row all failed as unknown tools, with two or more names. It judges only calls of a tool
that has not succeeded in this run, or through which calls of that row went (a gateway tool).

## Why it matters
A model that can't find its tool guesses names: `search_web`, `web_search`, `websearch`. Each is new, so
nothing repeats.

## When it stays silent
As soon as any call in the row does something else than fail for want of a tool, and for calls of tools that
are known to work. Failures of one model reply count once.

## What it doesn't catch
One name over and over (`unknown_tool_repeat`).
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

from loopwarden.core.finding import Finding

if TYPE_CHECKING:
    from loopwarden.core.log import Entry
    from loopwarden.core.profile import ToolUse
    from loopwarden.events import Level

OPTIONS = ("detectors.unknownToolChurn", "unknownToolThreshold")
EXAMPLE = "uv" * 12
LEGEND = (
    ("u", "web_search", {"query": "try {n}"}, "!Unknown tool: web_search"),
    ("v", "search_web", {"query": "try {n}"}, "!Unknown tool: search_web"),
)

_KEPT: Final = 512
"""Tool names that are kept; the oldest is forgotten first."""

KEY: Final = "unknown_tools"


class Churn:
    """The newest calls in a row that failed for want of some tool.

    Attributes:
        count: Turns in which they failed.
        turn: The last of them.
        first: The first missing name.
        several: Whether a second name came up.
        through: Tools through which the calls went.
        worked: Tools that succeeded in this run.
    """

    __slots__ = ("count", "first", "several", "through", "turn", "worked")

    def __init__(self) -> None:
        self.count = 0
        self.turn = -1
        self.first: str | None = None
        self.several = False
        self.through: dict[str, None] = {}
        self.worked: dict[str, None] = {}

    def fold(self, entry: Entry) -> None:
        """The next call with its outcome."""
        outcome = entry.outcome
        tool = entry.use.tool
        if outcome is None or outcome.missing is None:
            if self.count:
                self.clear()
            if outcome is not None and not outcome.flags & 1 and tool not in self.worked:
                _keep(self.worked, tool)
            return
        if not self.count:
            self.first = outcome.missing
        elif outcome.missing != self.first:
            self.several = True
        if entry.turn != self.turn:
            self.count += 1
            self.turn = entry.turn
        _keep(self.through, tool)

    def copy(self) -> Churn:
        """The same, apart; for looking ahead."""
        other = copy(self)
        other.through, other.worked = dict(self.through), dict(self.worked)
        return other

    def clear(self) -> None:
        """The row is over."""
        self.count = 0
        self.turn = -1
        self.several = False
        self.through.clear()

    def judge(self, use: ToolUse, warning: int, history: int) -> Finding | None:
        """Judge a call; it is critical at twice the warning, within a window of `history` calls."""
        count = min(self.count, history)
        if not self.several or count < warning:
            return None
        if use.tool in self.worked and use.tool not in self.through:
            return None
        level: Level = "warning"
        threshold = warning
        if count >= 2 * warning:
            level, threshold = "critical", 2 * warning
        seen = f"{count} calls in a row asked for tools that do not exist."
        return Finding("unknown_tool_churn", level, count, threshold, KEY, seen, (), (use.tool,))


def _keep(names: dict[str, None], name: str) -> None:
    names[name] = None
    if len(names) > _KEPT:
        del names[next(iter(names))]
