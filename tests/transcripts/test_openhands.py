from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.events import Outcome, ToolCall
from loopwarden.transcripts.model import ReadNotes, Spent, StreamStart
from loopwarden.transcripts.openhands import READER
from loopwarden.transcripts.shape import command_result
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import SAMPLES, Facts, events, facts, items_of, streams
from tests.transcripts.handmade import (
    as_document,
    as_lines,
    assert_survives_damage,
    other_samples,
    read,
    strip,
)

if TYPE_CHECKING:
    from pathlib import Path

TIME = "2026-01-01T00:00:01.5"


@pytest.mark.parametrize(
    ("sample", "expected", "order"),
    [
        ("v0_events.json", Facts(calls=10, win=10, winres=10, streak=10), "S" + "co" * 10),
        (
            "v1_events.jsonl",
            Facts(calls=49, win=29, winres=29, streak=29),
            "S" + "co" * 25 + "|" + "co" * 24,
        ),
    ],
)
def test_samples(sample: str, expected: Facts, order: str) -> None:
    notes = ReadNotes()
    assert READER.sniff(Source(SAMPLES / "converted/openhands" / sample))
    items = items_of(READER, f"converted/openhands/{sample}", notes)
    assert facts(items) == expected
    assert strip(items) == order
    assert not notes.counts


def test_a_command_of_the_sample_has_its_exit_code() -> None:
    items = items_of(READER, "converted/openhands/v0_events.json")
    call, outcome = events(items, ToolCall)[0], events(items, Outcome)[0]
    assert (call.tool, call.turn_id, call.at) == ("execute_bash", "chatcmpl-0", 1748768400.0)
    assert set(call.arguments) == {"command", "is_input"}
    assert outcome.result == command_result("[]", exit_code=0)


@pytest.mark.parametrize("sample", other_samples("openhands"))
def test_other_formats_are_refused(sample: str) -> None:
    assert not READER.sniff(Source(SAMPLES / sample))


def action(identity: int, kind: str, by: str = "agent", /, **args: Any) -> dict[str, Any]:
    return {"id": identity, "timestamp": TIME, "source": by, "action": kind, "args": args}


def seen(
    identity: int, cause: int | None, kind: str = "run", /, content: Any = "ok", **more: Any
) -> dict[str, Any]:
    base = {"id": identity, "timestamp": TIME, "source": "agent", "observation": kind}
    return base | {"content": content, "cause": cause} | more


def asked(identity: int, call_id: str, reply: str, **more: Any) -> dict[str, Any]:
    told = {"function_name": "read_it", "tool_call_id": call_id, "model_response": {"id": reply} | more}
    return action(identity, "read", path="p", thought=f"hm {identity}") | {"tool_call_metadata": told}


@pytest.mark.parametrize(
    ("history", "expected", "noted"),
    [
        ([action(0, "message", "user", content="x"), action(1, "run"), seen(2, 1)], "Suco", {}),
        ([action(0, "system"), action(1, "recall", "user"), seen(2, 1, "recall")], "S", {}),
        ([action(0, "message"), action(1, "finish"), seen(2, None, "agent_state_changed")], "S", {}),
        ([action(0, "run"), action(1, "condensation"), seen(2, 0)], "Sc|o", {}),
        ([asked(0, "a", "r"), asked(1, "b", "r"), seen(2, 1), seen(3, 0)], "Sccoo", {}),
        # older files keep pairs
        ([[action(0, "run"), seen(1, 0)], [action(2, "run"), seen(3, 2)]], "Scoco", {}),
        ([action(0, "run")], "Sc", {"call_without_result": 1}),
        ([action(0, "null"), seen(1, 5)], "S", {"result_without_call": 1}),
        ([action(0, "run"), seen(1, 0), seen(2, 0)], "Sco", {"result_without_call": 1}),
        ([action(0, "null"), 5, {"id": 1}], "S", {"bad_line": 1, "unknown_record": 1}),
    ],
)
def test_v0(history: list[Any], expected: str, noted: dict[str, int]) -> None:
    items, notes = read(READER, as_document(history))
    assert strip(items) == expected
    assert notes.counts == noted
    rows, _ = read(READER, as_lines([{"instance_id": "i", "history": history}]))
    assert strip(rows) == expected


