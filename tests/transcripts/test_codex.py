from __future__ import annotations

from typing import Any

import pytest

from loopwarden.events import Compaction, Outcome, ToolCall, UserMessage
from loopwarden.transcripts.codex import READER
from loopwarden.transcripts.codex_output import result
from loopwarden.transcripts.model import ReadNotes, Recorded, Spent, StreamStart
from tests.transcripts.facts import Facts, events, facts, items_of, result_text
from tests.transcripts.written import read_all, written

SHORT = "codex/rollout-2026-01-02T03-04-05-11111111-1111-4111-8111-111111111111.jsonl"
PINGPONG = "converted/codex/rollout-2025-06-01T09-00-00-pingpong.jsonl"


@pytest.mark.parametrize(
    ("sample", "expected", "noted"),
    [
        (SHORT, Facts(calls=3, win=1, winres=1, streak=1), {"unknown_record": 1, "bad_line": 1}),
        # 15 equal results where plain comparison finds 5: the durations in the JSON text differ
        (PINGPONG, Facts(calls=49, win=15, winres=15, streak=1, alt=45), {}),
    ],
)
def test_samples(sample: str, expected: Facts, noted: dict[str, int]) -> None:
    notes = ReadNotes()
    assert facts(items_of(READER, sample, notes)) == expected
    assert notes.counts == noted


def test_repeated_token_counts_count_once() -> None:
    spent = [item for item in items_of(READER, PINGPONG) if isinstance(item, Spent)]
    assert len(spent) == 49
    assert spent[0] == Spent(stream=spent[0].stream, input_tokens=940, output_tokens=20, at=1748768400.0)
    assert {item.output_tokens for item in spent} == {20}


def test_head_model_compaction_and_the_one_user_message() -> None:
    items = items_of(READER, SHORT)
    start = items[0]
    assert start == StreamStart(
        stream="11111111-1111-4111-8111-111111111111",
        title="11111111-1111-4111-8111-111111111111",
        model="synthetic-model",
    )
    assert len(events(items, UserMessage)) == 1
    calls = events(items, ToolCall)
    assert calls[0].arguments == {"cmd": "find . -maxdepth 1 -type f"}
    assert calls[1].arguments.startswith("*** Begin Patch")
    assert [result_text(outcome) for outcome in events(items, Outcome)] == [
        "./alpha.txt\n./beta.txt",
        "Done!",
        '{"status":"ok"}',
    ]
    kinds = [type(i.event) for i in items_of(READER, PINGPONG) if isinstance(i, Recorded)]
    assert kinds[: kinds.index(Compaction)].count(ToolCall) == 25


UNIFIED = "Chunk ID: 6e6db0\nWall time: 30.0024 seconds\n{}\nOriginal token count: 9\nOutput:\nhello\n"


@pytest.mark.parametrize(
    ("output", "tool", "text", "details", "is_error"),
    [
        ("plain", "shell", "plain", None, False),
        ('{"status":"ok"}', "mcp__a__b", '{"status":"ok"}', None, False),
        (
            '{"output":"a","metadata":{"exit_code":2,"duration_seconds":0.3}}',
            "shell",
            "a",
            {"status": "completed", "aggregated": "a", "exitCode": 2},
            False,
        ),
        (
            "Exit code: 1\nWall time: 0.5 seconds\nOutput:\nno\n",
            "shell_command",
            "no\n",
            {"status": "completed", "aggregated": "no\n", "exitCode": 1},
            False,
        ),
        (
            "Exit code: 1\nWall time: 0.5 seconds\nOutput:\nno\n",
            "apply_patch",  # no command: its exit code says that it failed
            "no\n",
            {"status": "completed", "aggregated": "no\n", "exitCode": 1},
            True,
        ),
        (
            UNIFIED.format("Process exited with code 0"),
            "exec_command",
            "hello\n",
            {"status": "completed", "aggregated": "hello\n", "exitCode": 0},
            False,
        ),
        (
            UNIFIED.format("Process running with session ID 42"),
            "exec_command",
            "hello\n",
            {"status": "running", "tail": "hello\n"},
            False,
        ),
        (
            [
                {
                    "type": "input_text",
                    "text": "Script running with cell ID 7\nWall time 1.0 seconds\nOutput:\n",
                }
            ],
            "exec",
            "",
            {"status": "running", "tail": ""},
            False,
        ),
        ("Script failed\nWall time 0.2 seconds\nOutput:\nboom", "exec", "boom", None, True),
        ("Wall time: 1.2 seconds\nOutput:\n[]", "mcp__a__b", "[]", None, False),
        (
            "Wall time: 1.2 seconds\nand no end of the head",
            "x",
            "Wall time: 1.2 seconds\nand no end of the head",
            None,
            False,
        ),
        ({"content": "not found", "success": False}, "shell", "not found", None, True),
        ("Output:\nwithout a head", "shell", "Output:\nwithout a head", None, False),
    ],
)
def test_outputs(output: object, tool: str, text: str, details: object, is_error: bool) -> None:
    expected: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if details is not None:
        expected["details"] = details
    if is_error:
        expected["isError"] = True
    assert result(output, tool) == expected


def test_images_stay_parts() -> None:
    parts = [{"type": "input_image", "image_url": "data:..."}]
    assert result(parts, "view_image") == {"content": parts}


META = {"id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/tmp", "cli_version": "0.1"}


def line(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload}


