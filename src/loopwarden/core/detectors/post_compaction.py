"""A loop that outlives a compaction.

## What it sees
After the context overflowed and the history was summarised, the next outcomes: if one and the same call
with one and the same outcome fills the whole window, the run is ended. It also counts compactions that
follow each other without any finished call between; three of them end the run.

## Why it matters
An agent that falls back into the same call as soon as its memory of it is gone will fill the context with
it again: each round costs a whole context.

## When it stays silent
When nothing was compacted, and as soon as one of the outcomes in the window differs. It is on unless
`enabled` is explicitly `false`, so it also guards those who have configured nothing.

## What it doesn't catch
A loop of two or more calls after a compaction; the other detectors count on, since a compaction clears
no evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loopwarden.core.finding import Finding, short

if TYPE_CHECKING:
    from loopwarden.core.log import Entry

IDLE_COMPACTIONS: Final = 3
"""Compactions in a row with no completed call between that end the run."""


OPTIONS = ("postCompactionGuard.windowSize", "enabled")
EXAMPLE = "abc|dddd"
LEGEND = ()


class CompactionGuard:
    """Armed by every compaction-retry and by nothing else.

    Attributes:
        left: Places of the window that are still to be filled; 0 while it is not armed.
        same: Places in a row, from the first, with the same call and outcome.
        idle: Compactions since the last completed call.
    """

    __slots__ = ("_first", "_seen", "idle", "left", "same")

    def __init__(self) -> None:
        self.left = 0
        self.same = 0
        self.idle = 0
        self._first: tuple[bytes, bytes] | None = None
        self._seen: set[tuple[int, bytes]] = set()

    def disarm(self) -> None:
        """Look at nothing until the next compaction."""
        self.left = self.same = 0
        self._first = None
        self._seen.clear()

    def compacted(self, window: int) -> Finding | None:
        """The history was compacted: arm afresh, and judge a row of compactions without work."""
        self.disarm()
        self.left = window
        self.idle += 1
        if self.idle < IDLE_COMPACTIONS:
            return None
        seen = (
            f"The history was compacted {self.idle} times in a row with no finished call between: compaction "
            "freed no room."
        )
        return Finding("post_compaction", "critical", self.idle, IDLE_COMPACTIONS, "compaction:idle", seen)

    def observe(self, entry: Entry, outcome: bytes, window: int) -> Finding | None:
        """A call completed while the guard may be armed.

        Identical calls of one turn fill one place; another outcome among them is news.
        """
        self.idle = 0
        if not self.left:
            return None
        signature = entry.signature
        place = entry.turn, signature
        if place in self._seen:
            if self._first is not None and self._first[0] == signature and self._first[1] != outcome:
                self.same = 0
            return None
        self._seen.add(place)
        if self._first is None:
            self._first = (signature, outcome)
            self.same = 1
        elif self.same and self._first == (signature, outcome):
            self.same += 1
        else:
            self.same = 0
        self.left -= 1
        if self.left:
            return None
        count = self.same
        self.disarm()
        if count < window:
            return None
        tool = entry.use.tool
        seen = (
            f"After the history was compacted, {tool} was called {count} times with the same arguments and "
            "gave the same result each time."
        )
        key = f"compaction:{short(signature)}"
        return Finding("post_compaction", "critical", count, window, key, seen, (signature,), (tool,))
