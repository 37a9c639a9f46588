"""Small inputs made in the tests, and every way to damage them in one place."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.events import Outcome, Retraction, ToolCall
from loopwarden.transcripts.model import ReadNotes, Recorded, Spent, StreamStart
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.events import Event
    from loopwarden.transcripts.model import Item, Reader

JUNK: tuple[Any, ...] = (None, 7, -1.5, True, "", "x", [], {}, [1], {"a": 1}, [[None]], 10**30, "\ud800")


def source_of(data: bytes) -> Source:
    """A source as from standard input."""
    return Source(None, data=io.BytesIO(data), label="handmade")


def as_lines(records: Iterable[Any]) -> bytes:
    """JSON lines."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def as_document(value: object) -> bytes:
    """One JSON document over several lines."""
    return json.dumps(value, indent=1).encode()


def read(reader: Reader, data: bytes | Source) -> tuple[list[Item], ReadNotes]:
    """All items; the reader must know the input as its own, and the items must be in a sound order."""
    source = data if isinstance(data, Source) else source_of(data)
    assert reader.sniff(source)
    notes = ReadNotes()
    items = list(reader.read(source, notes))
    assert_sound(items)
    return items, notes


@dataclass
class _Told:
    """What was told of one stream so far."""

    open: set[str] = field(default_factory=set)
    turns: list[str | None] = field(default_factory=list)  # one a call
    paid: set[str | None] = field(default_factory=set)


def assert_sound(items: Iterable[Item]) -> None:
    """The promises of `transcripts.model` that hold whatever the format and however damaged the file."""
    streams: dict[str, _Told] = {}
    for item in items:
        if isinstance(item, StreamStart):
            assert item.stream not in streams, "a stream begins once"
            assert item.title.isprintable()
            assert item.title.strip()
            streams[item.stream] = _Told()
            continue
        told = streams[item.stream]  # else something came before the start
        if isinstance(item, Spent):
            assert item.input_tokens or item.output_tokens or item.cost, "nothing spent is not told"
            told.paid.update(told.turns)
        else:
            _assert_sound_event(item.event, told)


def _assert_sound_event(event: Event, told: _Told) -> None:
    if isinstance(event, ToolCall):
        assert event.call_id not in told.open, "an open call is not told again"
        told.open.add(event.call_id)
        if event.turn_id is not None and event.turn_id in told.turns:
            assert told.turns[-1] == event.turn_id, "the calls of a reply are not torn apart"
            assert event.turn_id not in told.paid, "a reply is paid after its calls"
        told.turns.append(event.turn_id)
    elif isinstance(event, Outcome):
        told.open.remove(event.call_id)  # else a call ended that was not open
        assert event.error is None or event.result is None
    elif isinstance(event, Retraction):
        assert event.call_ids
        told.open.difference_update(event.call_ids)


def strip(items: Iterable[Item]) -> str:
    """The kinds of the items in order, a letter each: S start, c call, o outcome, u user, | compaction, $."""
    letters = {"ToolCall": "c", "Outcome": "o", "UserMessage": "u", "Compaction": "|"}
    kinds = (item.event if isinstance(item, Recorded) else item for item in items)
    names = (type(kind).__name__ for kind in kinds)
    return "".join(letters.get(name, "S" if name == "StreamStart" else "$") for name in names)


def damaged(value: Any) -> Iterator[Any]:
    """The value with each of its nodes replaced by each piece of junk, and with each key left out."""
    yield from JUNK
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {name: kept for name, kept in value.items() if name != key}
            for broken in damaged(inner):
                yield value | {key: broken}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            for broken in damaged(inner):
                yield [*value[:place], broken, *value[place + 1 :]]


def assert_survives(reader: Reader, data: bytes | Source) -> None:
    """Reading gives sound items, or one `TranscriptError` of one line."""
    source = data if isinstance(data, Source) else source_of(data)
    items: list[Item] = []
    try:
        reader.sniff(source)
        items.extend(reader.read(source, ReadNotes()))
    except TranscriptError as error:
        assert "\n" not in error.reason  # noqa: PT017 - any other exception is the failure looked for
    assert_sound(items)


def assert_survives_damage(reader: Reader, records: list[Any], *, lines: bool) -> None:
    """As `assert_survives`, for every damage of each record and for the file cut at any place."""
    whole = as_lines(records) if lines else as_document(records[0])
    for place, record in enumerate(records):
        for broken in damaged(record):
            changed = [*records[:place], broken, *records[place + 1 :]]
            assert_survives(reader, as_lines(changed) if lines else as_document(changed[0]))
    for cut in range(0, len(whole), max(1, len(whole) // 100)):
        assert_survives(reader, whole[:cut])


def other_samples(*folders: str) -> list[str]:
    """Names of all samples but those in these folders of `converted/`."""
    own = tuple(f"converted/{folder}/" for folder in folders)
    names = (path.relative_to(SAMPLES).as_posix() for path in sorted(SAMPLES.rglob("*")) if path.is_file())
    return [name for name in names if name != "SOURCES.md" and not name.startswith(own)]
