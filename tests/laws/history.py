"""What the model keeps of a run: every call, in the order in which it was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.laws.sameness import RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.core.settings import Settings
    from tests.laws.sameness import Ending, Manner

Signature = tuple[str, str]


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
    """A call that was asked for; `made` and `ended` are points of the run's time."""

    tool: str
    sig: Signature
    how: Manner
    turn: str | None
    id: str
    made: int
    said: Said = Said()
    refused: bool = False
    end: Ending = RUNNING
    ended: int = -1

    @property
    def reply(self) -> Any:
        """The model reply that asked for it."""
        return self if self.turn is None else self.turn

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.end is not RUNNING

    def twin(self, other: Call) -> bool:
        """Whether one reply asked for the same call twice."""
        return self.reply == other.reply and self.sig == other.sig


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
    """Everything that happened in a run.

    Attributes:
        calls: All calls, refused ones too.
        fence: The first call after the newest new write was made at this time or later.
        cleared: When something new came of a call, so that refusals before no longer count.
        open: Calls that have not ended, by id.
        announced: Level, count and number of the call when a loop was last announced.
        time: Number of the event.
        asked: Number of the call.
        refusals: Refused calls that are not forgiven.
        latched: What ended the run.
        armed: Calls that ended since the compaction, while the guard looks at them.
        compactions: Compactions since a call ended.
        reply: The newest reply.
    """

    settings: Settings
    calls: list[Call] = field(default_factory=list)
    fence: int = 0
    cleared: dict[Signature, int] = field(default_factory=dict)
    open: dict[str, Call] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    announced: dict[Any, tuple[str, int, int]] = field(default_factory=dict)
    time: int = 0
    asked: int = 0
    refusals: int = 0
    latched: Said | None = None
    armed: list[Call] | None = None
    compactions: int = 0
    reply: Any = None
    last_at: float | None = None

    def executed(self) -> list[Call]:
        """The calls that count: those that ran, of tools that are not exempt."""
        return [call for call in self.calls if not call.refused and not call.how.exempt]

    def window(self, now: Call) -> list[list[Call]]:
        """The last calls, twins of one reply as one; without the siblings of the present call.

        They have their place where the reply first asked for one of them. Calls that only wait take none.
        """
        past = [call for call in self.executed() if call.reply != now.reply]
        kept: list[list[Call]] = []
        places = 0
        for group in reversed(groups(past)):
            places += group[0].how.kind != "wait"
            if places > self.settings.history_size:
                break
            kept.insert(0, group)
        return kept

    def fenced(self, call: Call) -> bool:
        """Whether a new write made the evidence of this call void: that of earlier replies but for polls."""
        return call.made < self.fence and call.how.kind != "poll"

    def refused(self, sig: Signature) -> int:
        """Refusals that add to the streak of a signature: since something new came of it."""
        since = self.cleared.get(sig, 0)
        return sum(c.refused and c.sig == sig and c.made > since for c in self.calls)

    def free(self, block: Block) -> None:
        """Something new: the loop is no loop any more."""
        self.blocks.remove(block)
        for sig in block.found.members | block.refused:
            self.cleared[sig] = self.time


def groups(calls: Iterable[Call]) -> list[list[Call]]:
    """Identical calls of one reply together, at the place of the first."""
    found: dict[Any, list[Call]] = {}
    for call in calls:
        found.setdefault((call.reply, call.sig), []).append(call)
    return list(found.values())


def outcome(group: list[Call]) -> Any:
    """What came of identical calls of one reply: something of its own if they differ, `None` if all run."""
    values = {call.end.value for call in group if call.done}
    return next(iter(values), None) if len(values) < 2 else group[0]
