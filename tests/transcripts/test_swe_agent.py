from __future__ import annotations

from typing import Any

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.events import Outcome, ToolCall, UserMessage
from loopwarden.transcripts.model import ReadNotes, Spent
from loopwarden.transcripts.swe_agent import READER
from tests.transcripts.facts import Facts, events, facts, items_of, result_text
from tests.transcripts.written import read_all, written

HISTORY_ONLY = "swe-agent/function_calling_simple.traj"


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ("swe-agent/BabyEncryption.traj", Facts(calls=16, win=4, winres=2, streak=1, alt=3)),
        ("swe-agent/katy.traj", Facts(calls=18, win=2, winres=1, streak=1)),
        (HISTORY_ONLY, Facts(calls=5, win=1, winres=1, streak=1)),
    ],
)
def test_samples(sample: str, expected: Facts) -> None:
    notes = ReadNotes()
    items = items_of(READER, sample, notes)
    assert facts(items) == expected
    assert notes.counts == {}


def test_the_first_word_is_the_tool() -> None:
    first = events(items_of(READER, "swe-agent/katy.traj"), ToolCall)[0]
    assert (first.tool, first.arguments) == ("file", {"command": "file release"})


def test_a_demonstration_has_only_a_history() -> None:
    items = items_of(READER, HISTORY_ONLY)
    calls = events(items, ToolCall)
    assert [call.tool for call in calls] == ["find_file", "open", "edit", "bash", "submit"]
    assert calls[0].arguments == {"file_name": "missing_colon.py"}
    assert [outcome.call_id for outcome in events(items, Outcome)] == [call.call_id for call in calls]
    assert len(events(items, UserMessage)) == 1


def step(action: object, observation: object = "o") -> dict[str, Any]:
    return {"action": action, "observation": observation}


def test_totals_are_shared_out_over_the_steps() -> None:
    info = {"model_stats": {"tokens_sent": 10, "tokens_received": 3, "instance_cost": 0.2}}
    items, _ = read_all(READER, {"trajectory": [step("ls")] * 4, "info": info})
    spent = [item for item in items if isinstance(item, Spent)]
    assert len(spent) == 4
    assert sum(item.input_tokens for item in spent) == 10
    assert sum(item.output_tokens for item in spent) == 3
    assert [item.cost for item in spent] == pytest.approx([0.05] * 4)


def test_a_step_without_action_or_observation() -> None:
    steps = [step(""), step("ls", None), step("ls", "b"), step(None, "x"), 7]
    items, notes = read_all(READER, {"trajectory": steps})
    first, second = events(items, ToolCall)
    assert first.call_id != second.call_id
    (outcome,) = events(items, Outcome)
    assert (outcome.call_id, result_text(outcome)) == (second.call_id, "b")
    assert notes == {"call_without_result": 1, "bad_line": 1}


def test_a_history_without_function_calls() -> None:
    history = [
        {"role": "system", "content": "s", "agent": "main"},
        {"role": "user", "content": "demo", "agent": "main", "is_demo": True},
        {"role": "user", "content": "task", "agent": "main"},
        {"role": "assistant", "content": "t", "action": "ls -la\n", "agent": "main"},
        {"role": "user", "content": [{"type": "text", "text": "files"}], "agent": "main"},
        {"role": "assistant", "content": "t", "action": "cat x", "agent": "main"},
    ]
    document = {"history": history}
    assert READER.sniff(written(document))
    items, notes = read_all(READER, document)
    assert [call.tool for call in events(items, ToolCall)] == ["ls", "cat"]
    assert [result_text(outcome) for outcome in events(items, Outcome)] == ["files"]
    assert len(events(items, UserMessage)) == 1
    assert notes == {"copied_history": 1, "call_without_result": 1}


@pytest.mark.parametrize("document", [[], {}, {"trajectory": 3}, {"history": {}}, 1])
def test_no_trajectory(document: object) -> None:
    with pytest.raises(TranscriptError, match="no SWE-agent trajectory"):
        read_all(READER, document)
