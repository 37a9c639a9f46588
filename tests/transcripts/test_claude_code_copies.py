from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.events import ToolCall
from loopwarden.transcripts.claude_code import READER
from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import events

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

OLD, NEW = (f"{digit * 8}-1111-4111-8111-111111111111" for digit in "ab")


def call(uuid: str, session: str, **more: Any) -> dict[str, Any]:
    part = {"type": "tool_use", "id": f"toolu_{uuid}", "name": "Read", "input": {"file": uuid}}
    message = {"role": "assistant", "id": f"msg_{uuid}", "content": [part]}
    return {"type": "assistant", "uuid": uuid, "sessionId": session, "message": message, **more}


def session(folder: Path, name: str, records: Iterable[dict[str, Any]]) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read(path: Path) -> tuple[list[str], dict[str, int]]:
    """What the calls of a file ask for, and the notes."""
    notes = ReadNotes()
    calls = events(READER.read(Source(path), notes), ToolCall)
    del notes.counts["call_without_result"]
    return [event.arguments["file"] for event in calls], dict(notes.counts)


FORKED = {"forkedFrom": {"sessionId": OLD, "messageUuid": "1"}}


@pytest.mark.parametrize("copy", [call("1", OLD), call("1", NEW, **FORKED)], ids=["resumed", "forked"])
def test_records_that_the_old_session_has_are_left_out(tmp_path: Path, copy: dict[str, Any]) -> None:
    new = session(tmp_path, NEW, [copy, call("2", OLD), call("3", NEW)])
    assert read(new) == (["1", "2", "3"], {})  # the old file is not there
    old = session(tmp_path, OLD, [call("1", OLD)])
    assert read(new) == (["2", "3"], {"copied_history": 1})
    assert read(old) == (["1"], {})


def test_files_that_are_named_otherwise_are_taken_as_they_are(tmp_path: Path) -> None:
    session(tmp_path, OLD, [call("1", OLD)])
    assert read(session(tmp_path, "agent-1", [call("1", OLD)])) == (["1"], {})


def test_a_session_id_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    session(tmp_path, "up", [call("1", OLD)])
    assert read(session(tmp_path / "in", NEW, [call("1", "../up")])) == (["1"], {})
    (tmp_path / "in" / f"{OLD}.jsonl").mkdir()
    assert read(session(tmp_path / "in", NEW, [call("1", OLD)])) == (["1"], {})
