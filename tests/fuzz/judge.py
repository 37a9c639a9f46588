"""What must hold whatever a file holds: sound items, or one clear error."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import TranscriptError
from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.transcripts import NOTE_KINDS, ReadNotes, Recorded, Source, Spent, StreamStart, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from loopwarden.transcripts import Item

LONGEST_MESSAGE: Final = 1_000
"""Longest text of an error beside the name of the file."""

LONGEST_TITLE: Final = 120

BYTES_AN_ITEM: Final = 8
"""A file can't tell more than one item in so many bytes, so nothing is read many times over."""

LARGEST_COUNT: Final = 2**63
"""What a JSON report can still write."""


def judged(path: Path, *, format: str | None, streamed: bool) -> list[Item]:  # noqa: A002 - as the reader's
    """The items of a file; none if it is refused as it should be.

    Raises:
        AssertionError: An item or an error is not as it must be.
        Exception: Anything that came out and is no `TranscriptError`.
    """
    data = path.read_bytes()
    source = Source(None, data=io.BytesIO(data), label="stream") if streamed else Source(path)
    items: list[Item] = []
    notes = ReadNotes()
    try:
        items.extend(read(source, format=format, notes=notes).items)
    except TranscriptError as error:
        check_error(error, source.label)
    check_items(items)
    check_notes(notes)
    packed = data.startswith((b"PK", b"\x1f\x8b"))
    assert packed or len(items) <= len(data) // BYTES_AN_ITEM + 2, len(items)
    return items


def check_error(error: TranscriptError, label: str) -> None:
    """One line that names the file, of bounded length, with nothing in it that a terminal obeys."""
    text = str(error)
    assert label in text or text.startswith("format:"), text
    assert text.isprintable(), repr(text)
    assert len(text) <= LONGEST_MESSAGE + len(label), text
    # the net below all readers must not be needed
    assert "could not be read as " not in text, repr(error.__cause__)


def check_notes(notes: ReadNotes) -> None:
    """Kinds that reports have words for, counts and lines from 1."""
    assert notes.counts.keys() <= NOTE_KINDS.keys()
    assert notes.first_line.keys() <= notes.counts.keys()
    assert all(number > 0 for number in (*notes.counts.values(), *notes.first_line.values()))


def check_items(items: Iterable[Item]) -> None:
    """What `Item` says about each, and the order of a stream."""
    waiting: dict[str, set[str]] = {}
    for item in items:
        if isinstance(item, StreamStart):
            assert item.stream not in waiting, f"stream {item.stream!r} begins twice"
            waiting[item.stream] = set()
            _check_start(item)
            continue
        assert item.stream in waiting, f"an item of stream {item.stream!r} before it begins"
        if isinstance(item, Spent):
            _check_spent(item)
        else:
            assert isinstance(item, Recorded), item
            _check_event(item.event, waiting[item.stream])


def _check_start(item: StreamStart) -> None:
    assert item.title, item
    assert len(item.title) <= LONGEST_TITLE, item
    assert item.title.isprintable(), item
    assert _is_text(item.stream), item
    assert item.parent != item.stream, item
    assert all(text is None or _is_text(text) for text in (item.parent, item.agent, item.model)), item


def _check_spent(item: Spent) -> None:
    for tokens in (item.input_tokens, item.output_tokens):
        assert type(tokens) is int, item
        assert 0 <= tokens < LARGEST_COUNT, item
    assert item.cost is None or (isinstance(item.cost, int | float) and 0 <= item.cost < math.inf), item
    assert _is_time(item.at), item


def _check_event(event: Any, waiting: set[str]) -> None:
    assert isinstance(event, ToolCall | Outcome | Compaction | UserMessage | Retraction), event
    assert _is_time(event.at), event
    assert event.run_id is None or _is_text(event.run_id), event
    if isinstance(event, ToolCall):
        assert _is_text(event.tool), event
        assert _is_text(event.call_id), event
        assert event.turn_id is None or _is_text(event.turn_id), event
        waiting.add(event.call_id)
    elif isinstance(event, Outcome):
        assert event.call_id in waiting, f"an outcome of no open call: {event}"
        waiting.remove(event.call_id)
        assert event.error is None or isinstance(event.error, str), event
        assert event.unknown_tool is None or _is_text(event.unknown_tool), event
        assert type(event.timed_out) is bool, event
    elif isinstance(event, Compaction):
        assert event.continues is None or _is_text(event.continues), event
    elif isinstance(event, Retraction):
        assert isinstance(event.call_ids, tuple), event
        assert all(map(_is_text, event.call_ids)), event
        waiting.difference_update(event.call_ids)


def _is_text(value: object) -> bool:
    """A text that is not empty and can be written to a file."""
    if not isinstance(value, str) or not value:
        return False
    return value.isascii() or value == value.encode(errors="replace").decode()


def _is_time(value: object) -> bool:
    return value is None or (
        isinstance(value, int | float) and math.isfinite(value) and type(value) is not bool
    )


def calls_of(items: Iterable[Item]) -> Iterator[tuple[str, Any]]:
    """Stream and event of every recorded item."""
    return ((item.stream, item.event) for item in items if isinstance(item, Recorded))
