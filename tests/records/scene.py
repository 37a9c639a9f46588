"""A guard that records, an agent that calls it, and what stands in the record afterwards."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from loopwarden import LoopGuard
from loopwarden.records import RunRecorder, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from loopwarden.guard import Verbs
    from loopwarden.records import Entry

SMALL: dict[str, Any] = {
    "enabled": True,
    "historySize": 8,
    "warningThreshold": 3,
    "criticalThreshold": 5,
    "globalCircuitBreakerThreshold": 9,
}
SECRET = "hunter2-correct-horse"  # noqa: S105 - made up, to be looked for in files


def clock() -> Callable[[], datetime]:
    """A second a look, from a fixed moment on."""
    seconds = itertools.count()
    return lambda: datetime(2026, 7, 1, 12, 0, 0, tzinfo=UTC) + timedelta(seconds=next(seconds))


def recording(path: Path, config: dict[str, Any] = SMALL, **options: Any) -> LoopGuard:
    """A guard that raises what goes wrong, and records with the clock above."""
    mode = options.pop("mode", "enforce")
    return LoopGuard(config, mode=mode, on_error="raise", record=RunRecorder(path, now=clock(), **options))


def agent(guard: Verbs, strip: str, run_id: str | None = "r", start: int = 0) -> str:
    """Run a strip of letters (a call each, `|` a compaction); the first letters of the actions."""
    said = ""
    for number, letter in enumerate(strip, start):
        if letter == "|":
            said += guard.compacted(run_id=run_id).action[0]
            continue
        arguments = {"path": letter, "password": SECRET}
        verdict = guard.before("read", arguments, call_id=f"c{number}", run_id=run_id, at=float(number))
        if verdict.action in {"allow", "warn"}:
            guard.after(f"c{number}", result=f"{SECRET} of {letter}", run_id=run_id, at=number + 0.5)
        said += verdict.action[1]
    return said


def entries(path: Path) -> list[Entry]:
    return list(read(path))


def kinds(path: Path) -> list[str]:
    return [entry.kind for entry in entries(path)]


def one(path: Path, kind: str) -> Entry:
    """The only entry of this kind."""
    (found,) = [entry for entry in entries(path) if entry.kind == kind]
    return found
