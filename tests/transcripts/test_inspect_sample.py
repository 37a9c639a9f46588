from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.events import Outcome, ToolCall, UserMessage
from loopwarden.transcripts.inspect_sample import NESTING, resolve, sample_items
from loopwarden.transcripts.model import ReadNotes, Recorded, Spent, StreamStart
from loopwarden.transcripts.stream import StreamNames
from tests.transcripts.facts import events, result_text, streams

if TYPE_CHECKING:
    from loopwarden.transcripts.model import Item


def read(sample: dict[str, Any]) -> tuple[list[Item], dict[str, int]]:
    notes = ReadNotes()
    items = list(sample_items({"id": 1, "epoch": 1, **sample}, {"task": "t"}, StreamNames(), notes))
    streams(items)
    return items, dict(notes.counts)


def tool(given: str | None, second: int, until: int | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "event": "tool",
        "id": given,
        "function": "f",
        "arguments": {"id": given},
        "result": f"result {given}",
        "timestamp": f"1970-01-01T00:00:{second:02}Z",
        "completed": None if until is None else f"1970-01-01T00:00:{until:02}Z",
        **fields,
    }


def model(*ids: str, usage: object = None, **fields: Any) -> dict[str, Any]:
    calls = [{"id": each, "function": "f", "arguments": {"id": each}} for each in ids]
    output = {"choices": [{"message": {"role": "assistant", "tool_calls": calls}}], "usage": usage}
    return {"event": "model", "output": output, **fields}


def begin(span: str, kind: str, parent: str | None = None) -> dict[str, Any]:
    return {"event": "span_begin", "id": span, "type": kind, "name": f"the {span}", "parent_id": parent}


def strip(items: list[Item]) -> list[str]:
    """The events as a line of letters, and ids in small print."""
    letters = {ToolCall: "call", Outcome: "result"}
    return [
        f"{letters[type(item.event)]} {item.event.call_id}"
        if isinstance(item, Recorded) and isinstance(item.event, ToolCall | Outcome)
        else type(item.event if isinstance(item, Recorded) else item).__name__
        for item in items
    ]


def test_parallel_calls_are_told_together_and_results_as_they_came() -> None:
    items, notes = read(
        {
            "events": [
                {"event": "sample_init"},
                model("a", "b", usage={"input_tokens": 3, "output_tokens": 1}),
                tool("a", 1, 9),
                tool("b", 1, 4),
                model("c"),
                tool("c", 10, 11),
                {"event": "compaction"},
            ]
        }
    )
    assert strip(items) == [
        "StreamStart",
        "UserMessage",
        "call a",
        "call b",
        "result b",
        "result a",
        "Spent",
        "call c",
        "result c",
        "Compaction",
    ]
    first, second, third = events(items, ToolCall)
    assert first.turn_id == second.turn_id != third.turn_id
    times = [item.event.at for item in items if isinstance(item, Recorded) and item.event.at is not None]
    assert times == sorted(times)
    assert notes == {}


def test_calls_that_never_ran_or_never_ended_have_no_result() -> None:
    items, notes = read({"events": [model("a", "b"), tool("a", 1, pending=True)]})
    assert [call.call_id for call in events(items, ToolCall)] == ["a", "b"]
    assert events(items, Outcome) == []
    assert notes == {"call_without_result": 2}


@pytest.mark.parametrize(
    ("fields", "text", "is_error", "details"),
    [
        ({"result": "ok"}, "ok", None, None),
        ({"result": 3}, "3", None, None),
        ({"result": None}, "", None, None),
        ({"result": [{"type": "text", "text": "a"}]}, "a", None, None),
        ({"result": "attachment://k"}, "long text", None, None),
        ({"result": [{"type": "text", "text": "attachment://k"}]}, "long text", None, None),
        ({"result": "attachment://gone"}, "attachment://gone", None, None),
        ({"result": "", "error": {"type": "parsing", "message": "bad"}}, "bad", True, None),
        (
            {"result": "half", "error": {"type": "limit", "message": "attachment://k"}},
            "half\nlong text",
            True,
            None,
        ),
        ({"result": "r", "failed": True}, "r", True, None),
        ({"result": "r", "failed": None, "error": None}, "r", None, None),
        ({"result": "Error: in prose only"}, "Error: in prose only", None, None),
        (
            {"result": "", "error": {"type": "timeout", "message": "slow"}},
            "slow",
            True,
            {"status": "completed", "aggregated": "slow", "timedOut": True},
        ),
        ({"result": "r", "error": "odd"}, "r", True, None),
    ],
)
def test_results(fields: dict[str, Any], text: str, is_error: bool | None, details: object) -> None:
    items, _ = read({"events": [tool("a", 1, **fields)], "attachments": {"k": "long text"}})
    (outcome,) = events(items, Outcome)
    assert result_text(outcome) == text
    assert outcome.result.get("isError") is is_error
    assert outcome.result.get("details") == details


