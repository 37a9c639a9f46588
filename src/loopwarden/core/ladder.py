"""How a loop that was refused goes on: held, probed, freed, or the end of the run (SPEC section 8).

A held loop is closed: its calls are refused. After other work, a user message or a new write it is
half-open: one probe may run. The same outcome closes it again, another one frees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from loopwarden.core.detectors import repeated_failure

if TYPE_CHECKING:
    from loopwarden.core.finding import Finding
    from loopwarden.core.fingerprint import Observed
    from loopwarden.core.log import Entry, Log
    from loopwarden.core.profile import ToolUse

State: TypeAlias = Literal["closed", "half_open", "probing"]

FREED_BY_WRITE: Final = frozenset({"generic_repeat", "cycle", "repeated_failure"})
"""Detectors whose evidence a new write resets; the loops of the others it half-opens."""

ONE_REFUSAL: Final = frozenset({"repeated_failure", "unknown_tool_churn"})
"""Detectors that refuse one call and then let the next one of the kind they judge probe."""

_REFUSED: Final = 1024
"""Signatures whose refusals are counted; the oldest is forgotten first."""

_HELD: Final = 64
"""Loops that are held at once; the oldest is let go first."""


class Held:
    """A loop that is refused.

    Attributes:
        finding: What was found when it was last refused; its count grows with every refusal.
        expected: Signature and the outcome that it gave each time.
        tool: For a tool that does not exist: its name, whatever the arguments; else `None`.
        missing: For a tool that does not exist: the name in its failures.
        state: `closed`, `half_open`, or `probing` while the probe runs.
        probe: The call that probes.
        others: Other calls that completed since the last refusal.
    """

    __slots__ = ("expected", "finding", "missing", "others", "probe", "state", "tool")

    def __init__(self, finding: Finding, log: Log, missing: str | None) -> None:
        self.finding = finding
        self.expected = {signature: log.outcome(signature) for signature in finding.signatures}
        self.tool = finding.tools[0] if finding.detector == "unknown_tool_repeat" else None
        self.missing = missing
        self.state: State = "closed"
        self.probe: Entry | None = None
        self.others = 0

    def covers(self, use: ToolUse, signature: bytes) -> bool:
        """Whether a call is one of the loop's."""
        return signature in self.expected or (self.tool is not None and self.tool == use.tool)

    def half_open(self) -> None:
        """Let one probe run."""
        self.state = "half_open"
        self.probe = None

    def probing(self, entry: Entry) -> None:
        """The probe runs now."""
        self.state = "probing"
        self.probe = entry
        self.others = 0

    def grow(self, finding: Finding | None) -> None:
        """One more call of the loop is refused; `finding` is what was found of it now, if anything."""
        if finding is not None and finding.key == self.finding.key and finding.level == "critical":
            finding.count = max(finding.count, self.finding.count + 1)
            self.finding = finding
        else:
            self.finding.count += 1

    def same(self, entry: Entry, outcome: Observed) -> bool:
        """Whether a call of the loop gave what it gave each time."""
        if self.tool is not None:
            return outcome.missing is not None and outcome.missing == self.missing
        if self.finding.detector == "unknown_tool_churn":
            return outcome.missing is not None
        if self.finding.detector == "repeated_failure":
            return (
                outcome.failure is not None
                and repeated_failure.key(entry.use, outcome.failure) == self.finding.key
            )
        expected = self.expected.setdefault(entry.signature, None)
        if expected is None:  # refused within one turn, before any of its calls had ended
            self.expected[entry.signature] = expected = outcome.fingerprint
        return outcome.fingerprint == expected


class Ladder:
    """All loops of a run that are held, and how many calls were refused.

    Attributes:
        held: The loops by key, oldest first.
        counted: By signature how many of its calls were refused, and whether it polls.
        refusals: Refused calls that are not forgiven.
        fresh: Executed calls in a row, since the last refusal, that succeeded with something new.
    """

    __slots__ = ("counted", "fresh", "held", "refusals")

    def __init__(self) -> None:
        self.held: dict[str, Held] = {}
        self.refusals = 0
        self.fresh = 0
        self.counted: dict[bytes, tuple[int, bool]] = {}

    def refused(self, signature: bytes) -> int:
        """Refusals that add to the streak of a signature."""
        return self.counted[signature][0] if signature in self.counted else 0

    def find(self, use: ToolUse, signature: bytes) -> Held | None:
        """The loop that a call belongs to, one that is not half-open first."""
        found = None
        for held in self.held.values():
            if held.covers(use, signature):
                if held.state != "half_open":
                    return held
                found = found or held
        return found

    def hold(self, finding: Finding, log: Log, missing: str | None) -> Held:
        """Hold a loop from now on."""
        held = self.held[finding.key] = Held(finding, log, missing)
        if len(self.held) > _HELD:
            del self.held[next(iter(self.held))]
        return held

    def refuse(self, held: Held, use: ToolUse, signature: bytes) -> int:
        """A call of a held loop is refused; returns the number of this refusal."""
        held.others = 0
        self.fresh = 0
        self.refusals += 1
        count, _ = self.counted.get(signature, (0, False))
        self.counted[signature] = (count + 1, use.poll)
        if len(self.counted) > _REFUSED:
            del self.counted[next(iter(self.counted))]
        if held.tool is not None:
            held.expected.setdefault(signature, None)
        if held.finding.detector in ONE_REFUSAL:
            held.half_open()
        return self.refusals

    def completed(self, entry: Entry, outcome: Observed, last: bytes | None, others: int) -> None:
        """A call gave its outcome.

        Args:
            entry: The call.
            outcome: What came of it.
            last: What the same call had given before, `None` if nothing.
            others: Completed calls that half-open the loops they don't belong to.
        """
        signature = entry.signature
        if signature in self.counted and outcome.fingerprint != last:
            del self.counted[signature]
        for key, held in list(self.held.items()):
            if held.probe is entry or held.covers(entry.use, signature):
                if not held.same(entry, outcome):
                    self._free(key)
                elif held.probe is entry:
                    held.state = "closed"
                    held.probe = None
                    held.others = 0
            else:
                held.others += 1
                if held.others >= others:
                    held.half_open()

    def written(self, resets: bool) -> None:
        """A new write succeeded: free the loops whose evidence it resets, half-open the others."""
        if not self.held and not self.counted:
            return
        for key, held in list(self.held.items()):
            if resets and held.finding.detector in FREED_BY_WRITE:
                self._free(key)
            else:
                held.half_open()
        if resets:
            self.counted = {signature: one for signature, one in self.counted.items() if one[1]}

    def forgive(self) -> None:
        """The refusals so far no longer count towards the end of the run."""
        self.refusals = 0
        self.fresh = 0

    def half_open(self) -> None:
        """A person wrote: every loop may be probed."""
        for held in self.held.values():
            held.half_open()

    def retracted(self, entry: Entry) -> None:
        """A call is rolled back; if it was a probe, the probe is still to come."""
        for held in self.held.values():
            if held.probe is entry:
                held.half_open()

    def _free(self, key: str) -> None:
        held = self.held.pop(key)
        for signature in held.expected:
            self.counted.pop(signature, None)
