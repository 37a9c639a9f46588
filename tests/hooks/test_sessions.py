"""`loopwarden status`, `pause`, `resume` and `allow`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loopwarden.errors import StoreError
from loopwarden.hooks.answering import Answering
from loopwarden.hooks.ledger import Deed, Ledger
from loopwarden.hooks.places import SESSIONS_FILE
from loopwarden.hooks.sessions import Sessions
from tests.cli.test_main import apart, run  # noqa: F401 - the fixture is used by name
from tests.hooks.agents import Agent

if TYPE_CHECKING:
    from collections.abc import Iterator

NOON = time.mktime((2026, 7, 1, 12, 0, 0, 0, 0, -1))
HOUR = 3600.0


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv("LOOPWARDEN_STATE", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "src").mkdir()
    monkeypatch.chdir(folder / "src")
    return folder


@pytest.fixture
def sessions(state: Path) -> Iterator[Sessions]:
    with closing(Sessions(state, NOON)) as opened:
        yield opened


def enter(state: Path, name: str, project: Path, at: float = NOON, host: str = "claude-code") -> None:
    with (
        closing(Ledger(state / SESSIONS_FILE, clock=lambda: at)) as ledger,
        ledger.session(host, name) as session,
    ):
        session.project = str(project)


def done(
    state: Path,
    name: str,
    project: Path,
    action: str,
    key: str,
    at: float = NOON,
    host: str = "claude-code",
) -> None:
    deed = Deed(
        at=at,
        host=host,
        session=name,
        project=str(project),
        tool="Bash",
        action=action,
        detector="generic_repeat",
        count=20,
        key=key,
    )
    with closing(Ledger(state / SESSIONS_FILE)) as ledger:
        ledger.done(deed)


def test_status(state: Path, project: Path, sessions: Sessions) -> None:
    enter(state, "old", project, NOON - HOUR)
    enter(state, "first", project, NOON - 60)
    enter(state, "second", project / "src", NOON, "codex")
    done(state, "first", project, "block", "repeat:1", NOON - 13 * HOUR)
    for action in ("warn", "block", "block", "abort", "would block", "released"):
        done(state, "first", project, action, "repeat:1", NOON - HOUR)
    found = sessions.status()
    assert [one.session.name for one in found.sessions] == ["second", "first"]
    assert found.by_project() == {
        str(project): {"warned": 1, "refused": 2, "ended": 1, "observed": 1, "let_pass": 1}
    }
    assert [(row["key"], row["times"]) for row in found.refused()] == [("repeat:1", 3)]


def test_where_a_run_can_not_be_ended_it_was_refused(state: Path, project: Path, sessions: Sessions) -> None:
    done(state, "a", project, "abort", "repeat:1", host="codex")
    assert sessions.status().by_project() == {str(project): {"refused": 1}}


def test_the_session_that_people_mean(state: Path, project: Path, sessions: Sessions) -> None:
    with pytest.raises(StoreError, match="no live session in this folder; live are: none"):
        sessions.find(None, Path())
    enter(state, "abc-1", project)
    enter(state, "abc-2", project.parent)
    enter(state, "abc", project, NOON - 24 * HOUR)
    assert sessions.find(None, Path()).session.name == "abc-1"
    assert sessions.find("abc", Path()).session.name == "abc"
    assert sessions.find("abc-2", Path()).session.name == "abc-2"
    with pytest.raises(StoreError, match=r"more than one session: abc-2 .*, abc-1 .*; name one"):
        sessions.find("abc-", Path())
    with pytest.raises(StoreError, match="no session begins with 'x'; live are: abc-2"):
        sessions.find("x", Path())
    enter(state, "abc-3", project / "src")
    with pytest.raises(StoreError, match="more than one session"):
        sessions.find(None, Path())


def test_pause_and_resume(state: Path, project: Path, sessions: Sessions) -> None:
    enter(state, "a", project, NOON - HOUR)
    assert sessions.pause(sessions.find("a", Path()), paused=True)
    assert not sessions.pause(sessions.find("a", Path()), paused=True)
    assert sessions.find("a", Path()).session.paused
    assert sessions.pause(sessions.find("a", Path()), paused=False)
    assert sessions.find("a", Path()).seen == NOON - HOUR


def test_allow(state: Path, project: Path, sessions: Sessions) -> None:
    for name in ("a", "b", "c"):
        enter(state, name, project)
    done(state, "a", project, "block", "repeat:12")
    done(state, "b", project, "abort", "repeat:12")
    done(state, "c", project, "block", "repeat:34")
    done(state, "c", project, "warn", "cycle:9")
    with pytest.raises(StoreError, match="no loop with the key 'cycle:9' was refused"):
        sessions.allow("cycle:9")
    with pytest.raises(StoreError, match="more than one key begins with 'repeat:'"):
        sessions.allow("repeat:")
    with pytest.raises(StoreError, match="no loop with the key ''"):
        sessions.allow("")
    for _ in range(2):
        assert sorted(session.name for session in sessions.allow("repeat:1")) == ["a", "b"]
    released = {name: sessions.find(name, Path()).session.released for name in ("a", "b", "c")}
    assert released == {"a": ["repeat:12"], "b": ["repeat:12"], "c": []}


def test_the_status_of_a_real_session(state: Path, project: Path) -> None:
    with closing(Answering(state)) as answering:
        agent = Agent("claude-code", answering.answer, project=str(project))
        for _ in range(21):
            agent.call("Bash", {"command": "ls"}, "same")
    code, out, err = run("status")
    lines = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [lines[2][at] for at in (0, 1, -2, -1)] == ["claude-code", "s1", "on", str(project)]
    assert lines[5] == [str(project), "1", "1", "0", "0", "0"]
    assert lines[8][1:] == ["1", "claude-code", "s1", "Bash", "generic_repeat"]
    data = json.loads(run("status", "--json")[1])
    assert data["sessions"][0]["session"] == "s1"
    assert data["projects"][str(project)]["refused"] == 1
    assert data["refused"][0]["key"] == lines[8][0]
    assert at_a_terminal("allow", lines[8][0]) == (
        0,
        "claude-code, session s1: this loop passes from now on",
    )
    with closing(Answering(state)) as answering:
        agent = Agent("claude-code", answering.answer, project=str(project), calls=50)
        assert agent.call("Bash", {"command": "ls"}, "same").decision == "allow"


@pytest.mark.usefixtures("state")
def test_nothing_yet() -> None:
    code, out, _ = run("status")
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("  ")] == ["  none"] * 3


def test_names_can_not_write_to_the_terminal(state: Path, project: Path) -> None:
    enter(state, "a\x1b[31m", project, time.time())
    out = run("status")[1]
    assert "\x1b" not in out
    assert "a\N{REPLACEMENT CHARACTER}[31m" in out


@pytest.mark.parametrize("words", [["pause"], ["resume", "a"], ["allow", "repeat:1"]])
def test_they_are_for_people(state: Path, project: Path, words: list[str]) -> None:
    enter(state, "a", project)
    done(state, "a", project, "block", "repeat:1")
    message = f"loopwarden: {words[0]} is for a person at a terminal; run it in one, not from a program\n"
    assert run(*words) == (2, "", message)


def at_a_terminal(*words: str) -> tuple[int, str]:
    """Run a command whose standard input is a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "loopwarden", *words]
        ended = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False)
    finally:
        os.close(ours)
        os.close(theirs)
    return ended.returncode, (ended.stdout + ended.stderr).strip()


def test_at_a_terminal(state: Path, project: Path) -> None:
    enter(state, "abcdef", project, time.time())
    assert at_a_terminal("pause") == (
        0,
        "claude-code, session abcdef: the guard is quiet\nTo have it on again: loopwarden resume abcdef",
    )
    assert at_a_terminal("pause", "abc") == (0, "claude-code, session abcdef: the guard is quiet already")
    assert at_a_terminal("resume", "abc") == (0, "claude-code, session abcdef: the guard is on")
    assert at_a_terminal("resume", "x")[0] == 2
