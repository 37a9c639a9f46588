from __future__ import annotations

import contextlib
import copy
import io
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.model import ReadNotes, StreamStart
from loopwarden.transcripts.registry import FORMATS, by_name, detect, read
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import SAMPLES, streams
from tests.transcripts.written import written

if TYPE_CHECKING:
    from collections.abc import Iterator

OTHER = {"SOURCES.md"}
"""Files among the samples that are no recorded runs."""

ALL = sorted(path.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob("*") if path.is_file())
RECORDED = [name for name in ALL if name not in OTHER]

READERS_OF_FOLDERS = {"gemini": "gemini-cli", "inspect": "inspect-ai"}
"""Folders of samples that are not named as the reader is."""


def test_names_are_distinct_and_plain() -> None:
    names = [reader.name for reader in FORMATS]
    assert len(set(names)) == len(names)
    assert all(name == name.lower() and " " not in name for name in names)
    assert all(reader.title and by_name(reader.name) is reader for reader in FORMATS)


@pytest.mark.parametrize("sample", RECORDED)
def test_exactly_one_reader_knows_a_sample(sample: str) -> None:
    known = [reader.name for reader in FORMATS if reader.sniff(Source(SAMPLES / sample))]
    folder = Path(sample).parent.name
    assert known == [READERS_OF_FOLDERS.get(folder, folder)]


@pytest.mark.parametrize("sample", sorted(OTHER))
def test_no_reader_knows_other_files(sample: str) -> None:
    assert detect(Source(SAMPLES / sample)) is None


@pytest.mark.parametrize("sample", RECORDED)
def test_every_sample_gives_well_formed_streams(sample: str) -> None:
    transcript = read(SAMPLES / sample)
    items = list(transcript.items)
    assert streams(items)
    assert all("\n" not in item.title for item in items if isinstance(item, StreamStart))
    assert all(count > 0 for count in transcript.notes.counts.values())


@pytest.mark.parametrize("sample", [name for name in RECORDED if name.endswith((".json", ".jsonl", ".gz"))])
def test_standard_input_gives_what_the_file_gives(sample: str) -> None:
    from_file = read(SAMPLES / sample)
    with (SAMPLES / sample).open("rb") as stream:
        from_stream = read(Source(None, data=stream, label=from_file.source.label))
        assert from_stream.reader is from_file.reader
        assert list(from_stream.items) == list(from_file.items)
    assert from_stream.notes == from_file.notes


def test_an_unknown_format_is_named_in_one_line() -> None:
    with pytest.raises(TranscriptError) as caught:
        read(written({"hello": "world"}))
    assert str(caught.value).startswith("test: no known format of recorded runs (known: events, openclaw, ")
    assert "\n" not in str(caught.value)


def test_an_unknown_name_comes_with_the_nearest() -> None:
    with pytest.raises(TranscriptError, match="'claude' is not known; did you mean 'claude-code'"):
        read(written({}), format="claude")


def test_a_missing_file_is_one_clear_line() -> None:
    with pytest.raises(TranscriptError, match=r"nowhere\.jsonl: No such file or directory"):
        read("nowhere.jsonl")


def test_a_named_format_is_taken_for_granted_and_notes_are_filled() -> None:
    notes = ReadNotes()
    transcript = read(written({"hello": "world"}), format="events", notes=notes)
    assert [type(item) for item in transcript.items] == [StreamStart]
    assert notes.counts == {"unknown_record": 1}


JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    1e300,
    10**400,
    "",
    "x",
    "\ud800",
    [],
    {},
    [None],
    {"type": []},
    [["x"]],
)


def damaged(sample: str, seed: int) -> Iterator[bytes]:
    """The text of a sample with values of wrong types in it, and cut off."""
    chance = random.Random(f"{sample} {seed}")
    data = Source(SAMPLES / sample)
    with data._open() as stream:
        text = stream.read()
    yield text[: chance.randrange(len(text))]
    try:
        documents = [json.loads(text)]
    except ValueError:
        documents = []
        for line in text.splitlines():
            try:
                documents.append(json.loads(line))
            except ValueError:
                continue
    for _ in range(3 if len(text) < 60_000 else 1):
        spoiled = json.loads(json.dumps(documents))
        for _ in range(12):
            spoil(spoiled, chance)
        yield b"\n".join(json.dumps(document).encode() for document in spoiled)


def spoil(value: Any, chance: random.Random) -> None:
    """Put junk in one random place at a random depth."""
    while isinstance(value, dict | list) and value:
        key: Any = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
        if not isinstance(value[key], dict | list) or chance.random() < 0.25:
            value[key] = copy.deepcopy(chance.choice(JUNK))
            return
        value = value[key]


@pytest.mark.parametrize("sample", [name for name in RECORDED if not name.endswith((".eval", ".out.gz"))])
def test_damaged_samples_are_read_or_refused(sample: str) -> None:
    reader = detect(Source(SAMPLES / sample))
    assert reader is not None
    for data in damaged(sample, 1):
        for known in FORMATS:
            known.sniff(Source(None, data=io.BytesIO(data)))
        with contextlib.suppress(TranscriptError):
            streams(reader.read(Source(None, data=io.BytesIO(data)), ReadNotes()))
