"""Models as they are: they reuse ids, say nothing, make tools up, and ask for many things in one breath."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai")
pytest.importorskip("starlette")

from tests.e2e.commands import ends, pid_in, sleeper
from tests.e2e.stage import forever
from tests.runner.model_server import Call, Reply, asks

if TYPE_CHECKING:
    from tests.e2e.stage import Stage

READ = Call("read", {"path": "a.txt"})


def test_a_model_that_gives_every_call_the_same_id(stage: Stage) -> None:
    one = Call("read", {"path": "a.txt"}, "call_0")
    play, played = stage.play("on", forever(one))
    assert (played.run["state"], played.run["code"]) == ("aborted", "tool_loop_persisted")
    assert len(play.requests) == 31


def test_a_model_that_gives_two_calls_of_a_reply_the_same_id(stage: Stage) -> None:
    two = asks(Call("read", {"path": "a.txt"}, "call_0"), Call("read", {"path": "b.txt"}, "call_0"))
    _, played = stage.play("on", [two, Reply("Both.")])
    assert played.run["state"] == "failed"  # a provider would not take such a history either
    assert "call_0" in played.run["message"]
    _, played = stage.play("on", [Reply("Still here.")])
    assert played.run["answer"] == "Still here."


def test_a_model_that_says_nothing(stage: Stage) -> None:
    play, played = stage.play("on", lambda *_: Reply(""))
    assert played.run["state"] == "failed"
    assert played.run["message"]
    assert len(play.requests) < 10


@pytest.mark.parametrize(
    "name", ["read\x1b[31m", "<script>alert(1)</script>", "x" * 500, "läs\u202e", "read read", "../read"]
)
def test_a_model_that_makes_tools_up(stage: Stage, name: str) -> None:
    begun = len(stage.gateway.log)
    _, played = stage.play("on", forever(Call(name, {"path": "a.txt"})))
    assert (played.run["state"], played.run["code"]) == ("aborted", "tool_loop_persisted")
    log = stage.gateway.log[begun:]
    assert "unknown_tool_repeat" in log
    assert "\x1b" not in log
    assert "\u202e" not in log


@pytest.mark.parametrize(
    ("command", "reads"), [("yes | head -c 3000000", "y\ny\n"), ("head -c 3000000 /dev/zero", "binary")]
)
def test_a_command_that_says_very_much(stage: Stage, command: str, reads: str) -> None:
    much = Call("exec", {"command": f"{command}; echo the end"})
    play, played = stage.play("on", [asks(much), Reply("Noise.")])
    assert played.run["state"] == "done"
    text = play.requests[-1].last_result
    assert reads in text
    assert "\0" not in text
    assert len(text) < 100_000


@pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX")
def test_what_runs_beside_the_call_that_ends_the_run_is_ended(stage: Stage) -> None:
    lines = [asks(READ)] * 30 + [asks(sleeper("beside"), READ)]
    _, played = stage.play("on", lines)
    assert (played.run["state"], played.run["code"]) == ("aborted", "tool_loop_persisted")
    path = stage.gateway.folder / "work" / "beside"
    if path.exists():
        ends(pid_in(path))


def test_a_session_goes_on_after_its_run_was_ended(stage: Stage) -> None:
    session = stage.gateway.session("on")
    _, played = stage.play("on", [asks(READ, Call("read", {"path": "b.txt"}))] * 40, session)
    assert played.run["state"] == "aborted"
    play, played = stage.play("on", [asks(READ), Reply("It says: text of a.")], session)
    assert (played.run["state"], played.run["answer"], played.told) == ("done", "It says: text of a.", [])
    assert play.requests[-1].last_result == "text of a"
    assert len(play.requests[0].said) == 2
