"""The state folder with permissions that it should not have."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loopwarden.hooks.answering import Answering
from loopwarden.hooks.places import state_folder
from tests.hooks.agents import Agent

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65534
LOOK = """
import json, os, sys
from pathlib import Path
from loopwarden.errors import StoreError
from loopwarden.hooks.machine import check_machine
from loopwarden.hooks.sessions import Sessions
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({user})
    os.setuid({user})
state = Path({state!r})
found = check_machine(state, {{}}, Path("/"))
try:
    seen = len(Sessions(state).status().sessions)
except StoreError as error:
    seen = str(error)
json.dump([[[one.level, one.text, one.todo] for one in found], seen], sys.stdout)
"""
"""As root, another user looks, who may not reach the interpreter: everything is imported before."""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A folder with a session, which the child process owns and may reach."""
    folder = Path(f"/tmp/lw-closed-{os.getpid()}")
    folder.mkdir(mode=0o700)
    with closing(Answering(folder)) as answering:
        agent = Agent("claude-code", answering.answer, project=str(tmp_path))
        for _ in range(21):
            agent.call("Bash", {"command": "ls"}, "same")
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, NOBODY, NOBODY)
    yield folder
    folder.chmod(0o700)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def look(folder: Path) -> tuple[list[list[str]], object]:
    code = LOOK.format(user=NOBODY, state=str(folder))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found, seen = json.loads(done.stdout)
    return [one for one in found if one[0] == "wrong"], seen


def test_a_folder_that_can_only_be_read_is_read(state: Path) -> None:
    assert look(state) == ([], 1)
    for path in state.iterdir():
        path.chmod(0o400)
    state.chmod(0o500)
    wrong, seen = look(state)
    ((_, text, todo),) = wrong
    assert text.startswith(f"no permission to read and write {state}, {state}/sessions.db")
    assert todo.startswith(f"give it back: chmod u+rwX {state} ")
    assert "remove" not in todo
    assert seen == 1


def test_a_file_that_can_not_even_be_read_is_told(state: Path) -> None:
    (state / "sessions.db").chmod(0o000)
    wrong, seen = look(state)
    ((_, text, _),) = wrong
    assert text.startswith(f"no permission to read and write {state}/sessions.db: nothing can be counted")
    assert str(seen).startswith("sessions.db: ")


def test_a_damaged_file_is_told_and_what_is_lost_with_it(state: Path) -> None:
    (state / "sessions.db").write_bytes(b"no database at all" * 100)
    (((_, text, todo),), _) = look(state)
    assert text == f"{state}/sessions.db is damaged: file is not a database"
    assert todo.startswith(f"remove {state}/sessions.db")
    assert "pauses, allowed loops" in todo


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o700, 0o500])
def test_the_default_folder_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    monkeypatch.delenv("LOOPWARDEN_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = state_folder()
    folder.chmod(mode)
    assert stat.S_IMODE(state_folder().stat().st_mode) == mode & 0o700


def test_a_folder_that_was_named_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWARDEN_STATE", str(tmp_path))
    tmp_path.chmod(0o777)
    assert stat.S_IMODE(state_folder().stat().st_mode) == 0o777
