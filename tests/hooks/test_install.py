"""Settings files on disk: changed, changed back, left alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.hooks import installing
from loopwarden.hooks.entries import SettingsError
from loopwarden.hooks.installing import FOLDER, carry_out, hook_program, plan_install, plan_uninstall
from loopwarden.hooks.settings import SETTINGS, project_folder
from tests.cli.test_main import apart, run  # noqa: F401 - the fixture is used by name
from tests.hooks.test_forms import documents, layouts

PROGRAM = "/opt/lw/bin/loopwarden-hook"
OTHERS = b'{\r\n\t"hooks": {\r\n\t\t"Stop": [{"hooks": []}]\r\n\t}\r\n}'


def put(path: Path, state: Path, host: str = "claude-code", program: str = PROGRAM) -> bool:
    change = plan_install(SETTINGS[host], "user", path, program, state)
    carry_out(change, state, installs=True)
    return change.after != change.before


def take_out(path: Path, state: Path, host: str = "claude-code") -> bool:
    change = plan_uninstall(SETTINGS[host], "user", path, state)
    carry_out(change, state, installs=False)
    return change.after != change.before


def everything(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


FILES = {
    "empty": b"",
    "object": b"{}",
    "no newline": b'{"model": "opus"}',
    "windows and tabs": OTHERS,
    "byte order mark": b"\xef\xbb\xbf" + OTHERS,
    "letters": '{"ä": "\U0001f600"}\n'.encode(),
    "odd blanks": b'\n\n  {  "a"  :1 ,\n"b":2\n\n\n}   \n\n',
    "large": json.dumps({f"k{number}": [number] * 5 for number in range(3000)}, indent=1).encode(),
}


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
@pytest.mark.parametrize("host", ["claude-code", "codex", "gemini", "cursor"])
def test_out_is_as_before_to_the_byte(data: bytes, host: str, tmp_path: Path) -> None:
    path, state = tmp_path / "settings.json", tmp_path / "state"
    path.write_bytes(data)
    path.chmod(0o640)
    assert put(path, state, host)
    first = path.read_bytes()
    assert first[:3] == data[:3] or data[:3] != b"\xef\xbb\xbf"
    assert not put(path, state, host)
    assert path.read_bytes() == first
    assert put(path, state, host, "loopwarden-hook")
    assert path.stat().st_mode & 0o777 == 0o640
    assert take_out(path, state, host)
    assert path.read_bytes() == data
    assert path.stat().st_mode & 0o777 == 0o640
    assert not take_out(path, state, host)
    assert everything(state) == {FOLDER: None}


@pytest.mark.parametrize("host", SETTINGS)
def test_a_file_that_was_made_goes_with_its_folders(host: str, tmp_path: Path) -> None:
    home, state = tmp_path / "home", tmp_path / "state"
    home.mkdir()
    path = SETTINGS[host].path("user", {"HOME": str(home)}, home)
    assert path is not None
    assert put(path, state, host)
    assert path.is_file()
    assert take_out(path, state, host)
    assert everything(home) == {}


def test_a_folder_with_something_else_stays(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.json"
    put(path, tmp_path / "state")
    (path.parent / "other").touch()
    take_out(path, tmp_path / "state")
    assert everything(path.parent) == {"other": b""}


@given(documents, layouts, st.booleans(), st.sampled_from(["claude-code", "codex", "qwen", "cursor"]))
def test_in_and_out_is_nothing(
    tmp_path_factory: pytest.TempPathFactory, document: Any, layout: Any, windows: bool, host: str
) -> None:
    folder = tmp_path_factory.mktemp("property")
    data = json.dumps(document, indent=layout).replace("\n", "\r\n" if windows else "\n").encode()
    path = folder / "settings.json"
    path.write_bytes(data)
    put(path, folder / "state", host)
    put(path, folder / "state", host)
    take_out(path, folder / "state", host)
    assert path.read_bytes() == data


def test_what_others_changed_since_stays(tmp_path: Path) -> None:
    path, state = tmp_path / "settings.json", tmp_path / "state"
    path.write_bytes(b'{\n  "hooks": {\n    "PreToolUse": []\n  }\n}\n')
    put(path, state)
    path.write_text(path.read_text().replace("{\n", '{\n  "model": "opus",\n', 1))
    assert not put(path, state)
    take_out(path, state)
    assert path.read_text() == '{\n  "model": "opus",\n  "hooks": {\n    "PreToolUse": []\n  }\n}\n'


def test_a_made_file_that_others_use_since_stays(tmp_path: Path) -> None:
    path, state = tmp_path / "settings.json", tmp_path / "state"
    put(path, state)
    path.write_text(path.read_text().replace("{\n", '{\n  "model": "opus",\n', 1))
    put(path, state, program="loopwarden-hook")
    take_out(path, state)
    assert json.loads(path.read_text()) == {"model": "opus"}


def test_without_a_state_folder_it_comes_out_too(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'{\n  "model": "opus"\n}\n')
    put(path, tmp_path / "state")
    assert take_out(path, tmp_path / "another")
    assert path.read_bytes() == b'{\n  "model": "opus"\n}\n'


@pytest.mark.parametrize("gone", ["*.before", "*.json"])
def test_a_record_that_is_damaged_destroys_nothing(gone: str, tmp_path: Path) -> None:
    path, state = tmp_path / "settings.json", tmp_path / "state"
    path.write_bytes(b'{\n  "model": "opus"\n}\n')
    put(path, state)
    for one in (state / FOLDER).glob(gone):
        one.unlink()
    take_out(path, state)
    assert json.loads(path.read_text()) == {"model": "opus"}


def test_a_link_is_written_through(tmp_path: Path) -> None:
    real, path, state = tmp_path / "dotfiles" / "claude.json", tmp_path / "settings.json", tmp_path / "state"
    real.parent.mkdir()
    real.write_bytes(b"{}")
    path.symlink_to(Path("dotfiles") / "claude.json")
    put(path, state)
    assert path.is_symlink()
    assert b"loopwarden-hook" in real.read_bytes()
    take_out(path, state)
    assert (path.is_symlink(), real.read_bytes()) == (True, b"{}")


def test_a_link_to_nothing_is_that_again(tmp_path: Path) -> None:
    path, state = tmp_path / "settings.json", tmp_path / "state"
    path.symlink_to(tmp_path / "nowhere" / "x.json")
    put(path, state)
    assert path.exists()
    take_out(path, state)
    assert path.is_symlink()
    assert not (tmp_path / "nowhere").exists()


REFUSED = {
    "no JSON": (b'{"a": 1,', "settings.json: is no JSON: line 1"),
    "no text": (b"\xff\xfe{}", "settings.json: is no UTF-8 text (byte 0)"),
    "another kind": (b"[]", "settings.json: is no JSON object"),
    "huge": (b" " * (installing.MAX_BYTES + 1), "is larger than 1048576 bytes"),
}


@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused_and_untouched(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(data)
    with pytest.raises(SettingsError) as caught:
        put(path, tmp_path / "state")
    assert reason in str(caught.value)
    assert everything(tmp_path) == {"settings.json": data}


def test_read_only_is_respected(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"{}")
    path.chmod(0o444)
    with pytest.raises(SettingsError, match="is read-only"):
        put(path, tmp_path / "state")
    assert path.read_bytes() == b"{}"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_with_sudo_the_file_stays_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"{}")
    os.chown(path, 12345, 12346)
    put(path, tmp_path / "state")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)


def test_a_change_by_somebody_else_is_seen(tmp_path: Path) -> None:
    path, state = tmp_path / "settings.json", tmp_path / "state"
    path.write_bytes(b"{}")
    change = plan_install(SETTINGS["claude-code"], "user", path, PROGRAM, state)
    path.write_bytes(b'{"a": 1}')
    with pytest.raises(SettingsError, match="was changed by somebody else"):
        carry_out(change, state, installs=True)
    assert path.read_bytes() == b'{"a": 1}'


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe, path = tmp_path / "pipe", tmp_path / "settings.json"
    os.mkfifo(pipe)
    path.symlink_to(pipe)
    for change in (put, take_out):
        with pytest.raises(SettingsError, match=r"settings\.json: is no regular file"):
            change(path, tmp_path / "state")


@pytest.mark.parametrize("inside", ["settings.json/x.json", ""])
def test_a_path_that_is_no_file(inside: str, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_bytes(b"{}")
    with pytest.raises(SettingsError, match=r"is a folder|is no folder"):
        put(tmp_path / inside, tmp_path / "state")


@pytest.mark.parametrize(
    ("host", "variables", "path"),
    [
        ("claude-code", {}, "/h/.claude/settings.json"),
        ("claude-code", {"CLAUDE_CONFIG_DIR": "/c"}, "/c/settings.json"),
        ("codex", {"CODEX_HOME": "/c"}, "/c/hooks.json"),
        ("gemini", {"GEMINI_CLI_HOME": "/c"}, "/c/.gemini/settings.json"),
        ("qwen", {"QWEN_HOME": "/c"}, "/c/settings.json"),
        ("kimi", {"KIMI_CODE_HOME": "/c"}, "/c/config.toml"),
        ("copilot", {"COPILOT_HOME": "/c"}, "/c/hooks/loopwarden.json"),
        ("cursor", {}, "/h/.cursor/hooks.json"),
        ("hermes", {"HERMES_HOME": "/c"}, "/c/config.yaml"),
        ("opencode", {}, "/h/.config/opencode/plugins/loopwarden.js"),
        ("opencode", {"XDG_CONFIG_HOME": "/c"}, "/c/opencode/plugins/loopwarden.js"),
        ("openclaw", {}, "/h/.openclaw/extensions/loopwarden/openclaw.js"),
        ("openclaw", {"OPENCLAW_HOME": "/c"}, "/c/.openclaw/extensions/loopwarden/openclaw.js"),
        ("openclaw", {"OPENCLAW_CONFIG_PATH": "/c/x.json"}, "/c/extensions/loopwarden/openclaw.js"),
        (
            "openclaw",
            {"OPENCLAW_STATE_DIR": "/s", "OPENCLAW_CONFIG_PATH": "/c/x.json", "OPENCLAW_HOME": "/c"},
            "/s/extensions/loopwarden/openclaw.js",
        ),
    ],
)
def test_where_the_user_has_it(host: str, variables: dict[str, str], path: str) -> None:
    assert str(SETTINGS[host].path("user", {"HOME": "/h", **variables}, Path("/p"))) == path


def test_a_path_with_blanks_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "my programs"
    folder.mkdir()
    (folder / "loopwarden-hook").touch(mode=0o755)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(folder))
    assert hook_program("user") == f"'{folder}/loopwarden-hook'"
    assert hook_program("project") == "loopwarden-hook"


def test_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="is not installed"):
        hook_program("user")


def test_the_project_is_where_its_repository_begins(tmp_path: Path) -> None:
    (tmp_path / "a" / ".git").mkdir(parents=True)
    (tmp_path / "a" / "b").mkdir()
    assert project_folder(tmp_path / "a" / "b") == tmp_path / "a"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's machine, as far as the commands look at it."""
    folder = tmp_path / "home"
    (folder / "project" / ".git").mkdir(parents=True)
    for settings in SETTINGS.values():
        for variable in settings.variables:
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("LOOPWARDEN_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(folder / "project")
    return folder


def test_the_commands(home: Path) -> None:
    path = home / ".claude" / "settings.json"
    code, out, err = run("install", "claude-code", "--dry-run")
    assert (code, err, path.exists()) == (0, "", False)
    assert out.startswith(f"--- /dev/null\n+++ {path}\n@@ -0,0 +1,")
    code, out, _ = run("install", "claude-code")
    assert code == 0
    assert out.splitlines()[0] == f"Claude Code: hooks for 7 events are in {path}"
    code, out, _ = run("install", "claude-code")
    assert (code, out) == (0, f"Claude Code: the hooks are in {path} already\n")
    code, out, _ = run("install", "claude-code", "--dry-run")
    assert (code, out) == (0, f"nothing would change in {path}\n")
    code, out, _ = run("uninstall", "claude-code")
    assert (code, out) == (0, f"Claude Code: the hooks are out, {path} is gone, as it was made for them\n")
    code, out, _ = run("uninstall", "claude-code")
    assert (code, out) == (0, f"Claude Code: no hooks of loopwarden for it in {path}\n")


def test_the_commands_in_a_project_as_json(home: Path) -> None:
    path = home / "project" / ".codex" / "hooks.json"
    code, out, _ = run("install", "codex", "--project", "--json")
    data = json.loads(out)
    assert code == 0
    assert {**data, "diff": ""} == {
        "host": "codex",
        "scope": "project",
        "path": str(path),
        "parts": [],
        "changed": True,
        "dry_run": False,
        "exists": True,
        "diff": "",
        "backup": None,
        "switched_off": [],
    }
    assert '"command": "loopwarden-hook codex"' in path.read_text()
    code, out, _ = run("uninstall", "codex", "--project", "--json")
    assert (code, json.loads(out)["exists"], path.parent.exists()) == (0, False, False)


def test_hooks_that_are_switched_off_are_said(home: Path) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"disableAllHooks": true}')
    said = f"claude-code does not run these hooks: disableAllHooks is true in {path}"
    for _ in range(2):
        code, _, err = run("install", "claude-code")
        assert (code, err) == (0, f"But {said}; remove disableAllHooks there\n")
    _, out, err = run("install", "claude-code", "--json")
    assert (json.loads(out)["switched_off"], err) == ([said], "")
    path.write_text("{}")
    assert run("install", "claude-code")[2] == ""


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_the_help_names_all_hosts(command: str) -> None:
    _, out, _ = run(command, "--help")
    said = " ".join(out.replace("│", " ").split())
    assert f"One of {', '.join(SETTINGS)}." in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["install", "claude"], "'claude' is no host. Did you mean claude-code?"),
        (["install", "kimi", "--project"], "kimi has no hooks in projects; install it for the user"),
    ],
)
@pytest.mark.usefixtures("home")
def test_wrong_use(words: list[str], message: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert message in " ".join(err.replace("│", " ").split())


def test_a_file_that_can_not_be_read(home: Path) -> None:
    path = home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text("{'a'}")
    code, out, err = run("install", "gemini")
    assert (code, out) == (2, "")
    assert err == (f'loopwarden: {path}: is no JSON: line 1: "\'" where a key in double quotes is expected\n')
    assert path.read_text() == "{'a'}"
