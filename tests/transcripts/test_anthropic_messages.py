from __future__ import annotations

import json
from typing import Any

import pytest

from loopwarden.events import Outcome
from loopwarden.transcripts.anthropic_messages import READER
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
from tests.transcripts.recordings import Recording, captures, stream
from tests.transcripts.tale import tale, tales, turns

USER = {"role": "user", "content": "look"}
TOOLS = [{"name": "read", "input_schema": {"type": "object"}}]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def asked(call: str, tool: str, given: object, kind: str = "tool_use") -> dict[str, Any]:
    return {"type": kind, "id": call, "name": tool, "input": given}


def gave(call: str, content: object, **more: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def answer(message: dict[str, Any], tokens: int) -> dict[str, Any]:
    usage = {"input_tokens": tokens - 3, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 2}
    return {
        "id": f"msg_{tokens}",
        "type": "message",
        "model": "claude-x",
        **message,
        "stop_reason": "tool_use",
        "usage": {**usage, "output_tokens": 2},
    }


def streamed(message: dict[str, Any], tokens: int) -> str:
    whole = answer(message, tokens)
    start = {**whole, "content": [], "stop_reason": None, "usage": whole["usage"] | {"output_tokens": 1}}
    found: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty = block | {"text": ""}
            deltas = [{"type": "text_delta", "text": part} for part in (block["text"][:2], block["text"][2:])]
        else:
            empty = block | {"input": {}}
            given = json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in (given[:4], given[4:])]
        found.append({"type": "content_block_start", "index": index, "content_block": empty})
        found += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        found.append({"type": "content_block_stop", "index": index})
    found += [{"type": "message_delta", "delta": {}, "usage": {"output_tokens": 2}}, {"type": "message_stop"}]
    return stream(*found)


REPLIES = [
    assistant(text("first"), asked("c1", "read", {"a": 1})),
    assistant(asked("c2", "read", {"a": 2}), asked("c3", "list", {"a": 3})),
    assistant(text("done")),
]
HISTORY = [
    USER,
    REPLIES[0],
    user(gave("c1", "one")),
    REPLIES[1],
    user(gave("c3", [text("three")]), gave("c2", "two", is_error=True)),
    REPLIES[2],
]
TOKENS = (10, 20, 30)
RECORDING = Recording(
    requests=[
        {"model": "claude", "max_tokens": 9, "system": "s", "tools": TOOLS, "messages": HISTORY[:end]}
        for end in (1, 3, 5)
    ],
    answers=[answer(message, tokens) for message, tokens in zip(REPLIES, TOKENS, strict=True)],
    messages=HISTORY,
    streams=[streamed(message, tokens) for message, tokens in zip(REPLIES, TOKENS, strict=True)],
)
ALL = 'u read({"a":1}) $10/2 =one read({"a":2}) list({"a":3}) $20/2 =three !two $30/2'


def test_facts() -> None:
    assert facts(items_of(READER, "anthropic-messages/parallel_tool_calls.json")) == Facts(4, 1, 1, 1)
    sql = "converted/anthropic-messages/sql_same_result.json"
    assert facts(items_of(READER, sql)) == Facts(10, 10, 10, 10)


def test_parallel_calls_are_one_turn() -> None:
    items = items_of(READER, "anthropic-messages/parallel_tool_calls.json")
    assert turns(items) == [["retrieve_entity_info"] * 4]
    assert len(events(items, Outcome)) == 4


def test_capture_of_several_conversations() -> None:
    told = tales(items_of(READER, "anthropic-messages/tool_search.json"))
    assert [sum(word.startswith(("search", "get_", "stock")) for word in line.split()) for line in told] == [
        2,
        3,
        1,
        1,
    ]


@pytest.mark.parametrize(("container", "data"), list(captures(RECORDING)))
def test_every_capture_is_read_once(container: str, data: bytes) -> None:
    items, notes = read(READER, data)
    assert tale(items) == ALL, container
    assert turns(items) == [["read"], ["read", "list"]]
    assert notes.counts["copied_history"] == 2


@pytest.mark.parametrize(
    "data",
    [
        as_document(HISTORY),
        as_lines([HISTORY]),
        as_document({"messages": HISTORY}),
        as_lines([{"custom_id": "t", "params": {"messages": HISTORY, "tools": TOOLS}}]),
        as_lines([*RECORDING.requests, {"messages": HISTORY}]),
    ],
)
def test_histories_without_answers(data: bytes) -> None:
    items, _ = read(READER, data)
    assert tale(items) == 'u read({"a":1}) =one read({"a":2}) list({"a":3}) =three !two'


