"""Prometheus: a counter of loop events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.errors import MissingExtraError
from loopwarden.telemetry.tool_names import MAX_TOOLS, ToolNames

try:
    from prometheus_client import REGISTRY, Counter
except ImportError as missing:
    raise MissingExtraError("prometheus-client", "prometheus") from missing

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from loopwarden.events import Event, Verdict

COUNTER = "loopwarden_loop_events"
"""Name of the counter; Prometheus shows it as `loopwarden_loop_events_total`."""


class PrometheusListener:
    """Counts loop events: `LoopGuard(on_verdict=[PrometheusListener()])`. One listener serves many guards.

    Args:
        registry: Where the counter is registered; `None` for the global one.
        max_tools: Tools that are kept apart; the others are counted as `other`.

    Raises:
        ValueError: `max_tools` is below 0, or the registry has such a counter already.
    """

    def __init__(self, *, registry: CollectorRegistry | None = None, max_tools: int = MAX_TOOLS) -> None:
        self._tools = ToolNames(max_tools)
        self._counter = Counter(
            COUNTER,
            "Loops seen in the tool calls of agents, one an event.",
            ("tool", "level", "action", "detector", "observed"),
            registry=registry if registry is not None else REGISTRY,
        )

    def __call__(self, verdict: Verdict, event: Event) -> None:  # noqa: ARG002 - the shape of a listener
        """A listener of `LoopGuard`; a loop of no tool is counted with an empty one."""
        self._counter.labels(
            tool=self._tools.label(verdict.tool) if verdict.tool is not None else "",
            level=verdict.level or "",
            action=verdict.would or verdict.action,
            detector=verdict.detector or "",
            observed="true" if verdict.would is not None else "false",
        ).inc()
