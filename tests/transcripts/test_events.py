from __future__ import annotations

import re
from pathlib import Path

import pytest

from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.transcripts.events import FIELDS, READER
from loopwarden.transcripts.model import Recorded
from tests.transcripts.facts import events, streams
from tests.transcripts.written import read_all, written

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "events.md"


def test_each_event_with_all_its_fields() -> None:
    items, noted = read_all(
        READER,
        {"type": "call", "id": "c1", "tool": "read", "args": {"a": 1}, "run": "r", "turn": "t", "at": 1.5},
        {"type": "outcome", "id": "c1", "result": [1], "at": 2},
        {"type": "call", "id": 7, "tool": "read"},
        {"type": "outcome", "id": 7, "error": "no tool read", "unknown_tool": "read"},
        {"type": "compaction", "run": "r2", "continues": "r", "at": 3},
        {"type": "user", "run": "r2"},
        {"type": "retract", "ids": ["c1", "7", "c9"]},
        {"type": "retract", "ids": ["c1"], "run": "r5"},
    )
    assert noted == {}
    assert [item.event for item in items if isinstance(item, Recorded)] == [
        ToolCall(tool="read", arguments={"a": 1}, call_id="c1", run_id="r", turn_id="t", at=1.5),
        Outcome(call_id="c1", result=[1], run_id="r", at=2),
        ToolCall(tool="read", call_id="7"),
        Outcome(call_id="7", error="no tool read", unknown_tool="read"),
        Compaction(run_id="r2", continues="r", at=3),
        UserMessage(run_id="r2"),
        Retraction(call_ids=("c1",), run_id="r"),
        Retraction(call_ids=("7", "c9")),
        Retraction(call_ids=("c1",), run_id="r5"),
    ]


def test_an_id_seen_again_is_handed_on_as_it_is() -> None:
    call = {"type": "call", "id": "a", "tool": "x"}
    items, noted = read_all(READER, call, call, {"type": "outcome", "id": "a"}, call)
    assert [event.call_id for event in events(items, ToolCall)] == ["a", "a", "a"]
    assert noted == {"call_without_result": 1}


def test_integers_are_exact_however_large() -> None:
    huge = 2**64 + 1
    asked = [{"n": huge}, {"n": huge + 1}, {"n": -huge}, {"n": 10**300}, {"text": str(huge)}]
    calls = [{"type": "call", "id": str(at), "tool": "x", "args": args} for at, args in enumerate(asked)]
    items, _ = read_all(READER, *calls, {"type": "outcome", "id": "0", "result": huge})
    assert [event.arguments for event in events(items, ToolCall)] == asked
    assert [event.result for event in events(items, Outcome)] == [huge]


def test_streams_are_apart() -> None:
    items, noted = read_all(
        READER,
        {"type": "call", "id": "a", "tool": "x", "stream": "one"},
        {"type": "outcome", "id": "a", "stream": "two"},
        {"type": "outcome", "id": "a", "stream": "one"},
        {"type": "user"},
    )
    assert streams(items) == ["one", "two", "main"]
    assert len(events(items, Outcome)) == 1
    assert noted == {"result_without_call": 1}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ({"type": "call", "tool": "x"}, "bad_line"),
        ({"type": "call", "id": "a"}, "bad_line"),
        ({"type": "outcome", "id": ["a"]}, "bad_line"),
        ({"type": "outcome", "id": "never"}, "result_without_call"),
        ({"type": "retract", "ids": "a"}, "bad_line"),
        ({"type": "later"}, "unknown_record"),
        ({"type": ["call"]}, "unknown_record"),
        ("{", "bad_line"),
        ("[]", "bad_line"),
    ],
)
def test_bad_lines_are_counted(line: object, kind: str) -> None:
    items, noted = read_all(READER, line)
    assert noted == {kind: 1}
    assert events(items, object) == []


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ({"type": "call", "id": "a", "tool": "x", "my_own_field": 1}, True),
        ({"type": "user", "run": "r"}, True),
        ({"type": "user", "message": {"content": "hi"}}, False),
        ({"type": "compaction", "summary": "..."}, False),
        ({"type": "session", "id": "a"}, False),
        ("", False),
    ],
)
def test_sniff(line: object, known: bool) -> None:
    assert READER.sniff(written(line)) is known


@pytest.mark.tree
def test_the_page_lists_every_field() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE)
    listed: dict[str, set[str]] = {kind: set() for kind in FIELDS}
    for name, kinds in rows:
        for kind in FIELDS if kinds.strip() == "all" else re.findall(r"`(\w+)`", kinds):
            listed[kind].add(name)
    assert listed == {kind: set(fields) for kind, fields in FIELDS.items()}
