"""OpenTelemetry: a counter of loop events, and an event on the span that is current.

Attributes have the names of the GenAI semantic conventions where there is one (`gen_ai.tool.name`,
`gen_ai.tool.call.id`, `error.type`), and else begin with `loopwarden.`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.errors import MissingExtraError
from loopwarden.masking import clean
from loopwarden.telemetry.tool_names import MAX_TOOLS, ToolNames

try:
    from opentelemetry import metrics, trace
except ImportError as missing:
    raise MissingExtraError("opentelemetry-api", "otel") from missing

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

    from loopwarden.events import Event, Verdict

COUNTER = "loopwarden.loop.events"
SPAN_EVENT = "loopwarden.loop"


class OpenTelemetryListener:
    """Tells OpenTelemetry of every loop event: `LoopGuard(on_verdict=[OpenTelemetryListener()])`.

    Args:
        meter_provider: Where the counter is made; `None` for the global one.
        max_tools: Tools that the counter keeps apart; the others are counted as `other`.

    Raises:
        ValueError: `max_tools` is below 0.
    """

    def __init__(
        self, *, meter_provider: metrics.MeterProvider | None = None, max_tools: int = MAX_TOOLS
    ) -> None:
        meter = metrics.get_meter("loopwarden", meter_provider=meter_provider)
        self._counter = meter.create_counter(
            COUNTER, unit="{event}", description="Loops seen in the tool calls of agents, one an event."
        )
        self._tools = ToolNames(max_tools)

    def __call__(self, verdict: Verdict, event: Event) -> None:
        """A listener of `LoopGuard`."""
        attributes: dict[str, AttributeValue] = {
            "loopwarden.level": verdict.level or "",
            "loopwarden.action": verdict.would or verdict.action,
            "loopwarden.detector": verdict.detector or "",
            "loopwarden.observed": verdict.would is not None,
        }
        counted = dict(attributes)
        if verdict.tool is not None:
            counted["gen_ai.tool.name"] = self._tools.label(verdict.tool)
        self._counter.add(1, counted)
        span = trace.get_current_span()
        if span.is_recording():
            span.add_event(SPAN_EVENT, attributes | _more(verdict, event))


def _more(verdict: Verdict, event: Event) -> dict[str, AttributeValue]:
    """What a span event says beyond the counter."""
    names = {
        "gen_ai.tool.name": verdict.tool,
        "gen_ai.tool.call.id": getattr(event, "call_id", None),
        "loopwarden.key": verdict.key,
        "loopwarden.run.id": event.run_id,
        "error.type": verdict.error,
    }
    more: dict[str, AttributeValue] = {
        name: clean(str(value)) for name, value in names.items() if value is not None
    }
    more["loopwarden.count"] = verdict.count
    more["loopwarden.threshold"] = verdict.threshold
    if verdict.paired_tools:
        more["loopwarden.paired_tools"] = tuple(clean(tool) for tool in verdict.paired_tools)
    return more
