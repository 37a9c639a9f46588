from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.events import Compaction, ToolCall
from loopwarden.transcripts.inspect_ai import READER
from loopwarden.transcripts.model import ReadNotes, StreamStart
from loopwarden.transcripts.source import Limits, Source
from tests.transcripts.archives import zstd_archive
from tests.transcripts.facts import SAMPLES, Facts, events, facts, items_of, streams
from tests.transcripts.written import read_all, written

if TYPE_CHECKING:
    from pathlib import Path

    from loopwarden.transcripts.model import Item

CYCLE = "converted/inspect/period3_cycle.eval"
HEADER = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m", "run_id": "r"}}


@pytest.mark.parametrize(
    ("sample", "expected", "samples", "noted"),
    [
        (CYCLE, Facts(calls=49, win=10, winres=10, streak=1, cycle=38, period=3), 1, {}),
        ("inspect/browser_agent.json.gz", Facts(calls=4, win=1, winres=1, streak=1), 1, {}),
        ("inspect/log_read_sample.eval", Facts(), 1, {}),
        ("inspect/log_streaming.eval", Facts(), 4, {}),
        # a fixture with results only
        ("inspect/log_tool_call_error.json", Facts(), 1, {"result_without_call": 11}),
    ],
)
def test_samples(sample: str, expected: Facts, samples: int, noted: dict[str, int]) -> None:
    notes = ReadNotes()
    items = items_of(READER, sample, notes)
    assert facts(items) == expected
    assert len(streams(items)) == samples
    assert notes.counts == noted


def test_events_are_read_and_not_the_messages_too() -> None:
    items = items_of(READER, CYCLE)
    assert len(events(items, ToolCall)) == 49
    assert len(events(items, Compaction)) == 1
    (start,) = (item for item in items if isinstance(item, StreamStart))
    assert (start.stream, start.model) == ("1_epoch_1", "m")
    assert start.title == "alf, sample 1, epoch 1"


def sample(number: object = 1, **fields: Any) -> dict[str, Any]:
    event = {"event": "tool", "id": "c1", "function": "f", "arguments": {"x": 1}, "result": "y"}
    return {"id": number, "epoch": 1, "events": [event], **fields}


def archive(tmp_path: Path, members: dict[str, object]) -> Path:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as target:
        for name, value in members.items():
            target.writestr(name, value if isinstance(value, str | bytes) else json.dumps(value))
    return path


def read(path: Path, limits: Limits | None = None) -> tuple[list[Item], dict[str, int]]:
    notes = ReadNotes()
    items = list(READER.read(Source(path, limits=limits or Limits()), notes))
    return items, dict(notes.counts)


@pytest.mark.parametrize("name", ["header.json", "_journal/start.json"])
def test_a_log_that_is_still_written_has_its_header_in_the_journal(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path, {name: HEADER, "samples/1_epoch_1.json": sample()})
    assert READER.sniff(Source(path))
    items, notes = read(path)
    assert next(item.model for item in items if isinstance(item, StreamStart)) == "m"
    assert len(events(items, ToolCall)) == 1
    assert notes == {}


def test_zstandard_archives(tmp_path: Path) -> None:
    pytest.importorskip("zstandard", reason="the extra zstd is not installed")
    path = tmp_path / "log.eval"
    members = {"header.json": HEADER, "samples/1_epoch_1.json": sample()}
    path.write_bytes(zstd_archive({name: json.dumps(value).encode() for name, value in members.items()}))
    assert READER.sniff(Source(path))
    items, notes = read(path)
    assert facts(items).calls == 1
    assert notes == {}


@pytest.mark.parametrize(
    ("member", "noted"),
    [
        ("{", {"bad_line": 1}),
        (b"\xff\xff", {"bad_line": 1}),
        ("[1]", {"bad_line": 1}),
        ("[" * 2000, {"too_deep": 1}),
        ('{"x": ' * 5000 + "1" + "}" * 5000, {"too_deep": 1}),
        ("", {"bad_line": 1}),
        (json.dumps(sample(2, scores=float("nan"))), {}),
        ('{"id": "\\ud83d", "epoch": 1, "events": []}', {}),
        (json.dumps(sample(2)) + " " * 5_000, {"cut_member": 1}),
    ],
)
def test_one_bad_sample_does_not_hide_the_others(
    tmp_path: Path, member: str | bytes, noted: dict[str, int]
) -> None:
    limits = Limits(member_bytes=70_000 if noted != {"cut_member": 1} else 4_000)
    members = {"header.json": HEADER, "samples/2_epoch_1.json": member, "samples/1_epoch_1.json": sample()}
    items, notes = read(archive(tmp_path, members), limits)
    assert "1_epoch_1" in streams(items)
    assert notes == noted


def test_what_else_is_in_an_archive(tmp_path: Path) -> None:
    members = {
        "samples/1_epoch_1.json": sample(),
        "samples/1_epoch_1/events/0.json": [],
        "samples/readme.txt": "x",
        "summaries.json": [],
        "header.json": [],
    }
    items, notes = read(archive(tmp_path, members))
    assert streams(items) == ["1_epoch_1"]
    assert notes == {"unknown_record": 1}


def test_more_members_than_allowed_are_counted(tmp_path: Path) -> None:
    members = {f"samples/{n}_epoch_1.json": sample(n) for n in range(5)}
    items, notes = read(archive(tmp_path, members), Limits(members=3))
    assert len(streams(items)) == 3
    assert notes == {"cut_member": 2}


def test_an_archive_on_standard_input_is_known_and_refused() -> None:
    data = (SAMPLES / CYCLE).read_bytes()
    assert READER.sniff(Source(None, data=io.BytesIO(data)))
    with pytest.raises(TranscriptError, match="standard input"):
        list(READER.read(Source(None, data=io.BytesIO(data)), ReadNotes()))


@pytest.mark.parametrize("cut", [4, 100, 5_000, -1, -200])
def test_a_cut_archive(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "log.eval"
    path.write_bytes((SAMPLES / CYCLE).read_bytes()[:cut])
    assert not READER.sniff(Source(path))
    with pytest.raises(TranscriptError):
        read(path)


def test_other_archives_are_not_known(tmp_path: Path) -> None:
    assert not READER.sniff(Source(archive(tmp_path, {"mimetype": "x", "content.xml": "y"})))


def test_a_document_larger_than_the_head_is_known() -> None:
    document = {**HEADER, "plan": {"x": "y" * 500_000}, "samples": [sample(), 3]}
    assert READER.sniff(written(document))
    items, notes = read_all(READER, document)
    assert len(events(items, ToolCall)) == 1
    assert notes == {"bad_line": 1}


@pytest.mark.parametrize("document", [[], {}, {"eval": 3}, 1, "x"])
def test_no_log(document: object) -> None:
    with pytest.raises(TranscriptError):
        read_all(READER, document)
