"""The guard once more, as plainly as its specification says it: slow, unbounded, without digests.

Every call of a run is kept, and each detector looks through all of them at each call. The engine must
give the same answers to the same events.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage
from tests.laws.sameness import Ending, Manner, ending, manner, signature

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.core.settings import Settings
    from loopwarden.events import Event

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
    """What a detector says; `members` are the signatures (or the tool) that a block holds."""

    level: str
    detector: str
    count: int
    threshold: int
    members: frozenset[Any]
    loop: Any = None


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
    end: Ending | None = None
    ended: int = -1

    @property
    def reply(self) -> Any:
        """The model reply that asked for it."""
        return self if self.turn is None else self.turn


@dataclass(eq=False)
class Block:
    """A loop that is refused, until something new."""

    found: Found
    ends: dict[Any, Any]
    missing: str | None = None
    others: int = 0
    half_open: bool = False
    probe: Call | None = None

    def opens(self) -> None:
        """Half-open: one probe may run."""
        self.half_open, self.probe = True, None

    def same(self, call: Call) -> bool:
        """Whether a call of the loop gave what it gave each time."""
        if self.found.detector == "unknown_tool_churn":
            return call.end.missing is not None  # type: ignore[union-attr]
        if self.found.detector == "repeated_failure":
            return not call.end.timed_out and self.found.loop == (call.tool, call.end.cause)  # type: ignore[union-attr]
        if self.found.detector == "unknown_tool_repeat":
            return call.end.missing is not None and call.end.missing == self.missing  # type: ignore[union-attr]
        return bool(self.ends.setdefault(call.sig, call.end.value) == call.end.value)  # type: ignore[union-attr]

    def holds(self, call: Call) -> bool:
        return call.sig in self.found.members or call.tool in self.found.members


@dataclass(eq=False)
class Run:
    """Everything that happened in a run."""

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
        return [call for call in self.calls if not call.refused and not call.how.exempt]

    def window(self, now: Call) -> list[list[Call]]:
        """The last calls, twins of one reply as one; without the siblings of the present call.

        They have their place where the reply first asked for one of them.
        """
        past = [call for call in self.executed() if call.reply != now.reply]
        return groups(past)[-self.settings.history_size :]

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
        for call in self.calls:
            if block.holds(call):
                self.cleared[call.sig] = self.time


def groups(calls: Iterable[Call]) -> list[list[Call]]:
    """Identical calls of one reply together, at the place of the first."""
    found: dict[Any, list[Call]] = {}
    for call in calls:
        found.setdefault((call.reply, call.sig), []).append(call)
    return list(found.values())


def streak(run: Run, now: Call) -> int:
    """How many outcomes of this signature in a row are the same, refusals included."""
    same = [group for group in run.window(now) if group[0].sig == now.sig and not run.fenced(group[0])]
    shared = [outcome(group) for group in reversed(same) if outcome(group) is not None]
    count = 0
    for value in shared:
        if value != shared[0]:
            break
        count += 1
    return count + run.refused(now.sig)


def outcome(group: list[Call]) -> Any:
    """What came of identical calls of one reply: something of its own if they differ, `None` if all run."""
    values = {call.end.value for call in group if call.end is not None}
    return next(iter(values), None) if len(values) < 2 else group[0]


def past(run: Run, now: Call) -> list[Call]:
    """The calls of earlier replies, the newest first, without those that only wait."""
    return [c for c in reversed(run.executed()) if c.reply != now.reply and c.how.kind != "wait"]


def counted(run: Run, row: list[Call]) -> int:
    """How many replies asked for these calls, within the window: what failed in one reply counts once."""
    return min(len({call.reply for call in row}), run.settings.history_size)


def unknown_tool_repeat(run: Run, now: Call) -> Found | None:
    row: list[Call] = []
    for call in past(run, now):
        missing = call.end and call.end.missing
        if call.tool != now.tool or missing is None or (row and missing != row[0].end.missing):  # type: ignore[union-attr]
            break
        row.append(call)
    count, limit = counted(run, row), run.settings.unknown_tool_threshold
    if count >= limit:
        return Found("critical", "unknown_tool_repeat", count, limit, frozenset({now.tool}))
    return None


def global_circuit_breaker(run: Run, now: Call) -> Found | None:
    if now.how.kind == "wait":
        return None
    count, limit = streak(run, now), max(run.settings.global_circuit_breaker_threshold, now.how.critical + 1)
    if count >= limit:
        return Found("critical", "global_circuit_breaker", count, limit, frozenset({now.sig}), now.sig)
    return None


def known_poll_no_progress(run: Run, now: Call) -> Found | None:
    if now.how.kind != "poll":
        return None
    count = streak(run, now)
    return graded("known_poll_no_progress", now, count, count, frozenset({now.sig}), now.sig)


def crowd(run: Run, now: Call) -> Found | None:
    """More identical calls in one reply than the critical number."""
    count, limit = sum(same_call(call, now) for call in run.executed()) + 1, now.how.critical
    switches = run.settings.detectors
    watched = switches.known_poll_no_progress if now.how.kind == "poll" else switches.generic_repeat
    if count <= limit or not watched or now.how.kind == "wait":
        return None
    return Found("critical", "generic_repeat", count, limit, frozenset({now.sig}), now.sig)


def generic_repeat(run: Run, now: Call) -> Found | None:
    if now.how.kind in ("poll", "wait"):
        return None
    seen = sum(group[0].sig == now.sig and not run.fenced(group[0]) for group in run.window(now))
    return graded("generic_repeat", now, seen, streak(run, now), frozenset({now.sig}), now.sig)


def ping_pong(run: Run, now: Call) -> Found | None:
    window = [group for group in run.window(now) if group[0].how.kind != "wait"]
    if not window or window[-1][0].sig == now.sig or now.how.kind == "wait":
        return None
    pair = (window[-1][0].sig, now.sig)
    tail: list[list[Call]] = []
    for place, group in enumerate(reversed(window)):
        if group[0].sig != pair[place % 2]:
            break
        tail.append(group)
    if len(tail) < 2:
        return None
    still = all(same_ends(tail[side::2]) for side in (0, 1))
    count = len(tail) + 1
    return graded("ping_pong", now, count, count if still else 0, frozenset(pair))


def same_ends(side: list[list[Call]]) -> bool:
    ends = [outcome(group) for group in side]
    return None not in ends and len(set(ends)) == 1


def cycle(run: Run, now: Call) -> Found | None:
    whole = [g for g in groups(run.executed()) if g[0].reply != now.reply and g[0].made >= run.fence]
    sigs = [g[0].sig for g in whole] + [now.sig]
    for period in range(3, 65):
        lap = sigs[-period:]
        if len(lap) < period or any(lap == lap[:p] * (period // p) for p in range(1, period) if period % p == 0):
            continue
        kinds = {g[0].how.kind for g in whole[1 - period :]} | {now.how.kind}
        if kinds <= {"poll", "wait"}:
            continue
        firm = max((i + 1 for i, g in enumerate(whole) if outcome(g) is None), default=0)
        warn = max(now.how.warning, 3 * period)
        block = max(now.how.critical, warn + period)
        if (count := tail(whole[firm:], now, period)) >= block:
            return Found("critical", "cycle", count, block, frozenset(lap), rotation(lap))
        if (count := tail(whole, now, period)) >= warn:
            return Found("warning", "cycle", count, warn, frozenset(lap), rotation(lap))
    return None


def tail(story: list[list[Call]], now: Call, period: int) -> int:
    """Length of the longest end of the story, present call included, that repeats itself lap by lap."""
    if len(story) < period or story[-period][0].sig != now.sig:
        return 0
    length = period
    while length < len(story):
        one, later = story[-length - 1], story[-length - 1 + period]
        ends = {outcome(one), outcome(later)} - {None}
        if one[0].sig != later[0].sig or len(ends) > 1:
            break
        length += 1
    return length + 1


def rotation(lap: list[Signature]) -> Any:
    return min(tuple(lap[i:] + lap[:i]) for i in range(len(lap)))


def unknown_tool_churn(run: Run, now: Call) -> Found | None:
    row: list[Call] = []
    for call in past(run, now):
        if call.end is None or call.end.missing is None:
            break
        row.append(call)
    works = any(c.tool == now.tool and c.end is not None and not c.end.failed for c in past(run, now))
    if len({c.end.missing for c in row if c.end}) < 2 or (works and now.tool not in {c.tool for c in row}):
        return None
    count, limit = counted(run, row), run.settings.unknown_tool_threshold
    if count < limit or now.how.kind == "wait":
        return None
    level, reached = ("critical", 2 * limit) if count >= 2 * limit else ("warning", limit)
    return Found(level, "unknown_tool_churn", count, reached, frozenset())


def repeated_failure(run: Run, now: Call) -> Found | None:
    row: list[Call] = []
    for call in past(run, now):
        if call.tool != now.tool or call.end is None or call.end.timed_out:
            continue
        cause = row[0].end.cause if row else call.end.cause  # type: ignore[union-attr]
        if not call.end.failed or call.end.cause != cause or call.made < run.fence:
            break
        row.append(call)
    remembered = list(dict.fromkeys(c.reply for c in row))[: 2 * now.how.critical]
    row = [c for c in row if c.reply in remembered]
    if len({c.sig for c in row}) < 2 and len({c.end.value for c in row if c.end}) < 2:
        return None
    return graded("repeated_failure", now, len(remembered), len(remembered), frozenset(), (now.tool, cause))


def failure_streak(run: Run, now: Call) -> Found | None:
    row: list[Call] = []
    for call in past(run, now):
        if call.end is None or not call.end.failed or call.made < run.fence:
            break
        row.append(call)
    if len({c.tool for c in row}) < 2 or counted(run, row) < run.settings.warning_threshold or now.how.kind == "wait":
        return None
    return Found("warning", "failure_streak", counted(run, row), run.settings.warning_threshold, frozenset())


def stagnation(run: Run, now: Call) -> Found | None:
    if now.how.kind in ("write", "send"):
        return None
    row: list[Call] = []
    for call in past(run, now):
        if call.tool != now.tool or call.end is None or call.end.failed or len(call.end.text.encode()) < 64:
            break
        if row and call.end.value != row[0].end.value:  # type: ignore[union-attr]
            break
        row.append(call)
    if len({call.sig for call in row}) < 2:
        return None
    return graded("stagnation", now, counted(run, row), 0, frozenset(), now.tool)


def graded(name: str, now: Call, warn: int, block: int, members: frozenset[Any], loop: Any = None) -> Found | None:
    """Critical if `block` reaches the tool's critical number, a warning if `warn` reaches the other."""
    if block >= now.how.critical:
        return Found("critical", name, block, now.how.critical, members, loop)
    if warn >= now.how.warning:
        return Found("warning", name, warn, now.how.warning, members, loop)
    return None


