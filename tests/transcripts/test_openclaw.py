from __future__ import annotations

from typing import Any

import pytest

from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.transcripts.model import ReadNotes, Recorded, Spent, StreamStart
from loopwarden.transcripts.openclaw import READER
from tests.transcripts.facts import Facts, events, facts, items_of, streams
from tests.transcripts.written import read_all, written

REAL = "openclaw/openclaw_v3_real_head.jsonl"
COMPACTED = "openclaw/pi_v1_around_compaction.jsonl"
LONG = "openclaw/pi_v1_long_benign.jsonl.gz"
TWO = "openclaw/pi_v1_two_objects_on_one_line.jsonl"
BRANCHED = "converted/openclaw/v3_streak_with_branch_and_compaction.jsonl"


@pytest.mark.parametrize(
    ("sample", "expected", "noted"),
    [
        (REAL, Facts(calls=5, win=1, winres=1, streak=1), {}),
        (
            COMPACTED,
            Facts(calls=65, win=2, winres=1, streak=1, alt=3),
            {"result_without_call": 1, "call_without_result": 4},
        ),
        (LONG, Facts(calls=184, win=4, winres=1, streak=1), {"call_without_result": 1}),
        (
            TWO,
            Facts(calls=34, win=4, winres=2, streak=2),
            {"two_on_a_line": 1, "call_without_result": 1},
        ),
        # one call of the 50 in the file stands on the abandoned branch
        (BRANCHED, Facts(calls=49, win=30, winres=30, streak=30), {"abandoned_branch": 1}),
    ],
)
def test_samples(sample: str, expected: Facts, noted: dict[str, int]) -> None:
    notes = ReadNotes()
    items = items_of(READER, sample, notes)
    assert facts(items) == expected
    assert notes.counts == noted
    assert len(streams(items)) == 1


def test_parallel_calls_share_a_turn_and_failed_retries_are_no_calls() -> None:
    items = items_of(READER, REAL)
    calls = events(items, ToolCall)
    assert {call.turn_id for call in calls} == {calls[0].turn_id}
    assert all("|" in call.call_id for call in calls)
    assert len(events(items, UserMessage)) == 3


def test_a_failure_told_by_the_status_alone_is_flagged() -> None:
    outcomes = events(items_of(READER, REAL), Outcome)
    assert [outcome.result.get("isError", False) for outcome in outcomes] == [False, False, True, True, True]
    assert outcomes[2].result["details"]["error"].startswith("ENOENT")


@pytest.mark.parametrize(("sample", "calls_before"), [(BRANCHED, 25), (COMPACTED, 29)])
def test_compaction_stands_between_its_calls(sample: str, calls_before: int) -> None:
    kinds = [type(item.event) for item in items_of(READER, sample) if isinstance(item, Recorded)]
    assert kinds.count(Compaction) == 1
    assert kinds[: kinds.index(Compaction)].count(ToolCall) == calls_before


def test_head_times_and_tokens() -> None:
    items = items_of(READER, LONG)
    start = items[0]
    assert isinstance(start, StreamStart)
    assert start.stream == start.title == "2638daee-0588-4baa-bd33-68b4c002818e"
    first, second = [item for item in items if not isinstance(item, StreamStart)][1:3]
    assert isinstance(first, Recorded)
    assert isinstance(first.event, ToolCall)
    assert first.event.at == 1766536354.17
    assert second == Spent(
        stream=start.stream, input_tokens=3008, output_tokens=74, cost=0.016890000000000002, at=1766536354.17
    )


HEAD = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/tmp"}


def entry(identity: str | None, parent: str | None, **message: Any) -> dict[str, Any]:
    linked = {} if identity is None else {"id": identity, "parentId": parent}
    return {"type": "message", "message": message, **linked}


def call(identity: str | None, parent: str | None, *ids: str, **more: Any) -> dict[str, Any]:
    parts = [{"type": "toolCall", "id": i, "name": "read", "arguments": {"path": i}} for i in ids]
    return entry(identity, parent, role="assistant", content=parts, **more)


