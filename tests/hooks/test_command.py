"""The command as a coding agent starts it: real processes, with the service and without."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import loopwarden
import loopwarden_hook
from loopwarden.hooks.faults import faults
from loopwarden.hooks.places import LOCK_FILE, SOCKET_FILE
from loopwarden.hooks.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator

HOOK = (sys.executable, "-c", "import sys, loopwarden_hook; sys.exit(loopwarden_hook.main())")
MANY_SECONDS = 60.0


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder whose path is short enough for a socket, wherever the tests run."""
    folder = Path(f"/tmp/lw-{os.getpid()}-{time.monotonic_ns():x}")
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("LOOPWARDEN_STATE", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LOOPWARDEN_TIMEOUT", str(MANY_SECONDS))
    yield folder
    stop_service(folder)
    until(lambda: removed(folder))


def removed(folder: Path) -> bool:
    """Whether the folder is gone; a process that is just ending may still put something there."""
    for path in folder.iterdir():
        path.unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def stop_service(folder: Path, how: int = signal.SIGTERM) -> None:
    lock = folder / LOCK_FILE
    if lock.exists() and lock.read_text():
        try:
            os.kill(int(lock.read_text()), how)
        except ProcessLookupError:
            return
        until(lambda: not alive(int(lock.read_text())))


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{process}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def until(happened: object) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + MANY_SECONDS
    while not happened():  # type: ignore[operator]  # a callable
        assert time.monotonic() < end
        time.sleep(0.01)


def event(name: str, call: int, **fields: object) -> bytes:
    data = {"session_id": "s", "prompt_id": "p", "cwd": "/", "hook_event_name": name, "tool_name": "Bash"}
    return json.dumps({**data, "tool_input": {"command": "ls"}, "tool_use_id": f"c{call}", **fields}).encode()


def hook(payload: bytes, host: str = "claude-code", **variables: str) -> bytes:
    done = subprocess.run(
        [*HOOK, host], input=payload, capture_output=True, env={**os.environ, **variables}, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def one_call(number: int, **variables: str) -> bytes:
    answer = hook(event("PreToolUse", number), **variables)
    return answer or hook(event("PostToolUse", number, tool_response={"stdout": "same"}), **variables)


def test_the_versions_are_one() -> None:
    assert loopwarden.__version__ == loopwarden_hook.VERSION


def test_a_service_takes_over_and_nothing_is_lost(state: Path) -> None:
    assert one_call(0) == b""
    until((state / SOCKET_FILE).exists)
    for number in range(1, 10):
        assert one_call(number) == b""
    assert b"10 times" in one_call(10)
    stop_service(state, signal.SIGKILL)
    for number in range(11, 15):
        assert one_call(number, LOOPWARDEN_SERVICE="off") == b""
    for number in range(15, 20):
        assert one_call(number) == b""
    assert b"deny" in one_call(20)
    assert faults(state) == []


def test_a_state_folder_named_without_its_root_is_the_same_for_the_service(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(state.parent)
    monkeypatch.setenv("LOOPWARDEN_STATE", state.name)
    one_call(0)
    until((state / SOCKET_FILE).exists)
    assert one_call(1) == b""
    assert faults(state) == []


def test_without_a_service_it_is_the_same(state: Path) -> None:
    answers = [one_call(number, LOOPWARDEN_SERVICE="off") for number in range(21)]
    assert [number for number, answer in enumerate(answers) if answer] == [10, 20]
    assert not (state / SOCKET_FILE).exists()


def test_hooks_that_overlap_start_one_service_and_count_together(state: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one_call, range(8)))
        until((state / SOCKET_FILE).exists)
        list(pool.map(one_call, range(8, 30)))
    answers = [one_call(number) for number in range(30, 50)]
    assert b"deny" in answers[-1]
    assert faults(state) == []


def test_the_state_is_for_its_owner_only(state: Path) -> None:
    one_call(0)
    until((state / SOCKET_FILE).exists)
    one_call(1)
    assert {path.stat().st_mode & 0o077 for path in state.iterdir()} == {0}


@pytest.mark.parametrize("payload", [b"", b"{", b"null", b"\0" * 100])
@pytest.mark.parametrize("service", ["on", "off"])
def test_the_agent_goes_on_whatever_is_said(state: Path, payload: bytes, service: str) -> None:
    if service == "on":
        one_call(0)
        until((state / SOCKET_FILE).exists)
    assert hook(payload, LOOPWARDEN_SERVICE=service) == b""
    assert "the event is no JSON" in faults(state)[-1]


@pytest.mark.usefixtures("state")
def test_no_input_at_all_lets_the_agent_go_on() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" "$@" <&-', *HOOK, "claude-code"], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("words", [[], ["-x"], ["a", "b", "c"]])
def test_wrong_words_are_said(words: list[str]) -> None:
    done = subprocess.run([*HOOK, *words], input="", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, ""), "an agent takes 2 for a refusal"
    assert done.stderr == "usage: loopwarden-hook HOST [EVENT] < event.json\n"


def test_a_folder_that_can_not_be_made_lets_the_call_run() -> None:
    assert hook(event("PreToolUse", 0), LOOPWARDEN_STATE="/dev/null/x") == b""


@pytest.mark.parametrize("home", ["rel", "~"])
def test_a_home_that_is_no_whole_path_lets_the_call_run_and_nothing_is_written(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOOPWARDEN_STATE", raising=False)
    assert hook(event("PreToolUse", 0), HOME=home, XDG_STATE_HOME="") == b""
    assert list(tmp_path.iterdir()) == []
    whole = tmp_path / "home"
    whole.mkdir()
    hook(event("PreToolUse", 0), HOME=str(whole), XDG_STATE_HOME="", LOOPWARDEN_SERVICE="off")
    assert (whole / ".local/state/loopwarden/hooks/sessions.db").exists()


def test_a_service_of_another_version_gives_way(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_call(0)
    until((state / SOCKET_FILE).exists)
    process = int((state / LOCK_FILE).read_text())
    monkeypatch.setattr(loopwarden_hook, "VERSION", "9.9.9")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(state / SOCKET_FILE))
        connection.sendall(loopwarden_hook.request("claude-code", "", event("PreToolUse", 1)))
        assert connection.recv(100) == b""
    until(lambda: not alive(process))


HEADS = [
    b"",
    b"\n",
    b"GET / HTTP/1.1\n\n",
    b"loopwarden-hook 0.1.0 claude-code - x 5\n",
    b"loopwarden-hook 0.1.0 claude-code - 5 -5\n",
    b"loopwarden-hook 0.1.0 claude-code - 0 99999999999\n",
    b"loopwarden-hook 0.1.0 claude-code - 999999999 5\n",
    b"x" * 10_000,
]


def test_a_service_survives_its_visitors_and_ends_when_nobody_asks(state: Path) -> None:
    service = Service(state)
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(service.serve, 0.0)
        for head in HEADS:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(state / SOCKET_FILE))
                connection.sendall(head)
                connection.shutdown(socket.SHUT_WR)
                with suppress(ConnectionResetError):  # it has not read all of it
                    assert connection.recv(100) in {b"", b"0 0 0\n"}
        serving.result(MANY_SECONDS)
    assert not (state / SOCKET_FILE).exists()
    assert faults(state) == []


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("seconds", ["0", "-1", "nan"])
def test_a_hook_that_takes_too_long_lets_the_agent_go_on(seconds: str) -> None:
    with subprocess.Popen(
        [*HOOK, "claude-code"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "LOOPWARDEN_TIMEOUT": seconds},
    ) as waiting:  # for an event that is never sent
        assert waiting.wait(MANY_SECONDS) == 0
        assert waiting.stdout is not None
        assert waiting.stdout.read() == b""
