from __future__ import annotations

import gzip
import io
from typing import TYPE_CHECKING

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.parsing import parse_line
from loopwarden.transcripts.source import HEAD_BYTES, HEAD_RECORDS, Limits, Source
from tests.transcripts.written import written

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("line", "values", "fault"),
    [
        (b'{"a":1}', [{"a": 1}], None),
        (b'{"a":1} {"b":2}', [{"a": 1}, {"b": 2}], None),
        (b'{"a":1}{"b":2}{"c"', [{"a": 1}, {"b": 2}], "bad_line"),
        (b"{", [], "bad_line"),
        (b"nothing", [], "bad_line"),
        (b"\x00\x00\x00", [], "bad_line"),
        (b'{"a":"\xff"}', [{"a": "\N{REPLACEMENT CHARACTER}"}], "not_utf8"),
        (b'{"a":"\\ud800"}', [{"a": "\ud800"}], None),
        (b"[" * 100_000 + b"]" * 100_000, [], "too_deep"),
        (b"[" * 100_000, [], "too_deep"),
        (b'{"a":' * 2_000 + b"1" + b"}" * 2_000 + b'{"b":1}', [], "too_deep"),
        (b"1" * 5_000, ["1" * 5_000], None),
    ],
)
def test_lines(line: bytes, values: list[object], fault: str | None) -> None:
    assert parse_line(line) == (values, fault)


def test_records_with_their_lines() -> None:
    notes = ReadNotes()
    source = written(b"\xef\xbb\xbf" + b'{"a":1}', b"", b'{"b":2}{"c":3}\r', b"[4]", b"{", b'{"d":5}')
    assert list(source.records(notes)) == [(1, {"a": 1}), (3, {"b": 2}), (3, {"c": 3}), (6, {"d": 5})]
    assert notes.counts == {"two_on_a_line": 1, "bad_line": 2}
    assert notes.first_line == {"two_on_a_line": 3, "bad_line": 4}


def test_too_long_a_line_is_left_out() -> None:
    notes = ReadNotes()
    source = written(b"a" * 9, b"b" * 10, b"c" * 11, b"d" * 50, b"e", limits=Limits(line_bytes=10))
    assert [line[:1] for _, line in source.lines(notes)] == [b"a", b"b", b"e"]
    assert notes.counts == {"long_line": 2}


def test_a_document_over_the_limit_is_refused() -> None:
    assert written(b"[1]\n").document() == [1]
    with pytest.raises(TranscriptError, match="larger than 4 bytes"):
        written(b"[1, 2]", limits=Limits(document_bytes=4)).document()
    with pytest.raises(TranscriptError, match="no valid JSON"):
        written(b"[1, 2").document()


def test_head_of_a_file_whose_first_line_is_long() -> None:
    line = b'{"type":"x","text":"' + b"a" * (2 * HEAD_BYTES) + b'"}'
    source = written(line, {"type": "y"})
    assert [record["type"] for record in source.head_records] == ["x"]
    assert [record["type"] for _, record in source.records(ReadNotes())] == ["x", "y"]
    assert len(written(b"no json " * HEAD_BYTES).head) == HEAD_BYTES


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (b"[1]", 0),
        (b'["a"]\n{"a":1}', 0),
        (b"{\n", 0),
        (b'\n {"a":1}\n7\n{"b":2}\n{"cut', 2),
        (b'{"a":1}', 1),
        (b'{"a":1}\n' * 500, HEAD_RECORDS),
        (b"PK\x03\x04", 0),
    ],
)
def test_records_of_the_head(data: bytes, count: int) -> None:
    assert len(written(data).head_records) == count


def test_standard_input_can_be_kept_and_unpacked() -> None:
    packed = gzip.compress(b'{"a":1}\n{"a":2}\n')
    for data in (packed, gzip.decompress(packed)):
        source = Source(None, data=io.BytesIO(data))
        source.keep()
        source.keep()
        for _ in range(2):
            assert [record["a"] for _, record in source.records(ReadNotes())] == [1, 2]


def test_a_cut_gzip_file_gives_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a":1}\n' * 90_000)[:150])
    with pytest.raises(TranscriptError, match="could not be read"):
        list(Source(path).records(ReadNotes()))
    assert Source(path).size == 150


def test_folders_and_nothing(tmp_path: Path) -> None:
    folder = Source(tmp_path)
    assert (folder.kind, folder.head, folder.first, folder.head_records) == ("folder", b"", None, [])
    with pytest.raises(TranscriptError, match="there is nothing to read"):
        _ = Source(None).head
    assert Source(None).size == Source(tmp_path / "none").size == 0