def call(call_id: str, name: str = "shell") -> dict[str, Any]:
    return line("response_item", type="function_call", name=name, arguments="{}", call_id=call_id)


def output(call_id: str) -> dict[str, Any]:
    return line("response_item", type="function_call_output", call_id=call_id, output="ok")


def tokens(read: int, written_: int) -> dict[str, Any]:
    total = {"input_tokens": read, "output_tokens": written_}
    return line("event_msg", type="token_count", info={"total_token_usage": total})


def called(items: list[Any]) -> list[str]:
    return [event.call_id for event in events(items, ToolCall)]


def test_calls_before_the_first_output_are_one_reply() -> None:
    items, _ = read_all(
        READER,
        line("session_meta", **META),
        call("a"),
        call("b"),
        output("a"),
        output("b"),
        call("c"),
        tokens(5, 1),
        call("d"),
        line("event_msg", type="user_message", message="and now?"),
        call("e"),
    )
    turns = [event.turn_id for event in events(items, ToolCall)]
    assert turns[0] == turns[1]
    assert len(set(turns)) == 4


def test_a_search_at_the_models_side_has_no_result() -> None:
    items, noted = read_all(
        READER,
        line("session_meta", **META),
        line("response_item", type="web_search_call", status="completed", action={"query": "q"}),
        line("response_item", type="local_shell_call", call_id="x", action={"command": ["ls"]}),
        output("x"),
    )
    calls = events(items, ToolCall)
    assert [(c.tool, c.arguments) for c in calls] == [
        ("web_search", {"query": "q"}),
        ("local_shell", {"command": ["ls"]}),
    ]
    assert noted == {}


def test_total_that_starts_afresh() -> None:
    items, _ = read_all(
        READER, line("session_meta", **META), tokens(10, 1), tokens(10, 1), tokens(30, 2), tokens(4, 1)
    )
    spent = [(i.input_tokens, i.output_tokens) for i in items if isinstance(i, Spent)]
    assert spent == [(10, 1), (20, 1), (4, 1)]


def test_user_messages_written_twice_and_those_of_the_program() -> None:
    def said(text: str) -> list[dict[str, Any]]:
        item = line(
            "response_item", type="message", role="user", content=[{"type": "input_text", "text": text}]
        )
        return [item, line("event_msg", type="user_message", message=text)]

    items, _ = read_all(
        READER,
        line("session_meta", **META),
        said("<environment_context>x</environment_context>")[0],
        *said("go"),
        call("a"),
        *reversed(said("go")),
    )
    assert len(events(items, UserMessage)) == 2


def uuid7(milliseconds: int) -> str:
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-000000000000"


BORN = 1_767_225_600_000
CHILD = {
    **META,
    "id": uuid7(BORN),
    "source": {"subagent": {"thread_spawn": {"parent_thread_id": uuid7(BORN - 9_000)}}},
    "agent_nickname": "Ada",
}
PARENT = {**META, "id": uuid7(BORN - 9_000)}


def turn(milliseconds: int | None) -> dict[str, Any]:
    return line(
        "event_msg", type="task_started", turn_id=None if milliseconds is None else uuid7(milliseconds)
    )


@pytest.mark.parametrize(
    ("lines", "own"),
    [
        # the first turn that is younger than the child is its own
        (
            [turn(BORN - 8_000), call("old"), output("old"), tokens(100, 10), turn(BORN + 5), call("new")],
            ["new"],
        ),
        # nothing but a copy
        ([turn(BORN - 8_000), call("old"), output("old"), tokens(100, 10)], []),
        # turn ids without a time: a record that only sub-agents have, else the last turn
        (
            [
                turn(None),
                call("old"),
                output("old"),
                tokens(100, 10),
                line("inter_agent_communication_metadata"),
                call("new"),
            ],
            ["new"],
        ),
        ([turn(None), call("old"), output("old"), tokens(100, 10), turn(None), call("new")], ["new"]),
    ],
)
def test_history_copied_from_the_parent_is_left_out(lines: list[dict[str, Any]], own: list[str]) -> None:
    items, noted = read_all(
        READER, line("session_meta", **CHILD), line("session_meta", **PARENT), *lines, tokens(130, 12)
    )
    assert called(items) == own
    assert noted["copied_history"] >= 4
    if own:
        assert [(i.input_tokens, i.output_tokens) for i in items if isinstance(i, Spent)] == [(30, 2)]
    start = items[0]
    assert isinstance(start, StreamStart)
    assert (start.stream, start.parent, start.agent) == (CHILD["id"], PARENT["id"], "Ada")


def test_a_child_without_a_copy_is_read_from_its_beginning() -> None:
    items, noted = read_all(
        READER,
        line("session_meta", **CHILD),
        turn(BORN + 5),
        line("event_msg", type="user_message", message="words of the parent agent"),
        call("a"),
        output("a"),
    )
    assert called(items) == ["a"]
    assert events(items, UserMessage) == []
    assert noted == {}


def test_bare_items_of_the_oldest_files() -> None:
    lines: list[dict[str, Any]] = [
        {"id": "s", "timestamp": "2025-05-07T17:24:21Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "a"},
        {"type": "function_call_output", "call_id": "a", "output": "x"},
    ]
    assert READER.sniff(written(*lines))
    items, noted = read_all(READER, *lines)
    assert called(items) == ["a"]
    assert len(events(items, UserMessage)) == len(events(items, Outcome)) == 1
    assert noted == {}