def result(identity: str | None, parent: str | None, call_id: str) -> dict[str, Any]:
    text = [{"type": "text", "text": f"result of {call_id}"}]
    return entry(identity, parent, role="toolResult", toolCallId=call_id, toolName="read", content=text)


def ids(items: list[Any], kind: type) -> list[str]:
    return [event.call_id for event in events(items, kind)]


def test_the_live_branch_is_the_one_of_the_last_entry() -> None:
    items, noted = read_all(
        READER,
        HEAD,
        entry("a", None, role="user", content="go"),
        call("b", "a", "old"),
        result("c", "b", "old"),
        call("d", "a", "new"),
        result("e", "d", "new"),
    )
    assert ids(items, ToolCall) == ids(items, Outcome) == ["new"]
    assert noted == {"abandoned_branch": 2}


def test_an_entry_on_a_damaged_line_does_not_cut_the_branch() -> None:
    items, noted = read_all(
        READER,
        HEAD,
        entry("a", None, role="user", content="go"),
        call("b", "a", "one"),
        b'{"type":"message","id":"c","parentId":"b","message":{"role":"toolRes',
        call("d", "c", "two"),
    )
    assert ids(items, ToolCall) == ["one", "two"]
    assert noted == {"bad_line": 1, "call_without_result": 2}


def test_entries_that_name_each_other_end() -> None:
    items, _ = read_all(READER, HEAD, call("a", "b", "one"), call("b", "a", "two"), call("a", "b", "three"))
    assert "three" in ids(items, ToolCall)


def test_old_files_keep_arguments_as_text() -> None:
    record = call(None, None, "x")
    record["message"]["content"][0]["arguments"] = '{"path": "a"}'
    items, _ = read_all(READER, HEAD, record)
    assert events(items, ToolCall)[0].arguments == {"path": "a"}


def test_calls_of_a_failed_reply_are_taken_back_when_it_is_made_again() -> None:
    items, noted = read_all(
        READER,
        HEAD,
        call("a", None, "one", stopReason="error"),
        call("b", "a", "two"),
        result("c", "b", "two"),
    )
    assert [e.call_ids for e in events(items, Retraction)] == [("one",)]
    assert ids(items, ToolCall) == ["one", "two"]
    assert noted == {}


def test_command_details_pass_through() -> None:
    record = result("b", "a", "x")
    record["message"]["details"] = {"status": "completed", "exitCode": 2, "aggregated": "no"}
    items, _ = read_all(READER, HEAD, call("a", None, "x"), record)
    assert events(items, Outcome)[0].result["details"] == record["message"]["details"]


def test_commands_of_the_person_and_unknown_entries_are_no_events() -> None:
    items, noted = read_all(
        READER,
        HEAD,
        entry("a", None, role="bashExecution", command="ls"),
        {"type": "label", "id": "b", "parentId": "a"},
        {"type": "from_the_future", "id": "c", "parentId": "b"},
        {"type": "message", "id": "d", "parentId": "c", "message": 5},
    )
    assert [type(item) for item in items] == [StreamStart]
    assert noted == {"unknown_record": 2}


def test_a_file_without_its_head_is_known() -> None:
    assert READER.sniff(written(call("b", "a", "one"), result("c", "b", "one")))
    assert not READER.sniff(written({"type": "message", "role": "assistant", "content": []}))


def test_several_sessions_in_one_file_are_streams() -> None:
    one = [HEAD, call("a", None, "x"), result("b", "a", "x")]
    two = [{**HEAD, "id": "t"}, call("c", None, "gone"), call("d", None, "x"), result("e", "d", "x")]
    items, noted = read_all(READER, *one, *two, *one)
    assert streams(items) == ["s", "t", "s~2"]
    assert ids(items, ToolCall) == ids(items, Outcome) == ["x", "x", "x"]
    assert noted == {"abandoned_branch": 1}
