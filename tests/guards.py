"""Guards with small numbers, and calls to try them with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden import LoopGuard

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden import Verdict
    from loopwarden.guard import Verbs

SMALL: dict[str, Any] = {
    "enabled": True,
    "warningThreshold": 3,
    "criticalThreshold": 5,
    "globalCircuitBreakerThreshold": 9,
}


def strict(config: dict[str, Any] = SMALL, **options: Any) -> LoopGuard:
    """A guard that raises its own faults."""
    return LoopGuard(config, on_error="raise", **options)


def calls(guard: Verbs, count: int, path: str = "a", run_id: str | None = "r") -> list[Verdict]:
    """Calls of `read` with one and the same result, as far as they may run."""
    verdicts = []
    for number in range(count):
        call_id = f"{path}{number}"
        verdict = guard.before("read", {"path": path}, call_id=call_id, run_id=run_id)
        if verdict.action in {"allow", "warn"}:
            guard.after(call_id, result="same", run_id=run_id)
        verdicts.append(verdict)
    return verdicts


def actions(verdicts: list[Verdict]) -> list[str]:
    return [verdict.action for verdict in verdicts]


def plain(guard: LoopGuard, answer: Any) -> Callable[[], Any]:
    """A guarded function that always answers the same."""

    @guard.tool
    def look() -> Any:
        return answer

    return look
