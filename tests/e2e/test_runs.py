"""Each run has counts of its own; a sub-agent's loop is the sub-agent's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai")
pytest.importorskip("starlette")

from tests.e2e.conftest import agents, loops
from tests.e2e.gateway import Gateway, wait_until
from tests.e2e.stage import Played, Plays, Stage, forever
from tests.runner.model_server import Call, ModelServer, Reply, Request, asks

if TYPE_CHECKING:
    from pathlib import Path

READ = Call("read", {"path": "a.txt"})
EIGHT = [asks(READ)] * 8


def test_two_messages_in_a_session_do_not_add_up(stage: Stage) -> None:
    session = stage.gateway.session("on")
    for _ in range(3):
        _, played = stage.play("on", EIGHT, session)
        assert (played.run["state"], played.told) == ("done", [])


def test_one_run_of_as_many_calls_is_told(stage: Stage) -> None:
    _, played = stage.play("on", EIGHT * 2)
    assert next(told.call for told in played.of("warn")) == 11


def test_two_heartbeats_do_not_add_up(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("text")
    plays = Plays()
    beats = plays.stage(lambda request, _: asks(READ) if _calls_of_run(request) < 8 else Reply("Nothing."))
    with ModelServer(plays.answer) as model:
        config = agents(tmp_path, model.url, beating=loops(enabled=True))
        config["agents"]["list"][0]["heartbeat"] = {"every": "1s", "prompt": f"Look around {beats.name}."}
        with Gateway(tmp_path, config) as gateway:

            def over() -> list[Any]:
                runs = gateway.ask("GET", "/v1/runs?agent=beating")["runs"]
                return ended if len(ended := [run for run in runs if run["state"] != "open"]) >= 2 else []

            runs = wait_until(over, "two heartbeats")
            played = [Played(run, gateway.events(run["run"])) for run in runs]
    assert {run["trigger"] for run in runs} == {"heartbeat"}
    assert len({run["run"] for run in runs}) == len(runs)
    for one in played:
        assert (one.run["state"], one.told) == ("done", [])
        assert len(one.kinds("outcome")) == 8


def _calls_of_run(request: Any) -> int:
    """Results since a person, or the heartbeat, spoke last."""
    roles = [message["role"] for message in request.messages]
    return roles[::-1].index("user") and roles[len(roles) - roles[::-1].index("user") :].count("tool")


def test_the_loop_of_a_sub_agent_ends_the_sub_agent(stage: Stage) -> None:
    child = stage.plays.stage(forever(READ))
    spawn = Call("sessions_spawn", {"agentId": "on", "task": f"Find out about {child.name}."})
    play, parent = stage.play(
        "on", [asks(spawn), asks(Call("read", {"path": "b.txt"})), Reply("It gave up.")]
    )
    assert (parent.run["state"], parent.run["answer"]) == ("done", "It gave up.")
    assert len(child.requests) == 31
    told = next(iter(play.requests[-1].results.values()))
    assert "did not finish (aborted)" in told
    assert "read was asked for 30 times" in told
    runs = stage.gateway.ask("GET", "/v1/runs?state=aborted")["runs"]
    (ended,) = [run for run in runs if run["parent"] == parent.run["run"]]
    assert (ended["trigger"], ended["code"]) == ("spawn", "tool_loop_persisted")


def test_a_parent_that_spawns_the_same_for_ever_is_stopped_too(stage: Stage) -> None:
    child = stage.plays.stage(lambda *_: Reply("I don't know."))
    spawn = Call("sessions_spawn", {"agentId": "on", "task": f"Find out about {child.name}."})
    _, parent = stage.play("on", forever(spawn))
    assert (parent.run["state"], parent.run["code"]) == ("aborted", "tool_loop_persisted")


def test_messages_to_another_session_look_the_same_whatever_their_ids(stage: Stage) -> None:
    other = stage.plays.stage(lambda *_: Reply("I have read it."))
    session = stage.gateway.session("off")
    send = Call("sessions_send", {"sessionKey": session, "message": f"Anything new, {other.name}?"})

    def lines(_: Request, number: int) -> Reply:
        open_runs = f"/v1/runs?session={session}&state=open"
        wait_until(lambda: not stage.gateway.ask("GET", open_runs)["runs"], "the message to be read")
        return asks(send) if number <= 23 else Reply("No answer.")

    play, played = stage.play("on", lines)
    assert [told.call for told in played.of("warn")][:1] == [11]
    assert [told.call for told in played.of("block")] == [21, 22, 23]
    sent = list(play.requests[-1].results.values())
    assert len(set(sent[:9])) == 9  # each names the run that reads it
    runs = stage.gateway.ask("GET", f"/v1/runs?session={session}")["runs"]
    assert len(runs) == 20


def test_many_runs_at_once_do_not_mix(stage: Stage) -> None:
    plays = [
        stage.plays.stage(
            forever(READ) if number % 2 else lambda _, n: asks(READ) if n < 9 else Reply("Enough.")
        )
        for number in range(16)
    ]
    runs = [stage.gateway.say(stage.gateway.session("on"), f"Do {play.name}.") for play in plays]
    assert len(set(runs)) == 16
    for number, run in enumerate(runs):
        played = stage.seen(run)
        assert played.run["state"] == ("aborted" if number % 2 else "done")
        assert [told.call for told in played.told] == (list(range(11, 32)) if number % 2 else [])
        assert len(plays[number].requests) == (31 if number % 2 else 9)
