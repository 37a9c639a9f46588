"""Two passes over a file, with and without what was parsed in the first."""

from __future__ import annotations

import gzip
from io import BytesIO
from typing import TYPE_CHECKING

import pytest

from loopwarden.transcripts import passes
from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.passes import Passes
from loopwarden.transcripts.source import Source

if TYPE_CHECKING:
    from pathlib import Path

LINES = b'{"n": 1}\nno json\n\n{"n": 2}\n[3]\n{"n": 4} {"n": 5}\n'
RECORDS = [(1, {"n": 1}), (4, {"n": 2}), (6, {"n": 4}), (6, {"n": 5})]


@pytest.fixture(params=[0, passes.KEPT_BYTES], ids=["read again", "kept"])
def _room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "KEPT_BYTES", request.param)


def _played(source: Source) -> ReadNotes:
    both = Passes(source)
    assert list(both.first()) == [record for _, record in RECORDS]
    notes = ReadNotes()
    assert list(both.second(notes)) == RECORDS
    return notes


@pytest.mark.usefixtures("_room")
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("stream", [False, True])
def test_both_passes_give_the_same(tmp_path: Path, pack: type[bytes], stream: bool) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(pack(LINES))
    source = Source(None, data=BytesIO(path.read_bytes())) if stream else Source(path)
    notes = _played(source)
    assert notes.counts == {"bad_line": 2, "two_on_a_line": 1}
    assert notes.first_line == {"bad_line": 2, "two_on_a_line": 6}


@pytest.mark.usefixtures("_room")
def test_what_is_added_between_the_passes_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(LINES)
    both = Passes(Source(path))
    list(both.first())
    with path.open("ab") as file:
        file.write(b'{"n": 6}\n{"n": 7}\n')
    notes = ReadNotes()
    assert list(both.second(notes)) == RECORDS
    assert notes.counts["still_growing"] == 1


def test_notes_of_earlier_lines_are_added() -> None:
    notes, earlier = ReadNotes(), ReadNotes()
    notes.add("bad_line", 7)
    earlier.add("bad_line", 3)
    earlier.add("long_line", 9)
    earlier.add("reused_id")
    notes.merge(earlier)
    assert notes.counts == {"bad_line": 2, "long_line": 1, "reused_id": 1}
    assert notes.first_line == {"bad_line": 3, "long_line": 9}
