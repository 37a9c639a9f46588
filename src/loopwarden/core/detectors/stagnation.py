"""Other questions, always the same answer.

## What it sees
The newest calls of one tool in a row (a call of another tool ends it), with varied arguments, all gave the
same successful outcome of 64 bytes of text or more (a command's output). It only warns.

## Why it matters
Rephrased searches that bring the same lines, pages of a listing that are all the first page, a service that
says no politely.

## When it stays silent
For short results (an acknowledgement says nothing), for tools that write or send, for failures, and when a
call of another tool comes between. Calls of one model reply count once.

## What it doesn't catch
Answers that say the same in other words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.core.finding import Finding

if TYPE_CHECKING:
    from loopwarden.core.log import Entry
    from loopwarden.core.profile import ToolUse

OPTIONS = ("detectors.stagnation", "warningThreshold")
EXAMPLE = "s" * 12
LEGEND = (
    (
        "s",
        "search",
        {"query": "words, put in way {n}"},
        "The same three lines of text, whatever is asked, again and again.",
    ),
)


class Stagnation:
    """The newest calls of one tool with one outcome.

    Attributes:
        tool: The tool.
        outcome: The outcome that they share, `None` while there is none to count.
        count: Turns in which it came.
        turn: The last of them.
        first: Signature of the first call.
        varied: Whether another signature came up.
    """

    __slots__ = ("count", "first", "outcome", "tool", "turn", "varied")

    def __init__(self) -> None:
        self.tool: str | None = None
        self.outcome: bytes | None = None
        self.count = 0
        self.turn = -1
        self.first: bytes | None = None
        self.varied = False

    def fold(self, entry: Entry) -> None:
        """The next call with its outcome."""
        outcome = entry.outcome
        use = entry.use
        if outcome is None or not outcome.flags & 4 or use.kind in {"write", "send"}:
            self.tool = use.tool
            self.outcome = None
            self.count = 0
            return
        if outcome.fingerprint != self.outcome or use.tool != self.tool:
            self.tool, self.outcome, self.first = use.tool, outcome.fingerprint, entry.signature
            self.count, self.turn, self.varied = 1, entry.turn, False
            return
        if entry.signature != self.first:
            self.varied = True
        if entry.turn != self.turn:
            self.count += 1
            self.turn = entry.turn

    def judge(self, use: ToolUse, history: int) -> Finding | None:
        """Judge a call of the tool whose answers stand still, within a window of `history` calls."""
        count = min(self.count, history)
        if count < use.warning or not self.varied or use.tool != self.tool:
            return None
        seen = (
            f"The last {count} calls of {use.tool} all gave the same result, although their arguments were "
            "not all the same."
        )
        key = f"stagnation:{use.tool}"
        return Finding("stagnation", "warning", count, use.warning, key, seen, (), (use.tool,))
