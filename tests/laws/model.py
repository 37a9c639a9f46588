"""The guard once more, as plainly as its specification says it: slow, unbounded, without digests.

Every call of a run is kept, and each detector looks through all of them at each call. The engine must
give the same answers to the same events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
    others: int = 0
    half_open: bool = False
    probe: Call | None = None
    refusals: int = 0

    @property
    def kind(self) -> str:
        return self.found.detector

    def holds(self, call: Call) -> bool:
        return call.sig in self.found.members or call.tool in self.found.members


@dataclass(eq=False)
class Run:
    """Everything that happened in a run."""

    settings: Settings
    calls: list[Call] = field(default_factory=list)
    fences: list[tuple[int, Signature]] = field(default_factory=list)
    open: dict[str, Call] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    announced: dict[Any, tuple[str, int, int]] = field(default_factory=dict)
    time: int = 0
    asked: int = 0
    refusals: int = 0
    latched: Said | None = None
    armed: list[Call] | None = None
    compactions: int = 0
    last_at: float | None = None

    def executed(self) -> list[Call]:
        return [call for call in self.calls if not call.refused and not call.how.exempt]

    def window(self, now: Call) -> list[list[Call]]:
        """The last calls, twins of one reply as one; without the siblings of the present call."""
        past = [call for call in self.executed() if call.reply != now.reply]
        return groups(past)[-self.settings.history_size :]

    def fenced(self, call: Call) -> bool:
        """Whether a new write made the evidence of this call void."""
        return call.how.kind != "poll" and any(t > call.made and sig != call.sig for t, sig in self.fences)


def groups(calls: Iterable[Call]) -> list[list[Call]]:
    """Identical calls of one reply together, at the place of the first."""
    found: dict[Any, list[Call]] = {}
    for call in calls:
        found.setdefault((call.reply, call.sig), []).append(call)
    return list(found.values())


def replies(calls: Iterable[Call]) -> int:
    """How many replies asked for these calls: what failed in one reply counts once."""
    return len({call.reply for call in calls})


def streak(run: Run, now: Call) -> int:
    """How many outcomes of this signature in a row are the same, refusals included."""
    inside = [group for group in run.window(now) if group[0].sig == now.sig and not run.fenced(group[0])]
    story: list[tuple[int, list[str] | None]] = [
        (group[0].made, [c.end.value for c in group if c.end is not None]) for group in inside
    ]
    story += [(c.made, None) for c in run.calls if c.refused and c.sig == now.sig and not run.fenced(c)]
    story.sort(key=lambda entry: entry[0], reverse=True)
    count = pending = 0
    newest: str | None = None
    for _, values in story:
        if values is None:
            pending += 1
        elif values:
            if newest is None:
                newest = values[-1]
            if any(value != newest for value in values):
                return count + (1 + pending if values[-1] == newest else 0)
            count, pending = count + 1 + pending, 0
    return count


def unknown_tool_repeat(run: Run, now: Call) -> Found | None:
    row: list[Call] = []
    for group in reversed(run.window(now)):
        last = group[-1]
        if last.tool != now.tool or last.end is None or last.end.missing is None:
            break
        if row and last.end.missing != row[0].end.missing:  # type: ignore[union-attr]
            break
        row.append(last)
    count = replies(row)
    limit = run.settings.unknown_tool_threshold
    if count >= limit:
        return Found("critical", "unknown_tool_repeat", count, limit, frozenset({now.tool}))
    return None


def global_circuit_breaker(run: Run, now: Call) -> Found | None:
    count, limit = streak(run, now), run.settings.global_circuit_breaker_threshold
    if count >= limit:
        return Found("critical", "global_circuit_breaker", count, limit, frozenset({now.sig}))
    return None


def known_poll_no_progress(run: Run, now: Call) -> Found | None:
    if now.how.kind != "poll":
        return None
    count = streak(run, now)
    return graded("known_poll_no_progress", now, count, count, frozenset({now.sig}))


def generic_repeat(run: Run, now: Call) -> Found | None:
    if now.how.kind == "poll":
        return None
    seen = sum(group[0].sig == now.sig and not run.fenced(group[0]) for group in run.window(now))
    return graded("generic_repeat", now, seen, streak(run, now), frozenset({now.sig}))


def ping_pong(run: Run, now: Call) -> Found | None:
    window = run.window(now)
    if not window or window[-1][0].sig == now.sig:
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
    calls = [call for group in side for call in group]
    return None not in [c.end for c in calls] and len({c.end.value for c in calls if c.end}) == 1


def cycle(run: Run, now: Call) -> Found | None:
    story = [g for g in groups(run.executed()) if g[0].reply != now.reply]
    fence = max((t for t, sig in run.fences), default=-1)
    whole = [g for g in story if g[0].made >= fence or any(t == fence and g[0].sig == s for t, s in run.fences)]
    sigs = [g[0].sig for g in whole] + [now.sig]
    for period in range(3, 65):
        lap = sigs[-period:]
        if len(lap) < period or any(lap == lap[:p] * (period // p) for p in range(1, period) if period % p == 0):
            continue
        kinds = {g[0].how.kind for g in whole[1 - period :]} | {now.how.kind}
        if kinds <= {"poll", "wait"}:
            continue
        firm = max((i + 1 for i, g in enumerate(whole) if any(c.end is None for c in g)), default=0)
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
        if one[0].sig != later[0].sig or not alike(one, later):
            break
        length += 1
    return length + 1


def alike(one: list[Call], later: list[Call]) -> bool:
    return len({call.end.value for call in one + later if call.end is not None}) <= 1


def rotation(lap: list[Signature]) -> Any:
    return min(tuple(lap[i:] + lap[:i]) for i in range(len(lap)))


def unknown_tool_churn(run: Run, now: Call) -> Found | None:
    row: list[Call] = []
    for group in reversed(run.window(now)):
        if any(call.end is None or call.end.missing is None for call in group):
            break
        row += group
    works = any(c.tool == now.tool and c.end is not None and not c.end.failed for c in run.executed())
    if len({c.end.missing for c in row if c.end}) < 2 or (works and now.tool not in {c.tool for c in row}):
        return None
    count, limit = replies(row), run.settings.unknown_tool_threshold
    if count < limit:
        return None
    level, reached = ("critical", 2 * limit) if count >= 2 * limit else ("warning", limit)
    return Found(level, "unknown_tool_churn", count, reached, frozenset())


def repeated_failure(run: Run, now: Call) -> Found | None:
    own = [
        c for c in run.executed() if c.tool == now.tool and c.end is not None and c.reply != now.reply and not run.fenced(c)
    ]
    own.sort(key=lambda c: c.ended)
    remembered = list(dict.fromkeys(c.reply for c in reversed(own)))[: 2 * now.how.critical]
    row: list[Call] = []
    for call in reversed(own):
        if call.reply not in remembered:
            break
        if call.end.timed_out:  # type: ignore[union-attr]
            continue
        if not call.end.failed or (row and call.end.cause != row[0].end.cause):  # type: ignore[union-attr]
            break
        row.append(call)
    if len({c.sig for c in row}) < 2 and len({c.end.value for c in row if c.end}) < 2:
        return None
    count = replies(row)
    cause = row[0].end.cause if row and row[0].end else None
    return graded("repeated_failure", now, count, count, frozenset({now.tool}), (now.tool, cause))


def failure_streak(run: Run, now: Call) -> Found | None:
    row: list[Call] = []
    for group in reversed(run.window(now)):
        if any(c.end is None or not c.end.failed or run.fenced(c) for c in group):
            break
        row += group
    if len({c.tool for c in row}) < 2:
        return None
    return graded("failure_streak", now, replies(row), 0, frozenset())


def stagnation(run: Run, now: Call) -> Found | None:
    if now.how.kind in ("write", "send"):
        return None
    row: list[list[Call]] = []
    for group in reversed(run.window(now)):
        if group[0].tool != now.tool or any(c.end is None or c.end.failed for c in group):
            break
        if len({c.end.value for g in [*row, group] for c in g if c.end}) > 1:
            break
        row.append(group)
    if len({g[0].sig for g in row}) < 2 or len(row[0][0].end.text.encode()) < 64:  # type: ignore[union-attr]
        return None
    return graded("stagnation", now, len(row), 0, frozenset(), (now.tool, row[0][0].end.value))  # type: ignore[union-attr]


def graded(name: str, now: Call, warn: int, block: int, members: frozenset[Any], loop: Any = None) -> Found | None:
    """Critical if `block` reaches the tool's critical number, a warning if `warn` reaches the other."""
    if block >= now.how.critical:
        return Found("critical", name, block, now.how.critical, members, loop)
    if warn >= now.how.warning:
        return Found("warning", name, warn, now.how.warning, members, loop)
    return None


