from __future__ import annotations

from typing import Any

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.events import Compaction, Outcome, ToolCall, UserMessage
from loopwarden.transcripts.atif import READER, SUBAGENT_DEPTH
from loopwarden.transcripts.model import ReadNotes, Spent, StreamStart
from tests.transcripts.facts import Facts, events, facts, items_of, result_text, streams
from tests.transcripts.written import read_all, written

LINEAR = "atif/harbor_terminus2_linear_history_compaction.trajectory.json"
TIMEOUT = "atif/harbor_terminus2_timeout.trajectory.json"
CYCLE = "converted/atif/period6_cycle.trajectory.json"


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (LINEAR, Facts()),
        (TIMEOUT, Facts(calls=3, win=2, winres=2, streak=2)),
        (CYCLE, Facts(calls=49, win=5, winres=5, streak=1, cycle=40, period=6)),
    ],
)
def test_samples(sample: str, expected: Facts) -> None:
    notes = ReadNotes()
    items = items_of(READER, sample, notes)
    assert facts(items) == expected
    assert notes.counts == {}
    assert len(streams(items)) == 1


def test_commands_in_the_message_are_no_calls_and_a_summary_is_a_compaction() -> None:
    items = items_of(READER, LINEAR)
    assert events(items, ToolCall) == []
    assert len(events(items, Compaction)) == 1
    assert len(events(items, UserMessage)) == 1
    spent = [item for item in items if isinstance(item, Spent)]
    assert sum(item.input_tokens for item in spent) == 2252
    assert sum(item.output_tokens for item in spent) == 160
    assert sum(item.cost or 0 for item in spent) == pytest.approx(0.00723)


def test_results_without_a_call_id_pair_by_place() -> None:
    outcomes = events(items_of(READER, CYCLE), Outcome)
    assert len(outcomes) == 49
    start = next(item for item in items_of(READER, TIMEOUT) if isinstance(item, StreamStart))
    assert (start.agent, start.model) == ("terminus-2", "openai/gpt-4o")


def call(tool: str, given: str | None = None, **arguments: Any) -> dict[str, Any]:
    return {"tool_call_id": given, "function_name": tool, "arguments": arguments}


def agent(*calls: dict[str, Any], results: list[Any] | None = None, **fields: Any) -> dict[str, Any]:
    step: dict[str, Any] = {"source": "agent", "message": "", "tool_calls": list(calls), **fields}
    if results is not None:
        step["observation"] = {"results": results}
    return step


def trajectory(*steps: Any, version: str = "ATIF-v1.7", **fields: Any) -> dict[str, Any]:
    numbered = [
        {"step_id": place, **step} if isinstance(step, dict) else step for place, step in enumerate(steps, 1)
    ]
    return {"schema_version": version, "session_id": "s", "agent": {"name": "a"}, "steps": numbered, **fields}


def test_calls_of_a_step_share_a_turn_and_results_may_come_in_any_order() -> None:
    step = agent(
        call("read", "r1", path="a"),
        call("read", "r2", path="b"),
        results=[{"source_call_id": "r2", "content": "B"}, {"source_call_id": "r1", "content": "A"}],
        timestamp="2025-06-01T09:00:00Z",
    )
    items, notes = read_all(READER, trajectory(step))
    first, second = events(items, ToolCall)
    assert first.turn_id == second.turn_id is not None
    assert first.at == 1748768400.0
    assert {o.call_id: result_text(o) for o in events(items, Outcome)} == {"r1": "A", "r2": "B"}
    assert notes == {}


