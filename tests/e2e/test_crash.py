"""A gateway that is killed in the middle, and one that is not alone."""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai")
pytest.importorskip("starlette")

from tests.e2e.conftest import agents, loops
from tests.e2e.gateway import PATIENCE, Gateway, environment, wait_until
from tests.e2e.stage import Plays, Stage
from tests.e2e.test_compaction import BIG, counted, overflow_after
from tests.runner.model_server import Call, ModelServer, Reply, Request, asks

if TYPE_CHECKING:
    from pathlib import Path

READS = [asks(Call("read", {"path": "a.txt"}))] * 15


def test_a_run_that_was_interrupted_goes_on_with_its_evidence(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("text")
    plays, never = Plays(), threading.Event()
    with ModelServer(plays.answer) as model:
        config = agents(tmp_path, model.url, on=loops(enabled=True))
        with Gateway(tmp_path, config) as gateway:
            play = plays.stage([*READS, Reply(wait=never)])
            session = gateway.session("on")
            run = gateway.say(session, f"Do {play.name}.")
            model.wait_for(16)
            gateway.kill()
            never.set()
            gateway.start()
            kept = gateway.run(run)
            assert (kept["state"], kept["answer"]) == ("interrupted", None)
            assert len([event for event in gateway.events(run) if event["kind"] == "outcome"]) == 15
            stage = Stage(gateway, plays)
            _, played = stage.play("on", READS, session)
            assert [told.call for told in played.of("block")][:1] == [6]
            fresh = gateway.session("on")
            _, played = stage.play("on", READS, fresh)
            assert played.of("block") == []


def test_parent_and_child_are_interrupted_and_an_armed_guard_stays_armed(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for number in range(1, BIG + 1):
        (tmp_path / "work" / f"big-{number}.txt").write_text("a line of a long file\n" * 400)
    plays, never, one = Plays(), threading.Event(), counted("marks")

    def held(request: Request, number: int) -> Reply:
        if number <= BIG + 3:  # the files, a command, the overflow, the command again
            return overflow_after(1, one)(request, number)
        return Reply(wait=never)

    with ModelServer(plays.answer) as model:
        config = agents(tmp_path, model.url, unset={})
        with Gateway(tmp_path, config) as gateway:
            child = plays.stage(held)
            spawn = Call("sessions_spawn", {"agentId": "unset", "task": f"Find out about {child.name}."})
            parent = plays.stage([asks(spawn), Reply("Never said.")])
            above = gateway.say(gateway.session("unset"), f"Do {parent.name}.")
            wait_until(lambda: len(child.requests) == BIG + 4, "the child's last request")
            gateway.kill()
            never.set()
            gateway.start()
            runs = gateway.ask("GET", "/v1/runs?state=interrupted")["runs"]
            assert {run["trigger"]: run["parent"] for run in runs} == {"user": None, "spawn": above}
            session = next(run["session"] for run in runs if run["trigger"] == "spawn")
            _, played = Stage(gateway, plays).play("unset", [asks(one)] * 9, session)
            assert played.run["code"] == "compaction_loop_persisted"
            assert len((tmp_path / "work" / "marks").read_text().splitlines()) == 1 + 1 + 2


def test_a_second_gateway_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with Gateway(tmp_path, agents(tmp_path, "http://127.0.0.1:9/v1", on={})) as gateway:
        second = subprocess.run(
            gateway.command(),
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert second.returncode == 2
        assert "Traceback" not in second.stderr
        assert str(tmp_path / "state" / "gateway") in second.stderr.replace("\n", "")
        assert gateway.process
        assert str(gateway.process.pid) in second.stderr
        asked = gateway.ask("POST", "/v1/runs/r/before", {"tool": "read", "call_id": "c"})
        assert asked["action"] == "allow"  # the first is not disturbed
        assert gateway.stop() == 0
    with Gateway(tmp_path, gateway.config):
        pass
