from __future__ import annotations

import json
from typing import Any

import pytest

from loopwarden.events import ToolCall
from loopwarden.transcripts.model import ReadNotes, Spent, StreamStart
from loopwarden.transcripts.openinference import READER
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import SAMPLES, Facts, events, facts, items_of
from tests.transcripts.handmade import (
    as_document,
    as_lines,
    assert_survives_damage,
    other_samples,
    read,
    source_of,
)
from tests.transcripts.tale import tale, tales
from tests.transcripts.test_otel_genai import otlp, pairs

TRAIL = "openinference/trail_swe_72822db6.json"


def span(span_id: str, start: int, kind: str, attributes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A span as Phoenix gives it over its API."""
    return {
        "id": "global",
        "name": span_id,
        "context": {"trace_id": "t", "span_id": span_id},
        "span_kind": kind,
        "parent_id": None,
        "start_time": f"2026-01-01T00:00:{start:02}+00:00",
        "end_time": f"2026-01-01T00:00:{start:02}.5+00:00",
        "status_code": "OK",
        "status_message": "",
        "attributes": {"openinference.span.kind": kind} | attributes,
        "events": [],
        **more,
    }


def tool(span_id: str, start: int, attributes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return span(span_id, start, "TOOL", {"tool.name": "read"} | attributes, **more)


A = {"input.value": '{"a":1}', "input.mime_type": "application/json", "output.value": "one"}


def test_a_code_agent_has_no_calls() -> None:
    notes = ReadNotes()
    items = items_of(READER, TRAIL, notes)
    assert facts(items) == Facts()
    (start,) = [item for item in items if isinstance(item, StreamStart)]
    assert start.model == "anthropic/claude-3-7-sonnet-latest"
    spent = [item for item in items if isinstance(item, Spent)]
    assert len(spent) == 6
    assert spent[0].input_tokens == 5575
    assert spent[0].at == pytest.approx(1742834121.121159)
    assert notes.counts == {"replaced_record": 1}  # the file holds one span twice


def test_labels_of_a_trace_are_no_trace() -> None:
    assert not READER.sniff(Source(SAMPLES.parent / "labels" / "trail_swe_72822db6.labels.json"))


def nested(attributes: dict[str, Any]) -> dict[str, Any]:
    """Dotted names as objects in objects."""
    found: dict[str, Any] = {}
    for name, value in attributes.items():
        *path, last = name.split(".")
        at = found
        for key in path:
            at = at.setdefault(key, {})
        at[last] = value
    return found


WHOLE = tool("s", 1, A)
FLAT = {
    "name": "s",
    "context.span_id": "s",
    "context.trace_id": "t",
    "start_time": "2026-01-01T00:00:01Z",
    "attributes.openinference.span.kind": "TOOL",
    "attributes.tool.name": "read",
    "attributes.input.value": '{"a":1}',
    "attributes.output.value": "one",
}
TRAIL_SPAN = {
    "span_id": "r",
    "trace_id": "t",
    "span_name": "main",
    "timestamp": "2026-01-01T00:00:00Z",
    "duration": "PT1M2.5S",
    "span_attributes": {"openinference.span.kind": "CHAIN"},
    "child_spans": [
        {
            "span_id": "s",
            "parent_span_id": "r",
            "timestamp": "2026-01-01T00:00:01Z",
            "duration": "PT1S",
            "span_attributes": {"openinference.span.kind": "TOOL", "tool.name": "read"} | A,
        }
    ],
}


@pytest.mark.parametrize(
    "data",
    [
        as_document([WHOLE]),
        as_lines([WHOLE]),
        as_document({"data": [WHOLE], "next_cursor": None}),
        as_document([WHOLE | {"attributes": nested(WHOLE["attributes"])}]),
        as_lines([FLAT]),
        as_document({"trace_id": "t", "spans": [TRAIL_SPAN]}),
        as_document(otlp({"spanId": "s", "traceId": "t", "attributes": pairs(WHOLE["attributes"])})),
    ],
)
def test_containers(data: bytes) -> None:
    items, _ = read(READER, data)
    assert tale(items) == 'read({"a":1}) =one'


def test_durations_end_a_span() -> None:
    items, _ = read(READER, as_document({"trace_id": "t", "spans": [TRAIL_SPAN]}))
    (call,) = events(items, ToolCall)
    assert call.at == 1767225601.0


SMOLAGENTS = {"args": [1], "sanitize_inputs_outputs": True, "kwargs": {"b": 2}}
LANGCHAIN = {"output": {"content": "gone", "type": "tool", "tool_call_id": "c1", "status": "error"}}


@pytest.mark.parametrize(
    ("attributes", "more", "expected"),
    [
        ({"input.value": json.dumps(SMOLAGENTS)}, {}, 'read({"args":[1],"kwargs":{"b":2}})'),
        ({"tool.parameters": '{"a":1}'}, {}, 'read({"a":1})'),
        ({"input.value": "plain text"}, {}, 'read("plain text")'),
        (A | {"output.value": json.dumps(LANGCHAIN)}, {}, 'read({"a":1}) !gone'),
        (
            A | {"output.value": "content='x' name='read' tool_call_id='call_77'"},
            {},
            "read({\"a\":1}) =content='x'_name='read'",
        ),
        ({"input.value": "1"}, {"status_code": "ERROR", "status_message": "no file"}, 'read("1") !no_file'),
        (A, {"status_code": "Error", "status_message": "no file"}, 'read({"a":1}) !one'),
    ],
)
def test_arguments_and_results(attributes: dict[str, Any], more: dict[str, Any], expected: str) -> None:
    items, _ = read(READER, as_document([tool("s", 1, attributes, **more)]))
    assert tale(items) == expected


def test_calls_in_messages() -> None:
    made = {
        "message.role": "assistant",
        "message.tool_calls.0.tool_call.id": "c",
        "message.tool_calls.0.tool_call.function.name": "read",
        "message.tool_calls.0.tool_call.function.arguments": '{"a":1}',
    }
    tokens = {"llm.token_count.prompt": 10, "llm.token_count.completion": 2, "llm.cost.total": 0.25}
    first = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.contents.0.message_content.text": "go",
        **{f"llm.output_messages.0.{name}": value for name, value in made.items()},
    }
    second = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "go",
        **{f"llm.input_messages.1.{name}": value for name, value in made.items()},
        "llm.input_messages.2.message.role": "tool",
        "llm.input_messages.2.message.tool_call_id": "c",
        "llm.input_messages.2.message.content": "one",
    }
    spans = [span("m", 1, "LLM", first | tokens), span("n", 2, "LLM", second | tokens)]
    expected = 'u read({"a":1}) $10/2 =one'
    for data in (
        as_document(spans),
        as_document([each | {"attributes": nested(each["attributes"])} for each in spans]),
    ):
        items, _ = read(READER, data)
        assert tale(items).startswith(expected)
        assert next(item.cost for item in items if isinstance(item, Spent)) == 0.25


def test_sub_agents_and_sessions() -> None:
    spans = [
        span("root", 0, "AGENT", {"input.value": "go", "session.id": "chat"}),
        tool("task", 1, A, parent_id="root"),
        span("sub", 2, "AGENT", {"agent.name": "helper"}, parent_id="task"),
        tool("inner", 3, A, parent_id="sub"),
    ]
    items, _ = read(READER, as_document(spans))
    assert tales(items) == ['u read({"a":1}) =one', 'read({"a":1}) =one']
    assert [(item.stream, item.agent) for item in items if isinstance(item, StreamStart)] == [
        ("chat", "root"),
        ("chat/sub", "helper"),
    ]


@pytest.mark.parametrize("sample", [name for name in other_samples() if name != TRAIL])
def test_no_other_sample_is_taken(sample: str) -> None:
    assert not READER.sniff(Source(SAMPLES / sample))


@pytest.mark.parametrize("value", [[], {}, {"spans": []}, {"spans": [{"span_id": "x"}]}, "x", [1]])
def test_what_is_no_trace(value: object) -> None:
    assert not READER.sniff(source_of(as_document(value)))


def test_damage() -> None:
    assert_survives_damage(READER, [{"trace_id": "t", "spans": [TRAIL_SPAN]}], lines=False)
    made = {
        "llm.output_messages": [{"message": {"tool_calls": [{"tool_call": {"function": {"name": "x"}}}]}}]
    }
    assert_survives_damage(READER, [span("m", 1, "LLM", made), tool("s", 2, A), FLAT], lines=True)
