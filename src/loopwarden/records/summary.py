"""What a record says of each run, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.records.entry import Entry

RunEnd: TypeAlias = Literal["open", "ended", "closed", "aborted"]
"""`open`: it goes on, or its process was killed. `ended`: the host said so. `closed`: the program ended, or
too many other runs were newer. `aborted`: the guard ended it."""


@dataclass(slots=True, kw_only=True)
class RunSummary:
    """The entries of one run, added up.

    Attributes:
        id: Names the run in the record.
        session: Session id.
        run: Run id; after a compaction that went on under a new id, the new one.
        agent: Name of the agent.
        mode: `enforce` or `observe`.
        begun: Time of the first entry, as in `Entry.time`.
        last: Time of the newest entry.
        end: How the run ended.
        error: Code of the abort, else `None`.
        reason: What the abort said, else `None`.
        calls: Calls asked for, as of the newest entry; a run that is open may have had more since.
        detections: Events where a loop was seen; refusals and the abort are among them.
        warnings: Those of level warning.
        refusals: Calls refused.
        announcements: Times the model was told.
        compactions: Compactions.
        next_calls: Calls that were looked at after compactions.
        rereads: Those among them that repeat a call from before the compaction.
        detectors: Detections by detector.
    """

    id: str
    session: str | None = None
    run: str | None = None
    agent: str | None = None
    mode: str | None = None
    begun: str
    last: str
    end: RunEnd = "open"
    error: str | None = None
    reason: str | None = None
    calls: int = 0
    detections: int = 0
    warnings: int = 0
    refusals: int = 0
    announcements: int = 0
    compactions: int = 0
    next_calls: int = 0
    rereads: int = 0
    detectors: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, in the order of the fields."""
        return {name: getattr(self, name) for name in self.__slots__}

    def add(self, entry: Entry) -> None:
        """Take in an entry of this run."""
        details = entry.details
        self.session, self.run = entry.session, entry.run
        self.begun, self.last = min(self.begun, entry.time), max(self.last, entry.time)
        self.calls = max(self.calls, entry.calls)
        match entry.kind:
            case "begun":
                self.agent, self.mode = _text(details.get("agent")), _text(details.get("mode"))
            case "detection" | "refusal" | "abort":
                self._found(entry)
            case "compaction":
                self.compactions += 1
            case "rereads":
                self.next_calls += _count(details.get("next_calls"))
                self.rereads += _count(details.get("repeats"))
            case "user_message" if entry.run is None and self.end == "aborted":
                self.end = "open"  # in an unscoped session a person's message lets the agent go on
            case "ended":
                if self.end == "open":
                    self.end = "ended" if details.get("why") == "forgotten" else "closed"

    def _found(self, entry: Entry) -> None:
        details = entry.details
        self.detections += 1
        self.warnings += details.get("level") == "warning"
        self.refusals += entry.kind == "refusal"
        self.announcements += details.get("announced") is True
        detector = _text(details.get("detector")) or "unknown"
        self.detectors[detector] = self.detectors.get(detector, 0) + 1
        if entry.kind == "abort":
            self.end, self.error = "aborted", _text(details.get("error"))
            self.reason = _text(details.get("message"))


def summaries(entries: Iterable[Entry]) -> list[RunSummary]:
    """One summary a run, in the order in which the runs began."""
    runs: dict[str, RunSummary] = {}
    for entry in entries:
        run = runs.get(entry.id)
        if run is None:
            run = runs[entry.id] = RunSummary(id=entry.id, begun=entry.time, last=entry.time)
        run.add(entry)
    return sorted(runs.values(), key=lambda run: run.begun)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> int:
    return value if type(value) is int else 0
