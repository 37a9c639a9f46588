"""What becomes of a call, its result, and what else has to do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.mcp_proxy.calls import SOFT_STOP, Relay
from loopwarden.mcp_proxy.hints import AGENT_ID, RUN_ID, Naming
from loopwarden.mcp_proxy.lines import LongLine
from tests.mcp_proxy.scene import MODERN, NOTHING, Scene, dump

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_call_and_its_result_are_told_once() -> None:
    scene = Scene()
    assert scene.call(7, "look", arguments={"at": 1}) is None
    assert scene.answer(7, {"content": [], "structuredContent": {"n": 1}, "_meta": {"t": 9}})["id"] == 7
    assert scene.answer(7)["id"] == 7  # a second answer is nobody's
    (before,), (after,) = scene.of("before"), scene.of("after")
    assert (before.tool, before.arguments, before.session_id) == ("look", {"at": 1}, "s")
    assert after.result == {"content": [], "details": {"n": 1}}
    assert before.run_id == after.run_id is not None


def test_a_warning_is_one_more_block_once_and_no_part_of_the_outcome() -> None:
    scene = Scene()
    scene.loop(3)
    scene.call(3)
    warned = scene.answer(3, {"content": [], "structuredContent": {"n": 1}, "isError": False})
    assert warned["result"]["structuredContent"] == {"n": 1}
    (block,) = warned["result"]["content"]
    assert block["type"] == "text"
    assert block["text"] == scene.of("before")[3].verdict.message
    scene.call(4)
    assert scene.answer(4)["result"] == NOTHING  # announced already
    changed = scene.of("before")[3].call_id
    assert all(told.result == NOTHING for told in scene.of("after") if told.call_id != changed)


def test_a_warning_goes_into_the_message_of_an_error() -> None:
    scene = Scene()
    for number in range(3):
        scene.call(number)
        assert scene.fault(number, "no")["error"]["message"] == "no"
    scene.call(3)
    fault = scene.fault(3, 'no "quotes"')["error"]
    assert fault["message"] == f'no "quotes"\n\n{scene.of("before")[3].verdict.message}'
    assert fault["code"] == -32602


@pytest.mark.parametrize("more", [{"result": None, "error": {"message": "m"}}, {"error": 5}, {"error": None}])
def test_an_answer_of_both_kinds_or_of_none(more: dict[str, Any]) -> None:
    scene = Scene()
    scene.call(1)
    line = dump({"id": 1, **more})
    assert scene.relay.from_server(line) == line
    assert scene.of("after")[0].error == ("m" if "result" in more else "error")


@pytest.mark.parametrize("modern", [True, False])
def test_a_refusal_is_an_error_result(modern: bool) -> None:
    scene = Scene()
    params = {"_meta": MODERN} if modern else {}
    scene.loop(5, **params)
    refused = scene.call("x", **params)
    message = scene.of("before")[-1].verdict.message
    wanted = {"content": [{"type": "text", "text": message}], "isError": True}
    assert refused == {
        "jsonrpc": "2.0",
        "id": "x",
        "result": wanted | ({"resultType": "complete"} if modern else {}),
    }
    assert len(scene.of("after")) == 5


def test_after_an_abort_every_call_is_refused_until_the_client_was_quiet() -> None:
    scene = Scene({"enabled": True, "onCritical": "abort", "warningThreshold": 2, "criticalThreshold": 3})
    scene.loop(3)
    for number, name in enumerate(("look", "other", "look"), 10):
        (block,) = scene.call(number, name)["result"]["content"]
        assert block["text"].endswith(SOFT_STOP)
        scene.clock.now += 600
    scene.clock.now += 1
    assert scene.call(20) is None


def test_quiet_begins_a_new_run_and_results_are_no_quiet() -> None:
    scene = Scene(gap=10)
    scene.call(1)
    scene.clock.now = 100
    scene.answer(1)  # it took long
    scene.clock.now = 105
    scene.loop(1)
    scene.clock.now = 116
    scene.loop(1)
    first, second, third = (told.run_id for told in scene.of("before"))
    assert first == second != third
    assert all(a.run_id == b.run_id for a, b in zip(scene.of("before"), scene.of("after"), strict=True))
    never = Scene(gap=0)
    never.loop(1)
    never.clock.now = 1e9
    never.loop(1)
    assert len({told.run_id for told in never.of("before")}) == 1


@pytest.mark.parametrize("odd", ["", "x" * 201, 5, None, ["r"], {"a": 1}])
def test_the_client_names_run_and_agent(odd: Any) -> None:
    scene = Scene()
    for meta in (
        {RUN_ID: "r"},
        {RUN_ID: "r", AGENT_ID: "a"},
        {AGENT_ID: "a"},
        {RUN_ID: odd, AGENT_ID: odd},
        odd,
    ):
        scene.call(1, _meta=meta)
    named, of_agent, agent, first, second = (str(told.run_id) for told in scene.of("before"))
    assert (named, of_agent) == ("r", "r/a")
    assert agent == f"{first}/a"
    assert first == second not in {"r", ""}
    line = b'{"id":1,"method":"tools/call","params":{"name":"x","_meta":{"loopwarden/run-id":"r"}}}'
    assert scene.relay.from_client(line) == (line, b"")  # the hint goes on too


def test_calls_that_are_never_answered_are_refused_past_the_number_of_one_turn() -> None:
    """A client that gives up by itself, or one reply that asks for the same too often: nobody can tell."""
    scene = Scene()
    assert [scene.call(number) for number in range(5)] == [None] * 5
    assert scene.call("other", "other") is None
    refused = [scene.call(number) for number in range(10, 20)]
    assert all(one["result"]["isError"] for one in refused)
    assert scene.answer(3) == {"jsonrpc": "2.0", "id": 3, "result": NOTHING}  # late, and handed on
    assert refused[-1]["result"]["content"][0]["text"].endswith(SOFT_STOP)


def test_calls_that_are_given_up_without_a_reason_are_refused_too() -> None:
    scene = Scene()
    for number in range(5):
        assert scene.call(number) is None
        scene.tell("notifications/cancelled", requestId=number)
    assert scene.call(5)["result"]["isError"]


def test_equal_calls_at_the_same_time_are_one_repeat() -> None:
    scene = Scene()
    for turn in range(3):
        calls = [f"{turn}-{place}" for place in range(5)]
        assert [scene.call(number) for number in calls] == [None] * 5
        for number in calls:
            scene.answer(number, {"content": [{"type": "text", "text": f"turn {turn}"}]})
    assert {told.verdict.action for told in scene.guard.told} == {"allow"}


def test_slow_calls_are_no_turn_while_others_are_answered() -> None:
    scene = Scene()
    for number in range(8):
        assert scene.call(f"slow{number}") is None
        scene.call(f"quick{number}", "quick", arguments={"at": number})
        scene.answer(f"quick{number}", {"content": [{"type": "text", "text": f"{number}"}]})
    assert len({told.turn_id for told in scene.of("before")}) == 8
    assert {told.verdict.action for told in scene.guard.told} == {"allow", "warn"}


def test_two_proxies_that_look_at_one_run_give_calls_ids_of_their_own() -> None:
    scene = Scene()
    verbs = scene.guard.session("s")
    other = Relay(verbs, Naming(verbs))
    params = {"name": "look", "_meta": {RUN_ID: "r"}}
    scene.call(1, **params)
    line = dump({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    assert other.from_client(line) == (line, b"")
    first, second = scene.of("before")
    assert first.run_id == second.run_id == "r"
    assert first.call_id != second.call_id
    assert first.turn_id != second.turn_id


def test_other_runs_are_apart() -> None:
    scene = Scene()
    for run in "abc":
        scene.loop(3, _meta={RUN_ID: run})
    assert all(told.verdict.action == "allow" for told in scene.of("before"))


def test_an_id_and_the_text_of_it_are_two_calls() -> None:
    scene = Scene()
    scene.call(1, "one")
    scene.call("1", "two")
    scene.answer("1", {"content": [{"type": "text", "text": "of two"}]})
    scene.answer(1.0, {"content": [{"type": "text", "text": "of one"}]})
    told = {one.call_id: one.tool for one in scene.of("before")}
    assert [(told[one.call_id], one.result["content"][0]["text"]) for one in scene.of("after")] == [
        ("two", "of two"),
        ("one", "of one"),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        lambda scene: scene.fault(0, "Unknown tool: gone"),
        lambda scene: scene.fault(0, "MCP error -32602: Tool gone not found"),
        lambda scene: scene.answer(
            0, {"content": [{"type": "text", "text": "Unknown tool: gone"}], "isError": True}
        ),
    ],
)
def test_a_tool_that_does_not_exist_is_seen(answer: Callable[[Scene], Any]) -> None:
    scene = Scene()
    for _ in range(4):
        scene.call(0, "gone")
        answer(scene)
    assert scene.of("before")[-1].verdict.detector == "unknown_tool_repeat"


@pytest.mark.parametrize("asks", [True, False])
def test_requests_of_the_server_are_no_answers(asks: bool) -> None:
    scene = Scene()
    scene.call(1)
    message = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"result": 1}}
    if not asks:
        message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"error": 1, "id": 1}}
    line = dump(message)
    assert scene.relay.from_server(line) == line
    assert scene.of("after") == []
    scene.answer(1)
    assert len(scene.of("after")) == 1


def test_a_cancelled_call_has_no_outcome_but_where_time_ran_out() -> None:
    scene = Scene()
    for number, reason in enumerate(("User pressed escape", "MCP error -32001: Request timed out", None)):
        scene.call(number)
        scene.tell("notifications/cancelled", requestId=number, reason=reason)
        scene.answer(number)  # too late, and goes on all the same
    (after,) = scene.of("after")
    assert after.error == "timed out"
    for odd in (None, [], {}, 99, "0"):
        scene.tell("notifications/cancelled", requestId=odd)


def test_a_line_too_long_is_an_outcome_by_its_digest() -> None:
    scene = Scene()
    for number in range(4):
        long = LongLine()
        scene.call(number)
        long.add(b'{"jsonrpc":"2.0","id":%d,"result":' % number)
        long.add(b"x" * 10_000)
        scene.relay.long_from_server(long)
    assert len(scene.of("after")) == 4
    assert len({told.result["digest"] for told in scene.of("after")}) == 4  # the id is in it


def test_a_fault_of_the_guard_lets_everything_through(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()

    def broken(*_: object, **__: object) -> Any:
        raise RuntimeError("broken")

    scene.guard._examine = broken  # type: ignore[method-assign]
    line = dump({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}})
    scene.relay._verbs.before = broken  # type: ignore[method-assign]
    assert scene.relay.from_client(line) == (line, b"")
    assert "fault in the proxy" in caplog.text
