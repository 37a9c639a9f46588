"""While a run goes on: people write, cancel, listen, and the gateway ends."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai")
pytest.importorskip("starlette")

from tests.e2e.commands import ends, pid_in, sleeper
from tests.e2e.conftest import agents, loops
from tests.e2e.gateway import Gateway, wait_until
from tests.e2e.stage import Plays, Stage
from tests.runner.model_server import Call, ModelServer, Reply, asks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.stage import Play

READ = Call("read", {"path": "a.txt"})
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX")


def begun(stage: Stage, play: Play) -> str:
    """A run in a new session."""
    return stage.gateway.say(stage.gateway.session("on"), f"Please do {play.name}.")


def asked(play: Play, times: int) -> None:
    wait_until(lambda: len(play.requests) >= times, f"request {times}")


def test_what_a_person_writes_reaches_the_run_and_opens_what_was_refused(stage: Stage) -> None:
    go = threading.Event()
    lines = [asks(READ)] * 21 + [Reply(calls=[READ], wait=go), asks(READ), asks(READ), Reply("I see.")]
    play = stage.plays.stage(lines)
    run = begun(stage, play)
    asked(play, 22)
    session = stage.gateway.run(run)["session"]
    assert stage.gateway.say(session, "The note has changed, look again.") == run
    go.set()
    played = stage.seen(run)
    assert (played.run["state"], played.run["answer"]) == ("done", "I see.")
    assert play.requests[-1].said[-1] == "The note has changed, look again."
    assert [told.call for told in played.of("block")] == [21, 22, 24]


def test_a_run_that_is_cancelled_ends_its_command(stage: Stage) -> None:
    play = stage.plays.stage([asks(sleeper("cancelled")), Reply("Never said.")])
    run = begun(stage, play)
    pid = pid_in(stage.gateway.folder / "work" / "cancelled")
    assert stage.gateway.ask("POST", f"/v1/runs/{run}/cancel")
    played = stage.seen(run)
    assert (played.run["state"], played.run["answer"]) == ("cancelled", None)
    ends(pid)
    assert len(play.requests) == 1


def test_who_listens_late_or_again_misses_nothing(stage: Stage) -> None:
    go = threading.Event()
    play = stage.plays.stage([asks(READ), asks(READ), Reply("Done.", wait=go)])
    run = begun(stage, play)
    asked(play, 3)
    heard: list[dict[str, Any]] = []
    listening = threading.Thread(target=lambda: heard.extend(stage.gateway.events(run)))
    listening.start()
    go.set()
    listening.join()
    numbers = [event["number"] for event in heard]
    assert numbers == sorted(set(numbers))
    kinds = [event["kind"] for event in heard if not event["data"].get("partial")]
    assert kinds == ["began", "call", "outcome", "call", "outcome", "text", "ended"]
    assert stage.gateway.events(run, after=4)[0]["number"] == 5


@POSIX
@pytest.mark.parametrize("end", ["terminated", "killed"])
def test_a_gateway_that_ends_in_the_middle_leaves_no_command_and_a_record(tmp_path: Path, end: str) -> None:
    (tmp_path / "work").mkdir()
    plays = Plays()
    with ModelServer(plays.answer) as model:
        config = agents(tmp_path, model.url, on=loops(enabled=True))
        with Gateway(tmp_path, config) as gateway:
            play = plays.stage([asks(sleeper("pid")), Reply("Never said.")])
            run = begun(Stage(gateway, plays), play)
            pid = pid_in(tmp_path / "work" / "pid")
            if end == "terminated":
                assert gateway.stop() == 0
            else:
                gateway.kill()
            gateway.start()
            ends(pid)
            kept = gateway.run(run)
            assert kept["state"] == ("cancelled" if end == "terminated" else "interrupted")
            assert gateway.events(run)[-1]["data"]["reason"] == kept["state"]
            assert "Traceback" not in gateway.log
            _, played = Stage(gateway, plays).play("on", [Reply("Here again.")], kept["session"])
            assert played.run["answer"] == "Here again."
