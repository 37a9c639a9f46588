"""The master switch, and what is not stopped whatever it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai")
pytest.importorskip("starlette")

from tests.runner.model_server import Call, Reply, asks

if TYPE_CHECKING:
    from tests.e2e.stage import Stage

READS = [asks(Call("read", {"path": "a.txt"}))] * 40


@pytest.mark.parametrize("agent", ["unset", "off"])
def test_rolling_detectors_stop_nothing_unless_they_are_on(stage: Stage, agent: str) -> None:
    begun = len(stage.gateway.log)
    play, played = stage.play(agent, READS)
    assert (played.run["state"], played.run["answer"]) == ("done", "All done.")
    assert set(play.requests[-1].results.values()) == {"text of a"}
    assert {told.action for told in played.told} <= {"allow"}
    would = [line for line in stage.gateway.log[begun:].splitlines() if "generic_repeat" in line]
    assert bool(would) == (agent == "unset")  # it says what it would have done, to make up one's mind


def test_an_agent_that_repeats_itself_is_warned_refused_and_stopped(stage: Stage) -> None:
    play, played = stage.play("on", READS)
    assert (played.run["state"], played.run["code"]) == ("aborted", "tool_loop_persisted")
    assert len(play.requests) == 31
    assert [told.call for told in played.of("warn")][:1] == [11]
    assert [told.call for told in played.of("block")] == list(range(21, 31))
    assert [told.call for told in played.of("abort")] == [31]


def test_the_breaker_needs_no_other_detector(stage: Stage) -> None:
    play, played = stage.play("breaker", READS)
    assert (played.run["state"], played.run["code"]) == ("aborted", "tool_loop_persisted")
    assert [(told.call, told.detector, told.count) for told in played.told] == [
        (31, "global_circuit_breaker", 30)
    ]
    assert len(play.requests) == 31


def test_the_model_may_turn_to_something_else(stage: Stage) -> None:
    lines = [*READS[:22], asks(Call("read", {"path": "b.txt"})), Reply("It says: text of b.")]
    play, played = stage.play("on", lines)
    assert (played.run["state"], played.run["answer"]) == ("done", "It says: text of b.")
    assert play.requests[-1].last_result == "text of b"
