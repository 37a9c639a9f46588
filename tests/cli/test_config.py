"""`loopwarden config`: what is printed, and how it ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from loopwarden.cli.config import app
from loopwarden.config.json_schema import json_schema

if TYPE_CHECKING:
    from pathlib import Path

RUNNER = CliRunner()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "loopwarden.json5"
    path.write_text(
        """{
  tools: { loopDetection: { warningThreshold: 25, toolProfiles: { exec: { warningThreshold: 3 } } } },
  agents: { list: [{ id: "a", tools: { loopDetection: { enabled: true } } }] },
}"""
    )
    return path


def test_check_says_what_was_repaired(config: Path) -> None:
    result = RUNNER.invoke(app, ["check", "--config", str(config)])
    assert result.exit_code == 0
    assert result.stdout == (
        f"{config}: ok, 1 warning\n  warning: line 2, tools.loopDetection.criticalThreshold: 20 (default) "
        "is not above warningThreshold 25 (global); 26 is used\n"
    )


@pytest.mark.parametrize("command", ["check", "show"])
def test_faults_end_with_two(config: Path, command: str) -> None:
    config.write_text("{historySise: 1,\nenabled: 2}")
    result = RUNNER.invoke(app, [command, "--config", str(config)])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"{config}: 2 problems\n  line 1, historySise: unknown key")
    assert "line 2, enabled: 2 is not allowed" in result.stderr


def test_agents_are_checked_where_that_is_asked_for(config: Path) -> None:
    assert RUNNER.invoke(app, ["check", "--agents", "--config", str(config)]).exit_code == 0
    config.write_text('{agents: {list: [\n{id: "a", modell: "x"}]}, gateway: {auth: {}}}')
    assert RUNNER.invoke(app, ["check", "--config", str(config)]).exit_code == 0
    result = RUNNER.invoke(app, ["check", "--agents", "--config", str(config)])
    assert result.exit_code == 2
    assert "line 2, agents.list[0].modell: unknown key" in result.stderr
    assert "(did you mean 'model'?)" in result.stderr
    assert "gateway.auth: unknown key" in result.stderr


def test_without_a_file_all_is_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOOPWARDEN_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("APPDATA", str(tmp_path))
    result = RUNNER.invoke(app, ["check"])
    assert (result.exit_code, result.stdout) == (0, "no configuration file (all defaults): ok, no warnings\n")


def test_show_is_plain_where_it_is_piped(config: Path) -> None:
    result = RUNNER.invoke(app, ["show", "--config", str(config), "--agent", "a"])
    lines = [line.split(maxsplit=2) for line in result.stdout.splitlines()]
    assert ["enabled", "true", "agent a"] in lines
    assert ["criticalThreshold", "26", "repaired (given 20, default)"] in lines
    assert ["toolProfiles.exec.kind", '"exec"', "default"] in lines
    assert ["toolProfiles.exec.warningThreshold", "3", "global"] in lines
    assert not any(line[0].startswith("toolProfiles.bash") for line in lines)
    assert "--profiles shows them" in result.stdout
    assert result.stderr.startswith("warning: line 2, ")


def test_show_with_shipped_profiles(config: Path) -> None:
    result = RUNNER.invoke(app, ["show", "--config", str(config), "--profiles"])
    assert "toolProfiles.bash.kind " in result.stdout


def test_show_as_json(config: Path) -> None:
    result = RUNNER.invoke(app, ["show", "--config", str(config), "--agent", "a", "--json"])
    shown = json.loads(result.stdout)
    assert shown["source"] == str(config)
    assert shown["agents"] == ["a"]
    assert shown["warnings"][0]["path"] == "tools.loopDetection.criticalThreshold"
    assert shown["values"]["enabled"] == {"value": True, "origin": "agent a"}
    assert shown["values"]["toolProfiles.exec.kind"] == {"value": "exec", "origin": "default"}


def test_schema() -> None:
    assert json.loads(RUNNER.invoke(app, ["schema"]).stdout) == json_schema()


@pytest.mark.parametrize(
    "profile", [{"ignoreText": ["("]}, {"ignoreText": ["(a*)*"]}, {"ignoreArguments": ["/~"]}, {"kind": "x"}]
)
def test_faults_are_told_in_our_words(config: Path, profile: dict[str, object]) -> None:
    config.write_text(json.dumps({"toolProfiles": {"exec": profile}}))
    said = RUNNER.invoke(app, ["check", "--config", str(config)]).stderr
    assert "toolProfiles.exec." in said
    assert not any(word in said for word in ("Value error", "Input should", "pydantic"))
