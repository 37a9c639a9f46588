"""What the model keeps of a run: its calls, in the order in which they were asked for.

Of earlier replies it keeps the last places only, as the engine says of its log, and it passes over a call
that runs on while many others wait for it, as the engine says of its rows. The specification is silent on
how much is remembered, but for the window.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.laws.sameness import RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.core.settings import Settings
    from tests.laws.sameness import Ending, Manner

Signature = tuple[str, str]
Group = list["Call"]
"""Identical calls of one reply: they have one place."""

WAITING = 64
"""Calls that wait for the outcome of an earlier one, before that is passed over by the rows."""

OPEN = 256
"""Calls that may be open at once."""

WRITES = 1024
"""Writes that are remembered, to tell a new one."""

BLOCKS = 64
"""Loops that are held at once."""

ANNOUNCED = 256
"""Loops of which it is remembered what was said."""


def depth(settings: Settings) -> int:
    """Places of earlier replies that are kept: two windows, and all that the longest round needs."""
    longest = 64
    critical = max(settings.critical_threshold, max(settings.warning_threshold, 3 * longest) + longest)
    return max(2 * settings.history_size, critical + longest + 1)


@dataclass(frozen=True)
class Said:
    """What is compared with the engine's verdict."""

    action: str = "allow"
    would: str | None = None
    level: str | None = None
    detector: str | None = None
    count: int = 0
    threshold: int = 0
    error: str | None = None
    announce: bool = False


@dataclass(frozen=True)
class Found:
    """What a detector says.

    Attributes:
        level: `warning` or `critical`.
        detector: Which one.
        count: How often the pattern was seen.
        threshold: The number that was reached.
        members: What is refused when it is held: signatures, or a tool.
        about: Tells its loops apart: one call, one tool, one failure.
    """

    level: str
    detector: str
    count: int
    threshold: int
    members: frozenset[Any]
    about: Any = None

    @property
    def loop(self) -> Any:
        """Names the loop: that of one call whichever detector speaks of it."""
        alone = self.about is not None and self.about in self.members
        return self.about if alone else (self.detector, self.about or self.members)


@dataclass(eq=False)
class Call:
    """A call that was asked for.

    Attributes:
        made: Point of the run's time.
        seen: How it ended, once the rows of calls have gone on past it.
        group: The identical calls of its reply, itself included.
    """

    tool: str
    sig: Signature
    how: Manner
    turn: str | None
    id: str
    made: int
    said: Said = Said()
    end: Ending = RUNNING
    seen: Ending | None = None
    group: Group = field(default_factory=list)

    @property
    def row_end(self) -> Ending:
        """How it ended, for the rows of calls: what was known when it was passed over, if it was."""
        return self.end if self.seen is None else self.seen

    @property
    def reply(self) -> Any:
        """The model reply that asked for it."""
        return self if self.turn is None else self.turn

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.end is not RUNNING


@dataclass(eq=False)
class Block:
    """A loop that is refused, until something new.

    Attributes:
        found: What was found when it was last refused; its count grows with every refusal.
        ends: What each of its calls gave.
        missing: The tool that does not exist, if that is the loop.
        refused: Calls that were refused for that tool.
        others: Other calls that completed since the last refusal.
        half_open: Whether one probe may run, or runs.
        probe: The probe that runs.
    """

    found: Found
    ends: dict[Any, Any]
    missing: str | None = None
    refused: set[Signature] = field(default_factory=set)
    others: int = 0
    half_open: bool = False
    probe: Call | None = None

    def opens(self) -> None:
        """Half-open: one probe may run."""
        self.half_open, self.probe = True, None

    def same(self, call: Call) -> bool:
        """Whether a call of the loop gave what it gave each time."""
        if self.found.detector == "unknown_tool_churn":
            return call.end.missing is not None
        if self.found.detector == "repeated_failure":
            return not call.end.timed_out and self.found.about == (call.tool, call.end.cause)
        if self.found.detector == "unknown_tool_repeat":
            return call.end.missing is not None and call.end.missing == self.missing
        return bool(self.ends.setdefault(call.sig, call.end.value) == call.end.value)

    def holds(self, call: Call) -> bool:
        """Whether a call is one of the loop's."""
        return call.sig in self.found.members or call.tool in self.found.members


