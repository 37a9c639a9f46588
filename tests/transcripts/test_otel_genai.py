from __future__ import annotations

import json
from typing import Any

import pytest

from loopwarden.events import Outcome, ToolCall
from loopwarden.transcripts.model import ReadNotes, Spent
from loopwarden.transcripts.otel_genai import READER
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import SAMPLES, Facts, events, facts, items_of, streams
from tests.transcripts.handmade import (
    as_document,
    as_lines,
    assert_survives_damage,
    other_samples,
    read,
    source_of,
)
from tests.transcripts.tale import tale, turns


def value(given: Any) -> dict[str, Any]:
    """A value as OTLP writes it."""
    if isinstance(given, bool):
        return {"boolValue": given}
    if isinstance(given, int):
        return {"intValue": str(given)}
    if isinstance(given, float):
        return {"doubleValue": given}
    if isinstance(given, list):
        return {"arrayValue": {"values": [value(each) for each in given]}}
    if isinstance(given, dict):
        return {
            "kvlistValue": {"values": [{"key": key, "value": value(each)} for key, each in given.items()]}
        }
    return {"stringValue": given}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(given)} for key, given in attributes.items()]


def span(span_id: str, start: int, attributes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "traceId": "t",
        "spanId": span_id,
        "parentSpanId": "",
        "name": span_id,
        "startTimeUnixNano": str(1_700_000_000_000_000_000 + start * 10**9),
        "endTimeUnixNano": str(1_700_000_000_500_000_000 + start * 10**9),
        "attributes": pairs(attributes),
        "status": {},
        **more,
    }


def tool(span_id: str, start: int, attributes: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    known = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "read",
        "gen_ai.tool.call.id": span_id,
    }
    return span(span_id, start, known | (attributes or {}), **more)


def chat(span_id: str, start: int, attributes: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    known = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    return span(span_id, start, known | (attributes or {}), **more)


def otlp(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


A = {"gen_ai.tool.call.arguments": '{"a":1}', "gen_ai.tool.call.result": "one"}
B = {"gen_ai.tool.call.arguments": {"a": 2}, "gen_ai.tool.call.result": {"rows": [1, 2.5, True]}}


def test_facts() -> None:
    items = items_of(READER, "converted/otel-genai/otlp.json")
    assert facts(items) == Facts(calls=49, win=29, winres=29, streak=29)
    assert streams(items) == ["conv-1"]
    assert sum(item.output_tokens for item in items if isinstance(item, Spent)) == 49 * 20
    assert events(items, ToolCall)[0].at == 1748768402.9


@pytest.mark.parametrize(
    "data",
    [
        as_document(otlp(tool("b", 2, B), tool("a", 1, A))),
        as_lines([otlp(tool("b", 2, B)), otlp(tool("a", 1, A))]),
        as_lines([tool("b", 2, B), tool("a", 1, A)]),
        as_document({"batches": otlp(tool("b", 2, B), tool("a", 1, A))["resourceSpans"]}),
    ],
)
def test_containers_and_values(data: bytes) -> None:
    items, notes = read(READER, data)
    assert tale(items) == 'read({"a":1}) =one read({"a":2}) ={"rows":[1,2.5,true]}'
    assert not notes.counts


def test_spans_as_the_sdks_print_them() -> None:
    spans = [
        {
            "name": "execute_tool read",
            "context": {"trace_id": "0x1", "span_id": "0x2"},
            "parent_id": None,
            "start_time": "2026-01-01T00:00:00.5Z",
            "end_time": "2026-01-01T00:00:01Z",
            "status": {"status_code": "ERROR", "description": "no file"},
            "attributes": {"gen_ai.tool.name": "read", "gen_ai.tool.call.arguments": '{"a":1}'},
        }
    ]
    items, _ = read(READER, as_document(spans))
    assert tale(items) == 'read({"a":1}) !no_file'
    assert events(items, ToolCall)[0].at == 1767225600.5


@pytest.mark.parametrize(
    ("more", "attributes", "expected"),
    [
        ({"status": {"code": 2, "message": "no file"}}, {}, "!no_file"),
        ({"status": {"code": "STATUS_CODE_ERROR"}}, {"error.type": "Timeout"}, "!Timeout"),
        ({}, {"error.type": "Timeout"}, "!Timeout"),
        (
            {
                "status": {"code": 2},
                "events": [{"name": "exception", "attributes": pairs({"exception.message": "no such key"})}],
            },
            {},
            "!no_such_key",
        ),
        ({"status": {"code": 2, "message": "x"}}, {"gen_ai.tool.call.result": "part"}, "!part"),
        ({"status": {"code": 1}}, {"gen_ai.tool.call.result": "Error: no flag"}, "=Error:_no_flag"),
    ],
)
def test_failures(more: dict[str, Any], attributes: dict[str, Any], expected: str) -> None:
    given = {"gen_ai.tool.call.arguments": "{}"} | attributes
    items, _ = read(READER, as_document(otlp(tool("a", 1, given, **more))))
    assert tale(items) == f"read({{}}) {expected}"


def test_contents_left_out() -> None:
    items, notes = read(READER, as_document(otlp(tool("a", 1), tool("b", 2), tool("c", 3))))
    assert len({str(call.arguments) for call in events(items, ToolCall)}) == 3
    assert not events(items, Outcome)
    assert notes.counts == {"call_without_result": 3}


PARTS_IN = [{"role": "user", "parts": [{"type": "text", "content": "go"}]}]
PARTS_OUT = [
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "read", "arguments": {"a": 1}}]}
]
PARTS_GAVE = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "one"}]}]