@pytest.mark.parametrize(
    ("results", "paired", "noted"),
    [
        ([{"content": "A"}, {"content": "B"}], ["A", "B"], {}),
        ([{"content": "A"}], [], {"result_without_call": 1, "call_without_result": 2}),
        ([{"content": "A"}, {"source_call_id": "r2", "content": "B"}], ["A", "B"], {}),
        (
            [{"source_call_id": "gone", "content": "A"}],
            [],
            {"result_without_call": 1, "call_without_result": 2},
        ),
        # only points to the trajectory of a sub-agent
        (
            [
                {"source_call_id": "r1", "subagent_trajectory_ref": []},
                {"source_call_id": "r2", "content": "B"},
            ],
            ["B"],
            {"call_without_result": 1},
        ),
        ([3, None], [], {"bad_line": 2, "call_without_result": 2}),
        ([], [], {"call_without_result": 2}),
    ],
)
def test_pairing(results: list[Any], paired: list[str], noted: dict[str, int]) -> None:
    items, notes = read_all(READER, trajectory(agent(call("f", "r1"), call("g", "r2"), results=results)))
    assert [result_text(outcome) for outcome in events(items, Outcome)] == paired
    assert notes == noted


def test_copied_context_is_left_out() -> None:
    step = agent(call("f", "c1"), results=[{"content": "x"}], metrics={"prompt_tokens": 7})
    items, notes = read_all(READER, trajectory({**step, "is_copied_context": True}, step))
    assert len(events(items, ToolCall)) == 1
    assert sum(item.input_tokens for item in items if isinstance(item, Spent)) == 7
    assert notes == {"copied_history": 1}


def test_a_call_written_again_with_its_result_is_one_call() -> None:
    asked = call("f", "c1", x=1)
    items, notes = read_all(READER, trajectory(agent(asked), agent(asked, results=[{"content": "x"}])))
    assert len(events(items, ToolCall)) == 1
    assert notes == {}
    items, notes = read_all(READER, trajectory(*[agent(asked, results=[{"content": "x"}])] * 2))
    assert len(events(items, ToolCall)) == 2
    assert notes == {"reused_id": 1}


def test_sub_agents_are_streams_of_their_own() -> None:
    child = trajectory(agent(call("g", "c1"), results=[{"content": "y"}]), trajectory_id="child")
    side = agent(
        call("h", "c2"), results=[{"content": "z"}], extra={"is_sidechain": True, "agent_id": "side"}
    )
    own = agent(call("f", "c1"), results=[{"content": "x"}])
    items, notes = read_all(READER, trajectory(own, side, subagent_trajectories=[child, None]))
    starts = [item for item in items if isinstance(item, StreamStart)]
    assert [(start.stream, start.parent) for start in starts] == [
        ("s", None),
        ("child", "s"),
        ("side", "s"),
    ]
    assert facts(items).calls == 1
    assert facts(items, every_stream=True).calls == 3
    assert notes == {"bad_line": 1}


def test_sub_agents_nested_too_deep_are_counted() -> None:
    inner = trajectory(agent(call("f")))
    for _ in range(SUBAGENT_DEPTH + 2):
        inner = trajectory(subagent_trajectories=[inner])
    items, notes = read_all(READER, inner)
    assert len(streams(items)) == SUBAGENT_DEPTH + 1
    assert notes == {"too_deep": 1}


def test_totals_are_shared_out_where_no_step_has_metrics() -> None:
    final = {"total_prompt_tokens": 10, "total_completion_tokens": 5, "total_cost_usd": 0.3}
    items, _ = read_all(READER, trajectory(agent(), agent(), agent(), final_metrics=final))
    spent = [item for item in items if isinstance(item, Spent)]
    assert [item.input_tokens for item in spent] == [3, 3, 4]
    assert sum(item.output_tokens for item in spent) == 5
    assert [item.cost for item in spent] == pytest.approx([0.1] * 3)


@pytest.mark.parametrize("version", [f"ATIF-v1.{minor}" for minor in range(9)])
def test_every_version_is_known(version: str) -> None:
    assert READER.sniff(written(trajectory(version=version)))


@pytest.mark.parametrize("document", [[], {}, {"steps": 3}, {"steps": {}}, 1, "null"])
def test_no_trajectory(document: object) -> None:
    with pytest.raises(TranscriptError, match="no ATIF trajectory"):
        read_all(READER, document)