@dataclass(eq=False)
class Run:
    """What is known of a run.

    Attributes:
        groups: Places of earlier replies, the oldest first.
        present: Places of the present reply.
        reply: The present reply.
        began: When its first call was made.
        row: Calls that ran, in their order, for the detectors of calls in a row.
        of_tool: The same, by tool.
        pending: Calls that the rows have not gone past.
        worked: Tools that succeeded.
        fence: The first call after the newest new write was made at this time or later.
        cleared: When something new came of a call, so that refusals before no longer count.
        refused_at: When calls were refused, and whether they poll.
        writes: Writes that succeeded.
        open: Calls that have not ended, by id.
        announced: Level, count and number of the call when a loop was last announced.
        time: Number of the event.
        asked: Number of the call.
        refusals: Refused calls that are not forgiven.
        fresh: Calls in a row since then that succeeded with something new.
        latched: What ended the run.
        armed: Calls that ended since the compaction, while the guard looks at them.
        compactions: Compactions since a call ended.
    """

    settings: Settings
    groups: list[Group] = field(default_factory=list)
    present: list[Group] = field(default_factory=list)
    reply: Any = None
    began: int = 0
    row: list[Call] = field(default_factory=list)
    of_tool: dict[str, list[Call]] = field(default_factory=dict)
    pending: list[Call] = field(default_factory=list)
    worked: set[str] = field(default_factory=set)
    fence: int = 0
    cleared: dict[Signature, int] = field(default_factory=dict)
    refused_at: dict[Signature, tuple[list[int], bool]] = field(default_factory=dict)
    writes: dict[Signature, None] = field(default_factory=dict)
    open: dict[str, Call] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    announced: dict[Any, tuple[str, int, int]] = field(default_factory=dict)
    time: int = 0
    asked: int = 0
    refusals: int = 0
    fresh: int = 0
    latched: Said | None = None
    armed: list[Call] | None = None
    compactions: int = 0
    last_at: float | None = None

    def comes(self, call: Call) -> None:
        """A call is asked for; the one of another reply ends the present one."""
        if call.reply == self.reply:
            return
        self.reply, self.began = call.reply, call.made
        self.groups += self.present
        self.present = []
        del self.groups[: -depth(self.settings)]
        while self.pending and (self.pending[0].done or len(self.pending) > WAITING):
            passed = self.pending.pop(0)
            passed.seen = passed.end
            if passed.how.kind != "wait" and passed.done and not passed.end.failed:
                self.worked.add(passed.tool)

    def runs(self, call: Call) -> None:
        """It may run."""
        self.open[call.id] = call
        if len(self.open) > OPEN:
            del self.open[next(iter(self.open))]
        if call.how.exempt:
            return
        call.group = next((g for g in self.present if g[0].sig == call.sig), [])
        if not call.group:
            self.present.append(call.group)
        call.group.append(call)
        self.row.append(call)
        self.of_tool.setdefault(call.tool, []).append(call)
        self.pending.append(call)

    def window(self) -> list[Group]:
        """The last places of earlier replies. Calls that only wait take none of them."""
        kept: list[Group] = []
        places = 0
        for group in reversed(self.groups):
            places += group[0].how.kind != "wait"
            if places > self.settings.history_size:
                break
            kept.append(group)
        return kept[::-1]

    def works(self, tool: str) -> bool:
        """Whether a tool has succeeded in an earlier reply."""
        ended = (c for c in self.pending if c.reply != self.reply and c.how.kind != "wait" and c.done)
        return tool in self.worked or any(c.tool == tool and not c.end.failed for c in ended)

    def last(self, call: Call) -> Any:
        """What came of the twins of a call, else of the newest call like it that has ended."""
        like = [g for g in self.groups if g[0].sig == call.sig and g is not call.group]
        for group in ([c for c in call.group if c is not call], *reversed(like)):
            if (value := outcome(group)) is not None:
                return value
        return None

    def fenced(self, call: Call) -> bool:
        """Whether a new write made the evidence of this call void: that of earlier replies but for polls."""
        return call.made < self.fence and call.how.kind != "poll"

    def refused(self, sig: Signature) -> int:
        """Refusals that add to the streak of a signature: since something new came of it."""
        times, _ = self.refused_at.get(sig, ((), False))
        return sum(time > self.cleared.get(sig, 0) for time in times)

    def free(self, block: Block) -> None:
        """Something new: the loop is no loop any more."""
        self.blocks.remove(block)
        for sig in block.found.members | block.refused:
            self.cleared[sig] = self.time

    def undo(self, ids: Iterable[str]) -> list[Call]:
        """Calls were not made: those that run, and the newest of the others that are kept."""
        found = [self.open.pop(name) for name in ids if name in self.open]
        wanted = set(ids) - {call.id for call in found}
        for group in (*reversed(self.present), *reversed(self.groups)):
            for call in reversed(group):
                if call.id in wanted:
                    wanted.remove(call.id)
                    found.append(call)
        again = False
        for call in found:
            again = again or any(group is call.group for group in self.groups)
            if call in self.pending:
                self.pending.remove(call)
            if call.group:
                call.group.remove(call)
            if call in self.row:
                self.row.remove(call)
                self.of_tool[call.tool].remove(call)
        self.groups = [group for group in self.groups if group]
        self.present = [group for group in self.present if group]
        if again:
            self._go_again()
        for sig in {call.sig for call in found} & self.writes.keys():
            ended = [c.end for g in (*self.groups, *self.present) for c in g if c.sig == sig and c.done]
            if all(end.failed for end in ended):
                del self.writes[sig]
        return found

    def _go_again(self) -> None:
        """The rows start again with the calls that are kept, by their places, and what is known by now."""
        passed = [call for group in self.groups for call in group if call.seen is not None]
        for call in passed:
            call.seen = next((c.end for c in call.group if c.done), RUNNING)
        self.row = passed + self.pending
        self.of_tool = {}
        for call in self.row:
            self.of_tool.setdefault(call.tool, []).append(call)


def outcome(group: Iterable[Call]) -> Any:
    """What came of identical calls of one reply: something of its own if they differ, `None` if all run."""
    first: Call | None = None
    for call in group:
        if call.end is RUNNING:
            continue
        if first is not None and call.end.value != first.end.value:
            return first.group[0]
        first = first or call
    return first and first.end.value
