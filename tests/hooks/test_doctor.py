"""`loopwarden doctor` on machines made for it: missing, untrusted, broken, switched off, fine."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from loopwarden.hooks.checking import Finding, check_host
from loopwarden.hooks.faults import note_fault
from loopwarden.hooks.installing import carry_out, files_of, plan_install
from loopwarden.hooks.machine import check_machine
from loopwarden.hooks.places import LOCK_FILE, RUNS_FILE, SESSIONS_FILE
from loopwarden.hooks.service import Service
from loopwarden.hooks.settings import SETTINGS
from loopwarden.hooks.trust import codex_hash
from loopwarden_hook import VERSION
from tests.cli.test_main import apart, run  # noqa: F401 - the fixture is used by name
from tests.hooks.test_install import home  # noqa: F401 - the same

HOOK = f"#!{sys.executable}\nimport sys, loopwarden_hook\nsys.exit(loopwarden_hook.main())\n"
QUICK = """#!/bin/sh
echo x >> "$LOOPWARDEN_STATE/events"
n=0
while read -r _; do n=$((n + 1)); done < "$LOOPWARDEN_STATE/events"
[ $n -lt 5 ] || echo '{"decision": "deny"}'
"""
"""Passes for the hook command in the self-test: refuses the third call."""


class Machine:
    """A home with a hook command, and what doctor says of it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = self.home / "project"
        self.state = folder / "state"
        self.bin = folder / "my bin"
        for made in (self.project, self.state, self.bin):
            made.mkdir(parents=True)
        self.state.chmod(0o700)
        self.program(QUICK)
        self.environment = {"HOME": str(self.home), "PATH": str(self.bin)}

    def program(self, text: str, name: str = "loopwarden-hook") -> Path:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def install(self, host: str, scope: Any = "user", program: str | None = None) -> Path:
        command = program or f"'{self.bin}/loopwarden-hook'"
        files = files_of(SETTINGS[host], scope, self.environment, self.project)
        for settings, path in files:
            change = plan_install(settings, scope, path, command, self.state)
            carry_out(change, self.state, installs=True)
        return files[0][1]

    def look(self, host: str, *, wanted: bool = True) -> list[tuple[str, str]]:
        report = check_host(SETTINGS[host], self.environment, self.project, wanted=wanted)
        return [] if report is None else [(one.level, one.text) for one in report.findings]

    def wrong(self, host: str) -> list[str]:
        return [text for level, text in self.look(host) if level == "wrong"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


FINE = [name for name in SETTINGS if name not in {"codex", "hermes"}]


@pytest.mark.parametrize("host", FINE)
def test_fine(host: str, machine: Machine) -> None:
    machine.program(HOOK)
    path = machine.install(host)
    count = len(SETTINGS[host].registered())
    assert machine.look(host) == [
        ("ok", f"hooks for {count} events in {path}"),
        ("ok", f"self-test: {machine.bin}/loopwarden-hook refuses a loop"),
    ]


@pytest.mark.parametrize("host", SETTINGS)
def test_missing(host: str, machine: Machine) -> None:
    assert machine.look(host, wanted=False) == []
    assert machine.look(host) == [("wrong", "the guard is not installed")]
    machine.program("", SETTINGS[host].programs[0])
    assert machine.look(host, wanted=False) == [("note", "the guard is not installed")]


def codex_trusts(path: Path, **changes: object) -> None:
    lines = []
    for event, groups in json.loads(path.read_text())["hooks"].items():
        label = {"PreToolUse": "pre_tool_use", "PostToolUse": "post_tool_use"}.get(event, "post_compact")
        values = {"trusted_hash": codex_hash(label, groups[0]["hooks"][0]), **changes}
        lines.append(f'[hooks.state."{path}:{label}:0:0"]')
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None]
    (path.parent / "config.toml").write_text("\n".join(lines) + "\n")