@pytest.mark.parametrize(
    ("observation", "result", "error"),
    [
        (seen(1, 0, extras={"metadata": {"exit_code": 2}}), command_result("ok", exit_code=2), None),
        (seen(1, 0, extras={"exit_code": 0}), command_result("ok", exit_code=0), None),
        (seen(1, 0, extras={"metadata": {"exit_code": -1}}), command_result("ok", running=True), None),
        (seen(1, 0, "read"), {"content": [{"type": "text", "text": "ok"}]}, None),
        (seen(1, 0, "error", "no such"), None, "no such"),
        (seen(1, 0, "user_rejected", ""), None, "user_rejected"),
        (seen(1, 0, "run", None), {"content": [None]}, None),
    ],
)
def test_results_of_v0(observation: dict[str, Any], result: Any, error: str | None) -> None:
    (outcome,) = events(read(READER, as_document([action(0, "run"), observation]))[0], Outcome)
    assert (outcome.result, outcome.error) == (result, error)


def test_the_thoughts_of_the_model_are_no_arguments() -> None:
    items, _ = read(READER, as_document([asked(0, "a", "r"), asked(1, "b", "s")]))
    first, second = events(items, ToolCall)
    assert first.arguments == second.arguments == {"path": "p"}
    assert (first.turn_id, second.turn_id) == ("r", "s")


def test_arguments_as_the_model_wrote_them() -> None:
    call = {"id": "a", "function": {"name": "read_it", "arguments": '{"path": "q"}'}}
    told = asked(0, "a", "r", choices=[{"message": {"tool_calls": [{"id": "z"}, call]}}])
    (event,) = events(read(READER, as_document([told]))[0], ToolCall)
    assert event.arguments == {"path": "q"}


def test_what_replies_of_v0_cost() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    history = [asked(0, "a", "r", usage=usage), asked(1, "b", "r", usage=usage), asked(2, "c", "s")]
    row = {
        "instance_id": "i",
        "history": history,
        "metrics": {"token_usages": [usage | {"response_id": "s"}]},
    }
    items, _ = read(READER, as_lines([row]))
    assert strip(items) == "Scc$c$"
    assert items[3] == Spent(stream="i", input_tokens=5, output_tokens=2, at=1767225601.5)


def test_sums_so_far_are_taken_apart() -> None:
    def summed(identity: int, tokens: int, cost: float) -> dict[str, Any]:
        usage = {"prompt_tokens": tokens, "completion_tokens": 1}
        return action(identity, "run") | {
            "llm_metrics": {"accumulated_cost": cost, "accumulated_token_usage": usage}
        }

    items, _ = read(READER, as_document([summed(0, 10, 0.25), summed(1, 30, 0.75), summed(2, 30, 0.75)]))
    spent = [item for item in items if isinstance(item, Spent)]
    assert [(item.input_tokens, item.output_tokens, item.cost) for item in spent] == [
        (10, 1, 0.25),
        (20, 0, 0.5),
    ]


def test_rows_are_streams() -> None:
    row = {"instance_id": "i", "history": [action(0, "run")], "metadata": {"llm_config": {"model": "m"}}}
    items, notes = read(READER, as_lines([row, row, {"instance_id": "j"}]))
    assert len(streams(items)) == 2
    assert items[0] == StreamStart(stream="i", title="i", agent="OpenHands", model="m")
    assert notes.counts == {"call_without_result": 2, "unknown_record": 1}


def v1(kind: str, call_id: str | None = None, **more: Any) -> dict[str, Any]:
    base = {"kind": kind, "id": f"e{call_id}", "timestamp": TIME, "source": "agent"}
    return base | {"tool_name": "terminal", "tool_call_id": call_id} | more


def acts(call_id: str, arguments: str = '{"command": "ls"}', **more: Any) -> dict[str, Any]:
    return v1("ActionEvent", call_id, tool_call={"arguments": arguments}, llm_response_id="r", **more)


def sees(call_id: str, **observation: Any) -> dict[str, Any]:
    told = {"content": [{"type": "text", "text": "ok"}], "is_error": False} | observation
    return v1("ObservationEvent", call_id, observation=told)


