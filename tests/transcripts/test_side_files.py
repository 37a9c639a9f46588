from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from loopwarden.transcripts.discover import Candidate, Skipped, discover
from loopwarden.transcripts.side_files import is_side_file
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "converted/openclaw/v3_streak_with_branch_and_compaction.jsonl"
EVENT = {"traceSchema": "openclaw-trajectory", "schemaVersion": 1, "traceId": "s", "sessionId": "s"}
CALL = {"toolCallId": "call_1", "name": "read", "arguments": {"path": "a"}}

SIDE_FILES: dict[str, list[dict[str, object]]] = {
    "s.trajectory.jsonl": [
        EVENT | {"source": "runtime", "type": "session.started", "ts": "2026-01-01T00:00:00Z", "seq": 1},
        EVENT | {"source": "transcript", "type": "tool.call", "data": CALL},
        EVENT | {"source": "transcript", "type": "tool.result", "data": {"toolCallId": "call_1"}},
    ],
    "s.trajectory-path.json": [
        EVENT | {"traceSchema": "openclaw-trajectory-pointer", "runtimeFile": "s.trajectory.jsonl"}
    ],
    "sessions.json": [{"agent:main:main": {"sessionId": "s", "updatedAt": 1, "compactionCount": 1}}],
    "sessions-index.json": [{"version": 1, "entries": [{"sessionId": "s", "fullPath": "s.jsonl"}]}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, records in SIDE_FILES.items():
        (tmp_path / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "s.jsonl").write_bytes((SAMPLES / SESSION).read_bytes())
    return tmp_path


def test_a_folder_gives_the_session_alone(folder: Path) -> None:
    (found,) = discover([folder])
    assert isinstance(found, Candidate)
    assert found.source.path == folder / "s.jsonl"


@pytest.mark.parametrize("name", SIDE_FILES)
def test_one_that_is_named_is_answered_for(folder: Path, name: str) -> None:
    (found,) = discover([folder / name])
    assert isinstance(found, Skipped)
    assert found.why == "unknown_format"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("sessions.json", '{"sessions": 3}'),
        ("sessions.json", "[" * 10_000),
        ("other.json", '{"a": {"sessionId": "s"}}'),
        ("other.jsonl", '{"traceSchema": "another"}'),
        ("other.jsonl", ""),
    ],
)
def test_others_are_none(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert not is_side_file(Source(tmp_path / name))


PROJECT = (
    "package.json", "package-lock.json", "tsconfig.json", "tsconfig.build.json", "composer.json",
    "jest.config.json", ".eslintrc.json", ".prettierrc.json", "settings.json", "settings.local.json",
    "launch.json", ".mcp.json",
)  # fmt: skip
FOLDERS = ("node_modules", ".git", ".venv", "__pycache__", "dist", "build")


def test_what_every_project_has_is_passed_over(folder: Path) -> None:
    for name in PROJECT:
        (folder / name).write_text('{"name": "x"}')
    for name in FOLDERS:
        (folder / name).mkdir()
        (folder / name / "any.json").write_text('{"name": "x"}')
    (found,) = discover([folder])
    assert isinstance(found, Candidate)
    (folder / "any.json").write_text('{"name": "x"}')
    (left_out,) = (found for found in discover([folder]) if isinstance(found, Skipped))
    assert (left_out.label, left_out.why) == (str(folder / "any.json"), "unknown_format")


def test_a_session_with_such_a_name_is_read(folder: Path) -> None:
    (folder / "s.jsonl").rename(folder / "settings.json")
    (found,) = discover([folder])
    assert isinstance(found, Candidate)


@pytest.mark.parametrize("name", PROJECT)
def test_such_a_file_is_answered_for_if_it_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"name": "x"}')
    (found,) = discover([tmp_path / name])
    assert isinstance(found, Skipped)
