from __future__ import annotations

from typing import Any

import pytest

from loopwarden.events import Outcome, ToolCall
from loopwarden.transcripts.model import Spent, StreamStart
from loopwarden.transcripts.qwen import READER
from loopwarden.transcripts.shape import command_result
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import SAMPLES, events, streams
from tests.transcripts.handmade import as_lines, assert_survives_damage, other_samples, read, strip


def record(identity: str, parent: str | None, kind: str, *parts: Any, **more: Any) -> dict[str, Any]:
    base = {
        "uuid": identity,
        "parentUuid": parent,
        "sessionId": "s",
        "timestamp": "2026-01-01T00:00:01Z",
        "type": kind,
        "cwd": "/work",
        "version": "0.24.7",
    }
    message = {"message": {"role": "user", "parts": list(parts)}} if parts else {}
    return base | message | more


def asks(*ids: str) -> list[dict[str, Any]]:
    return [{"functionCall": {"id": name, "name": "read", "args": {"path": name}}} for name in ids]


def answers(identity: str | None, text: str = "ok", key: str = "output") -> dict[str, Any]:
    return {"functionResponse": {"id": identity, "name": "read", "response": {key: text}}}


def user(identity: str, parent: str | None = None, **more: Any) -> dict[str, Any]:
    return record(identity, parent, "user", {"text": "do it"}, **more)


START = user("u")
USAGE = {
    "promptTokenCount": 10,
    "candidatesTokenCount": 2,
    "thoughtsTokenCount": 3,
    "cachedContentTokenCount": 4,
}


@pytest.mark.parametrize("sample", other_samples())
def test_other_formats_are_refused(sample: str) -> None:
    assert not READER.sniff(Source(SAMPLES / sample))


@pytest.mark.parametrize(
    ("records", "expected", "noted"),
    [
        ([START], "Su", {}),
        (
            [
                START,
                record("a", "u", "assistant", *asks("1", "2"), usageMetadata=USAGE),
                record("t", "a", "tool_result", answers("1"), answers("2")),
            ],
            "Succ$oo",
            {},
        ),
        # results without an id pair by name and order
        (
            [START, record("a", "u", "assistant", *asks("")), record("t", "a", "tool_result", answers(None))],
            "Suco",
            {},
        ),
        # a rewind leaves the records that were taken back beside the branch
        (
            [
                START,
                record("a", "u", "assistant", *asks("1")),
                record("t", "a", "tool_result", answers("1")),
                record("r", "u", "system", subtype="rewind"),
                user("v", "r"),
            ],
            "Suu",
            {"abandoned_branch": 2},
        ),
        # a rewind to the beginning
        (
            [START, record("r", None, "system", subtype="rewind"), user("v", "r")],
            "Su",
            {"abandoned_branch": 1},
        ),
        # a title at the end hangs on nothing and ends no branch
        ([START, record("x", None, "system", subtype="custom_title")], "Su", {}),
        # a parent that was lost
        ([START, user("v", "lost")], "Suu", {}),
        ([START, record("c", "u", "system", subtype="chat_compression"), user("v", "c")], "Su|u", {}),
        # what the program says in the user's name
        (
            [START, user("n", "u", subtype="notification"), user("m", "n", subtype="mid_turn_user_message")],
            "Suu",
            {},
        ),
        ([user("u", forkedFrom={"sessionId": "o"}), user("v", "u")], "Su", {"copied_history": 1}),
        ([START, record("a", "u", "assistant", *asks("1"))], "Suc", {"call_without_result": 1}),
        ([START, record("t", "u", "tool_result", answers("1"))], "Su", {"result_without_call": 1}),
        ([START, record("q", "u", "other"), 5], "Su", {"unknown_record": 1, "bad_line": 1}),
    ],
)
def test_records(records: list[Any], expected: str, noted: dict[str, int]) -> None:
    items, notes = read(READER, as_lines(records))
    assert strip(items) == expected
    assert notes.counts == noted


def test_what_a_session_says() -> None:
    lines = [
        START,
        record("a", "u", "assistant", *asks("1"), model="qwen3", usageMetadata=USAGE),
        record("x", "a", "system", subtype="custom_title", systemPayload={"customTitle": "Fix\nit"}),
    ]
    items, _ = read(READER, as_lines(lines))
    assert items[0] == StreamStart(stream="s", title="Fix", agent="Qwen Code", model="qwen3")
    assert items[-1] == Spent(stream="s", input_tokens=10, output_tokens=5, at=1767225601.0, cached_tokens=4)
    (call,) = events(items, ToolCall)
    assert (call.call_id, call.turn_id, call.arguments) == ("1", "a", {"path": "1"})


def test_sub_agents_are_streams_of_their_own() -> None:
    inner = {"agentId": "explore-7f", "agentName": "Explore", "isSidechain": True}
    lines = [
        START,
        record("i", None, "assistant", *asks("1"), **inner),
        record("a", "u", "assistant", *asks("1")),
        record("j", "i", "tool_result", answers("1"), **inner),
    ]
    items, notes = read(READER, as_lines(lines))
    assert streams(items) == ["s", "agent explore-7f"]
    assert [(item.parent, item.agent) for item in items if isinstance(item, StreamStart)] == [
        (None, "Qwen Code"),
        ("s", "Explore"),
    ]
    assert notes.counts == {"call_without_result": 1}


@pytest.mark.parametrize(
    ("parts", "told", "result", "error"),
    [
        ([answers("1")], {}, {"content": [{"type": "text", "text": "ok"}]}, None),
        ([answers("1", "gone", "error")], {"status": "error"}, None, "gone"),
        ([answers("1", "stopped")], {"status": "cancelled"}, None, "stopped"),
        ([{"text": "hi"}], {"name": "read"}, {"content": [{"type": "text", "text": "hi"}]}, None),
        ([], {"callId": "1", "result": "hi"}, {"content": [{"type": "text", "text": "hi"}]}, None),
    ],
)
def test_results(parts: list[Any], told: dict[str, Any], result: Any, error: str | None) -> None:
    lines = [START, record("a", "u", "assistant", *asks("1"))]
    lines.append(record("t", "a", "tool_result", *parts, toolCallResult=told))
    items, _ = read(READER, as_lines(lines))
    (outcome,) = events(items, Outcome)
    assert (outcome.result, outcome.error) == (result, error)


def test_a_shell_command() -> None:
    ask = {"functionCall": {"id": "1", "name": "run_shell_command", "args": {"command": "make"}}}
    text = "Command: make\nDirectory: (root)\nOutput: FAIL\nError: (none)\nExit Code: 2\nSignal: (none)\n"
    told = {"id": "1", "name": "run_shell_command", "response": {"error": text + "Process Group PGID: 4242"}}
    lines = [START, record("a", "u", "assistant", ask)]
    lines.append(
        record("t", "a", "tool_result", {"functionResponse": told}, toolCallResult={"status": "error"})
    )
    (outcome,) = events(read(READER, as_lines(lines))[0], Outcome)
    assert outcome.result == command_result("FAIL", exit_code=2, is_error=True)


def test_damage_is_survived() -> None:
    lines = [
        START,
        record("a", "u", "assistant", *asks("1"), usageMetadata=USAGE, model="m"),
        record("t", "a", "tool_result", answers("1"), toolCallResult={"callId": "1", "status": "success"}),
        record("c", "t", "system", subtype="chat_compression", agentId="x"),
    ]
    assert_survives_damage(READER, lines, lines=True)
