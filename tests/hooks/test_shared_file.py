"""Two coding agents whose settings are one file, by links: each has only its own entries in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from loopwarden.hooks.entries import SettingsError
from loopwarden.hooks.forms import FORMS, others
from loopwarden.hooks.settings import SETTINGS
from tests.cli.test_main import apart, run  # noqa: F401 - the fixture is used by name
from tests.hooks.test_doctor import HOOK, Machine, entries, machine  # noqa: F401 - the same
from tests.hooks.test_install import PROGRAM, everything, home, put, take_out  # noqa: F401 - the same

if TYPE_CHECKING:
    from pathlib import Path

JSON = ["claude-code", "codex", "gemini", "qwen", "copilot", "cursor"]
PAIRS = [(one, other) for one in JSON for other in JSON if one != other]


@pytest.fixture
def linked(tmp_path: Path) -> tuple[Path, Path]:
    real = tmp_path / "dot" / "s.json"
    real.parent.mkdir()
    real.write_text('{\n  "a": 1\n}\n')
    paths = (tmp_path / "one.json", tmp_path / "other.json")
    for path in paths:
        path.symlink_to(real)
    return paths


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_the_second_is_refused_and_the_first_stays(one: str, other: str, linked: tuple[Path, Path]) -> None:
    first, second = linked
    state = first.parent / "state"
    put(first, state, one)
    before = everything(first.parent)
    with pytest.raises(SettingsError, match=f"give .* a file of its own; else take .*-hook {one} out"):
        put(second, state, other)
    assert not take_out(second, state, other)
    assert everything(first.parent) == before
    assert not put(first, state, one)
    assert take_out(first, state, one)
    assert first.read_text() == '{\n  "a": 1\n}\n'
    put(second, state, other)
    assert others(SETTINGS[one], first.read_text()) == [other]


@pytest.mark.parametrize("host", JSON)
def test_only_the_entries_of_a_host_are_its_own(host: str, tmp_path: Path) -> None:
    path, state = tmp_path / "settings.json", tmp_path / "state"
    put(path, state, host)
    theirs = next(name for name in ("claude-code", "cursor") if SETTINGS[name].form == SETTINGS[host].form)
    foreign = "gemini" if theirs == host == "claude-code" else "copilot" if theirs == host else theirs
    mixed = path.read_text().replace(f"{PROGRAM} {host}", f"{PROGRAM} {foreign}", 1)
    path.write_text(mixed)
    assert take_out(path, state, host)
    left = path.read_text()
    assert f"{PROGRAM} {foreign}" in left
    assert f"{PROGRAM} {host}" not in left
    assert not FORMS[SETTINGS[host].form].find(SETTINGS[host], left)


@pytest.mark.parametrize("host", ["kimi", "hermes"])
def test_entries_of_another_host_stay_in_other_forms_too(host: str) -> None:
    settings = SETTINGS[host]
    form = FORMS[settings.form]
    texts = {
        "kimi": '[[hooks]]\nevent = "PreToolUse"\ncommand = "loopwarden-hook {}"\n',
        "hermes": "hooks:\n  pre_tool_call:\n    - command: loopwarden-hook {}\n",
    }
    theirs = texts[host].format("codex")
    assert form.find(settings, theirs) == []
    assert form.drop(settings, theirs) == theirs
    for name in (host, "emacs", ""):  # an unknown one is a wrong entry of ours
        ours = texts[host].format(name).replace(" \n", "\n").replace(' "\n', '"\n')
        assert len(form.find(settings, ours)) == 1
        assert form.drop(settings, ours) == ""


def test_a_plug_in_of_another_host_is_another_plug_in(tmp_path: Path) -> None:
    path, state = tmp_path / "loopwarden.js", tmp_path / "state"
    put(path, state, "opencode")
    text = path.read_text()
    with pytest.raises(SettingsError, match="is another plug-in; move it away first"):
        put(path, state, "openclaw")
    assert not take_out(path, state, "openclaw")
    assert path.read_text() == text
    assert take_out(path, state, "opencode")


def test_one_path_for_two_hosts(tmp_path: Path) -> None:
    path, state = tmp_path / "settings.json", tmp_path / "state"
    path.write_text("{}")
    put(path, state, "claude-code")
    before = everything(tmp_path)
    assert not take_out(path, state, "qwen")
    assert everything(tmp_path) == before
    assert take_out(path, state, "claude-code")
    assert path.read_text() == "{}"


def test_doctor_says_whose_entries_they_are(machine: Machine) -> None:  # noqa: F811 - the fixture
    machine.program(HOOK)
    path = machine.install("claude-code")
    other = machine.home / ".qwen" / "settings.json"
    other.parent.mkdir()
    other.symlink_to(path)
    assert machine.wrong("claude-code") == []
    assert machine.wrong("qwen") == [
        f"{other}: the hooks for Claude Code are in it, which Qwen Code runs too",
        "the guard is not installed",
    ]
    other.unlink()
    machine.install("qwen")
    assert machine.wrong("qwen") == []


def test_doctor_takes_an_entry_of_no_host_for_a_wrong_one(machine: Machine) -> None:  # noqa: F811 - the fixture
    path = machine.home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(entries("loopwarden-hook codex", event="Stop"))
    assert machine.wrong("claude-code")[-1] == "the guard is not installed"
    path.write_text(entries("loopwarden-hook emacs", event="Stop"))
    assert machine.wrong("claude-code")[-1] == "the hook for Stop says 'emacs', not 'claude-code'"


def test_the_commands_say_it(home: Path) -> None:  # noqa: F811 - the fixture
    path, other = home / ".claude" / "settings.json", home / ".qwen" / "settings.json"
    run("install", "claude-code")
    before = path.read_text()
    other.parent.mkdir()
    other.symlink_to(path)
    for more in ((), ("--dry-run",), ("--json",)):
        code, out, err = run("install", "qwen", *more)
        assert (code != 0, out) == (True, "")
        assert f"{other}: the hooks for Claude Code are in it, which Qwen Code would run too" in err
    code, out, _ = run("uninstall", "qwen")
    assert (code, out) == (0, f"Qwen Code: no hooks of loopwarden for it in {other}\n")
    assert path.read_text() == before
    assert json.loads(run("uninstall", "claude-code", "--json")[1])["changed"] is True
