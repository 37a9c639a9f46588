"""Agents that are run against the scripted server, and what happened to them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_ai.tools import Tool

from loopwarden import LoopGuard
from loopwarden.config import load_config
from loopwarden.config.runtime import runtime_of
from loopwarden.runner.engine import Runner
from loopwarden.runner.retries import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from loopwarden.runner.happenings import Happening
    from tests.runner.model_server import ModelServer

GUARD = {"enabled": True, "warningThreshold": 3, "criticalThreshold": 5, "globalCircuitBreakerThreshold": 8}
QUICK = Backoff(first=0.01, longest=0.05)


@dataclass
class Seen:
    """A watcher that writes down what happens."""

    all: list[Happening] = field(default_factory=list)

    def __call__(self, happening: Happening) -> None:
        self.all.append(happening)

    def of(self, kind: str, run: str | None = None) -> list[Mapping[str, Any]]:
        return [
            happening.data
            for happening in self.all
            if happening.kind == kind and (run is None or happening.run == run)
        ]

    def kinds(self) -> Counter[str]:
        return Counter(happening.kind for happening in self.all)


def runner_for(
    server: ModelServer,
    seen: Seen,
    *tools: Callable[..., Any],
    guard: Mapping[str, Any] = GUARD,
    agent: Mapping[str, Any] | None = None,
    agents: list[dict[str, Any]] | None = None,
    **options: Any,
) -> Runner:
    """A runner whose agents ask the server."""
    listed = agents or [{"id": "main"}]
    config = load_config(
        {
            "tools": {"loopDetection": dict(guard)},
            "agents": {
                "defaults": {"model": "scripted", "baseUrl": server.url, **(agent or {})},
                "list": listed,
            },
        }
    )
    guards = {entry["id"]: LoopGuard(config, agent_id=entry["id"], on_error="raise") for entry in listed}
    made = [Tool(tool) for tool in tools]
    options.setdefault("tools", lambda _: made)
    options.setdefault("backoff", QUICK)
    return Runner(runtime_of(config), guards.__getitem__, watch=[seen], **options)