def test_codex_wants_to_be_told(machine: Machine) -> None:
    path = machine.install("codex")
    assert machine.wrong("codex") == [f"{path}: Codex has not been told to trust it"]
    codex_trusts(path, trusted_hash="sha256:0")
    assert machine.wrong("codex") == [f"{path}: it has changed since Codex was told to trust it"]
    codex_trusts(path, enabled=False)
    assert machine.wrong("codex") == [f"{path}: it was switched off in Codex (/hooks)"]
    codex_trusts(path)
    assert machine.wrong("codex") == []


def test_the_hash_is_that_of_codex() -> None:
    """What `hooks/list` of Codex 0.171.0 said of these hooks."""
    hook = {"type": "command", "command": "/opt/bin/loopwarden-hook codex", "timeout": 10}
    said = {
        "e115cad00b939d0ce30c84adfc6e89861059320a58cd40d85adc35e39cad0ea5": codex_hash("pre_tool_use", hook),
        "2f8823147bfd0bddf6298a1b288cdc661ed8ac3a4303b3e8d29a38455fd4d345": codex_hash("post_compact", hook),
        "cdddaa4fbc4bc590b0a3be4244e4882643c8147ea8e0626e73353f63ac811b8d": codex_hash(
            "pre_tool_use", {**hook, "statusMessage": "x"}, "Bash"
        ),
    }
    assert said == {digest: f"sha256:{digest}" for digest in said}


def test_hermes_wants_to_be_told(machine: Machine) -> None:
    path = machine.install("hermes")
    assert machine.wrong("hermes") == [f"{path}: Hermes has not been told that it may run"]
    command = f"'{machine.bin}/loopwarden-hook' hermes"
    approvals = [{"event": event, "command": command} for event in ("pre_tool_call", "post_tool_call")]
    (path.parent / "shell-hooks-allowlist.json").write_text(json.dumps({"approvals": approvals}))
    assert machine.wrong("hermes") == []
    (path.parent / "shell-hooks-allowlist.json").write_text("[")
    path.write_text("hooks_auto_accept: true\n" + path.read_text())
    assert machine.wrong("hermes") == []


def test_a_command_that_is_gone(machine: Machine) -> None:
    machine.install("claude-code", program="/nowhere/loopwarden-hook")
    assert machine.wrong("claude-code") == ["it starts /nowhere/loopwarden-hook, which is not there"]


BROKEN = {
    "answers nothing": ("#!/bin/sh\n/bin/cat >/dev/null\n", "it lets a loop of 3 equal calls pass"),
    "fails": ("#!/bin/sh\n/bin/cat >/dev/null\necho oh no >&2\nexit 3\n", "it ends with 3: oh no"),
    "says something": ("#!/bin/sh\n/bin/cat >/dev/null\necho hello\n", "its answer is no JSON object"),
    "says no": ('#!/bin/sh\necho \'{"decision": "deny"}\'\n', "it refuses call 1 already"),
    "says yes": (
        '#!/bin/sh\n/bin/cat >/dev/null\necho \'{"decision": "allow"}\'\n',
        "it answers, but does not refuse",
    ),
    "no program": ("#!/nowhere/python\n", "it can't be started"),
}


