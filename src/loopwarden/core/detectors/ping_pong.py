"""Two calls that take turns.

## What it sees
The newest calls strictly alternate between two signatures and the present call goes on with it. The
warning counts the length, whatever came of the calls; a refusal needs an outcome for every call, and on
each side all the same. When it refuses, it refuses both calls. Where one of the two tools has numbers of its
own, the higher ones hold for the pair.

## Why it matters
Models bounce between two places that point at each other: search and open, build and log, read and a
failing edit.

## When it stays silent
When either side has news, it only warns. Calls that only wait are passed over. Calls of one model
reply are no alternation by themselves.

## What it doesn't catch
Three or more calls in turn (`cycle`), and an alternation with other work in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.core.finding import Finding, short

if TYPE_CHECKING:
    from loopwarden.core.log import Log
    from loopwarden.core.profile import ToolUse
    from loopwarden.events import Level

OPTIONS = ("detectors.pingPong", "warningThreshold", "criticalThreshold", "historySize")
EXAMPLE = "ab" * 11
LEGEND = ()


class Alternation:
    """The alternating tail of the log; calls that only wait are passed over.

    Attributes:
        last: Signature of the newest call.
        other: The nearest signature before it that differs.
        length: Calls that alternate, the newest included.
    """

    __slots__ = ("_last_use", "_newest", "_other_use", "_start", "last", "length", "other")

    def __init__(self) -> None:
        self.last: bytes | None = None
        self.other: bytes | None = None
        self.length = 0
        self._last_use: ToolUse | None = None
        self._other_use: ToolUse | None = None
        self._start = self._newest = 0

    def push(self, signature: bytes, use: ToolUse, position: int) -> None:
        """The next call of the log stands at `position`."""
        if use.waits:
            return
        if signature == self.last:
            self.length, self._start, self._newest = 1, position, position
            return
        if signature == self.other:
            self.length += 1
        elif self.last is None:
            self.length, self._start = 1, position
        else:
            self.length, self._start = 2, self._newest
        self.last, self.other = signature, self.last
        self._last_use, self._other_use = use, self._last_use
        self._newest = position

    def unbroken(self, end: int) -> int:
        """Its length if no call that waits stands in it or after it, up to position `end`; else 0."""
        return self.length if end - self._start == self.length else 0

    def judge(self, use: ToolUse, signature: bytes, log: Log, history: int) -> Finding | None:
        """Judge a call that may go on with the alternation.

        Args:
            use: What kind of call it is.
            signature: Names it.
            log: The calls before it.
            history: Size of the window; an alternation is seen within it only.
        """
        start = max(self._start, log.start)
        length = min(self.length, history)
        if not self.unbroken(log.end):  # calls that wait take places in the window
            length = sum(not one.waits for one in log.uses[start - log.base :])
        count = length + 1
        partner_use = self._last_use or use
        threshold = max(use.warning, partner_use.warning)
        critical = max(use.critical, partner_use.critical)
        if signature != self.other or self.last is None or length < _SHORTEST or count < threshold:
            return None
        level: Level = "warning"
        if (
            count >= critical
            and not any(one >= start and not log.uses[one - log.base].waits for one in log.open)
            and log.broke(signature) < start
            and log.broke(self.last) < start
        ):
            level, threshold = "critical", critical
        pair = sorted((signature, self.last))
        partner = partner_use.tool
        both = f"{use.tool} and {partner}" if partner != use.tool else f"Two calls of {use.tool}"
        result = ", each with the same result every time" if level == "critical" else ""
        seen = f"{both} have been taking turns for {count} calls{result}."
        key = f"alternation:{short(pair[0])}.{short(pair[1])}"
        tools = (use.tool,) if partner == use.tool else (use.tool, partner)
        return Finding("ping_pong", level, count, threshold, key, seen, (signature, self.last), tools)


_SHORTEST = 2
"""Calls that make an alternation before the present one goes on with it."""
