from __future__ import annotations

import json
from typing import Any

import pytest

from loopwarden.events import Compaction, Outcome
from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.openai_responses import READER
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
from tests.transcripts.tale import tale, turns

USER = {"role": "user", "content": "look"}


def asked(call: str, tool: str, given: object) -> dict[str, Any]:
    arguments = json.dumps(given)
    return {"type": "function_call", "id": f"f{call}", "call_id": call, "name": tool, "arguments": arguments}


def gave(call: str, output: object) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call, "output": output}


def said(words: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": words, "annotations": []}]
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}


def answer(items: list[dict[str, Any]], tokens: int, follows: str | None = None) -> dict[str, Any]:
    return {
        "id": f"resp_{tokens}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "m-1",
        "output": items,
        "previous_response_id": follows,
        "usage": {"input_tokens": tokens, "output_tokens": 2},
    }


REPLIES = [
    [{"type": "reasoning", "id": "r", "summary": []}, said("first"), asked("c1", "read", {"a": 1})],
    [asked("c2", "read", {"a": 2}), asked("c3", "list", {})],
    [said("done")],
]
RESULTS = [[gave("c1", "one")], [gave("c3", [{"type": "input_text", "text": "three"}]), gave("c2", "two")]]
HISTORY = [USER, *REPLIES[0], *RESULTS[0], *REPLIES[1], *RESULTS[1], *REPLIES[2]]
TOKENS = (10, 20, 30)
RECORDING = Recording(
    requests=[{"model": "m", "instructions": "i", "input": HISTORY[:end]} for end in (1, 5, 9)],
    answers=[answer(items, tokens) for items, tokens in zip(REPLIES, TOKENS, strict=True)],
    messages=HISTORY,
    streams=[
        stream(
            {"type": "response.created", "response": answer([], tokens)},
            *({"type": "response.output_item.done", "item": item} for item in items),
            {"type": "response.completed", "response": answer(items, tokens)},
        )
        for items, tokens in zip(REPLIES, TOKENS, strict=True)
    ],
)
ALL = 'u read({"a":1}) $10/2 =one read({"a":2}) list({}) $20/2 =three =two $30/2'
HISTORY_ALONE = 'u read({"a":1}) =one read({"a":2}) list({}) =three =two'


def test_facts() -> None:
    items = items_of(READER, "converted/openai-responses/pingpong_items.json")
    assert facts(items) == Facts(calls=49, win=10, winres=10, streak=1, alt=19)


def test_ids_that_come_again_are_paired_with_the_newest_call() -> None:
    notes = ReadNotes()
    items = items_of(READER, "openai-responses/reused_tool_call_ids.json", notes)
    assert facts(items) == Facts(calls=2, win=1, winres=1, streak=1)
    words = [word for word in tale(items).split() if not word.startswith("$")]
    assert words == ["u", "first_tool({})", "=first_result", "second_tool({})", "=second_result", "u"]
    assert notes.counts == {"copied_history": 3, "reused_id": 1}


def test_a_compaction_request_is_one_compaction() -> None:
    items = items_of(READER, "openai-responses/compaction.json")
    assert len(events(items, Compaction)) == 1
    assert tale(items) == "u $29/9 u $51/9 | $156/190 u $298/8"


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
        as_lines(HISTORY),
        as_document({"model": "m", "input": HISTORY}),
        as_lines([*RECORDING.requests, {"input": HISTORY}]),
    ],
)
def test_histories_without_answers(data: bytes) -> None:
    # a file whose first line is a message alone might be a chat as well; the format is then named
    items = list(READER.read(source_of(data), ReadNotes()))
    assert tale(items) == HISTORY_ALONE


def test_requests_that_send_only_what_is_new() -> None:
    lines = [
        {"request": {"model": "m", "input": "look"}, "response": answer(REPLIES[0], 10)},
        {
            "request": {"model": "m", "input": RESULTS[0], "previous_response_id": "resp_10"},
            "response": answer(REPLIES[1], 20, "resp_10"),
        },
        {
            "request": {"model": "m", "input": RESULTS[1], "previous_response_id": "resp_20"},
            "response": answer(REPLIES[2], 30, "resp_20"),
        },
    ]
    items, notes = read(READER, as_lines(lines))
    assert tale(items) == ALL
    assert not notes.counts


