from __future__ import annotations

from typing import Any

import pytest

from loopwarden.events import Compaction, Outcome, ToolCall, UserMessage
from loopwarden.transcripts.claude_code import READER
from loopwarden.transcripts.model import ReadNotes, Recorded, Spent, StreamStart
from tests.transcripts.facts import Facts, events, facts, items_of, result_text, streams
from tests.transcripts.written import read_all, written

RECORDS = "claude-code/real_records_one_of_each_tool.jsonl"
REWOUND = "claude-code/synthetic_dag_compact_after_rewind.jsonl"
EDGES = "claude-code/synthetic_edge_cases.jsonl"
TODOS = "claude-code/synthetic_todowrite_examples.jsonl"
STREAK = "converted/claude-code/streak_with_compaction.jsonl"


@pytest.mark.parametrize(
    ("sample", "expected", "noted"),
    [
        # single records of many sessions: results without calls, and copies of two records
        (
            RECORDS,
            Facts(calls=18, win=1, winres=1, streak=1),
            {"result_without_call": 6, "copied_history": 2},
        ),
        (REWOUND, Facts(), {"abandoned_branch": 2}),
        (
            EDGES,
            Facts(calls=3, win=1, winres=1, streak=1),
            {"bad_line": 4, "unknown_record": 1, "copied_history": 1, "call_without_result": 2},
        ),
        (TODOS, Facts(calls=3, win=1, winres=1, streak=1), {}),
        (STREAK, Facts(calls=49, win=30, winres=30, streak=30), {}),
    ],
)
def test_samples(sample: str, expected: Facts, noted: dict[str, int]) -> None:
    notes = ReadNotes()
    items = items_of(READER, sample, notes)
    assert facts(items, every_stream=True) == expected
    assert notes.counts == noted
    streams(items)


def test_a_reply_on_two_lines_is_paid_once_with_its_last_usage() -> None:
    spent = [item for item in items_of(READER, STREAK) if isinstance(item, Spent)]
    assert len(spent) == 49
    assert {item.output_tokens for item in spent} == {20}
    assert spent[0].input_tokens == 4 + 40 + 900


def test_compaction_and_its_summary_are_one_event() -> None:
    kinds = [type(item.event) for item in items_of(READER, STREAK) if isinstance(item, Recorded)]
    place = kinds.index(Compaction)
    assert kinds[:place].count(ToolCall) == 25
    assert kinds.count(Compaction) == kinds.count(UserMessage) == 1


def test_a_rewind_leaves_the_words_that_were_taken_back() -> None:
    items = items_of(READER, REWOUND)
    assert len(events(items, UserMessage)) == 4  # of five, the summary not counted
    assert len(events(items, Compaction)) == 1
    assert len(streams(items)) == 1


def test_sidechains_are_streams_with_a_parent() -> None:
    starts = [item for item in items_of(READER, RECORDS) if isinstance(item, StreamStart)]
    assert {start.stream for start in starts if start.parent} == {
        "sidechain 0a7cf970-4266-4b9d-af3d-df49a89cf873",
        "agent db734024",
        "agent b1f5d80e",
        "agent c8d9b115",
    }


def record(kind: str, uuid: str | None, parent: str | None, content: object, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content}
    if kind == "assistant":
        message["id"] = more.pop("reply", f"msg {uuid}")
    if "usage" in more:
        message["usage"] = more.pop("usage")
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "isSidechain": False,
        "message": message,
        **more,
    }


def use(*ids: str, tool: str = "Read") -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": i, "name": tool, "input": {"path": i}} for i in ids]