def test_batch_results_are_answers() -> None:
    line = {"custom_id": "t", "result": {"type": "succeeded", "message": RECORDING.answers[0]}}
    assert tale(read(READER, as_lines([line]))[0]) == 'read({"a":1}) $10/2'


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([gave("c1", None)], 'u read({"a":1}) ='),
        ([gave("c1", "x"), text("now this")], 'u read({"a":1}) =x u'),
        ([gave("c1", "x"), text("<system-reminder>\nnot a person")], 'u read({"a":1}) =x'),
        ([gave("c1", "x", is_error=False)], 'u read({"a":1}) =x'),
        ([gave("c1", "Error: no flag")], 'u read({"a":1}) =Error:_no_flag'),
        ([{"type": "image", "source": {}}], 'u read({"a":1}) u'),
    ],
)
def test_what_a_user_message_holds(blocks: list[dict[str, Any]], expected: str) -> None:
    items, _ = read(READER, as_document([*HISTORY[:2], user(*blocks)]))
    assert tale(items) == expected


SEARCH = asked("s1", "web_search", {"query": "q"}, "server_tool_use")
FOUND = {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "changes"}


@pytest.mark.parametrize(
    ("call", "result", "expected"),
    [
        (SEARCH, {"type": "web_search_tool_result", "content": [FOUND]}, "="),
        (
            SEARCH,
            {
                "type": "web_search_tool_result",
                "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
            },
            "!max_uses_exceeded",
        ),
        (
            asked("s1", "code", {}, "server_tool_use"),
            {
                "type": "code_execution_tool_result",
                "content": {"type": "code_execution_result", "stdout": "a", "stderr": "b", "return_code": 1},
            },
            "=ab",
        ),
        (
            asked("s1", "sql", {}, "mcp_tool_use"),
            {"type": "mcp_tool_result", "is_error": True, "content": [text("no table")]},
            "!no_table",
        ),
    ],
)
def test_tools_of_the_api_itself(call: dict[str, Any], result: dict[str, Any], expected: str) -> None:
    history = [USER, assistant(call, result | {"tool_use_id": "s1"}, text("so"))]
    items, notes = read(READER, as_document(history))
    assert tale(items).split()[2].startswith(expected)
    assert "changes" not in str(events(items, Outcome))
    assert not notes.counts


def test_exit_codes_are_kept() -> None:
    result = {
        "type": "bash_code_execution_tool_result",
        "tool_use_id": "s1",
        "content": {"type": "bash_code_execution_result", "stdout": "", "stderr": "x", "return_code": 2},
    }
    items, _ = read(
        READER, as_document([USER, assistant(asked("s1", "bash", {}, "server_tool_use"), result)])
    )
    (outcome,) = events(items, Outcome)
    assert outcome.result["details"]["exitCode"] == 2


def test_compaction_blocks() -> None:
    compacted = assistant({"type": "compaction", "content": "sum"}, asked("c2", "read", {"a": 2}))
    lines = [
        {"messages": HISTORY[:3], "tools": TOOLS},
        {"messages": [*HISTORY[:3], compacted, user(gave("c2", "two"))], "tools": TOOLS},
        {"messages": [compacted, user(gave("c2", "two")), assistant(asked("c3", "read", {"a": 3}))]},
    ]
    items, _ = read(READER, as_lines(lines))
    assert tale(items) == 'u read({"a":1}) =one | read({"a":2}) =two read({"a":3})'


def test_cleared_results_are_no_new_history() -> None:
    cleared = [USER, REPLIES[0], user(gave("c1", "[cleared]")), *HISTORY[3:]]
    items, _ = read(READER, as_lines([{"messages": HISTORY[:5]}, {"messages": cleared}]))
    assert tale(items) == 'u read({"a":1}) =one read({"a":2}) list({"a":3}) =three !two'


@pytest.mark.parametrize(
    "sample",
    [name for name in other_samples("anthropic-messages") if not name.startswith("anthropic-messages/")],
)
def test_no_other_sample_is_taken(sample: str) -> None:
    assert not READER.sniff(Source(SAMPLES / sample))


@pytest.mark.parametrize("value", [[], {}, [USER], [1], {"messages": HISTORY, "trajectory_format": "x"}, "x"])
def test_what_is_not_certain(value: object) -> None:
    assert not READER.sniff(source_of(as_document(value)))


def test_damage() -> None:
    assert_survives_damage(READER, [HISTORY[:3]], lines=False)
    assert_survives_damage(
        READER, [{"request": RECORDING.requests[0], "response": RECORDING.answers[0]}], lines=True
    )