@pytest.mark.parametrize("written", [json.dumps, lambda given: given])
def test_calls_in_messages(written: Any) -> None:
    usage = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}
    told = {"gen_ai.input.messages": written(PARTS_IN), "gen_ai.output.messages": written(PARTS_OUT)}
    again = {"gen_ai.input.messages": written([*PARTS_IN, *PARTS_OUT, *PARTS_GAVE])}
    items, _ = read(READER, as_document(otlp(chat("m", 1, told | usage), chat("n", 2, again | usage))))
    assert tale(items) == 'u read({"a":1}) $10/2 =one $10/2'


def test_calls_in_events() -> None:
    call = [{"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"a":1}'}}]
    first = [
        {"name": "gen_ai.user.message", "attributes": pairs({"content": "go"})},
        {"name": "gen_ai.choice", "attributes": pairs({"message": json.dumps({"tool_calls": call})})},
    ]
    second = [
        {"name": "gen_ai.user.message", "attributes": pairs({"content": "go"})},
        {"name": "gen_ai.assistant.message", "attributes": pairs({"tool_calls": json.dumps(call)})},
        {"name": "gen_ai.tool.message", "attributes": pairs({"content": "one", "id": "c"})},
    ]
    items, _ = read(READER, as_document(otlp(chat("m", 1, events=first), chat("n", 2, events=second))))
    assert tale(items) == 'u read({"a":1}) =one'


def test_tool_spans_go_before_messages() -> None:
    told = {"gen_ai.input.messages": PARTS_IN, "gen_ai.output.messages": PARTS_OUT}
    items, _ = read(READER, as_document(otlp(chat("m", 1, told), tool("c", 2, A))))
    assert tale(items) == 'u read({"a":1}) =one'


def vercel(span_id: str, start: int, operation: str, attributes: dict[str, Any]) -> dict[str, Any]:
    return span(
        span_id, start, {"ai.operationId": operation, "operation.name": f"{operation} f"} | attributes
    )


def test_vercel() -> None:
    call = {"ai.toolCall.name": "read", "ai.toolCall.id": "c", "ai.toolCall.args": '{"a":1}'}
    tokens = {"ai.usage.promptTokens": 10, "ai.usage.completionTokens": 2}
    outer = vercel("o", 0, "ai.generateText", tokens)
    inner = vercel("m", 1, "ai.generateText.doGenerate", tokens) | {"parentSpanId": "o"}
    used = vercel("c", 2, "ai.toolCall", call | {"ai.toolCall.result": '{"n":1}'}) | {"parentSpanId": "o"}
    items, _ = read(READER, as_document(otlp(outer, inner, used)))
    assert tale(items) == 'read({"a":1}) ={"n":1} $10/2'
    assert turns(items) == [["read"]]


def test_vercel_calls_in_messages() -> None:
    prompt: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "go"}]}]
    made = {"toolCallId": "c", "toolName": "read", "args": {"a": 1}}
    first = {"ai.prompt.messages": json.dumps(prompt), "ai.response.toolCalls": json.dumps([made])}
    prompt += [
        {"role": "assistant", "content": [{"type": "tool-call"} | made]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "result": "one"}]},
    ]
    spans = [
        vercel("m", 1, "ai.streamText.doStream", first),
        vercel("n", 2, "ai.streamText.doStream", {"ai.prompt.messages": json.dumps(prompt)}),
    ]
    items, _ = read(READER, as_document(otlp(*spans)))
    assert tale(items) == 'u read({"a":1}) =one'


def test_conversations_join_traces() -> None:
    ids = {"gen_ai.conversation.id": "c1"}
    spans = [tool("a", 1, A | ids), tool("b", 2, B | ids, traceId="u"), tool("x", 3, A, traceId="v")]
    items, _ = read(READER, as_document(otlp(*spans)))
    assert streams(items) == ["c1", "v"]


@pytest.mark.parametrize("sample", other_samples("otel-genai"))
def test_no_other_sample_is_taken(sample: str) -> None:
    assert not READER.sniff(Source(SAMPLES / sample))


def test_openinference_in_otlp_is_not_ours() -> None:
    data = as_document(otlp(span("a", 1, {"openinference.span.kind": "TOOL"})))
    assert not READER.sniff(source_of(data))


def test_deep_values_are_cut() -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    items = list(READER.read(source_of(as_document(otlp(tool("a", 1, A | {"other": deep})))), ReadNotes()))
    assert tale(items) == 'read({"a":1}) =one'


def test_damage() -> None:
    failed = tool(
        "b", 2, B, status={"code": 2}, events=[{"name": "exception", "attributes": pairs({"a": "b"})}]
    )
    assert_survives_damage(
        READER, [otlp(chat("m", 1, {"gen_ai.output.messages": PARTS_OUT}), failed)], lines=False
    )
    assert_survives_damage(
        READER, [chat("m", 1, {"gen_ai.input.messages": json.dumps(PARTS_GAVE)})], lines=True
    )
