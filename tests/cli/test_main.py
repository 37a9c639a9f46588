"""The other commands, and what holds for all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import loopwarden
from loopwarden.cli.main import app
from tests.scan.recordings import lines, write

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


def situation(first_warn: int) -> str:
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
        }
    )


def test_version() -> None:
    assert run("--version") == (0, f"loopwarden {loopwarden.__version__}\n", "")


@pytest.mark.parametrize("command", [[], ["scan"], ["explain"], ["verify"], ["replay"], ["config"]])
def test_help(command: list[str]) -> None:
    code, out, _ = run(*command, "--help")
    assert code == 0
    assert "Usage" in out


@pytest.mark.parametrize(
    "arguments", [["scna"], ["scan", "--nope"], ["explain"], ["verify"], ["explain", "pingpong"]]
)
def test_wrong_use_ends_with_two(arguments: list[str]) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert "Traceback" not in err


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


def test_verify_says_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("{}")
    assert run("verify", path) == (2, "", f"loopwarden: {path}: line 1: `events` must be a list\n")
    path.write_text(situation(3).replace("warningThreshold", "warningTreshold"))
    code, out, _ = run("verify", path)
    assert code == 1
    assert "did you mean 'warningThreshold'" in out


def test_replay_gives_a_line_for_each_event(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", "a" * 25)
    config = tmp_path / "on.json5"
    config.write_text("{ enabled: true }")
    code, out, _ = run("replay", path, "--config", config)
    records = [json.loads(line) for line in out.splitlines()]
    calls = [record for record in records if record["type"] == "call"]
    assert code == 0
    assert (len(records), len(calls)) == (50, 25)
    assert [calls[place]["action"] for place in (0, 9, 10, 20, 24)] == [
        "allow",
        "allow",
        "warn",
        "block",
        "block",
    ]
    assert calls[20]["detector"] == "generic_repeat"
    assert "result of" not in out
    assert run("replay", path, "--config", config, "--mode", "observe")[1].count('"would":"block"') == 5


def test_replay_reads_standard_input() -> None:
    code, out, _ = run("replay", "-", given=lines("ab"))
    assert code == 0
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["c0", "c0", "c1", "c1"]


def test_replay_says_what_is_wrong(tmp_path: Path) -> None:
    code, out, err = run("replay", tmp_path / "none.jsonl")
    assert (code, out) == (2, "")
    assert err == f"loopwarden: {tmp_path / 'none.jsonl'}: No such file or directory\n"
