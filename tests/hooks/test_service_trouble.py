"""A service that hangs, and one that can't be: the hooks answer by themselves, and doctor says so."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import loopwarden_hook
from loopwarden.hooks.faults import faults
from loopwarden.hooks.machine import check_machine
from loopwarden.hooks.places import LOCK_FILE, SOCKET_FILE
from loopwarden.hooks.service import main
from loopwarden_hook import MOST_BYTES, STUCK_FILE, STUCK_SECONDS
from tests.hooks.test_command import event, hook, one_call, state, until  # noqa: F401 - a fixture by name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.hooks.checking import Finding


def told(folder: Path) -> list[Finding]:
    return [one for one in check_machine(folder, {}, Path("/")) if "service" in one.text]


@pytest.fixture
def stopped(state: Path) -> Iterator[int]:  # noqa: F811 - the fixture
    """The process of a service that hangs."""
    one_call(0)
    until((state / SOCKET_FILE).exists)
    process = int((state / LOCK_FILE).read_text())
    os.kill(process, signal.SIGSTOP)
    yield process
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGCONT)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwarden.hooks.machine._ASK_SECONDS", 0.05)
    monkeypatch.setattr(loopwarden_hook, "_ASK_SECONDS", 0.05)


@pytest.mark.usefixtures("quick")
def test_a_service_that_hangs_is_waited_for_once(state: Path, stopped: int) -> None:  # noqa: F811 - the same
    asked = [loopwarden_hook._ask(str(state), "claude-code", "", event("PreToolUse", 1)) for _ in range(3)]
    assert asked == [None] * 3
    (line,) = faults(state)
    assert line.endswith("the service did not answer; hooks answer by themselves for 60 seconds")
    assert (state / STUCK_FILE).stat().st_mode & 0o077 == 0
    answers = [one_call(number) for number in range(1, 21)]
    assert b"deny" in answers[-1]
    assert len(faults(state)) == 1
    found = [(one.level, one.todo) for one in told(state) if "does not answer" in one.text]
    assert found == [("wrong", f"kill -9 {stopped}; a hook starts another one")]


@pytest.mark.usefixtures("quick")
def test_a_service_that_goes_on_is_asked_again(state: Path, stopped: int) -> None:  # noqa: F811 - the same
    def ask() -> object:
        return loopwarden_hook._ask(str(state), "claude-code", "", event("PreToolUse", 1))

    assert ask() is None
    os.kill(stopped, signal.SIGCONT)
    assert ask() is None
    then = (state / STUCK_FILE).stat().st_mtime - STUCK_SECONDS
    os.utime(state / STUCK_FILE, (then, then))
    until(lambda: ask() == (0, b"", b"") or os.utime(state / STUCK_FILE, (then, then)))
    until(lambda: any("the service is running" in one.text for one in told(state)))


def test_a_path_that_is_too_long_has_no_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("x" * 100)
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LOOPWARDEN_STATE", str(folder))
    monkeypatch.setenv("LOOPWARDEN_TIMEOUT", "60")
    assert b"deny" in [one_call(number) for number in range(21)][-1]
    main()
    assert not (folder / LOCK_FILE).exists()
    assert faults(folder) == []
    (found,) = told(folder)
    assert (found.level, "too long for a socket" in found.text) == ("note", True)
    assert "LOOPWARDEN_STATE" in found.todo
    assert [one.text for one in check_machine(folder, {}, Path("/")) if one.level == "wrong"] == []


@pytest.mark.parametrize("more", [0, 1])
def test_an_event_that_is_too_long_is_told_as_such(state: Path, more: int) -> None:  # noqa: F811 - the same
    start = event("PreToolUse", 0)
    assert hook(start + b" " * (MOST_BYTES - len(start) + more), LOOPWARDEN_SERVICE="off") == b""
    said = ["claude-code: the event is longer than 64 MB, so it passed unseen"]
    assert [line.partition(" ")[2] for line in faults(state)] == said[:more]
