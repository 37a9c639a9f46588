"""Arrays and heads of files that nobody has checked, for formats that are read as a whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.fields import headline
from loopwarden.transcripts.source import parse_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.transcripts.model import ReadNotes
    from loopwarden.transcripts.source import Source

_DECODER = json.JSONDecoder()


def title_of(*candidates: object) -> str:
    """The first candidate that is a text with something in it, as a title of one line."""
    for candidate in candidates:
        if isinstance(candidate, str) and (title := headline(candidate)):
            return title
    return "(no name)"


def numbered(values: Iterable[Any], notes: ReadNotes) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSON array, with their place from 1; other elements are counted as bad lines."""
    for place, value in enumerate(values, 1):
        if isinstance(value, dict):
            yield place, value
        else:
            notes.add("bad_line")


def kept_records(source: Source, notes: ReadNotes) -> Iterator[tuple[int, dict[str, Any]]]:
    """As `source.records`, for formats that have to be kept whole because later lines change earlier ones.

    Raises:
        TranscriptError: There is more than the limit for one document.
    """
    limit = source.limits.document_bytes
    total = 0
    for number, line in source.lines(notes):
        total += len(line)
        if total > limit:
            raise TranscriptError(source.label, f"larger than {limit} bytes, the limit for this format")
        values, fault = parse_line(line)
        if fault is not None:
            notes.add(fault, number)
        if len(values) > 1:
            notes.add("two_on_a_line", number)
        for value in values:
            if isinstance(value, dict):
                yield number, value
            else:
                notes.add("bad_line", number)


def first_element(head: bytes) -> Any:
    """The first element of the JSON array that `head` begins; `None` if it is no array or the head ends."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start.startswith(b"["):
        return None
    try:
        return _DECODER.raw_decode(start[1:].lstrip().decode(errors="replace"))[0]
    except (ValueError, RecursionError):
        return None
