"""OpenTelemetry and Prometheus: the same events by the same words, and a bounded number of series."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from loopwarden import LoopGuard
from loopwarden.telemetry.otel import OpenTelemetryListener
from loopwarden.telemetry.prometheus import PrometheusListener
from loopwarden.telemetry.tool_names import OTHER, ToolNames

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.guard import Verbs
    from loopwarden.telling import Listener

SMALL: dict[str, Any] = {
    "enabled": True,
    "warningThreshold": 3,
    "criticalThreshold": 5,
    "globalCircuitBreakerThreshold": 9,
}
SECRET = "hunter2-correct-horse"  # noqa: S105 - made up, to be looked for


def calls(guard: Verbs, count: int = 10, tool: str = "read", run_id: str = "r") -> None:
    for number in range(count):
        verdict = guard.before(tool, {"path": SECRET}, call_id=f"c{number}", run_id=run_id)
        if verdict.action in {"allow", "warn"}:
            guard.after(f"c{number}", result=SECRET, run_id=run_id)


def counted(reader: InMemoryMetricReader) -> dict[tuple[Any, ...], int]:
    """Counts by tool, level, action, detector and observed."""
    data = reader.get_metrics_data()
    assert data is not None
    ((metric,),) = [scope.metrics for resource in data.resource_metrics for scope in resource.scope_metrics]
    assert (metric.name, metric.unit) == ("loopwarden.loop.events", "{event}")
    names = [
        "gen_ai.tool.name",
        *(f"loopwarden.{name}" for name in ("level", "action", "detector", "observed")),
    ]
    return {
        tuple((point.attributes or {}).get(name) for name in names): int(point.value)  # type: ignore[union-attr]
        for point in metric.data.data_points
    }


EXPECTED = {
    ("read", "warning", "warn", "generic_repeat", False): 2,
    ("read", "critical", "block", "generic_repeat", False): 4,
    ("read", "critical", "abort", "global_circuit_breaker", False): 1,
}


def test_the_counter_of_opentelemetry() -> None:
    reader = InMemoryMetricReader()
    listener = OpenTelemetryListener(meter_provider=MeterProvider([reader]))
    calls(LoopGuard(SMALL, on_error="raise", on_verdict=[listener]), 15)
    assert counted(reader) == EXPECTED


def test_the_events_on_the_current_span() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    listener = OpenTelemetryListener(meter_provider=MeterProvider())
    guard = LoopGuard(SMALL, on_error="raise", on_verdict=[listener])
    with provider.get_tracer("test").start_as_current_span("agent"):
        calls(guard)
    (span,) = exporter.get_finished_spans()
    assert [event.name for event in span.events] == ["loopwarden.loop"] * 7
    attributes = dict(span.events[-1].attributes or {})
    assert str(attributes.pop("loopwarden.key")).startswith("repeat:")
    assert attributes == {
        "loopwarden.level": "critical",
        "loopwarden.action": "abort",
        "loopwarden.detector": "global_circuit_breaker",
        "loopwarden.observed": False,
        "loopwarden.count": 9,
        "loopwarden.threshold": 9,
        "loopwarden.run.id": "r",
        "gen_ai.tool.name": "read",
        "gen_ai.tool.call.id": "c9",
        "error.type": "tool_loop_persisted",
    }
    assert SECRET not in repr([event.attributes for event in span.events])


def test_the_tools_of_an_alternation_are_told() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    guard = LoopGuard(
        SMALL, on_error="raise", on_verdict=[OpenTelemetryListener(meter_provider=MeterProvider())]
    )
    with provider.get_tracer("test").start_as_current_span("agent"):
        for number in range(4):
            guard.before("ab"[number % 2], {}, call_id=f"c{number}", run_id="r")
    (span,) = exporter.get_finished_spans()
    assert (span.events[-1].attributes or {})["loopwarden.paired_tools"] == ("a",)


def test_without_a_span_and_without_an_sdk_nothing_happens() -> None:
    calls(LoopGuard(SMALL, on_error="raise", on_verdict=[OpenTelemetryListener()]))


def shown(registry: CollectorRegistry) -> list[str]:
    text = generate_latest(registry).decode()
    return [line for line in text.splitlines() if line.startswith("loopwarden_loop_events_total{")]


def test_the_counter_of_prometheus() -> None:
    registry = CollectorRegistry()
    listener = PrometheusListener(registry=registry)
    calls(LoopGuard(SMALL, on_error="raise", on_verdict=[listener]), 15)
    assert {
        (tool, level, action, detector, observed): registry.get_sample_value(
            "loopwarden_loop_events_total",
            {
                "tool": tool,
                "level": level,
                "action": action,
                "detector": detector,
                "observed": str(observed).lower(),
            },
        )
        for tool, level, action, detector, observed in EXPECTED
    } == EXPECTED
    assert len(shown(registry)) == len(EXPECTED)
    calls(LoopGuard(SMALL, on_error="raise", mode="observe", on_verdict=[listener]))
    assert any('action="block"' in line and 'observed="true"' in line for line in shown(registry))


@pytest.mark.parametrize("tool", ["\x1b[31m\n", 'a"}', "x" * 10_000, "\ud800", "\u202e"])
def test_hostile_names_are_labels_on_one_line(tool: str) -> None:
    registry, reader = CollectorRegistry(), InMemoryMetricReader()
    listeners: list[Listener] = [
        PrometheusListener(registry=registry),
        OpenTelemetryListener(meter_provider=MeterProvider([reader])),
    ]
    calls(LoopGuard(SMALL, on_error="raise", on_verdict=listeners), 4, tool)
    (line,) = shown(registry)
    assert line.isprintable()
    assert len(line) < 300
    ((name, *_),) = counted(reader)
    assert name.isprintable()
    assert len(name) <= 100


def test_a_model_that_makes_up_tools_makes_no_more_series() -> None:
    registry, reader = CollectorRegistry(), InMemoryMetricReader()
    listeners: list[Listener] = [
        PrometheusListener(registry=registry, max_tools=3),
        OpenTelemetryListener(meter_provider=MeterProvider([reader]), max_tools=3),
    ]
    guard = LoopGuard(SMALL, on_error="raise", on_verdict=listeners)
    for number in range(20):
        calls(guard, 4, f"tool{number}", f"r{number}")
    assert len(shown(registry)) == 4
    by_tool = {names[0]: count for names, count in counted(reader).items()}
    assert by_tool == {"tool0": 1, "tool1": 1, "tool2": 1, OTHER: 17}


def test_an_abort_of_no_tool_is_counted() -> None:
    registry, reader = CollectorRegistry(), InMemoryMetricReader()
    listeners: list[Listener] = [
        PrometheusListener(registry=registry),
        OpenTelemetryListener(meter_provider=MeterProvider([reader])),
    ]
    guard = LoopGuard({}, on_error="raise", on_verdict=listeners)
    for _ in range(3):
        guard.compacted(run_id="r")
    (line,) = shown(registry)
    assert 'tool=""' in line
    assert list(counted(reader)) == [(None, "critical", "abort", "post_compaction", False)]


def test_the_bound_holds_for_threads() -> None:
    names = ToolNames(50)
    found: set[str] = set()

    def work(number: int) -> None:
        for tool in range(100):
            found.add(names.label(f"{number} {tool}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 51
    assert OTHER in found


@pytest.mark.parametrize("make", [ToolNames, lambda most: PrometheusListener(max_tools=most)])
def test_a_bound_that_makes_no_sense_is_refused(make: Callable[[int], object]) -> None:
    with pytest.raises(ValueError, match="max_tools=-1"):
        make(-1)