def given(*ids: str, content: object = "ok", **more: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": i, "content": content, **more} for i in ids]


def called(items: list[Any]) -> list[str]:
    return [event.call_id for event in events(items, ToolCall)]


def test_parallel_calls_fork_the_graph_and_all_of_them_count() -> None:
    items, noted = read_all(
        READER,
        record("user", "u", None, "go"),
        record("assistant", "a1", "u", use("one"), reply="m"),
        record("assistant", "a2", "a1", use("two"), reply="m"),
        record("user", "r1", "a1", given("one")),
        record("user", "r2", "a2", given("two")),
        record("assistant", "b", "r2", use("three")),
        record("user", "r3", "b", given("three")),
    )
    assert called(items) == ["one", "two", "three"]
    turns = [event.turn_id for event in events(items, ToolCall)]
    assert turns[0] == turns[1] != turns[2]
    assert noted == {}


def test_calls_on_a_rewound_branch_and_of_a_retried_reply_do_not_count() -> None:
    items, noted = read_all(
        READER,
        record("user", "u", None, "go"),
        record("assistant", "a", "u", use("lost"), reply="m1"),  # replaced by the reply "m2"
        record("assistant", "b", "u", use("kept"), reply="m2"),
        record("user", "r", "b", given("kept")),
        record("user", "p1", "r", "this way"),
        record("assistant", "c", "p1", use("gone")),
        record("user", "p2", "r", "no, that way"),
        record("assistant", "d", "p2", use("last")),
        {"type": "system", "subtype": "away", "uuid": "n", "parentUuid": "p1", "sessionId": "s"},
    )
    assert called(items) == ["kept", "last"]
    assert noted == {"abandoned_branch": 4, "call_without_result": 1}


def test_history_repeated_by_a_resumed_session_counts_once() -> None:
    first = [
        record("user", "u", None, "go"),
        record("assistant", "a", "u", use("one"), reply="m", usage={"input_tokens": 5, "output_tokens": 1}),
        record("user", "r", "a", given("one")),
    ]
    again = [{**line, "sessionId": "s2"} for line in first]
    renamed = record(  # written anew with another uuid
        "assistant", "x", "r", use("one"), reply="m", usage={"input_tokens": 5, "output_tokens": 1}
    )
    more = record("assistant", "b", "x", use("two"), sessionId="s2")
    items, noted = read_all(READER, *first, *again, renamed, more, record("user", "q", "b", given("two")))
    assert called(items) == ["one", "two"]
    assert len(streams(items)) == 1
    assert [item.input_tokens for item in items if isinstance(item, Spent)] == [5]
    assert noted["copied_history"] == 4


@pytest.mark.parametrize(
    ("content", "more", "is_message"),
    [
        ("go on", {}, True),
        ([{"type": "text", "text": "go on"}], {}, True),
        ([{"type": "image", "source": {}}], {}, True),
        ("<command-name>/review</command-name>", {}, True),
        ("<local-command-stdout>done</local-command-stdout>", {}, False),
        ("<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>", {}, False),
        ("Caveat: The messages below were generated by the user while running local commands.", {}, False),
        ("anything", {"isMeta": True}, False),
        ("This session is being continued.", {"isCompactSummary": True}, False),
        (given("x"), {}, False),
        ("do this", {"isSidechain": True}, False),
        (None, {}, False),
    ],
)
def test_what_is_a_message_of_the_person(content: object, more: dict[str, Any], is_message: bool) -> None:
    items, _ = read_all(READER, record("user", "u", None, content, **more))
    assert bool(events(items, UserMessage)) is is_message


def test_a_summary_without_a_boundary_is_a_compaction() -> None:
    items, _ = read_all(READER, record("user", "u", None, "earlier: ...", isCompactSummary=True))
    assert len(events(items, Compaction)) == 1


BASH = {"interrupted": False, "isImage": False}


@pytest.mark.parametrize(
    ("part", "structured", "expected"),
    [
        (
            given("x", content="a\nb", is_error=False),
            {**BASH, "stdout": "a", "stderr": "b"},
            {
                "content": [{"type": "text", "text": "a\nb"}],
                "details": {"status": "completed", "aggregated": "a\nb"},
            },
        ),
        (
            given("x", content="Exit code 3\nno such file", is_error=True),
            "Error: Exit code 3\nno such file",
            {
                "content": [{"type": "text", "text": "no such file"}],
                "details": {"status": "completed", "aggregated": "no such file", "exitCode": 3},
                "isError": True,
            },
        ),
        (
            given("x", content="Command running in background with ID: b7"),
            {**BASH, "stdout": "", "stderr": "", "backgroundTaskId": "b7"},
            {"content": [{"type": "text", "text": ""}], "details": {"status": "running", "tail": ""}},
        ),
        (
            given("x", content="no, ask me first", is_error=True),
            "Error: no, ask me first",
            {"content": [{"type": "text", "text": "no, ask me first"}], "isError": True},
        ),
        (
            given("x", content="plain"),
            None,
            {
                "content": [{"type": "text", "text": "plain"}],
                "details": {"status": "completed", "aggregated": "plain"},
            },
        ),
    ],
)
def test_results_of_commands(part: object, structured: object, expected: dict[str, Any]) -> None:
    items, _ = read_all(
        READER,
        record("assistant", "a", None, use("x", tool="Bash")),
        record("user", "r", "a", part, toolUseResult=structured),
    )
    assert events(items, Outcome)[0].result == expected


def test_a_poll_is_compared_without_its_time() -> None:
    outcomes = {o.call_id: o for o in events(items_of(READER, RECORDS), Outcome)}
    poll = outcomes["toolu_01GvxiBWatZMFVNvxyDms7Ey"]
    assert poll.result["details"]["status"] == "running"
    assert "2025-11-18" not in result_text(poll)


def test_the_stream_of_the_print_mode() -> None:
    usage = {"input_tokens": 7, "output_tokens": 3}
    lines: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "session_id": "s", "model": "m", "tools": ["Bash"]},
        {
            "type": "assistant",
            "session_id": "s",
            "message": {"id": "m1", "role": "assistant", "content": use("t", tool="Task"), "usage": usage},
        },
        {
            "type": "assistant",
            "session_id": "s",
            "parent_tool_use_id": "t",
            "message": {"id": "m2", "role": "assistant", "content": use("sub")},
        },
        {
            "type": "user",
            "session_id": "s",
            "parent_tool_use_id": "t",
            "message": {"role": "user", "content": given("sub")},
        },
        {"type": "user", "session_id": "s", "message": {"role": "user", "content": given("t")}},
        {"type": "result", "session_id": "s", "total_cost_usd": 0.25},
        {"type": "result", "session_id": "s", "total_cost_usd": 0.75},
    ]
    items, noted = read_all(READER, *lines)
    assert READER.sniff(written(*lines))
    assert streams(items) == ["s", "task t"]
    assert [
        (i.stream, i.event.call_id)
        for i in items
        if isinstance(i, Recorded) and isinstance(i.event, ToolCall)
    ] == [
        ("s", "t"),
        ("task t", "sub"),
    ]
    spent = [item for item in items if isinstance(item, Spent)]
    assert [(s.input_tokens, s.output_tokens, s.cost) for s in spent] == [
        (7, 3, None),
        (0, 0, 0.25),
        (0, 0, 0.5),
    ]
    assert noted == {}


def test_parents_that_name_each_other_end() -> None:
    items, _ = read_all(
        READER,
        record("user", "a", "b", "one"),
        record("user", "b", "a", "two"),
        record("user", "c", "c", "three"),
    )
    assert len(events(items, UserMessage)) == 3