@pytest.mark.parametrize(("text", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_command_that_is_broken(text: str, reason: str, machine: Machine) -> None:
    machine.install("qwen")
    machine.program(text)
    (said,) = machine.wrong("qwen")
    assert said.startswith(f"self-test of {machine.bin}/loopwarden-hook: {reason}")


def test_the_self_test_leaves_nothing_behind(machine: Machine) -> None:
    machine.program(HOOK)
    machine.install("gemini")
    before = sorted(machine.state.rglob("*"))
    assert machine.wrong("gemini") == []
    assert sorted(machine.state.rglob("*")) == before


def test_a_projects_file_is_shared(machine: Machine) -> None:
    machine.install("claude-code", "project", "loopwarden-hook")
    assert machine.wrong("claude-code") == []
    machine.install("claude-code", "project", "/opt/theirs/loopwarden-hook")
    assert machine.wrong("claude-code") == ["it starts /opt/theirs/loopwarden-hook, which is not there"]


def test_a_projects_file_starts_nothing_of_its_own(machine: Machine) -> None:
    theirs = machine.project / "loopwarden-hook"
    theirs.write_text(f"#!/bin/sh\ntouch '{machine.project}/ran'\n")
    theirs.chmod(0o755)
    machine.install("claude-code", "project", str(theirs))
    assert "a project's file should not name" in machine.wrong("claude-code")[0]
    assert not (machine.project / "ran").exists()


def test_in_both_files_a_call_counts_twice_where_it_has_no_id(machine: Machine) -> None:
    for host in ("gemini", "claude-code"):
        machine.install(host)
        machine.install(host, "project", "loopwarden-hook")
    assert machine.wrong("gemini") == ["the hooks are in both files, so that each call counts twice"]
    assert machine.wrong("claude-code") == []


def entries(*commands: str, event: str = "PreToolUse") -> str:
    hooks = [{"type": "command", "command": command} for command in commands]
    return json.dumps({"hooks": {event: [{"hooks": hooks}]}})


def test_entries_that_are_old_or_wrong(machine: Machine) -> None:
    path = machine.home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(entries("loopwarden-hook claude-code", "loopwarden-hook claude-code"))
    names = "PostToolUse, PostToolUseFailure, PostToolBatch, PostCompact, SessionEnd, UserPromptSubmit"
    missing = f"no hook for {names}"
    assert machine.wrong("claude-code") == [missing, "more than one hook for PreToolUse"]
    path.write_text(entries("loopwarden-hook emacs", event="Stop"))
    assert machine.wrong("claude-code")[1:] == [
        "a hook for Stop, which is of no use",
        "the hook for Stop says 'emacs', not 'claude-code'",
    ]


SWITCHES = {
    "claude-code": ("settings.json", '{"disableAllHooks": true, ', "disableAllHooks is true"),
    "gemini": ("settings.json", '{"hooksConfig": {"enabled": false}, ', "hooksConfig.enabled is false"),
    "qwen": ("settings.json", '{"disableAllHooks": true, ', "disableAllHooks is true"),
}


@pytest.mark.parametrize("host", SWITCHES)
def test_hooks_that_are_switched_off(host: str, machine: Machine) -> None:
    path = machine.install(host)
    _, start, said = SWITCHES[host]
    path.write_text(path.read_text().replace("{", start, 1))
    assert machine.wrong(host) == [f"{host} does not run these hooks: {said} in {path}"]


def test_hooks_that_are_switched_off_in_another_file(machine: Machine) -> None:
    path = machine.install("codex")
    codex_trusts(path)
    other = path.parent / "config.toml"
    other.write_text("[features]\nhooks = false\n" + other.read_text())
    assert machine.wrong("codex") == [f"codex does not run these hooks: features.hooks is false in {other}"]


def test_hooks_that_are_switched_off_for_one_project(machine: Machine) -> None:
    machine.install("claude-code")
    local = machine.project / ".claude" / "settings.local.json"
    local.parent.mkdir()
    local.write_text('{"disableAllHooks": true}')
    (said,) = machine.wrong("claude-code")
    assert said.endswith(f"disableAllHooks is true in {local}")


UNREADABLE = {
    "no JSON": b"{",
    "a comment": b'{"a": 1} // why',
    "no text": b"\xff",
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_a_settings_file_that_can_not_be_read(data: bytes, machine: Machine) -> None:
    path = machine.home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(data)
    (first, second) = machine.wrong("claude-code")
    assert first.startswith(f"{path}: ")
    assert first.endswith("Claude Code reads nothing of it")
    assert second == "the guard is not installed"


def shared(machine: Machine, **more: str) -> list[Finding]:
    environment = {**machine.environment, **more}
    return check_machine(machine.state, environment, machine.project)


def said(findings: list[Finding], level: str) -> list[str]:
    return [one.text for one in findings if one.level == level]


def test_a_machine_where_nothing_happened_yet(machine: Machine) -> None:
    assert said(shared(machine), "ok") == [
        "no configuration: every detector is on",
        "the service is not running; the next hook starts it",
        f"state in {machine.state}: nothing yet",
    ]


CONFIGS = {
    "enabled": ("{tools: {loopDetection: {enabled: true}}}", "ok", "configuration: "),
    "unset": (
        "{tools: {loopDetection: {}}}",
        "wrong",
        "does not set enabled: the rolling detectors only observe, the post-compaction guard acts",
    ),
    "off": (
        "{tools: {loopDetection: {enabled: false}}}",
        "wrong",
        "sets enabled to false: the guard is off, the post-compaction guard too",
    ),
    "broken": ("{tools: ", "wrong", "can't be used, so that every call passes"),
}


@pytest.mark.parametrize(("text", "level", "reason"), CONFIGS.values(), ids=CONFIGS)
def test_the_configuration_that_counts(text: str, level: str, reason: str, machine: Machine) -> None:
    (machine.project / "loopwarden.json5").write_text(text)
    found = shared(machine)[0]
    assert (found.level, reason in found.text) == (level, True)
    assert (found.todo == "") == (level == "ok")


def test_a_mode_that_only_counts(machine: Machine) -> None:
    assert "LOOPWARDEN_MODE is observe" in said(shared(machine, LOOPWARDEN_MODE="observe"), "note")[0]


def test_files_that_are_damaged_and_open_to_others(machine: Machine) -> None:
    sqlite3.connect(machine.state / SESSIONS_FILE).close()
    (machine.state / RUNS_FILE).write_bytes(b"no database at all" * 100)
    for mode, how in ((0o755, "look into"), (0o777, "write in")):
        machine.state.chmod(mode)
        first, second = said(shared(machine), "wrong")
        assert first == f"other people can {how} {machine.state}"
        assert second == f"{machine.state / RUNS_FILE} is damaged: file is not a database"


def test_faults_of_today(machine: Machine) -> None:
    (machine.state / "faults.log").write_text("2020-01-01T00:00:00Z long ago\nhalf a line\n")
    assert said(shared(machine), "wrong") == []
    note_fault(machine.state, "codex: the event is no JSON")
    (text,) = said(shared(machine), "wrong")
    assert text.startswith("1 fault in the last 24 hours")
    assert text.endswith("codex: the event is no JSON")


def test_the_service_says_who_it_is(machine: Machine) -> None:
    short = Path(f"/tmp/lw-doctor-{os.getpid()}")
    short.mkdir(mode=0o700)
    machine.state = short
    try:
        service = Service(short)
        (short / LOCK_FILE).write_text("4711\n")
        thread = threading.Thread(target=service.serve, args=(60.0,))
        thread.start()
        found = said(shared(machine), "ok")
        service.over.set()
        thread.join()
    finally:
        for path in short.iterdir():
            path.unlink()
        short.rmdir()
    assert f"the service is running (version {VERSION}, process 4711)" in found


def test_the_command(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811 - the fixture
    monkeypatch.setenv("PATH", str(home / "bin"))
    code, out, err = run("doctor")
    assert (code, err) == (1, "")
    assert "  wrong  no coding agent was found\n         to do: loopwarden install HOST\n" in out
    assert run("install", "claude-code")[0] == 0
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    assert "refuses a loop" in out
    code, out, _ = run("doctor", "--json")
    data = json.loads(out)
    assert (code, data["ok"], [host["name"] for host in data["hosts"]]) == (0, True, ["claude-code"])
    code, out, _ = run("doctor", "codex", "--json")
    assert (code, json.loads(out)["hosts"][0]["findings"][0]["todo"]) == (1, "loopwarden install codex")