def test_attachments_in_arguments() -> None:
    deep: Any = "attachment://k"
    for _ in range(500):
        deep = [deep]
    attachments = {"k": "v", "n": 3}
    assert resolve({"a": ["attachment://k", "attachment://n"], "b": 1}, attachments) == {
        "a": ["v", "attachment://n"],
        "b": 1,
    }
    assert resolve(deep, attachments) == deep  # too deep: as it is
    items, _ = read({"events": [tool("a", 1, arguments={"x": "attachment://k"})], "attachments": attachments})
    assert events(items, ToolCall)[0].arguments == {"x": "v"}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        # cached tokens are part of the input for some providers, for others only of the total
        (
            {"input_tokens": 100, "output_tokens": 5, "total_tokens": 105, "input_tokens_cache_read": 90},
            (100, 5),
        ),
        (
            {"input_tokens": 10, "output_tokens": 5, "total_tokens": 105, "input_tokens_cache_read": 90},
            (100, 5),
        ),
        ({"input_tokens": 10, "output_tokens": 5}, (10, 5)),
        ({}, None),
        ("lots", None),
    ],
)
def test_tokens(usage: object, expected: tuple[int, int] | None) -> None:
    items, _ = read({"events": [model(usage=usage)]})
    spent = [(item.input_tokens, item.output_tokens) for item in items if isinstance(item, Spent)]
    assert spent == ([] if expected is None else [expected])
    items, _ = read({"events": [model(usage=usage, cache="read")]})
    assert not any(isinstance(item, Spent) for item in items)


def test_agents_that_agents_start_are_streams_of_their_own() -> None:
    items, notes = read(
        {
            "events": [
                begin("solver", "solver"),
                begin("main", "agent", "solver"),
                model("a", span_id="main"),
                begin("call", "tool", "main"),
                begin("helper", "agent", "call"),
                tool("a", 1, 9, span_id="main"),
                model("x", span_id="helper"),
                tool("x", 2, 3, span_id="helper"),
                begin("branch", "fork", "main"),
                begin("inner", "other", "branch"),
                tool("y", 4, 5, span_id="inner"),
            ]
        }
    )
    starts = {item.stream: item.parent for item in items if isinstance(item, StreamStart)}
    assert starts == {
        "1_epoch_1": None,
        "1_epoch_1/the helper": "1_epoch_1",
        "1_epoch_1/the branch": "1_epoch_1",
    }
    asked = {
        item.event.call_id: item.stream
        for item in items
        if isinstance(item, Recorded) and isinstance(item.event, ToolCall)
    }
    assert asked == {"a": "1_epoch_1", "x": "1_epoch_1/the helper", "y": "1_epoch_1/the branch"}
    assert notes == {}


def test_spans_that_lie_in_each_other_end() -> None:
    items, _ = read(
        {"events": [begin("a", "fork", "b"), begin("b", "fork", "a"), tool("x", 1, 2, span_id="a")]}
    )
    assert len(events(items, Outcome)) == 1
    chain = [begin(str(n), "agent", str(n + 1)) for n in range(3_000)]
    items, _ = read({"events": [*chain, tool("x", 1, 2, span_id="0")]})
    assert len(events(items, Outcome)) == 1


def test_events_inside_events_are_followed_to_a_bound() -> None:
    event = tool("in", 1, 2)
    for number in range(NESTING + 3):
        event = tool(f"n{number}", 1, 2, events=[event])
    items, notes = read({"events": [event]})
    assert len(streams(items)) == NESTING + 1
    assert notes == {"too_deep": 1}


def test_messages_are_read_where_there_are_no_events() -> None:
    items, notes = read(
        {
            "events": [{"event": "state"}],
            "model_usage": {"m": {"input_tokens": 5, "output_tokens": 2}, "n": {"input_tokens": 2}, "o": 3},
            "messages": [
                {"role": "user", "content": "task"},
                {"role": "assistant", "tool_calls": [{"id": "a", "function": "f", "arguments": {"x": 1}}, 3]},
                {"role": "tool", "tool_call_id": "a", "function": "f", "content": "y"},
                {"role": "user", "content": "please go on"},
                {"role": "user", "content": "a person", "source": "operator"},
                {"role": "assistant", "tool_calls": None},
                None,
            ],
        }
    )
    assert len(events(items, ToolCall)) == len(events(items, Outcome)) == 1
    assert len(events(items, UserMessage)) == 2
    spent = [item for item in items if isinstance(item, Spent)]
    assert [(item.input_tokens, item.output_tokens) for item in spent] == [(3, 1), (4, 1)]
    assert notes == {"bad_line": 2}
