from __future__ import annotations

from typing import Any

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.events import Outcome, ToolCall, UserMessage
from loopwarden.transcripts.model import ReadNotes, Recorded, Spent, StreamStart
from loopwarden.transcripts.tau2_bench import READER
from tests.transcripts.facts import Facts, events, facts, items_of, result_text, streams
from tests.transcripts.written import read_all, written


def test_sample() -> None:
    notes = ReadNotes()
    items = items_of(READER, "converted/tau2-bench/results.json", notes)
    assert facts(items) == Facts(calls=23, win=4, winres=4, streak=1, alt=7)
    assert streams(items) == ["task_9_trial_0"]
    assert events(items, ToolCall)[0].at == 1748768414.0
    assert len(events(items, Outcome)) == 23
    assert set(notes.counts) == {"reused_id"}
    spent = [item for item in items if isinstance(item, Spent)]
    assert {(item.input_tokens, item.output_tokens) for item in spent} == {(900, 20)}


def asks(role: str, *ids: str, **fields: Any) -> dict[str, Any]:
    calls = [
        {"id": each, "name": f"{role}_tool", "arguments": {"n": each}, "requestor": role} for each in ids
    ]
    return {"role": role, "tool_calls": calls, **fields}


def answers(role: str, given: str, content: str = "ok", **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "id": given, "requestor": role, "content": content, **fields}


def results(*messages: Any, **fields: Any) -> dict[str, Any]:
    simulation = {"id": "s", "task_id": "t", "trial": 1, "messages": list(messages), **fields}
    info = {"agent_info": {"implementation": "llm_agent", "llm": "m"}, "user_info": {"llm": "u"}}
    return {"info": info, "tasks": [], "simulations": [simulation]}


def test_the_calls_of_the_user_are_a_stream_of_their_own() -> None:
    items, notes = read_all(
        READER,
        results(
            {"role": "user", "content": "hi", "usage": {"prompt_tokens": 3}, "cost": 0.5},
            asks("assistant", "c1", "c2"),
            asks("user", "c1"),
            {
                "role": "tool",
                "tool_messages": [answers("assistant", "c2", "B"), answers("user", "c1", "U", error=True), 4],
            },
            answers("assistant", "c1", "A"),
        ),
    )
    starts = {item.stream: item for item in items if isinstance(item, StreamStart)}
    assert list(starts) == ["task_t_trial_1", "task_t_trial_1/user"]
    assert (starts["task_t_trial_1"].agent, starts["task_t_trial_1"].model) == ("llm_agent", "m")
    user = starts["task_t_trial_1/user"]
    assert (user.parent, user.agent, user.model) == ("task_t_trial_1", "user", "u")
    assert [item.cost for item in items if isinstance(item, Spent) and item.stream == user.stream] == [0.5]
    told = {
        (item.stream, result_text(item.event))
        for item in items
        if isinstance(item, Recorded) and isinstance(item.event, Outcome)
    }
    assert told == {("task_t_trial_1", "A"), ("task_t_trial_1", "B"), ("task_t_trial_1/user", "U")}
    first, second = events([item for item in items if item.stream == "task_t_trial_1"], ToolCall)
    assert first.turn_id == second.turn_id
    assert [o.result.get("isError") for o in events(items, Outcome)] == [None, True, None]
    assert len(events(items, UserMessage)) == 1
    assert notes == {"bad_line": 1}


def test_a_user_that_calls_no_tool_has_no_stream() -> None:
    items, _ = read_all(
        READER, results({"role": "user", "content": "hi", "cost": 0.5}, asks("assistant", "c"))
    )
    assert streams(items) == ["task_t_trial_1"]
    assert not any(isinstance(item, Spent) for item in items)


def test_large_task_lists_do_not_hide_the_format() -> None:
    tasks = [{"id": str(n), "evaluation_criteria": {}, "notes": "x" * 1000} for n in range(400)]
    document = {"timestamp": "t", "info": {}, "tasks": tasks, "simulations": []}
    assert READER.sniff(written(document))


@pytest.mark.parametrize("document", [{}, {"simulations": 3}, 1, "x", [], None])
def test_no_results(document: object) -> None:
    with pytest.raises(TranscriptError):
        read_all(READER, document)