def test_conversation_ids_hold_requests_together() -> None:
    lines = [
        {
            "request": {"input": new, "model": "m", "conversation": {"id": "conv"}},
            "response": answer(reply, 10),
        }
        for new, reply in zip([[USER], *RESULTS], REPLIES, strict=True)
    ]
    items, _ = read(READER, as_lines(lines))
    assert tale(items) == ALL.replace("$20", "$10").replace("$30", "$10")


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (
            [
                {
                    "type": "mcp_call",
                    "id": "m",
                    "name": "sql",
                    "arguments": '{"q":1}',
                    "output": "rows",
                    "error": None,
                }
            ],
            'sql({"q":1}) =rows',
        ),
        (
            [
                {
                    "type": "mcp_call",
                    "id": "m",
                    "name": "sql",
                    "arguments": "{}",
                    "output": None,
                    "error": "gone",
                }
            ],
            "sql({}) !gone",
        ),
        (
            [{"type": "web_search_call", "id": "w", "status": "completed", "action": {"query": "q"}}],
            'web_search({"query":"q"})',
        ),
        (
            [{"type": "web_search_call", "id": "w", "status": "failed", "action": {}}],
            "web_search({}) !failed",
        ),
        (
            [{"type": "file_search_call", "id": "f", "queries": ["q"], "results": [{"text": "hit"}]}],
            'file_search(["q"]) =hit',
        ),
        (
            [
                {"type": "custom_tool_call", "call_id": "c", "name": "py", "input": "1+1"},
                {"type": "custom_tool_call_output", "call_id": "c", "output": "2"},
            ],
            'py("1+1") =2',
        ),
        (
            [
                {"type": "local_shell_call", "id": "l", "call_id": "c", "action": {"command": ["ls"]}},
                {"type": "local_shell_call_output", "id": "c", "output": "a"},
            ],
            'local_shell({"command":["ls"]}) =a',
        ),
        (
            [
                {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
                {
                    "type": "shell_call_output",
                    "call_id": "c",
                    "output": [{"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 3}}],
                },
            ],
            'shell({"commands":["ls"]}) =ab',
        ),
        (
            [
                {"type": "apply_patch_call", "call_id": "c", "operation": {"path": "p"}},
                {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no"},
            ],
            'apply_patch({"path":"p"}) !no',
        ),
        ([{"type": "compaction", "id": "z", "encrypted_content": "x"}], "|"),
    ],
)
def test_kinds_of_items(items: list[dict[str, Any]], expected: str) -> None:
    found, _ = read(READER, as_document(items))
    assert tale(found) == expected


def test_commands_keep_exit_code_and_timeout() -> None:
    output = [{"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}]
    items, _ = read(
        READER,
        as_document(
            [
                {"type": "shell_call", "call_id": "c", "action": {}},
                {"type": "shell_call_output", "call_id": "c", "output": output},
            ]
        ),
    )
    (outcome,) = events(items, Outcome)
    assert outcome.result["details"]["timedOut"] is True


def test_compaction_by_the_server_keeps_the_conversation() -> None:
    summary = {"type": "compaction", "id": "cmp", "encrypted_content": "x"}
    lines = [
        {"request": {"input": HISTORY[:5]}, "response": answer([summary, *REPLIES[1]], 20)},
        {"request": {"input": [summary, *REPLIES[1], *RESULTS[1]]}, "response": answer(REPLIES[2], 30)},
    ]
    items, _ = read(READER, as_lines(lines))
    assert tale(items) == 'u read({"a":1}) =one | read({"a":2}) list({}) $20/2 =three =two $30/2'


@pytest.mark.parametrize(
    "sample", [name for name in other_samples("openai-responses") if not name.startswith("openai-responses/")]
)
def test_no_other_sample_is_taken(sample: str) -> None:
    assert not READER.sniff(Source(SAMPLES / sample))


def test_damage() -> None:
    assert_survives_damage(READER, [HISTORY[:6]], lines=False)
    assert_survives_damage(
        READER, [{"request": RECORDING.requests[1], "response": RECORDING.answers[0]}], lines=True
    )
