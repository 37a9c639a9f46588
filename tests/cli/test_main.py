"""The other commands, and what holds for all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import loopwarden
from loopwarden.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the machine's configuration."""
    monkeypatch.delenv("LOOPWARDEN_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def run(*arguments: object, given: str | None = None) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, [str(argument) for argument in arguments], input=given)
    return result.exit_code, result.stdout, result.stderr


def situation(first_warn: int, **fields: Any) -> str:
    events = [
        event
        for number in range(4)
        for event in (
            {"type": "call", "id": f"c{number}", "tool": "t", "args": {}},
            {"type": "outcome", "id": f"c{number}", "result": "r"},
        )
    ]
    config = {"enabled": True, "warningThreshold": 2}
    return json.dumps(
        {
            "id": f"S{first_warn}",
            "title": "x",
            "config": config,
            "events": events,
            "expect": {"first_warn": first_warn},
            **fields,
        }
    )


@pytest.mark.parametrize("command", [[], ["config"]])
def test_without_a_command_the_help_is_shown(command: list[str]) -> None:
    assert run(*command) == run(*command, "--help")
    assert run(*command)[0] == 0


def test_a_module_as_the_script() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "loopwarden", "scna"], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("Usage: loopwarden [OPTIONS]")
    assert "Did you mean 'scan'?" in ended.stderr


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
@pytest.mark.parametrize("command", ["scan", "verify", "replay"])
def test_help_fits_the_screen(command: str, columns: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "loopwarden", command, "--help"],
        env=os.environ | {"COLUMNS": str(columns)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert max(map(len, ended.stdout.splitlines())) <= columns


def test_help_imports_little() -> None:
    code = "import sys, loopwarden.cli.main; print(*sorted(sys.modules))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    slow = {"pydantic", "rich.console", "loopwarden.scan.replay", "loopwarden.transcripts", "asyncio"}
    assert not slow & set(ended.stdout.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["scan", "x.jsonl"],
        ["replay", "x.jsonl"],
        ["replay", "-"],
        ["config", "show"],
        ["config", "show", "--json"],
    ],
)
def test_an_agent_that_is_not_listed_is_wrong_use(tmp_path: Path, arguments: list[str]) -> None:
    listed = {"agents": {"list": [{"id": "ada"}, {"id": "bob"}]}}
    (tmp_path / "loopwarden.json5").write_text(json.dumps(listed))
    code, out, err = run(*arguments, "--agent", "eve")
    assert (code, out) == (2, "")
    assert "Invalid value for --agent: 'eve' is not in the configuration (loopwarden.json5)" in err
    assert "it lists: ada, bob" in err
    (tmp_path / "loopwarden.json5").unlink()
    assert "there is no configuration file); it lists: none" in run(*arguments, "--agent", "eve")[2]


def test_version() -> None:
    assert run("--version") == (0, f"loopwarden {loopwarden.__version__}\n", "")


@pytest.mark.parametrize("command", [[], ["scan"], ["explain"], ["verify"], ["replay"], ["config"]])
def test_help(command: list[str]) -> None:
    code, out, _ = run(*command, "--help")
    assert code == 0
    assert "Usage" in out
    assert run(*command, "-h") == (0, out, "")


@pytest.mark.parametrize(
    "arguments", [["scna"], ["scan", "--nope"], ["explain"], ["verify"], ["explain", "pingpong"]]
)
def test_wrong_use_ends_with_two(arguments: list[str]) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "option", "choices"),
    [
        (["mcp", "--mode", "bogus", "x"], "--mode", "'enforce', 'observe'"),
        (["replay", "--mode", "bogus", "x"], "--mode", "'enforce', 'observe'"),
        (["scan", "--fail-on", "bogus"], "--fail-on", "'warning', 'critical'"),
        (["runs", "export", "--format", "bogus"], "--format", "'jsonl', 'json', 'csv'"),
    ],
)
def test_a_choice_that_is_none(arguments: list[str], option: str, choices: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == f"Error: Invalid value for '{option}': 'bogus' is not one of {choices}."


def test_verify(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(situation(3))
    assert run("verify", path) == (0, "1 of 1 situations hold\n", "")
    assert run("verify", path, "--all")[1] == "holds  S3 x\n1 of 1 situations hold\n"
    path.write_text(situation(3) + "\n" + situation(4))
    code, out, _ = run("verify", path)
    assert code == 1
    assert out.splitlines() == [
        "FAILS  S4 x",
        "       first_warn 4: first answer other than allow: warn at call 3 by generic_repeat",
        "1 of 2 situations hold",
    ]
    code, out, _ = run("verify", path, "--json")
    assert [json.loads(line)["held"] for line in out.splitlines()] == [True, False]


def test_verify_against_another_configuration(tmp_path: Path) -> None:
    path, config = tmp_path / "mine.jsonl", tmp_path / "tuned.json5"
    path.write_text(situation(4))
    config.write_text("{ enabled: true, warningThreshold: 3 }")
    assert run("verify", path)[0] == 1
    assert run("verify", path, "--config", config)[0] == 0


def test_verify_without_a_configuration_of_its_own(tmp_path: Path) -> None:
    path, found = tmp_path / "mine.jsonl", tmp_path / "loopwarden.json5"
    path.write_text(situation(4, config=None))
    assert run("verify", path)[0] == 1
    found.write_text("{ enabled: true, warningThreshold: 3 }")
    assert run("verify", path) == (0, "1 of 1 situations hold\n", "")
    path.write_text(situation(3))
    assert run("verify", path)[0] == 0
    path.write_text(situation(3, config=None))
    found.write_text("{ enabled: 1 }")
    code, out, err = run("verify", path)
    assert (code, out) == (2, "")
    assert err.startswith("loopwarden: loopwarden.json5: 1 problem")


def test_verify_warns_of_what_cannot_fail(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    never = {"never": "block"}
    cases = [situation(0, id=f"c{n}", config={}, expect=never) for n in range(7)]
    path.write_text("\n".join([*cases, situation(3), situation(0, id="on", expect=never)]))
    code, out, err = run("verify", path)
    assert (code, out) == (0, "9 of 9 situations hold\n")
    assert err.startswith("warning: cannot fail: c0, c1, c2, c3, c4 and 2 more. ")
    assert "`enabled` is not true" in err


def test_verify_says_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("{}")
    assert run("verify", path) == (2, "", f"loopwarden: {path}: line 1: `events` must be a list\n")
    path.write_text(situation(3).replace("warningThreshold", "warningTreshold"))
    code, out, _ = run("verify", path)
    assert code == 1
    assert "did you mean 'warningThreshold'" in out


def test_verify_says_all_that_is_wrong_at_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("{}\n" + situation(3) + "\nnone\n[]\n")
    code, out, err = run("verify", path)
    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert lines[0] == f"loopwarden: {path}: 3 lines are no situations"
    assert [line.split(":")[0] for line in lines[1:]] == ["  line 1", "  line 3", "  line 4"]
    path.write_text("{}\n" * 30)
    lines = run("verify", path)[2].splitlines()
    assert lines[0].endswith("the first 20 lines are no situations")
    assert len(lines) == 21
