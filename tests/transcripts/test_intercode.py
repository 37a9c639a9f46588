from __future__ import annotations

from typing import Any

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.events import Outcome, ToolCall, UserMessage
from loopwarden.transcripts.intercode import READER
from loopwarden.transcripts.model import ReadNotes, StreamStart
from tests.transcripts.facts import Facts, events, facts, items_of, result_text, streams
from tests.transcripts.written import read_all

BASH = "intercode/bash_gpt-4_fs_4.json"
SQL = "intercode/sql_chat-bison_handicap_12.json"


@pytest.mark.parametrize(
    ("sample", "expected", "tasks", "tool", "argument"),
    [
        (BASH, Facts(calls=10, win=3, winres=3, streak=1, alt=5), 27, "bash", "command"),
        (SQL, Facts(calls=10, win=10, winres=10, streak=10), 12, "sql", "query"),
    ],
)
def test_samples(sample: str, expected: Facts, tasks: int, tool: str, argument: str) -> None:
    notes = ReadNotes()
    items = items_of(READER, sample, notes)
    assert facts(items) == expected
    assert len(streams(items)) == tasks
    assert notes.counts == {}
    calls = events(items, ToolCall)
    assert {call.tool for call in calls} == {tool}
    assert {key for call in calls for key in call.arguments} == {argument}
    assert len(events(items, UserMessage)) == tasks


def test_an_action_that_could_not_be_executed_is_a_failure() -> None:
    failed = [o for o in events(items_of(READER, SQL), Outcome) if o.result.get("isError")]
    assert failed
    assert all(result_text(outcome).startswith("Error") for outcome in failed)


def task(**history: Any) -> dict[str, Any]:
    return {"environment": "ic_bash", "query": "q", "turn_history": history}


@pytest.mark.parametrize(
    ("history", "calls", "texts", "noted"),
    [
        ({"actions": ["a", "b"], "observations": ["x"]}, 2, ["x"], {"call_without_result": 1}),
        ({"actions": ["a"], "observations": ["x", "y"]}, 1, ["x"], {"result_without_call": 1}),
        ({"actions": ["a", "b"], "observations": [None, "y"]}, 2, ["y"], {"call_without_result": 1}),
        ({"actions": ["a", 3], "observations": ["x", "y"]}, 1, ["x"], {"bad_line": 1}),
        ({"actions": ["a"], "observations": [7], "valid_action": "no"}, 1, ["7"], {}),
        ({"actions": {}, "observations": None}, 0, [], {}),
    ],
)
def test_histories(history: dict[str, Any], calls: int, texts: list[str], noted: dict[str, int]) -> None:
    items, notes = read_all(READER, {"1": task(**history)})
    assert len(events(items, ToolCall)) == calls
    assert [result_text(outcome) for outcome in events(items, Outcome)] == texts
    assert notes == noted


def test_tasks_are_named_by_their_keys_and_bad_ones_are_counted() -> None:
    items, notes = read_all(READER, {"7": task(), "8": [], "9": {"turn_history": 3}})
    (start,) = (item for item in items if isinstance(item, StreamStart))
    assert (start.stream, start.title) == ("task_7", "q")
    assert notes == {"bad_line": 2}


@pytest.mark.parametrize("document", [[], 1, "x", None])
def test_no_results(document: object) -> None:
    with pytest.raises(TranscriptError):
        read_all(READER, document)
