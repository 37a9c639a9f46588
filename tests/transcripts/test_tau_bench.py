from __future__ import annotations

from typing import Any

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.events import Outcome, ToolCall, UserMessage
from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.tau_bench import READER
from tests.transcripts.facts import Facts, events, facts, items_of, result_text, streams
from tests.transcripts.written import read_all

SAMPLE = "tau-bench/gpt-4o-airline_tasks9_13_20.json"


def test_sample() -> None:
    notes = ReadNotes()
    items = items_of(READER, SAMPLE, notes)
    assert facts(items) == Facts(calls=14, win=3, winres=3, streak=2, alt=3)
    assert streams(items) == [
        "task_13_trial_0",
        "task_9_trial_1",
        "task_20_trial_1",
        "task_9_trial_2",
        "task_13_trial_2",
    ]
    # the provider gave some ids again within a run; every call has its result all the same
    assert set(notes.counts) == {"reused_id"}
    assert len(events(items, ToolCall)) == len(events(items, Outcome))


def test_a_result_that_begins_with_error_is_a_failure() -> None:
    outcomes = [o for o in events(items_of(READER, SAMPLE), Outcome) if isinstance(o.result, dict)]
    failed = {result_text(outcome).startswith("Error"): outcome for outcome in outcomes}
    assert failed[True].result["isError"] is True
    assert "isError" not in failed[False].result


def test_bad_runs_and_messages_are_counted() -> None:
    traj: list[Any] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}, {"id": "x"}, 3]},
        {"role": "tool", "tool_call_id": "gone", "content": "x"},
        {"role": "narrator"},
        None,
    ]
    runs = [{"task_id": 1, "traj": traj}, {"task_id": 1, "traj": []}, {"task_id": 2}, 5]
    items, notes = read_all(READER, runs)
    assert streams(items) == ["task_1_trial_0", "task_1_trial_0~2"]
    assert events(items, ToolCall)[0].arguments == "{"
    assert len(events(items, UserMessage)) == 1
    assert notes == {
        "bad_line": 5,
        "unknown_record": 1,
        "result_without_call": 1,
        "call_without_result": 1,
    }


@pytest.mark.parametrize("document", [{}, 1, "x", None])
def test_no_results(document: object) -> None:
    with pytest.raises(TranscriptError):
        read_all(READER, document)
