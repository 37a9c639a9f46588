"""A provider as they are: busy, broken, cut off; and a model that asks for many things at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai")
pytest.importorskip("starlette")

from tests.runner.model_server import Call, Reply, asks, breaks, limits

if TYPE_CHECKING:
    from tests.e2e.stage import Stage

READ = Call("read", {"path": "a.txt"})


def test_a_request_that_failed_is_made_again_and_counts_once(stage: Stage) -> None:
    one = asks(READ, text="I look at it once more.")
    script = [
        one,
        limits(),
        one,
        breaks(),
        replace(one, drop="before"),
        one,
        replace(one, drop="middle"),
        *[one] * 6,
        Reply("That is all."),
    ]
    play, played = stage.play("on", script)
    assert (played.run["state"], played.run["answer"]) == ("done", "That is all.")
    assert len(play.requests) == len(script)
    assert len(played.kinds("outcome")) == len(play.requests[-1].results) == 9
    assert played.told == []


def test_a_reply_that_was_cut_is_not_half_done(stage: Stage) -> None:
    write = Call("exec", {"command": "echo x >> cut.txt"})
    lost = replace(asks(write, write, text="Both."), drop="middle")
    _, played = stage.play("on", [lost, asks(write), Reply("Done.")])
    assert played.run["state"] == "done"
    assert (stage.gateway.folder / "work" / "cut.txt").read_text() == "x\n"


def test_calls_of_one_reply_run_together(stage: Stage) -> None:
    calls = [Call("read", {"path": f"{name}.txt"}) for name in "abcd"]
    play, played = stage.play("on", [asks(*calls, text="All four.")])
    assert played.run["state"] == "done"
    assert list(play.requests[-1].results.values()) == [f"text of {name}" for name in "abcd"]


def test_the_same_call_many_times_in_one_reply_is_refused_past_the_critical_threshold(stage: Stage) -> None:
    play, played = stage.play("on", [asks(*[READ] * 25), Reply("Enough.")])
    assert played.run["state"] == "done"
    assert len(played.of("block")) == 5
    read = list(play.requests[-1].results.values())
    assert read.count("text of a") == 20
    assert len(read) == 25


def test_a_tool_that_does_not_take_what_it_is_given(stage: Stage) -> None:
    wrong = [Call("read", '{"path": '), Call("read", {"file": "a.txt"}), Call("exec", {"command": ""})]
    play, played = stage.play("on", [*(asks(call) for call in wrong), asks(READ), Reply("At last.")])
    assert (played.run["state"], played.run["answer"]) == ("done", "At last.")
    assert len(play.requests[-1].results) == 4


@pytest.mark.parametrize("arguments", ['{"path": ', {"file": "a.txt"}], ids=["no JSON", "unknown field"])
def test_wrong_arguments_again_and_again_end(stage: Stage, arguments: str) -> None:
    _, played = stage.play("on", lambda *_: asks(Call("read", arguments)))
    assert (played.run["state"], played.run["code"]) == ("aborted", "tool_loop_persisted")
