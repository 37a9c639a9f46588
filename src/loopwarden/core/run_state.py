"""One run: events in, verdicts out. No I/O, no clock, no thread, no randomness.

The state is a function of the events alone. It holds digests and counters, never arguments or results,
and its size is bounded by the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loopwarden.core.answer import Announcements, verdict
from loopwarden.core.compaction import CompactionGuard
from loopwarden.core.detectors import (
    cycle,
    generic_repeat,
    global_circuit_breaker,
    known_poll_no_progress,
)
from loopwarden.core.detectors.cycle import Cycle
from loopwarden.core.detectors.ping_pong import Alternation
from loopwarden.core.fingerprint import FAILED, mixed, observe, signature
from loopwarden.core.ladder import ONE_REFUSAL, Held, Ladder
from loopwarden.core.log import NEVER, Entry, Log
from loopwarden.core.rows import Rows
from loopwarden.events import ALLOW, Compaction, Outcome, Retraction, ToolCall, UserMessage, Verdict

if TYPE_CHECKING:
    from loopwarden.core.finding import Finding
    from loopwarden.core.fingerprint import Observed
    from loopwarden.core.profile import ToolUse, ToolUses
    from loopwarden.core.settings import Settings
    from loopwarden.events import AbortCode, Action, Event

_OPEN: Final = 4096
"""Calls that may be open at once; the oldest is given up first."""

_WRITES: Final = 1024
"""Writes that are remembered, to tell a new one; the oldest is forgotten first."""


class RunState:
    """The guard's state of one run.

    Attributes:
        aborted: The verdict that ended the run, `None` while it goes on.
    """

    __slots__ = (
        "_alternation",
        "_announcements",
        "_calls",
        "_cycle",
        "_guard",
        "_ladder",
        "_last_at",
        "_log",
        "_open",
        "_present",
        "_rows",
        "_scoped",
        "_settings",
        "_siblings",
        "_turn",
        "_turn_id",
        "_uses",
        "_writes",
        "aborted",
    )

    def __init__(self, settings: Settings, uses: ToolUses, *, scoped: bool) -> None:
        """A run that has just begun.

        Args:
            settings: Thresholds and switches.
            uses: Finds what kind of call a call is; shared by all runs with these settings.
            scoped: Whether the run has an id; the unscoped session starts afresh with a user message.
        """
        self._settings = settings
        self._uses = uses
        self._scoped = scoped
        self._calls = 0
        self._begin()

    def _begin(self) -> None:
        settings = self._settings
        depth = cycle.memory(settings.warning_threshold, settings.critical_threshold)
        self._log = Log(settings.history_size, depth)
        self._alternation = Alternation()
        self._cycle = Cycle()
        self._rows = Rows()
        self._ladder = Ladder()
        self._guard = CompactionGuard()
        self._announcements = Announcements()
        self._open: dict[str, tuple[Entry, Verdict]] = {}
        self._present: list[Entry] = []
        self._siblings: dict[bytes, tuple[Entry, int]] = {}
        self._writes: dict[bytes, None] = {}
        self._turn = 0
        self._turn_id: str | None = None
        self._last_at: float | None = None
        self.aborted: Verdict | None = None

    def apply(self, event: Event) -> Verdict:
        """Take in what happened and answer it."""
        if self._settings.enabled is False:
            return ALLOW
        if type(event) is ToolCall:
            return self._call(event)
        if type(event) is Outcome:
            return self._outcome(event)
        if isinstance(event, Compaction):
            return self._compaction()
        if isinstance(event, UserMessage):
            self._user_message()
        elif isinstance(event, Retraction):
            self._retract(event.call_ids)
        return ALLOW

    # -- calls --------------------------------------------------------------------------------

    def _call(self, call: ToolCall) -> Verdict:
        if call.at is not None:
            idle = self._settings.idle_reset_seconds
            if idle is not None and not self._scoped and self._last_at is not None and call.at - self._last_at > idle:
                self._begin()
            self._last_at = call.at
        if self.aborted is not None:
            return self.aborted
        known = self._open.get(call.call_id)
        if known is not None:
            return known[1]
        use = self._uses.find(call.tool, call.arguments)
        if call.turn_id is None or call.turn_id != self._turn_id:
            self._close_turn()
            self._turn_id = call.turn_id
        name = signature(use, call.arguments)
        self._calls += 1
        twin, identical = self._siblings.get(name, (None, 0)) if self._siblings else (None, 0)
        entry = Entry(call.call_id, use, name, self._turn, twin)
        answer = ALLOW if use.exempt else self._judge(entry, identical + 1)
        if answer.action == "block" or answer.action == "abort":
            return answer
        open_calls = self._open
        open_calls[call.call_id] = entry, answer
        if len(open_calls) > _OPEN:
            del open_calls[next(iter(open_calls))]
        if not use.exempt:
            if twin is None:
                self._present.append(entry)
            if call.turn_id is not None:
                self._siblings[name] = twin or entry, identical + 1
            self._rows.add(entry)
        return answer

    def _close_turn(self) -> None:
        """The calls of the present turn become evidence."""
        if self._present:
            log, alternation, laps = self._log, self._alternation, self._cycle
            for entry in self._present:
                position = log.append(entry)
                alternation.push(entry.signature, entry.use, position)
                laps.push(log)
            self._present.clear()
            self._siblings.clear()
            self._rows.close_turn()
        self._turn += 1

    def _judge(self, entry: Entry, identical: int) -> Verdict:
        use, name = entry.use, entry.signature
        finding, breaks = self._find(use, name, identical)
        if finding is None and not self._ladder.held:
            return ALLOW
        settings = self._settings
        acts = settings.mode == "enforce" and settings.enabled is True
        if not acts:
            return self._observed(finding, use, breaks=breaks)
        held = self._ladder.find(use, name)
        if settings.on_critical == "warn" or (finding is not None and finding.level == "warning" and held is None):
            return self._say(finding, "warn", use) if finding is not None else ALLOW
        if breaks and finding is not None:
            return self._abort(finding, use, "tool_loop_persisted")
        if finding is not None and finding.level == "critical" and held is None:
            if finding.detector in ONE_REFUSAL:
                held = self._ladder.held.get(finding.key)
            if held is None:
                held = self._ladder.hold(finding, self._log, self._rows.unknown.missing)
                return self._refuse(held, use, name)
        if held is None:
            return ALLOW
        if held.state == "half_open":
            held.state = "probing"
            held.probe = entry
            held.others = 0
            return self._say(finding, "warn", use) if finding is not None else ALLOW
        if finding is not None and finding.key == held.finding.key:
            finding.count = max(finding.count, held.finding.count + 1)
            held.finding = finding
        else:
            held.finding.count += 1
        return self._refuse(held, use, name)

    def _find(self, use: ToolUse, name: bytes, identical: int) -> tuple[Finding | None, bool]:
        """The most severe finding, of equals the first in the order of precedence; and the breaker."""
        settings = self._settings
        switches = settings.detectors
        log = self._log
        count, streak = log.counts(name, use.poll)
        rows = self._rows.settled() if self._rows.waiting else self._rows
        found: Finding | None = None
        breaks = False
        if rows.failing:
            found = rows.unknown.judge(use, settings.unknown_tool_threshold, settings.history_size)
        if self._ladder.held:
            streak += self._ladder.refused(name)
        repeats = switches.known_poll_no_progress if use.poll else switches.generic_repeat
        if streak and not use.waits:
            breaks = streak >= use.breaker
            if breaks:
                found = found or global_circuit_breaker.judge(use, name, streak)
            if use.poll and repeats:
                found = _stricter(found, known_poll_no_progress.judge(use, name, streak))
        alternating = 0
        if name == self._alternation.other and not use.waits:
            alternating = self._alternation.length
            if switches.ping_pong:
                found = _stricter(found, self._alternation.judge(use, name, log, settings.history_size))
        if repeats and not use.waits:
            if not use.poll and (count >= use.warning or streak >= use.critical):
                found = _stricter(found, generic_repeat.judge(use, name, count, streak))
            if identical > use.critical:
                found = _stricter(found, generic_repeat.judge_batch(use, name, identical))
        if switches.cycle and log.repeated(name):
            found = _stricter(found, self._cycle.judge(use, name, log, alternating, log.floor))
        if rows.failing:
            if switches.unknown_tool_churn:
                found = _stricter(found, rows.churn.judge(use, settings.unknown_tool_threshold))
            if switches.repeated_failure:
                found = _stricter(found, rows.failures.judge(use))
            if switches.failure_streak:
                found = _stricter(found, rows.streak.judge(use, settings.warning_threshold))
        elif switches.stagnation and rows.stagnation.count >= use.warning:
            found = _stricter(found, rows.stagnation.judge(use))
        return found, breaks

    # -- answers ------------------------------------------------------------------------------

    def _say(self, finding: Finding, action: Action, use: ToolUse) -> Verdict:
        announce = self._announcements.due(finding, self._calls, self._settings.history_size)
        return verdict(finding, action, tool=use.tool, acts=True, announce=announce)

    def _observed(self, finding: Finding | None, use: ToolUse, *, breaks: bool) -> Verdict:
        """What would be done, where nothing is."""
        if finding is None:
            return ALLOW
        on_critical = self._settings.on_critical
        action: Action = "warn"
        error: AbortCode | None = None
        if finding.level == "critical" and on_critical != "warn":
            action = "block"
            if breaks or on_critical == "abort":
                action, error = "abort", "tool_loop_persisted"
        announce = self._announcements.due(finding, self._calls, self._settings.history_size)
        return verdict(finding, action, tool=use.tool, acts=False, announce=announce, error=error)

    def _refuse(self, held: Held, use: ToolUse, name: bytes) -> Verdict:
        settings = self._settings
        refusals = self._ladder.refuse(held, use, name)
        if settings.on_critical == "abort":
            return self._abort(held.finding, use, "tool_loop_persisted")
        if refusals >= settings.refused_call_limit:
            reason = f"This would be refused call number {refusals} of this run."
            return self._abort(held.finding, use, "tool_loop_persisted", reason)
        return self._say(held.finding, "block", use)

    def _abort(self, finding: Finding, use: ToolUse | None, error: AbortCode, reason: str = "") -> Verdict:
        acts = self._settings.mode == "enforce"
        tool = use.tool if use is not None else None
        answer = verdict(finding, "abort", tool=tool, acts=acts, announce=True, error=error, reason=reason)
        if acts:
            self.aborted = answer
        return answer

    # -- everything else ----------------------------------------------------------------------

    def _outcome(self, event: Outcome) -> Verdict:
        known = self._open.pop(event.call_id, None)
        if known is None or self.aborted is not None:
            return ALLOW
        entry = known[0]
        outcome = entry.outcome = observe(entry.use, event)
        ladder = self._ladder
        settings = self._settings
        if entry.use.exempt:
            self._guard.idle = 0
            return ALLOW
        fingerprint = outcome.fingerprint
        group = entry.twin or entry
        if ladder.refusals:
            self._count_fresh(group, outcome)
        if ladder.held:
            last = self._log.outcome(entry.signature)
            ladder.completed(entry, outcome, last, settings.warning_threshold)
        if group.shared is None:
            group.shared = fingerprint
        elif group.shared != fingerprint:
            group.shared = mixed(group.turn)
        if group.position != NEVER:
            self._log.settle(group.position, group.shared)
            if outcome.flags:
                self._log.marked[group.position] = outcome
            self._cycle.compare(self._log, group.position)
        if entry.use.kind == "write" and not outcome.flags & FAILED:
            self._written(entry.signature)
        finding = self._guard.observe(entry, fingerprint, settings.post_compaction_window)
        if finding is not None:
            return self._abort(finding, entry.use, "compaction_loop_persisted")
        return ALLOW

    def _count_fresh(self, group: Entry, outcome: Observed) -> None:
        """Calls in a row that succeed with something new make up for refusals."""
        ladder = self._ladder
        fingerprint = outcome.fingerprint
        known = fingerprint in self._log.outcomes or any(
            one.shared == fingerprint for one in self._present if one is not group
        )
        if known or group.shared is not None or outcome.flags & FAILED:
            ladder.fresh = 0
            return
        ladder.fresh += 1
        if ladder.fresh >= self._settings.warning_threshold:
            ladder.forgive()

    def _written(self, name: bytes) -> None:
        """A write succeeded; with arguments not seen before it makes what follows a new experiment."""
        writes = self._writes
        if name in writes:
            return
        writes[name] = None
        if len(writes) > _WRITES:
            del writes[next(iter(writes))]
        resets = self._settings.reset_on_write
        self._ladder.written(resets)
        if resets:
            self._log.reset()
            self._rows.clear()

    def _compaction(self) -> Verdict:
        if self.aborted is not None:
            return self.aborted
        finding = self._guard.compacted(self._settings.post_compaction_window)
        return ALLOW if finding is None else self._abort(finding, None, "compaction_loop_persisted")

    def _user_message(self) -> None:
        if self._scoped:
            self._ladder.half_open()
            self._ladder.forgive()
        else:
            self._begin()

    def _retract(self, call_ids: tuple[str, ...]) -> None:
        """A reply is rolled back: as if its calls had not been."""
        gone: set[Entry] = set()
        wanted = dict.fromkeys(call_ids)
        for call_id in call_ids:
            known = self._open.pop(call_id, None)
            if known is not None:
                gone.add(known[0])
                del wanted[call_id]
        for entry in reversed(self._present):
            if entry.call_id in wanted:
                gone.add(entry)
                del wanted[entry.call_id]
        for entry in gone:
            self._ladder.retracted(entry)
        self._rows.remove(gone)
        self._present = [entry for entry in self._present if entry not in gone]
        self._siblings = {name: one for name, one in self._siblings.items() if one[0] not in gone}
        positions = self._log.find(wanted) | {entry.position for entry in gone if entry.position != NEVER}
        if positions:
            self._rebuild(positions)

    def _rebuild(self, positions: set[int]) -> None:
        self._log, moved = self._log.without(positions)
        for entry, _ in self._open.values():
            entry.position = moved.get(entry.position, NEVER) if entry.position != NEVER else NEVER
        self._alternation = Alternation()
        self._cycle = Cycle()
        entries = list(self._log.entries())
        for entry in entries:
            self._alternation.push(entry.signature, entry.use, entry.position)
        self._rows.refold(entries, self._log.floor)


def _stricter(one: Finding | None, other: Finding | None) -> Finding | None:
    """The more severe of two findings; of equals the first."""
    if other is None:
        return one
    if one is None or (other.level == "critical" and one.level == "warning"):
        return other
    return one
