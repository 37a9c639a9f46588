"""Recorded files written by a test, as the readers see them."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.source import DEFAULT_LIMITS, Limits, Source

if TYPE_CHECKING:
    from loopwarden.transcripts.model import Item, Reader


def written(*lines: object, limits: Limits = DEFAULT_LIMITS) -> Source:
    """A stream with one line each: bytes and text as they are, anything else as JSON."""
    return Source(None, data=io.BytesIO(b"\n".join(map(_line, lines))), label="test", limits=limits)


def read_all(reader: Reader, *lines: object) -> tuple[list[Item], dict[str, int]]:
    """The items of such a file and the counts of its notes."""
    notes = ReadNotes()
    items = list(reader.read(written(*lines), notes))
    return items, dict(notes.counts)


def _line(line: object) -> bytes:
    if isinstance(line, bytes):
        return line
    return line.encode() if isinstance(line, str) else json.dumps(line).encode()