@pytest.mark.parametrize(
    ("records", "expected", "noted"),
    [
        ([v1("SystemPromptEvent"), v1("MessageEvent", source="user"), v1("MessageEvent")], "Su", {}),
        ([acts("1"), acts("2"), sees("2"), sees("1")], "Sccoo", {}),
        ([acts("1"), v1("AgentErrorEvent", "1", error="x")], "Sco", {}),
        ([acts("1"), v1("UserRejectObservation", "1", rejection_reason="no")], "Sco", {}),
        ([acts("1"), v1("Condensation"), v1("CondensationRequest"), sees("1")], "Sc|o", {}),
        ([acts("1"), v1("AgentErrorEvent", error="x")], "Sc", {"call_without_result": 1}),
        (
            [acts("1"), v1("NewEvent"), 5, sees("2")],
            "Sc",
            {"unknown_record": 1, "bad_line": 1} | {"result_without_call": 1, "call_without_result": 1},
        ),
        ([acts("1", tool_name=None)], "S", {"bad_line": 1}),
    ],
)
def test_v1(records: list[Any], expected: str, noted: dict[str, int]) -> None:
    for data in (as_lines(records), as_document(records)):
        items, notes = read(READER, data)
        assert strip(items) == expected
        assert notes.counts == noted
    items, _ = read(READER, as_lines([{"instance_id": "i", "history": records}]))
    assert strip(items) == expected


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        (acts("1"), {"command": "ls"}),
        (acts("1", '{"command": "ls", "summary": "s"}', summary="s"), {"command": "ls"}),
        (acts("1", '{"summary": "s"}', summary="other"), {"summary": "s"}),
        (acts("1", "no json"), "no json"),
        (v1("ActionEvent", "1", action={"kind": "X", "a": 1}), {"a": 1}),
    ],
)
def test_arguments_of_v1(event: dict[str, Any], arguments: Any) -> None:
    (call,) = events(read(READER, as_lines([event]))[0], ToolCall)
    assert call.arguments == arguments


@pytest.mark.parametrize(
    ("observation", "result"),
    [
        ({}, {"content": [{"type": "text", "text": "ok"}]}),
        ({"is_error": True}, {"content": [{"type": "text", "text": "ok"}], "isError": True}),
        ({"exit_code": 2}, command_result("ok", exit_code=2)),
        ({"exit_code": -1, "timeout": True}, command_result("ok", running=True)),
        ({"exit_code": None, "timeout": True}, command_result("ok", timed_out=True)),
        ({"content": None, "command": "view"}, {"content": [{"command": "view", "content": None}]}),
    ],
)
def test_results_of_v1(observation: dict[str, Any], result: Any) -> None:
    (outcome,) = events(read(READER, as_lines([acts("1"), sees("1", **observation)]))[0], Outcome)
    assert outcome.result == result


def test_calls_of_one_reply_share_the_turn() -> None:
    items, _ = read(READER, as_lines([acts("1"), acts("2")]))
    assert [call.turn_id for call in events(items, ToolCall)] == ["r", "r"]


def test_the_events_folder_of_a_conversation(tmp_path: Path) -> None:
    for number, event in enumerate([v1("MessageEvent", source="user"), acts("1"), sees("1"), acts("2")]):
        place = number if number < 3 else 100_000  # has a longer name, and still comes last
        (tmp_path / f"event-{place:05d}-0123abcd-0000.json").write_text(json.dumps(event))
    (tmp_path / "event-00009-0123abcd-0000.json").write_text("{")
    (tmp_path / "base_state.json").write_text("{}")
    items, notes = read(READER, Source(tmp_path))
    assert strip(items) == "Sucoc"
    assert notes.counts == {"bad_line": 1, "call_without_result": 1}


def test_another_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    assert not READER.sniff(Source(tmp_path))
    with pytest.raises(TranscriptError, match="no OpenHands conversation"):
        list(READER.read(Source(tmp_path), ReadNotes()))


def test_damage_is_survived() -> None:
    usage = {"prompt_tokens": 5}
    first = asked(
        0, "a", "r", usage=usage, choices=[{"message": {"tool_calls": [{"id": "a", "function": {}}]}}]
    )
    metrics = {"accumulated_cost": 1.0, "accumulated_token_usage": usage}
    history = [first | {"llm_metrics": metrics}, [action(1, "run"), seen(2, 1, extras={"metadata": {}})]]
    row = {"instance_id": "i", "history": history, "metrics": {"token_usages": [usage]}}
    assert_survives_damage(READER, [row], lines=True)
    assert_survives_damage(READER, [history], lines=False)
    lines = [acts("1"), sees("1", exit_code=1), v1("AgentErrorEvent", "1", error="x"), v1("Condensation")]
    assert_survives_damage(READER, lines, lines=True)
