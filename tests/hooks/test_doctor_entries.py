"""Hooks that are there and still do not work: doctor says why, and install puts them right."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from loopwarden.hooks.installing import plan_uninstall
from loopwarden.hooks.settings import SETTINGS
from tests.hooks.test_doctor import Machine

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("host", ["gemini", "qwen"])
@pytest.mark.parametrize("key", ["hooksConfig", "hooks"])
def test_a_hook_that_is_switched_off_by_name(host: str, key: str, machine: Machine) -> None:
    machine.install(host)
    other = machine.project / f".{host}" / "settings.json"
    other.parent.mkdir()
    other.write_text(json.dumps({key: {"disabled": ["theirs", "loopwarden"]}}))
    said = f"{host} does not run these hooks: {key}.disabled names 'loopwarden' in {other}"
    assert machine.wrong(host) == [said]
    other.write_text(json.dumps({key: {"disabled": ["theirs", "my-loopwarden"]}}))
    assert machine.wrong(host) == []


NARROWED = {
    "a matcher": ("claude-code", None, {"matcher": "Write"}, "is only for some calls: matcher is 'Write'"),
    "a condition": ("claude-code", {"if": "Bash(git *)"}, {}, "is only for some calls: if is 'Bash(git *)'"),
    "async": (
        "claude-code",
        {"async": True},
        {},
        "is not waited for, so that it can't refuse: async is true",
    ),
    "seconds": (
        "claude-code",
        {"timeout": 0.01},
        {},
        "has too short a time: timeout is 0.01, it needs 5 s",
    ),
    "milliseconds": ("gemini", {"timeout": 10}, {}, "has too short a time: timeout is 10, it needs 5000 ms"),
    "no number": ("qwen", {"timeout": True}, {}, "has too short a time: timeout is True, it needs 5000 ms"),
    "another type": ("claude-code", {"type": "prompt"}, {}, "is not started: type is not 'command'"),
    "in the entry": ("cursor", {"matcher": "Shell"}, {}, "is only for some calls: matcher is 'Shell'"),
    "seconds of another name": (
        "copilot",
        {"timeoutSec": 1},
        {},
        "has too short a time: timeoutSec is 1, it needs 5 s",
    ),
}


@pytest.mark.parametrize(("host", "entry", "group", "said"), NARROWED.values(), ids=NARROWED)
def test_hooks_that_can_not_do_their_work(
    host: str, entry: dict[str, object] | None, group: dict[str, object], said: str, machine: Machine
) -> None:
    path = machine.install(host)
    good = path.read_bytes()
    data = json.loads(good)
    event = next(iter(data["hooks"]))
    inner = data["hooks"][event][0]
    inner.update(group)
    (inner["hooks"][0] if "hooks" in inner else inner).update(entry or {})
    path.write_text(json.dumps(data, indent=2) + "\n")
    assert machine.wrong(host) == [f"the hook for {event} {said}"]
    machine.install(host)
    assert machine.wrong(host) == []
    assert json.loads(path.read_bytes()) == json.loads(good)


GOOD = [{"matcher": "*"}, {"matcher": ""}, {"timeout": 60}, {"async": False}, {"statusMessage": "x"}]


@pytest.mark.parametrize("more", GOOD, ids=str)
def test_what_people_may_change(more: dict[str, object], machine: Machine) -> None:
    path = machine.install("claude-code")
    data = json.loads(path.read_bytes())
    group = data["hooks"]["PreToolUse"][0]
    (group if "matcher" in more else group["hooks"][0]).update(more)
    path.write_text(json.dumps(data))
    assert machine.wrong("claude-code") == []
    machine.install("claude-code")
    assert json.loads(path.read_bytes()) == data


@pytest.mark.parametrize(
    ("before", "note"),
    [
        ("LOOPWARDEN_MODE=observe", "LOOPWARDEN_MODE is observe before the command"),
        ("env A=1 B='2 3'", "variables stand before the command: A, B"),
    ],
)
def test_variables_before_the_command_stay(before: str, note: str, machine: Machine) -> None:
    path = machine.install("claude-code")
    data = json.loads(path.read_bytes())
    for groups in data["hooks"].values():
        groups[0]["hooks"][0]["command"] = f"{before} {groups[0]['hooks'][0]['command']}"
    path.write_text(json.dumps(data))
    found = machine.look("claude-code")
    assert [level for level, _ in found if level == "wrong"] == []
    assert next(text for level, text in found if level == "note").startswith(note)
    machine.install("claude-code")
    assert json.loads(path.read_bytes()) == data
    settings = SETTINGS["claude-code"]
    change = plan_uninstall(settings, "user", path, machine.state)
    assert change.after is None


@pytest.mark.parametrize("host", ["gemini", "qwen"])
def test_a_comma_that_the_host_does_not_read(host: str, machine: Machine) -> None:
    path = machine.home / f".{host}" / "settings.json"
    path.parent.mkdir()
    path.write_text('{\n  "a": 1, // fine\n}\n')
    first, _ = machine.wrong(host)
    assert first.startswith(f"{path}: line 2: a comma too many")
    path.write_text('{\n  "a": 1 // fine\n}\n')
    assert machine.wrong(host) == ["the guard is not installed"]


def test_a_hermes_file_that_is_not_understood(machine: Machine) -> None:
    path = machine.install("hermes")
    path.write_text(path.read_text() + "---\nb: 1\n")
    first = machine.wrong("hermes")[0]
    assert first.startswith(f"{path}: is no YAML that is understood here: line ")
    assert first.endswith("whether the hooks are in it can't be told")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_settings_file_that_is_a_pipe(machine: Machine) -> None:
    path = machine.home / ".codex" / "hooks.json"
    path.parent.mkdir()
    os.mkfifo(path)
    os.mkfifo(path.parent / "config.toml")
    assert machine.wrong("codex")[0].startswith(f"{path}: is no regular file")
    path.unlink()
    machine.install("codex")
    assert machine.wrong("codex") == [f"{path}: Codex has not been told to trust it"]