DETECTORS = (
    unknown_tool_repeat, global_circuit_breaker, known_poll_no_progress, ping_pong, generic_repeat, crowd,
    cycle, unknown_tool_churn, repeated_failure, failure_streak, stagnation,
)  # fmt: skip
REFRESHED = {"generic_repeat", "cycle", "repeated_failure"}
ONE_REFUSAL = {"repeated_failure", "unknown_tool_churn"}


def loop(found: Found) -> Any:
    """Names the loop: that of one call whichever detector speaks of it."""
    if found.loop is not None and found.loop in found.members:
        return found.loop
    return found.detector, found.loop or found.members


def same_call(one: Call, other: Call) -> bool:
    return one.reply == other.reply and one.sig == other.sig


class Model:
    """One session of the guard."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.acts = settings.mode == "enforce"
        self.rolling = settings.enabled is True and self.acts
        self.runs: dict[str | None, Run] = {}

    def feed(self, event: Event) -> Said:
        if self.settings.enabled is False:
            return Said()
        if isinstance(event, Compaction) and event.continues is not None and event.continues in self.runs:
            self.runs[event.run_id] = self.runs.pop(event.continues)
        run = self.runs.setdefault(event.run_id, Run(self.settings))
        run.time += 1
        match event:
            case ToolCall():
                return self.before(run, event)
            case Outcome():
                return self.after(run, event)
            case Compaction():
                return self.compacted(run)
            case UserMessage():
                self.user_message(run, scoped=event.run_id is not None)
            case Retraction():
                self.retract(run, event.call_ids)
        return Said()

    def before(self, run: Run, event: ToolCall) -> Said:
        idle = self.settings.idle_reset_seconds
        if event.run_id is None and event.at is not None:
            if idle is not None and run.last_at is not None and event.at - run.last_at > idle:
                self.user_message(run, scoped=False)
                run = self.runs[None]
            run.last_at = event.at
        if run.latched is not None:
            return run.latched
        if event.call_id in run.open:
            return run.open[event.call_id].said
        run.asked += 1
        how = manner(self.settings, event.tool, event.arguments)
        call = Call(event.tool, signature(event.tool, event.arguments, how), how, event.turn_id, event.call_id, run.time)
        call.said = Said() if how.exempt else self.judge(run, call)
        call.refused = call.said.action in ("block", "abort")
        run.calls.append(call)
        run.reply = call.reply
        if not call.refused:
            run.open[event.call_id] = call
        return call.said

    def found(self, run: Run, call: Call) -> list[Found]:
        """What the detectors say, the most severe first."""
        switches = self.settings.detectors
        every = [d(run, call) for d in DETECTORS if getattr(switches, d.__name__, True)]
        return sorted((f for f in every if f), key=lambda f: f.level != "critical")

    def judge(self, run: Run, call: Call) -> Said:
        found = self.found(run, call)
        first = found[0] if found else None
        critical = first is not None and first.level == "critical"
        on_critical = self.settings.on_critical
        breaks = global_circuit_breaker(run, call) is not None
        if not self.rolling or on_critical == "warn":
            action = "warn"
            if critical and on_critical != "warn":
                action = "abort" if breaks or on_critical == "abort" else "block"
            return self.say(run, first, action)
        if first is not None and breaks:
            return self.abort(run, first)
        held = self.held(run, call, first)
        if held is None and not critical:
            return self.say(run, first, "warn")
        if held is None:
            held = self.hold(run, first)  # type: ignore[arg-type]
        elif held.half_open and held.probe is None:
            held.probe, held.others = call, 0
            return self.say(run, first, "warn")
        else:
            grown = held.found.count + 1
            if critical and loop(first) == loop(held.found):
                held.found = replace(first, count=max(first.count, grown))
            else:
                held.found = replace(held.found, count=grown)
        held.others = 0
        if held.found.detector in ONE_REFUSAL:
            held.opens()
        run.refusals += 1
        if on_critical == "abort" or run.refusals >= self.settings.refused_call_limit:
            return self.abort(run, held.found)
        return self.say(run, held.found, "block")

    def held(self, run: Run, call: Call, first: Found | None) -> Block | None:
        """The block that the call meets, one that refuses it first."""
        blocks = [b for b in run.blocks if b.holds(call)]
        blocks.sort(key=lambda b: b.half_open and b.probe is None)
        if not blocks and first is not None and first.level == "critical" and first.detector in ONE_REFUSAL:
            blocks = [b for b in run.blocks if loop(b.found) == loop(first)]
        return blocks[0] if blocks else None

    def hold(self, run: Run, found: Found) -> Block:
        """Refuse the calls of a loop from now on."""
        run.blocks = [b for b in run.blocks if loop(b.found) != loop(found)]
        block = Block(found, {})
        for other in run.executed():
            if block.holds(other) and other.end is not None:
                block.ends[other.sig] = outcome([c for c in run.executed() if c.reply == other.reply and c.sig == other.sig])
                block.missing = other.end.missing
        run.blocks.append(block)
        return block

    def abort(self, run: Run, found: Found) -> Said:
        self.say(run, found, "abort")
        run.latched = Said(
            "abort", None, found.level, found.detector, found.count, found.threshold, "tool_loop_persisted", announce=True
        )
        return run.latched

    def say(self, run: Run, found: Found | None, action: str) -> Said:
        if found is None:
            return Said()
        level, count, when = run.announced.get(loop(found), ("", 0, run.asked))
        higher = level == "" or (level == "warning" and found.level == "critical")
        announce = higher or found.count >= count + 10 or run.asked - when > self.settings.history_size
        run.announced[loop(found)] = (found.level, found.count, run.asked) if announce else (level, count, run.asked)
        error = "tool_loop_persisted" if action == "abort" else None
        acts = self.rolling
        return Said(
            action if acts else "allow",
            None if acts else action,
            found.level,
            found.detector,
            found.count,
            found.threshold,
            error,
            announce,
        )

    def after(self, run: Run, event: Outcome) -> Said:
        call = run.open.pop(event.call_id, None)
        if call is None or run.latched is not None:
            return Said()
        written = {c.sig for c in run.executed() if c.end is not None and not c.end.failed and c.how.kind == "write"}
        call.end, call.ended = ending(call.how, event), run.time
        run.compactions = 0
        if call.how.exempt:
            return Said()
        newest = [outcome(g) for g in groups(c for c in run.executed() if c.sig == call.sig and c is not call)]
        known = [value for value in newest if value is not None]
        if not known or known[-1] != call.end.value:
            run.cleared[call.sig] = run.time
        self.settle(run, call)
        if call.how.kind == "write" and not call.end.failed and call.sig not in written:
            self.new_write(run, call)
        self.forgive(run)
        return self.post_compaction(run, call)

    def settle(self, run: Run, call: Call) -> None:
        """What an outcome does to the blocks."""
        for block in list(run.blocks):
            if block.probe is call or block.holds(call):
                if not block.same(call):
                    run.free(block)
                elif block.probe is call:
                    block.half_open, block.probe, block.others = False, None, 0
            else:
                block.others += 1
                if block.others >= self.settings.warning_threshold:
                    block.opens()

    def new_write(self, run: Run, call: Call) -> None:
        resets = self.settings.reset_on_write
        for block in list(run.blocks):
            if resets and block.found.detector in REFRESHED:
                run.free(block)
            else:
                block.opens()
        if resets:
            run.fence = min(c.made for c in run.calls if c.reply == run.reply)
            for other in run.calls:
                if other.how.kind != "poll":
                    run.cleared[other.sig] = run.time

    def forgive(self, run: Run) -> None:
        last = max((c.made for c in run.calls if c.refused), default=-1)
        done = sorted((c for c in run.executed() if c.end is not None), key=lambda c: c.ended)
        row = 0
        for place, call in enumerate(done):
            if call.ended < last or call.how.kind == "wait" or any(same_call(c, call) and c.end == call.end for c in done[:place]):
                continue
            fresh = call.end.value not in {c.end.value for c in done[:place]}  # type: ignore[union-attr]
            row = row + 1 if fresh and not call.end.failed else 0  # type: ignore[union-attr]
        if row >= self.settings.warning_threshold:
            run.refusals = 0

    def post_compaction(self, run: Run, call: Call) -> Said:
        if run.armed is None or call.how.kind == "wait":
            return Said()
        size = self.settings.post_compaction_window
        run.armed.append(call)
        triples = {(c.reply, c.sig, c.end.value) for c in run.armed if c.end}
        if len(triples) < size:
            return Said()
        run.armed = None
        if len({triple[1:] for triple in triples}) > 1:
            return Said()
        return self.end(run, size, size)

    def end(self, run: Run, count: int, threshold: int) -> Said:
        said = Said(
            "abort" if self.acts else "allow",
            None if self.acts else "abort",
            "critical",
            "post_compaction",
            count,
            threshold,
            "compaction_loop_persisted",
            announce=True,
        )
        if self.acts:
            run.latched = said
        return said

    def compacted(self, run: Run) -> Said:
        if run.latched is not None:
            return run.latched
        run.armed = []
        run.compactions += 1
        return self.end(run, run.compactions, 3) if run.compactions >= 3 else Said()

    def user_message(self, run: Run, *, scoped: bool) -> None:
        if not scoped:
            self.runs[None] = Run(self.settings, last_at=run.last_at)
            return
        run.refusals = 0
        for block in run.blocks:
            block.opens()

    def retract(self, run: Run, ids: tuple[str, ...]) -> None:
        for name in ids:
            call = run.open.pop(name, None) or next((c for c in reversed(run.executed()) if c.id == name), None)
            if call is None:
                continue
            run.calls.remove(call)
            for block in run.blocks:
                if block.probe is call:
                    block.probe = None
