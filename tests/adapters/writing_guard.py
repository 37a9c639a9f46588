"""A guard that writes down what it is told, with small thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from loopwarden import LoopGuard, Verdict
from loopwarden.guard import GuardSession, Verbs

CONFIG: Final[dict[str, Any]] = {
    "enabled": True,
    "warningThreshold": 3,
    "criticalThreshold": 5,
    "globalCircuitBreakerThreshold": 9,
    "unknownToolThreshold": 3,
}
"""Small numbers: the 4th equal call warns, the 6th is refused, the 10th ends the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One thing an adapter told the guard: `verb` is `before`, `after`, `compacted` or `retract`."""

    verb: str
    session_id: str | None
    run_id: str | None
    call_id: str | None = None
    tool: str | None = None
    arguments: object = None
    turn_id: str | None = None
    result: object = None
    error: object = None
    unknown_tool: str | None = None
    verdict: Verdict


class _Writing(Verbs):
    told: list[Told]

    def _write(self, verb: str, verdict: Verdict, run_id: str | None, **more: Any) -> Verdict:
        self.told.append(Told(verb=verb, session_id=self.session_id, run_id=run_id, verdict=verdict, **more))
        return verdict

    def before(self, tool: str, arguments: object = None, *, call_id: str, **ids: Any) -> Verdict:
        verdict = super().before(tool, arguments, call_id=call_id, **ids)
        run_id, turn_id = ids.get("run_id"), ids.get("turn_id")
        more = {"tool": tool, "arguments": arguments, "call_id": call_id, "turn_id": turn_id}
        return self._write("before", verdict, run_id, **more)

    def after(self, call_id: str, *, run_id: str | None = None, **outcome: Any) -> Verdict:
        verdict = super().after(call_id, run_id=run_id, **outcome)
        more = {name: outcome.get(name) for name in ("result", "error", "unknown_tool")}
        return self._write("after", verdict, run_id, call_id=call_id, **more)

    def compacted(self, *, run_id: str | None = None, **more: Any) -> Verdict:
        return self._write("compacted", super().compacted(run_id=run_id, **more), run_id)

    def retract(self, call_ids: Any, *, run_id: str | None = None, **more: Any) -> Verdict:
        return self._write("retract", super().retract(call_ids, run_id=run_id, **more), run_id)


class _WritingSession(_Writing, GuardSession):
    pass


class WritingGuard(_Writing, LoopGuard):
    """A real guard; `told` has what it was told, in order, its sessions included."""

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config if config is not None else CONFIG, **options)
        self.told = []

    def session(self, session_id: str) -> GuardSession:
        session = _WritingSession(self, session_id)
        session.told = self.told
        return session

    def of(self, verb: str) -> list[Told]:
        return [told for told in self.told if told.verb == verb]
