"""The guard once more, as plainly as its specification says it: slow, without digests.

Each detector looks through all calls that are kept, at each call. The engine must give the same answers to
the same events.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage
from tests.laws.detectors import DETECTORS, global_circuit_breaker, past
from tests.laws.history import ANNOUNCED, BLOCKS, WRITES, Block, Call, Run, Said, outcome
from tests.laws.sameness import ending, manner, signature

if TYPE_CHECKING:
    from loopwarden.core.settings import Settings
    from loopwarden.events import Event
    from tests.laws.history import Found

FREED = {"generic_repeat", "cycle", "repeated_failure"}
"""Loops that a new write frees; others it half-opens."""

ONE_REFUSAL = {"repeated_failure", "unknown_tool_churn"}
"""Loops of which one call is refused and the next one probes."""


class Model:
    """One session of the guard."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.acts = settings.mode == "enforce"
        self.rolling = settings.enabled is True and self.acts
        self.runs: dict[str | None, Run] = {}

    def feed(self, event: Event) -> Said:
        """What the guard says to an event."""
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
        """A call is asked for."""
        idle = self.settings.idle_reset_seconds
        if event.run_id is None and event.at is not None:
            if idle is not None and run.last_at is not None and event.at - run.last_at > idle:
                self.user_message(run, scoped=False)
                run = self.runs[None]
            run.last_at = event.at
        if run.latched is not None:
            return replace(run.latched, announce=False)
        if event.call_id in run.open:
            return run.open[event.call_id].said
        run.asked += 1
        how = manner(self.settings, event.tool, event.arguments)
        call = Call(
            event.tool,
            signature(event.tool, event.arguments, how),
            how,
            event.turn_id,
            event.call_id,
            run.time,
        )
        run.comes(call)
        call.said = Said() if how.exempt else self.judge(run, call)
        if call.said.action not in ("block", "abort"):
            run.runs(call)
        return call.said

    def found(self, run: Run, call: Call) -> list[Found]:
        """What the detectors say, the most severe first."""
        switches = self.settings.detectors
        every = [d(run, call) for d in DETECTORS if getattr(switches, d.__name__, True)]
        return sorted((f for f in every if f), key=lambda f: f.level != "critical")

    def judge(self, run: Run, call: Call) -> Said:
        """The verdict on a call that counts."""
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
        if held is not None and held.half_open and held.probe is None:
            held.probe, held.others = call, 0
            return self.say(run, first, "warn")
        if held is not None:
            grown = held.found.count + 1
            if first is not None and critical and first.loop == held.found.loop:
                held.found = replace(first, count=max(first.count, grown))
            else:
                held.found = replace(held.found, count=grown)
        elif first is not None and critical:
            held = self.hold(run, first, call)
        else:
            return self.say(run, first, "warn")
        held.others = 0
        if held.found.detector == "unknown_tool_repeat":
            held.refused.add(call.sig)
        if held.found.detector in ONE_REFUSAL:
            held.opens()
        run.refusals += 1
        run.fresh = 0
        run.refused_at.setdefault(call.sig, ([], call.how.kind == "poll"))[0].append(run.time)
        if on_critical == "abort" or run.refusals >= self.settings.refused_call_limit:
            return self.abort(run, held.found)
        return self.say(run, held.found, "block")

    def held(self, run: Run, call: Call, first: Found | None) -> Block | None:
        """The block that the call meets, one that refuses it first."""
        blocks = [b for b in run.blocks if b.holds(call)]
        blocks.sort(key=lambda b: b.half_open and b.probe is None)
        if not blocks and first is not None and first.level == "critical" and first.detector in ONE_REFUSAL:
            blocks = [b for b in run.blocks if b.found.loop == first.loop]
        return blocks[0] if blocks else None

    def hold(self, run: Run, found: Found, now: Call) -> Block:
        """Refuse the calls of a loop from now on."""
        run.blocks = [b for b in run.blocks if b.found.loop != found.loop]
        block = Block(found, {})
        for group in (*run.groups, *(g for g in run.present if g[0].sig == now.sig)):
            if block.holds(group[0]) and (value := outcome(group)) is not None:
                block.ends[group[0].sig] = value
        block.missing = next((other.row_end.missing for other in past(run.row, now)), None)
        run.blocks.append(block)
        del run.blocks[:-BLOCKS]
        return block

    def abort(self, run: Run, found: Found) -> Said:
        """The run ends."""
        self.say(run, found, "abort")
        run.latched = Said(
            "abort",
            None,
            found.level,
            found.detector,
            found.count,
            found.threshold,
            "tool_loop_persisted",
            announce=True,
        )
        return run.latched

    def say(self, run: Run, found: Found | None, action: str) -> Said:
        """The verdict, and whether the model is to be told now."""
        if found is None:
            return Said()
        level, count, when = run.announced.pop(found.loop, ("", 0, run.asked))
        higher = level == "" or (level == "warning" and found.level == "critical")
        announce = higher or found.count >= count + 10 or run.asked - when > self.settings.history_size
        run.announced[found.loop] = (
            (found.level, found.count, run.asked) if announce else (level, count, run.asked)
        )
        if len(run.announced) > ANNOUNCED:
            del run.announced[next(iter(run.announced))]
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
        """A call ended."""
        call = run.open.pop(event.call_id, None)
        if call is None or run.latched is not None:
            return Said()
        run.compactions = 0
        if call.how.exempt:
            return Said()
        last = run.last(call)
        known = {outcome(g) for g in (*run.groups, *run.present)} if run.refusals else set()
        alike = outcome(call.group)
        call.end = ending(call.how, event)
        if last is None or last != call.end.value:
            run.cleared[call.sig] = run.time
        if call.how.kind != "wait" and alike != call.end.value:
            self.forgive(run, call, known)
        self.settle(run, call)
        if call.how.kind == "write" and not call.end.failed and call.sig not in run.writes:
            self.new_write(run, call)
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
        """What follows a write that was not made before is a new experiment."""
        run.writes[call.sig] = None
        if len(run.writes) > WRITES:
            del run.writes[next(iter(run.writes))]
        resets = self.settings.reset_on_write
        for block in list(run.blocks):
            if resets and block.found.detector in FREED:
                run.free(block)
            else:
                block.opens()
        if resets:
            run.fence = run.began
            for sig, (_, polls) in run.refused_at.items():
                if not polls:
                    run.cleared[sig] = run.time

    def forgive(self, run: Run, call: Call, known: set[object]) -> None:
        """New successes in a row make up for refusals."""
        run.fresh = 0 if call.end.value in known or call.end.failed else run.fresh + 1
        if run.fresh >= self.settings.warning_threshold:
            run.refusals = 0

    def post_compaction(self, run: Run, call: Call) -> Said:
        """The same call with the same outcome all over the window ends the run."""
        if run.armed is None or call.how.kind == "wait":
            return Said()
        size = self.settings.post_compaction_window
        run.armed.append(call)
        triples = {(c.reply, c.sig, c.end.value) for c in run.armed}
        if len(triples) < size:
            return Said()
        run.armed = None
        if len({triple[1:] for triple in triples}) > 1:
            return Said()
        return self.end(run, size, size)

    def end(self, run: Run, count: int, threshold: int) -> Said:
        """The run ends for what followed a compaction."""
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
        """The guard is armed; compactions without work end the run."""
        if run.latched is not None:
            return replace(run.latched, announce=False)
        run.armed = []
        run.compactions += 1
        return self.end(run, run.compactions, 3) if run.compactions >= 3 else Said()

    def user_message(self, run: Run, *, scoped: bool) -> None:
        """A person wrote."""
        if not scoped:
            self.runs[None] = Run(self.settings, last_at=run.last_at)
            return
        run.refusals = 0
        run.fresh = 0
        for block in run.blocks:
            block.opens()

    def retract(self, run: Run, ids: tuple[str, ...]) -> None:
        """A reply is rolled back."""
        for call in run.undo(ids):
            for block in run.blocks:
                if block.probe is call:
                    block.probe = None
