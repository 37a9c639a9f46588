from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.transcripts.discover import Candidate, discover
from loopwarden.transcripts.locations import known_locations

if TYPE_CHECKING:
    from pathlib import Path


def test_every_program_is_named_though_nothing_is_there(tmp_path: Path) -> None:
    locations = known_locations({}, tmp_path)
    assert [location.program for location in locations] == [
        "Claude Code",
        "Codex CLI",
        "Codex CLI",
        "Gemini CLI",
        "OpenClaw",
        "pi",
        "opencode",
        "opencode",
        "Hermes",
        "Qwen Code",
        "Qwen Code",
    ]
    assert not any(location.exists for location in locations)
    assert all(location.pattern.startswith(str(tmp_path)) for location in locations)


def test_what_is_there_can_be_searched(tmp_path: Path) -> None:
    sessions = tmp_path / ".openclaw" / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True)
    (sessions / "a.jsonl").write_text('{"type":"session","id":"a","cwd":"/tmp"}\n')
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    there = [location for location in known_locations({}, tmp_path) if location.exists]
    assert [location.program for location in there] == ["Claude Code", "OpenClaw"]
    [entry] = discover(location.pattern for location in there)
    assert isinstance(entry, Candidate)
    assert entry.reader.name == "openclaw"


def test_variables_of_the_programs_are_honoured(tmp_path: Path) -> None:
    moved = tmp_path / "odd [name]*"
    environment = {
        "CLAUDE_CONFIG_DIR": str(moved),
        "CODEX_HOME": str(moved),
        "OPENCLAW_STATE_DIR": str(moved),
        "XDG_DATA_HOME": str(moved),
        "HERMES_HOME": " ",
    }
    for name in ("projects", "archived_sessions", "agents/x/sessions", "opencode/storage"):
        (moved / name).mkdir(parents=True)
    (tmp_path / ".hermes").mkdir()
    (tmp_path / ".hermes" / "state.db").touch()
    there = [location.program for location in known_locations(environment, tmp_path) if location.exists]
    assert there == ["Claude Code", "Codex CLI", "OpenClaw", "opencode", "Hermes"]
