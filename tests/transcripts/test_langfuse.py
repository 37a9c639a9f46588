from __future__ import annotations

import json
from typing import Any

import pytest

from loopwarden.transcripts.langfuse import READER
from loopwarden.transcripts.model import Spent
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import SAMPLES, Facts, facts, items_of, streams
from tests.transcripts.handmade import (
    as_document,
    as_lines,
    assert_survives_damage,
    other_samples,
    read,
    source_of,
)
from tests.transcripts.tale import tale, tales, turns


def observation(name: str, kind: str, start: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"{name}{start}",
        "traceId": "t",
        "type": kind,
        "name": name,
        "startTime": f"2026-01-01T00:00:{start:02}.000Z",
        "endTime": f"2026-01-01T00:00:{start:02}.500Z",
        "parentObservationId": "root",
        "input": None,
        "output": None,
        "level": "DEFAULT",
        "statusMessage": None,
        **more,
    }


def tool(start: int, kind: str = "TOOL", **more: Any) -> dict[str, Any]:
    return observation("read", kind, start, **({"input": {"a": start}, "output": "one"} | more))


def trace(*observations: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "t",
        "name": "x",
        "sessionId": None,
        "input": "go",
        "observations": list(observations),
        **more,
    }


def test_facts() -> None:
    items = items_of(READER, "converted/langfuse/trace.json")
    assert facts(items) == Facts(calls=10, win=10, winres=10, streak=10)
    assert streams(items) == ["s-1"]
    words = tale(items).split()
    assert [word[0] for word in words].count("!") == 10  # level ERROR
    assert words[-1] == "$9000/400"


TOLD = 'u read({"a":1}) =one read({"a":2}) =one'


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (as_document(trace(tool(2), tool(1))), TOLD),
        (as_document([trace(tool(2), tool(1))]), TOLD),
        (as_document({"data": [trace(tool(2), tool(1))], "meta": {}}), TOLD),
        (as_lines([trace(tool(2), tool(1))]), TOLD),
        (as_document({"trace": {"id": "t", "input": "go"}, "observations": [tool(1), tool(2)]}), TOLD),
        (as_document([tool(2), tool(1)]), TOLD[2:]),
        (as_lines([tool(2), tool(1)]), TOLD[2:]),
        (as_document({"data": [tool(2), tool(1)]}), TOLD[2:]),
    ],
)
def test_containers(data: bytes, expected: str) -> None:
    items, notes = read(READER, data)
    assert tale(items) == expected
    assert not notes.counts


MESSAGE = {"content": "one", "tool_call_id": "c", "status": "error"}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"input": '{"a":1}'}, 'read({"a":1}) =one'),
        ({"input": "plain"}, 'read("plain") =one'),
        ({"output": {"rows": [1]}}, 'read({"a":1}) ={"rows":[1]}'),
        ({"output": json.dumps(MESSAGE)}, 'read({"a":1}) !one'),
        ({"level": "ERROR"}, 'read({"a":1}) !one'),
        ({"level": "ERROR", "output": None, "statusMessage": "no file"}, 'read({"a":1}) !no_file'),
        ({"output": "Error: no flag"}, 'read({"a":1}) =Error:_no_flag'),
        ({"output": None}, 'read({"a":1})'),
    ],
)
def test_arguments_and_results(more: dict[str, Any], expected: str) -> None:
    items, _ = read(READER, as_document(trace(tool(1, **more), input=None)))
    assert tale(items) == expected


def made(name: str = "read") -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": '{"a":1}'}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def generation(start: int, told: object, said: object, **more: Any) -> dict[str, Any]:
    return observation("llm", "GENERATION", start, input=told, output=said, model="m", **more)


USER = {"role": "user", "content": "go"}


def test_old_sdks_write_tools_as_spans() -> None:
    spans = [
        generation(1, [USER], made()),
        tool(2, "SPAN"),
        observation("step", "SPAN", 3, input="x", output="y"),
    ]
    items, _ = read(READER, as_document(trace(*spans)))
    assert tale(items) == 'u read({"a":2}) =one'
    assert turns(items) == [["read"]]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([USER], made()),
        ({"messages": [USER], "tools": []}, made()),
        (json.dumps([USER]), json.dumps(made())),
        ([USER], {"choices": [{"message": made()}]}),
        ([USER], [made()]),
    ],
)
def test_calls_in_messages(told: object, said: object) -> None:
    history = [USER, made(), {"role": "tool", "tool_call_id": "c", "content": "one"}]
    items, _ = read(READER, as_document(trace(generation(1, told, said), generation(2, history, "done"))))
    assert tale(items) == 'u read({"a":1}) =one'


@pytest.mark.parametrize(
    ("more", "expected", "cost"),
    [
        ({"usageDetails": {"input": 7, "input_cached_tokens": 3, "output": 2, "total": 12}}, "$10/2", None),
        ({"usage": {"promptTokens": 10, "completionTokens": 2}, "calculatedTotalCost": 0.5}, "$10/2", 0.5),
        ({"usage": {"input": 10, "output": 2}, "costDetails": {"total": 0.25}}, "$10/2", 0.25),
    ],
)
def test_tokens(more: dict[str, Any], expected: str, cost: float | None) -> None:
    items, _ = read(READER, as_document(trace(generation(1, [USER], None, **more), tool(2))))
    assert tale(items) == f'u read({{"a":2}}) =one {expected}'
    assert [item.cost for item in items if isinstance(item, Spent)] == [cost]


def test_sessions_join_traces_and_sub_agents_part_them() -> None:
    first = trace(
        observation("main", "AGENT", 0, id="root", parentObservationId=None, input="go"),
        tool(1, id="task"),
        observation("helper", "AGENT", 2, id="sub", parentObservationId="task"),
        tool(3, parentObservationId="sub"),
        sessionId="s",
    )
    second = trace(tool(9, traceId="u"), id="u", sessionId="s")
    items, _ = read(READER, as_document([first, second]))
    assert streams(items) == ["s", "s/sub"]
    assert tales(items) == ['u read({"a":1}) =one u read({"a":9}) =one', 'read({"a":3}) =one']


@pytest.mark.parametrize("sample", other_samples("langfuse"))
def test_no_other_sample_is_taken(sample: str) -> None:
    assert not READER.sniff(Source(SAMPLES / sample))


@pytest.mark.parametrize(
    "value", [[], {}, {"observations": []}, {"observations": [1]}, [1], "x", {"data": [1]}]
)
def test_what_is_no_trace(value: object) -> None:
    assert not READER.sniff(source_of(as_document(value)))


def test_damage() -> None:
    whole = trace(generation(1, [USER], made(), usageDetails={"input": 1}), tool(2, "SPAN"), sessionId="s")
    assert_survives_damage(READER, [whole], lines=False)
    assert_survives_damage(READER, [tool(2), trace(tool(1, output=MESSAGE))], lines=True)
