from __future__ import annotations

from typing import Any

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.events import Outcome, ToolCall, UserMessage
from loopwarden.transcripts.mini_swe_agent import READER
from loopwarden.transcripts.model import ReadNotes, Spent, StreamStart
from tests.transcripts.facts import Facts, events, facts, items_of
from tests.transcripts.written import read_all, written

V1 = "mini-swe-agent/v1_local.traj.json"
V2 = "mini-swe-agent/v2_pydicom-1139_head.traj.json"


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (V1, Facts(calls=2, win=1, winres=1, streak=1)),
        (V2, Facts(calls=4, win=1, winres=1, streak=1)),
    ],
)
def test_samples(sample: str, expected: Facts) -> None:
    notes = ReadNotes()
    items = items_of(READER, sample, notes)
    assert facts(items) == expected
    assert notes.counts == {}
    # results given as user messages are no person's words
    assert len(events(items, UserMessage)) == 1


def details(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome.result, dict)
    found = outcome.result["details"]
    assert isinstance(found, dict)
    return found


def test_version_1_has_fences_and_return_codes_in_the_text() -> None:
    items = items_of(READER, V1)
    first = events(items, ToolCall)[0]
    assert (first.tool, first.arguments) == ("bash", {"command": "echo 'hello world'"})
    outcome = events(items, Outcome)[0]
    assert details(outcome) == {"status": "completed", "aggregated": "hello world", "exitCode": 0}


def test_version_2_has_calls_codes_times_and_costs() -> None:
    items = items_of(READER, V2)
    calls, outcomes = events(items, ToolCall), events(items, Outcome)
    assert calls[0].arguments == {"command": "ls -la"}
    assert calls[0].at == pytest.approx(1775795607.8685904)
    assert details(outcomes[1]) == {"status": "completed", "aggregated": "", "exitCode": 1}
    spent = [item for item in items if isinstance(item, Spent)]
    assert (spent[0].input_tokens, spent[0].output_tokens) == (1492, 74)
    assert spent[0].cost == pytest.approx(0.0003682)
    start = next(item for item in items if isinstance(item, StreamStart))
    assert start.model == "deepseek/deepseek-chat"


def fenced(*commands: str, mark: str = "bash") -> dict[str, Any]:
    return {"role": "assistant", "content": "".join(f"do\n```{mark}\n{each}\n```\n" for each in commands)}


def user(content: str, **extra: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **({"extra": extra} if extra else {})}


@pytest.mark.parametrize(
    ("messages", "commands", "results", "people"),
    [
        # exactly one fence is a command; what the agent is told otherwise is no result
        ([user("t"), fenced("a", "b"), user("one, please"), fenced("a"), user("o")], ["a"], 1, 1),
        ([user("t"), {"role": "assistant", "content": "hm"}, user("format!")], [], 0, 1),
        ([user("t"), fenced("a", mark="mswea_bash_command"), user("o")], ["a"], 1, 1),
        ([user("t"), fenced("a", mark="python"), user("o")], [], 0, 1),
        # a person interrupts, rejects, or runs a command
        ([user("t"), fenced("a"), user("stop", interrupt_type="UserInterruption")], ["a"], 0, 2),
        ([user("t"), fenced("a"), user("format", interrupt_type="FormatError")], ["a"], 0, 1),
        ([user("t"), user("cmd", actions=[{"command": "ls"}]), user("o", raw_output="x")], [], 0, 2),
        # text as parts
        (
            [{"role": "assistant", "content": [{"type": "text", "text": "```bash\na\n```"}]}, user("o")],
            ["a"],
            1,
            0,
        ),
        # two replies in a row: the first one's result is missing
        ([fenced("a"), fenced("b"), user("o")], ["a", "b"], 1, 0),
    ],
)
def test_user_messages(
    messages: list[dict[str, Any]], commands: list[str], results: int, people: int
) -> None:
    items, _ = read_all(READER, messages)
    calls = events(items, ToolCall)
    assert [call.arguments for call in calls] == [{"command": command} for command in commands]
    outcomes = events(items, Outcome)
    assert len(outcomes) == results
    if outcomes:
        assert outcomes[-1].call_id == calls[-1].call_id
    assert len(events(items, UserMessage)) == people


def test_text_actions_of_version_2_pair_in_order() -> None:
    reply = {
        "role": "assistant",
        "content": "",
        "extra": {"actions": [{"command": "a"}, {"command": "b"}, 3]},
    }
    messages = [
        reply,
        user("A", raw_output="A", returncode=0),
        user("B", raw_output="B", returncode=2),
        {"role": "exit", "content": ""},
        {"role": "stranger"},
        None,
    ]
    items, notes = read_all(READER, {"messages": messages, "trajectory_format": "mini-swe-agent-1.1"})
    first, second = events(items, ToolCall)
    assert first.turn_id == second.turn_id
    assert [details(outcome)["exitCode"] for outcome in events(items, Outcome)] == [0, 2]
    assert notes == {"bad_line": 2, "unknown_record": 1}


def test_items_of_the_responses_api() -> None:
    function = {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'}
    failed = {"returncode": -1, "raw_output": "", "exception_info": "it took too long"}
    messages = [
        {"role": "user", "content": "t"},
        {
            "object": "response",
            "output": [{"type": "reasoning"}, function],
            "usage": {"input_tokens": 5, "output_tokens": 2},
            "extra": {"cost": 0.1, "timestamp": 7.5},
        },
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": "<returncode>-1</returncode>",
            "extra": {**failed, "exception_type": "TimeoutExpired"},
        },
    ]
    items, notes = read_all(READER, {"info": {"mini_version": "2.2"}, "messages": messages})
    (call,) = events(items, ToolCall)
    assert (call.call_id, call.arguments, call.at) == ("c1", {"command": "ls"}, 7.5)
    (outcome,) = events(items, Outcome)
    assert details(outcome)["timedOut"] is True
    assert isinstance(outcome.result, dict)
    assert outcome.result["isError"] is True
    assert [item for item in items if isinstance(item, Spent)] == [
        Spent(stream="main", input_tokens=5, output_tokens=2, cost=0.1, at=7.5)
    ]
    assert notes == {}


def test_the_cost_of_the_run_is_shared_out_where_replies_have_none() -> None:
    info = {"model_stats": {"instance_cost": 0.3}}
    messages = [fenced("a"), user("o"), fenced("b"), user("o"), fenced("c"), user("o")]
    items, _ = read_all(READER, {"info": info, "messages": messages})
    assert [item.cost for item in items if isinstance(item, Spent)] == pytest.approx([0.1] * 3)


def test_a_fence_that_is_never_closed_costs_no_time() -> None:
    text = "```bash" + "\n" * 200_000 + "```bash\n" * 20_000
    items, _ = read_all(READER, [{"role": "assistant", "content": text}])
    assert events(items, ToolCall) == []


@pytest.mark.parametrize(
    ("document", "known"),
    [
        ({"messages": [], "trajectory_format": "mini-swe-agent-1"}, True),
        ({"info": {"submission": "x" * 300_000}, "messages": []}, False),
        ({"info": {"mini_version": "2", "submission": "x" * 300_000}, "messages": []}, True),
        ([user("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"), fenced("ls")], True),
        ([user("hello"), fenced("ls")], False),
    ],
)
def test_sniff(document: object, known: bool) -> None:
    assert READER.sniff(written(document)) is known


@pytest.mark.parametrize("document", [{}, {"messages": 3}, 1, "x", None])
def test_no_trajectory(document: object) -> None:
    with pytest.raises(TranscriptError):
        read_all(READER, document)
