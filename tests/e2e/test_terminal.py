"""`loopwarden run`: how it ends is its exit code."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai")

from tests.e2e.commands import alive, ends, pid_in, sleeper
from tests.e2e.conftest import agents, loops
from tests.e2e.gateway import PATIENCE, wait_until
from tests.e2e.stage import Plays, forever
from tests.e2e.terminal import Terminal, happened
from tests.runner.model_server import Call, ModelServer, Reply, asks, breaks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READ = Call("read", {"path": "a.txt"})


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("text of a")
    plays = Plays()
    with ModelServer(plays.answer) as model:
        yield Terminal(tmp_path, agents(tmp_path, model.url, on=loops(enabled=True)), plays)


def test_an_agent_that_is_done(terminal: Terminal) -> None:
    play, played, code = terminal.play("on", [asks(READ), Reply("It says: text of a.")])
    assert (code, played.run["state"], played.run["answer"]) == (0, "done", "It says: text of a.")
    assert play.requests[-1].last_result == "text of a"


def test_an_agent_that_the_guard_stopped(terminal: Terminal) -> None:
    play, played, code = terminal.play("on", forever(READ))
    assert (code, played.run["state"], played.run["code"]) == (1, "aborted", "tool_loop_persisted")
    assert len(play.requests) == 31


def test_a_model_that_fails(terminal: Terminal) -> None:
    _, played, code = terminal.play("on", lambda *_: breaks())
    assert (code, played.run["state"]) == (3, "failed")


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is a signal")
def test_ctrl_c_ends_the_run_and_its_commands(terminal: Terminal, tmp_path: Path) -> None:
    never = threading.Event()
    play = terminal.plays.stage([asks(sleeper("pid", background=True)), asks(READ), Reply(wait=never)])
    with terminal.start("on", f"Please do {play.name}.") as process:
        try:
            wait_until(lambda: len(play.requests) == 3, "the third request")
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=PATIENCE)
        finally:
            never.set()
            process.kill()
    played = happened(out)
    assert (process.returncode, played.run["state"]) == (130, "cancelled")
    ends(pid_in(tmp_path / "work" / "pid"))


@pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX")
def test_a_session_goes_on_after_a_kill_with_its_evidence_and_without_its_commands(
    terminal: Terminal, tmp_path: Path
) -> None:
    never = threading.Event()
    play = terminal.plays.stage(
        [asks(sleeper("pid", background=True)), *[asks(READ)] * 15, Reply(wait=never)]
    )
    with terminal.start("on", f"Please do {play.name}.", "--session", "mine") as process:
        wait_until(lambda: len(play.requests) == 17, "the last request")
        process.kill()
        never.set()
        process.communicate()
    pid = pid_in(tmp_path / "work" / "pid")
    assert alive(pid)
    _, played, code = terminal.play("on", [asks(READ)] * 8, "--session", "mine")
    assert (code, played.run["state"]) == (0, "done")
    assert [told.call for told in played.of("block")] == [6, 7, 8]
    ends(pid)