DETECTORS = (
    unknown_tool_repeat, global_circuit_breaker, known_poll_no_progress, ping_pong, generic_repeat,
    cycle, unknown_tool_churn, repeated_failure, failure_streak, stagnation,
)  # fmt: skip
REFRESHED = {"generic_repeat", "cycle", "repeated_failure", "failure_streak", "global_circuit_breaker"}


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
        if not call.refused:
            run.open[event.call_id] = call
        return call.said

    def found(self, run: Run, call: Call) -> list[Found]:
        """What the detectors say, the most severe first."""
        switches = self.settings.detectors
        every = [d(run, call) for d in DETECTORS if getattr(switches, d.__name__, True)]
        every.append(self.crowd(run, call))
        return sorted((f for f in every if f), key=lambda f: f.level != "critical")

    def crowd(self, run: Run, call: Call) -> Found | None:
        """More identical calls in one reply than the critical number."""
        name = "known_poll_no_progress" if call.how.kind == "poll" else "generic_repeat"
        twins = [c for c in run.executed() if c.reply == call.reply and c.sig == call.sig]
        if len(twins) >= call.how.critical and getattr(self.settings.detectors, name):
            return Found("critical", name, len(twins) + 1, call.how.critical, frozenset({call.sig}))
        return None

    def judge(self, run: Run, call: Call) -> Said:
        found = self.found(run, call)
        first = found[0] if found else None
        breaks = global_circuit_breaker(run, call) is not None
        churns = any(f.detector == "unknown_tool_churn" for f in found)
        held = next((b for b in run.blocks if b.holds(call) or (b.kind == "unknown_tool_churn" and churns)), None)
        if held is not None and held.half_open and held.probe is None and not breaks:
            held.probe = call
            if first is not None and first.level == "critical":
                return self.say(run, first, "warn")
            return self.say(run, first, "warn") if first else Said()
        if held is not None and (first is None or first.level != "critical"):
            first = Found("critical", held.found.detector, held.found.count + held.refusals, held.found.threshold, held.found.members)
        if first is None:
            return Said()
        action = "warn"
        if first.level == "critical" and self.settings.on_critical != "warn":
            action = "abort" if breaks or self.settings.on_critical == "abort" else "block"
        if action == "warn" or not self.rolling:
            return self.say(run, first, action)
        run.refusals += 1
        if run.refusals >= self.settings.refused_call_limit:
            action = "abort"
        said = self.say(run, first, action)
        if action == "abort":
            run.latched = said
        elif first.detector in ("repeated_failure", "unknown_tool_churn"):
            run.blocks = [b for b in run.blocks if b is not held]
            run.blocks.append(Block(first, {}, half_open=True))
        else:
            self.hold(run, call, first, held)
        return said

    def hold(self, run: Run, call: Call, found: Found, held: Block | None) -> None:
        if held is None:
            held = Block(found, {})
            run.blocks.append(held)
        for other in run.executed():
            if held.holds(other) and other.end is not None:
                held.ends[other.sig] = other.end.value
        held.others = 0
        held.refusals += 1

    def say(self, run: Run, found: Found, action: str) -> Said:
        loop = (found.detector, found.loop or found.members)
        level, count, when = run.announced.get(loop, ("", 0, run.asked))
        higher = level == "warning" and found.level == "critical"
        announce = level == "" or higher or found.count >= count + 10 or run.asked - when > self.settings.history_size
        run.announced[loop] = (found.level, found.count, run.asked) if announce else (level, count, run.asked)
        error = "tool_loop_persisted" if action == "abort" else None
        if not self.rolling:
            return Said("allow", action, found.level, found.detector, found.count, found.threshold, error, announce)
        return Said(action, None, found.level, found.detector, found.count, found.threshold, error, announce)

    def after(self, run: Run, event: Outcome) -> Said:
        call = run.open.pop(event.call_id, None)
        if call is None:
            return Said()
        before = [c.end.value for c in run.executed() if c.end is not None]
        written = {c.sig for c in run.executed() if c.end is not None and not c.end.failed and c.how.kind == "write"}
        call.end, call.ended = ending(call.how, event), run.time
        run.compactions = 0
        if call.how.exempt:
            return Said()
        self.settle(run, call)
        if call.how.kind == "write" and not call.end.failed and call.sig not in written:
            self.new_write(run, call)
        self.forgive(run)
        return self.post_compaction(run, call)

    def settle(self, run: Run, call: Call) -> None:
        """What an outcome does to the blocks."""
        for block in list(run.blocks):
            if block.probe is call:
                same = block.ends.get(call.sig) == call.end.value  # type: ignore[union-attr]
                if block.found.detector == "unknown_tool_repeat":
                    same = call.end.missing is not None  # type: ignore[union-attr]
                if not same or block.kind in ("repeated_failure", "unknown_tool_churn"):
                    run.blocks.remove(block)
                block.half_open, block.probe, block.others = False, None, 0
            elif not block.holds(call):
                block.others += 1
                if block.others >= self.settings.warning_threshold:
                    block.half_open = True

    def new_write(self, run: Run, call: Call) -> None:
        if self.settings.reset_on_write:
            run.fences.append((run.time, call.sig))
            run.blocks = [b for b in run.blocks if b.found.detector not in REFRESHED or b.holds(call)]
        for block in run.blocks:
            block.half_open = block.half_open or not block.holds(call)

    def forgive(self, run: Run) -> None:
        last = max((c.made for c in run.calls if c.refused), default=-1)
        done = sorted((c for c in run.executed() if c.end is not None), key=lambda c: c.ended)
        row = 0
        for place, call in enumerate(done):
            fresh = call.end.value not in {c.end.value for c in done[:place]}  # type: ignore[union-attr]
            row = row + 1 if call.ended > last and fresh and not call.end.failed else 0  # type: ignore[union-attr]
        if row >= self.settings.warning_threshold:
            run.refusals = 0

    def post_compaction(self, run: Run, call: Call) -> Said:
        if run.armed is None:
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
        run.armed = []
        run.compactions += 1
        return self.end(run, run.compactions, 3) if run.compactions >= 3 else Said()

    def user_message(self, run: Run, *, scoped: bool) -> None:
        run.refusals = 0
        for block in run.blocks:
            block.half_open = True
        if not scoped:
            run.calls, run.fences, run.blocks, run.announced, run.latched = [], [], [], {}, None

    def retract(self, run: Run, ids: tuple[str, ...]) -> None:
        for name in ids:
            call = run.open.pop(name, None) or next((c for c in reversed(run.calls) if c.id == name), None)
            if call is None:
                continue
            run.calls.remove(call)
            run.refusals -= call.refused
            for block in run.blocks:
                if block.probe is call:
                    block.probe = None
