"""`loopwarden run` at a real terminal: questions, colours, Ctrl-C and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")
pytest.importorskip("pty", reason="needs terminals of POSIX")

import pty

from tests.runner.model_server import Call, ModelServer, Reply, asks

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 60.0


class Terminal:
    """A run with a terminal of its own, as a shell starts it."""

    def __init__(self, folder: Path, server: ModelServer, **tools: Any) -> None:
        agent = {"id": "main", "model": "scripted", "baseUrl": server.url, "tools": tools}
        config = folder / "config.json5"
        config.write_text(
            json.dumps({"tools": {"loopDetection": {"enabled": True}}, "agents": {"list": [agent]}})
        )
        self._screen, inside = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "LOOPWARDEN_STATE": str(folder / "state")}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "loopwarden", "run", "t", "--config", str(config)],
            cwd=folder,
            env=environment,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
        )
        os.close(inside)
        self.shown = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        os.close(self._screen)

    def _read(self) -> None:
        try:
            while data := os.read(self._screen, 65536):
                self.shown += data.decode("utf-8", "replace")
        except OSError:  # the other end is closed
            pass

    def types(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def shows(self, text: str) -> None:
        wait_until(lambda: text in self.shown or self.process.poll() is not None)
        assert text in self.shown, self.shown

    def ends(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def is_alive(process: int) -> bool:
    """Also a process that nobody has buried yet is over."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(("typed", "ran"), [("y", True), ("no", False), ("", False)])
def test_a_command_is_asked_for(tmp_path: Path, typed: str, ran: bool) -> None:
    script = [asks(Call("exec", {"command": "touch made"})), Reply("Good.")]
    with ModelServer(script) as server, Terminal(tmp_path, server, exec={"policy": "ask"}) as terminal:
        terminal.shows("[y/N]")
        assert not (tmp_path / "made").exists()
        assert "touch made" in terminal.shown
        terminal.types(f"{typed}\n")
        assert terminal.ends() == 0
        assert (tmp_path / "made").exists() is ran
        assert re.search(r"\x1b\[[0-9;]*mcall ", terminal.shown)
        assert re.search(r"\x1b\[[0-9;]*mdone ", terminal.shown)


def test_a_command_that_can_not_be_shown_whole_is_not_run(tmp_path: Path) -> None:
    command = f"echo {'x' * 12_000}; touch made"
    script = [asks(Call("exec", {"command": command})), Reply("Good.")]
    with ModelServer(script) as server, Terminal(tmp_path, server, exec={"policy": "ask"}) as terminal:
        terminal.shows("too long to be asked for")
        assert terminal.ends() == 0
        assert "[y/N]" not in terminal.shown
        assert not (tmp_path / "made").exists()
        assert "The person said no" in next(iter(server.requests[-1].results.values()))


def test_a_long_command_is_shown_to_its_end(tmp_path: Path) -> None:
    command = f"echo {'x' * 3_000}; touch made"
    script = [asks(Call("exec", {"command": command})), Reply("Good.")]
    with ModelServer(script) as server, Terminal(tmp_path, server, exec={"policy": "ask"}) as terminal:
        terminal.shows("; touch made [y/N]")
        terminal.types("y\n")
        assert terminal.ends() == 0
        assert (tmp_path / "made").exists()


def test_what_is_typed_before_a_question_is_no_answer(tmp_path: Path) -> None:
    script = [
        asks(Call("exec", {"command": "touch first; until test -e go; do sleep 0.01; done"})),
        asks(Call("exec", {"command": "touch second"}), Call("exec", {"command": "touch third"})),
        Reply("Good."),
    ]
    with ModelServer(script) as server, Terminal(tmp_path, server, exec={"policy": "ask"}) as terminal:
        terminal.shows("[y/N]")
        terminal.types("y\n")
        wait_until((tmp_path / "first").exists)
        terminal.types("y\ny\ny")
        terminal.shows("y\r\ny\r\ny")
        (tmp_path / "go").touch()
        for number in (2, 3):
            wait_until(lambda number=number: terminal.shown.count("[y/N]") == number)  # type: ignore[misc] - bound now
            question = terminal.shown.rpartition("wants to run")[
                2
            ]  # calls of one reply are asked in any order
            terminal.types("y\n" if "touch third" in question else "n\n")
        assert terminal.ends() == 0
        assert [(tmp_path / name).exists() for name in ("second", "third")] == [False, True]
        assert terminal.shown.count("[y/N]\r\n") == 3


def test_ctrl_c_at_a_question_ends_the_run(tmp_path: Path) -> None:
    with (
        ModelServer([asks(Call("exec", {"command": "touch made"}))]) as server,
        Terminal(tmp_path, server, exec={"policy": "ask"}) as terminal,
    ):
        terminal.shows("[y/N]")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.ends() == 130
        assert "cancelled" in terminal.shown
        assert "Traceback" not in terminal.shown
        assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_end_takes_along_what_was_started(tmp_path: Path, number: int) -> None:
    call = Call("exec", {"command": "sleep 600 & echo $! > pid.new; mv pid.new pid; wait"})
    with (
        ModelServer([asks(call)]) as server,
        Terminal(tmp_path, server, exec={"policy": "allow"}) as terminal,
    ):
        wait_until((tmp_path / "pid").exists)
        sleeper = int((tmp_path / "pid").read_text())
        assert is_alive(sleeper)
        terminal.process.send_signal(number)
        assert terminal.ends() == 130
        wait_until(lambda: not is_alive(sleeper))
        assert "Traceback" not in terminal.shown


STUBBORN = """
import asyncio, subprocess
from loopwarden.cli.run_signals import ended_by_signals

async def main():
    with ended_by_signals(lambda: None):  # what does not end
        started = subprocess.Popen(["sleep", "600"], start_new_session=True)
        print(started.pid, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def test_a_second_ctrl_c_ends_the_program_and_what_it_started() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        started = int(process.stdout.readline())
        assert is_alive(started)
        process.send_signal(signal.SIGINT)
        assert "once more to end at once" in process.stderr.readline()
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        wait_until(lambda: not is_alive(started))
