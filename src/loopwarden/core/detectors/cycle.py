"""A round of three or more calls.

## What it sees
The newest calls repeat a sequence of 3 to 64 signatures, the shortest one that explains them. The count is
the length of the repeating tail, the present call included; the tail is cut where an outcome differs
from the one at its place a lap before. A warning needs three whole laps; a refusal needs one lap more
than a warning could have needed, and an outcome for every call. Where tools of the round have numbers of
their own, the highest hold. It has a memory of its own, so that a round longer than the window is seen.

## Why it matters
Read, edit, test, read, edit, test: each call repeats too seldom for a count per call to speak up, while
the whole goes nowhere.

## When it stays silent
When an answer in the round changes, and after a new write. A round made of polls and waits alone is
watching several jobs, which `known_poll_no_progress` judges one by one.

## What it doesn't catch
Rounds longer than 64 calls, and rounds in which one call varies its arguments.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from loopwarden.core.finding import Finding
from loopwarden.core.log import LONGEST

if TYPE_CHECKING:
    from loopwarden.core.log import Log
    from loopwarden.core.profile import ToolUse
    from loopwarden.events import Level

OPTIONS = ("detectors.cycle", "warningThreshold", "criticalThreshold", "resetOnWrite")
EXAMPLE = "abc" * 8
LEGEND = ()

SHORTEST: Final = 3
LAPS: Final = 3
"""Whole laps, the present call included, before a round is one."""


def memory(warning: int, critical: int) -> int:
    """Calls that have to be kept so that the longest round can reach its critical threshold."""
    return max(critical, max(warning, LAPS * LONGEST) + LONGEST) + LONGEST + 1


class Cycle:
    """The repeating tail of the log.

    Attributes:
        period: Length of the sequence that repeats, 0 while none does.
        start: Position of the first call of the tail.
        cut: Newest position whose outcome differs from that a lap before, or one before `start`.
    """

    __slots__ = ("cut", "period", "start")

    def __init__(self) -> None:
        self.period = 0
        self.start = 0
        self.cut = -1

    def push(self, log: Log) -> None:
        """The newest call of the log has just been added, while a round goes on."""
        index = log.end - 1 - log.base
        before = index - self.period
        if before < 0 or log.signatures[before] != log.signatures[index]:
            self.period = 0
        elif log.outcomes[index] is not None:
            self.compare(log, log.end - 1)

    def compare(self, log: Log, position: int) -> None:
        """The call at `position` has its outcome: compare it with its neighbours a lap away."""
        period = self.period
        if not period:
            return
        index = position - log.base
        outcome = log.outcomes[index]
        if position - period >= self.start and position - period >= log.base:
            before = log.outcomes[index - period]
            if before is not None and before != outcome and position > self.cut:
                self.cut = position
        if position + period < log.end:
            after = log.outcomes[index + period]
            if after is not None and after != outcome and position + period > self.cut:
                self.cut = position + period

    def judge(self, use: ToolUse, signature: bytes, log: Log, alternating: int, floor: int) -> Finding | None:
        """Judge a call that may go on with a round.

        Args:
            use: What kind of call it is.
            signature: Names it.
            log: The calls before it.
            alternating: Length of the alternating tail before it.
            floor: Calls before this position no longer count.
        """
        before = log.end - self.period - log.base
        goes_on = self.period > 0 and before >= 0 and log.signatures[before] == signature
        if not goes_on and not self._find(signature, log, alternating, floor, LONGEST):
            return None
        if goes_on and log.end - log.newest(signature) < self.period:
            shorter = Cycle()  # a round may end in a shorter one, which counts
            if shorter._find(signature, log, alternating, floor, self.period - 1):
                found = shorter._judge(use, log, floor)
                if found is not None:
                    return found
        return self._judge(use, log, floor)

    def _judge(self, use: ToolUse, log: Log, floor: int) -> Finding | None:
        period = self.period
        self.start = max(self.start, floor)
        length = log.end + 1 - max(self.start, self.cut - period + 1)
        if length < use.warning or length < LAPS * period:
            return None
        lap = log.uses[log.end - period - log.base :]
        if all(one.poll or one.waits for one in lap):
            return None
        warning = max(one.warning for one in lap)  # of tools with numbers of their own, the highest holds
        if length < warning:
            return None
        level: Level = "warning"
        threshold = max(warning, LAPS * period)
        needed = max(*(one.critical for one in lap), threshold + period)
        if log.open and next(reversed(log.open)) >= log.end + 1 - length:
            finished = log.end - next(reversed(log.open))
        else:
            finished = length
        if finished >= needed:
            level, threshold, length = "critical", needed, finished
        return self._finding(use, log, level, length, threshold)

    def _find(self, signature: bytes, log: Log, alternating: int, floor: int, longest: int) -> bool:
        """Look for the shortest round, up to `longest`, that the present call completes three laps of."""
        signatures = log.signatures
        end = len(signatures)
        nearest = log.end - log.newest(signature)
        run = log.row if nearest == 1 else 0
        least = max(SHORTEST, nearest, run + 1, alternating)
        # In a round every call but those of the first lap came before.
        most = min(longest, (log.again + 1) // (LAPS - 1), (log.end + 1 - floor) // LAPS, (end + 1) // LAPS)
        if least > most or not (log.repeated(signature) and log.repeated(signatures[end - 1])):
            return False
        near = signatures[end - most : end - least + 1]
        near.reverse()
        place = -1
        for _ in range(near.count(signature)):
            place = near.index(signature, place + 1)
            period = least + place
            if signatures[end - 1] != signatures[end - 1 - period]:
                continue
            tail = signatures[end + 1 - LAPS * period :]
            if tail[period:] != tail[:-period]:
                continue
            if tail[1:] == tail[:-1] or tail[2:] == tail[:-2]:
                return False
            self._establish(log, period, floor)
            return True
        return False

    def _establish(self, log: Log, period: int, floor: int) -> None:
        signatures, outcomes = log.signatures, log.outcomes
        index = len(signatures) - 1
        lowest = max(0, floor - log.base) + period
        cut = -1
        while index >= lowest and signatures[index] == signatures[index - period]:
            if cut < 0:
                one, other = outcomes[index], outcomes[index - period]
                if one is not None and other is not None and one != other:
                    cut = index + log.base
            index -= 1
        self.period = period
        self.start = index + 1 - period + log.base
        self.cut = cut if cut >= 0 else self.start - 1

    def _finding(self, use: ToolUse, log: Log, level: Level, count: int, threshold: int) -> Finding:
        first = log.end - self.period - log.base
        lap = log.signatures[first:]
        tools = tuple(dict.fromkeys(one.tool for one in log.uses[first:]))
        named = ", ".join(tools[:_NAMED]) + (", ..." if len(tools) > _NAMED else "")
        laps = count // self.period
        result = ", with the same results in every lap" if level == "critical" else ""
        seen = f"The same {self.period} calls ({named}) have gone round {laps} times{result}."
        turned = min(lap[turn:] + lap[:turn] for turn in range(len(lap)))
        key = f"cycle:{blake2b(b''.join(turned), digest_size=8).hexdigest()}"
        return Finding("cycle", level, count, threshold, key, seen, tuple(lap), tools or (use.tool,))


_NAMED = 8
"""Tools of a round that are named in the message."""
