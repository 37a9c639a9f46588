"""One run: events in, verdicts out. No I/O, no clock, no thread, no randomness.

The state is a function of the events alone. It holds digests and counters, never arguments or results,
and its size is bounded by the settings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from loopwarden.core.answer import Announcements, verdict
from loopwarden.core.detectors.post_compaction import CompactionGuard
from loopwarden.core.evidence import Evidence
from loopwarden.core.fingerprint import FAILED, mixed, observe, signature
from loopwarden.core.ladder import ONE_REFUSAL, Held, Ladder
from loopwarden.core.log import NEVER, Entry
from loopwarden.events import ALLOW, Compaction, Outcome, Retraction, ToolCall, UserMessage, Verdict

if TYPE_CHECKING:
    from loopwarden.core.finding import Finding
    from loopwarden.core.fingerprint import Observed
    from loopwarden.core.profile import ToolUse, ToolUses
    from loopwarden.core.settings import Settings
    from loopwarden.events import AbortCode, Action, Event

_OPEN: Final = 256
"""Calls that may be open at once; the oldest is given up first. A shared store reads and writes them all
at each event."""

_WRITES: Final = 1024
"""Writes that are remembered, to tell a new one; the oldest is forgotten first."""

_TURN: Final = 1024
"""Calls of one turn that are taken together; a turn that goes on is taken as another one."""


class RunState:
    """The guard's state of one run.

    Attributes:
        aborted: What every later call is answered, `None` while the run goes on.
        compared: What the last call or outcome was compared by: its signature or fingerprint.
    """

    __slots__ = (
        "_acts",
        "_announcements",
        "_calls",
        "_evidence",
        "_guard",
        "_ladder",
        "_last_at",
        "_open",
        "_present",
        "_scoped",
        "_settings",
        "_siblings",
        "_turn",
        "_turn_id",
        "_uses",
        "_writes",
        "aborted",
        "compared",
    )

    def __init__(self, settings: Settings, uses: ToolUses, *, scoped: bool) -> None:
        """A run that has just begun.

        Args:
            settings: Thresholds and switches.
            uses: Finds what kind of call a call is; shared by all runs with these settings.
            scoped: Whether the run has an id; the unscoped session starts afresh with a user message.
        """
        self.take(settings, uses)
        self._scoped = scoped
        self._calls = 0
        self.compared: bytes | None = None
        self._begin()

    def take(self, settings: Settings, uses: ToolUses) -> None:
        """Go on with these settings from here; the evidence so far stays as it was counted."""
        self._settings = settings
        self._uses = uses
        self._acts = settings.mode == "enforce" and settings.enabled is True

    def _begin(self) -> None:
        self._evidence = Evidence(self._settings)
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
        if type(event) is ToolCall:
            return self.call(event.tool, event.arguments, event.call_id, event.turn_id, event.at)
        if type(event) is Outcome:
            return self.outcome(event.call_id, event.result, event.error, event.unknown_tool, event.timed_out)
        if self._settings.enabled is False:
            return ALLOW
        if isinstance(event, Compaction):
            return self._compaction()
        if isinstance(event, UserMessage):
            self._user_message()
        elif isinstance(event, Retraction):
            self._retract(event.call_ids)
        return ALLOW

    def call(
        self, tool: str, arguments: object, call_id: str, turn_id: str | None, at: float | None
    ) -> Verdict:
        """Answer a call; the same as a `ToolCall`, without the cost of making one."""
        if self._settings.enabled is False:
            return ALLOW
        if at is not None:
            self._note_time(at)
        if self.aborted is not None:
            return self.aborted
        if type(call_id) is not str:
            call_id = str(call_id)  # a host may count its calls
        if turn_id is not None and type(turn_id) is not str:
            turn_id = str(turn_id)  # or its replies
        known = self._open.get(call_id)
        if known is not None:
            return known[1]
        use = self._uses.find(tool, arguments)
        return self._called(use, signature(use, arguments), call_id, turn_id)

    def called(
        self, use: ToolUse, name: bytes, call_id: str, turn_id: str | None, at: float | None
    ) -> Verdict:
        """As `call`, for a call whose signature is known already."""
        if at is not None:
            self._note_time(at)
        if self.aborted is not None:
            return self.aborted
        known = self._open.get(call_id)
        return known[1] if known is not None else self._called(use, name, call_id, turn_id)

    def _called(self, use: ToolUse, name: bytes, call_id: str, turn_id: str | None) -> Verdict:
        if turn_id is None or turn_id != self._turn_id or self._evidence.rows.present >= _TURN:
            if self._present:
                self._close_turn()
            self._turn += 1
            self._turn_id = turn_id
        self.compared = name
        self._calls += 1
        twin, identical = self._siblings.get(name, _FIRST) if self._siblings else _FIRST
        entry = Entry(call_id, use, name, self._turn, twin)
        answer = use.allow if use.exempt else self._judge(entry, identical + 1)
        if answer.action in _REFUSALS:
            return answer
        self._open[call_id] = entry, answer
        if len(self._open) > _OPEN:
            del self._open[next(iter(self._open))]
        if not use.exempt:
            if twin is None:
                self._present.append(entry)
            if turn_id is not None:
                self._siblings[name] = twin or entry, identical + 1
            self._evidence.rows.pending.append(entry)
        return answer

    def _note_time(self, at: float) -> None:
        idle = self._settings.idle_reset_seconds
        last = self._last_at
        if idle is not None and not self._scoped and last is not None and at - last > idle:
            self._begin()
        self._last_at = at

    def _close_turn(self) -> None:
        """The calls of the present turn become evidence."""
        self._evidence.close_turn(self._present)
        self._present.clear()
        self._siblings.clear()

    def _judge(self, entry: Entry, identical: int) -> Verdict:
        use, name = entry.use, entry.signature
        ladder = self._ladder
        refused = ladder.refused(name) if ladder.counted else 0
        finding, breaks = self._evidence.find(use, name, identical, refused)
        if finding is None and not ladder.held:
            return use.allow
        if not self._acts:
            return self._observed(finding, use, breaks=breaks)
        if self._settings.on_critical == "warn":
            return self._say(finding, "warn", use)
        if breaks and finding is not None:
            return self._abort(finding, use)
        critical = finding is not None and finding.level == "critical"
        held = ladder.find(use, name)
        if held is None and finding is not None and critical:
            if finding.detector in ONE_REFUSAL:
                held = ladder.held.get(finding.key)
            if held is None:
                evidence = self._evidence
                rows = evidence.rows.settled(evidence.log.floor)
                held = ladder.hold(finding, evidence.log, rows.unknown.missing)
                if name in held.expected and entry.twin is not None and entry.twin.shared is not None:
                    held.expected[name] = entry.twin.shared
                return self._refuse(held, use, name)
        if held is None:
            return self._say(finding, "warn", use)
        if held.state == "half_open":
            held.probing(entry)
            return self._say(finding, "warn", use)
        held.grow(finding)
        return self._refuse(held, use, name)

    def _say(self, finding: Finding | None, action: Action, use: ToolUse) -> Verdict:
        if finding is None:
            return use.allow
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
            return self._abort(held.finding, use)
        if refusals >= settings.refused_call_limit:
            reason = f"This would be refused call number {refusals} of this run."
            return self._abort(held.finding, use, reason=reason)
        return self._say(held.finding, "block", use)

    def _abort(
        self,
        finding: Finding,
        use: ToolUse | None,
        error: AbortCode = "tool_loop_persisted",
        *,
        reason: str = "",
    ) -> Verdict:
        acts = self._settings.mode == "enforce"
        tool = use.tool if use is not None else None
        ran = error == "compaction_loop_persisted"
        answer = verdict(
            finding, "abort", tool=tool, ran=ran, acts=acts, announce=True, error=error, reason=reason
        )
        if acts:
            later = f"{finding.seen} The run was ended; this call did not run."
            self.aborted = replace(answer, announce=False, message=later)
        return answer

    def outcome(
        self, call_id: str, result: object, error: str | None, unknown_tool: str | None, timed_out: bool
    ) -> Verdict:
        """Take in what came of a call; the same as an `Outcome`, without the cost of making one."""
        known = self._open.pop(call_id if type(call_id) is str else str(call_id), None)
        if known is None or self.aborted is not None:
            return ALLOW
        entry = known[0]
        if entry.use.exempt:
            self._guard.idle = 0
            return ALLOW
        return self._completed(entry, observe(entry.use, result, error, unknown_tool, timed_out))

    def open_use(self, call_id: str) -> ToolUse | None:
        """What kind of call an open call is; `None` for one that is not open."""
        return self._open[call_id][0].use if call_id in self._open else None

    def completed(self, call_id: str, outcome: Observed | None) -> Verdict:
        """As `outcome`, for one that was observed already; `None`: of a tool that is exempt."""
        known = self._open.pop(call_id, None)
        if known is None or self.aborted is not None:
            return ALLOW
        if outcome is not None:
            return self._completed(known[0], outcome)
        self._guard.idle = 0
        return ALLOW

    def _completed(self, entry: Entry, outcome: Observed) -> Verdict:
        use = entry.use
        entry.outcome = outcome
        self.compared = fingerprint = outcome.fingerprint
        group = entry.twin or entry
        ladder = self._ladder
        if ladder.refusals and not use.waits:
            self._count_fresh(group, outcome)
        if ladder.held or ladder.counted:
            last = group.shared or self._evidence.log.outcome(entry.signature)
            ladder.completed(entry, outcome, last, self._settings.warning_threshold)
        if group.shared is None:
            group.shared = fingerprint
        elif group.shared != fingerprint:
            group.shared = mixed(group.turn)
        if group.position != NEVER:
            self._evidence.settle(group, group.shared, outcome)
        if use.kind == "write" and not outcome.flags & FAILED:
            self._written(entry.signature)
        if use.waits:
            self._guard.idle = 0
        elif self._guard.idle or self._guard.left:
            finding = self._guard.observe(entry, fingerprint, self._settings.post_compaction_window)
            if finding is not None:
                return self._abort(finding, use, "compaction_loop_persisted")
        return use.allow

    def _count_fresh(self, group: Entry, outcome: Observed) -> None:
        """Calls in a row that succeed with something new make up for refusals."""
        ladder = self._ladder
        fingerprint = outcome.fingerprint
        if group.shared == fingerprint:
            return  # an identical call of the same turn has counted
        known = self._evidence.log.gave(fingerprint) or any(
            one.shared == fingerprint for one in self._present
        )
        if known or outcome.flags & FAILED:
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
            self._evidence.reset()

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
        wanted = dict.fromkeys(map(str, call_ids))
        for call_id in tuple(wanted):
            known = self._open.pop(call_id, None)
            if known is not None:
                gone.add(known[0])
                del wanted[call_id]
        for entry in reversed(self._evidence.rows.pending):
            if entry.call_id in wanted:
                gone.add(entry)
                del wanted[entry.call_id]
        for entry in gone:
            self._ladder.retracted(entry)
        self._evidence.rows.remove(gone)
        self._present = [entry for entry in self._present if entry not in gone]
        self._siblings = {name: one for name, one in self._siblings.items() if one[0] not in gone}
        log = self._evidence.log
        positions = log.find(wanted)
        positions.update(entry.position for entry in gone if entry.position >= log.oldest)
        undone = {entry.signature for entry in gone} | {log.signatures[one - log.base] for one in positions}
        if positions:
            self._evidence.without(positions, [entry.twin or entry for entry, _ in self._open.values()])
        for name in undone.intersection(self._writes):
            if not self._succeeded(name):
                del self._writes[name]

    def _succeeded(self, name: bytes) -> bool:
        """Whether a call with this signature that is still kept succeeded."""
        log = self._evidence.log
        outcomes = [one.shared for one in log.entries() if one.signature == name]
        outcomes += [one.shared for one in self._present if one.signature == name]
        return any(outcome is not None and not outcome[-1] & FAILED for outcome in outcomes)


_FIRST: Final[tuple[None, int]] = (None, 0)
_REFUSALS: Final = frozenset({"block", "abort"})
