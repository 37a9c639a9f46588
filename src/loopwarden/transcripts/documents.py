"""Files that hold JSON values: one document, or one value a line.

Also the beginning of a document that is too large for the head, closed where the head cuts it, so that
a format can be told by structure and not by luck.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.parsing import parse_line
from loopwarden.transcripts.source import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import ReadNotes
    from loopwarden.transcripts.source import Source

Container: TypeAlias = "dict[str, Any] | list[Any]"

_BLANK = b"\xef\xbb\xbf \t\r\n"
_TOKEN = re.compile(rb'\s*("[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+)', re.DOTALL)
_DECODER = json.JSONDecoder()
_MAX_NESTING = 1024
_CLOSING = {b"{": b"}", b"[": b"]"}


def containers(source: Source, notes: ReadNotes) -> Iterator[tuple[int, Container]]:
    """The JSON objects and arrays of a file, one a line or the whole file, with their line from 1.

    Raises:
        TranscriptError: The file can't be read, or is one document that is no JSON object or array.
    """
    if _has_lines(source):
        yield from source.values(notes, dict | list)
        return
    value = source.document()
    if not isinstance(value, dict | list):
        raise TranscriptError(source.label, "holds no JSON object or array")
    yield 1, value


def opening(source: Source) -> Any:
    """The first JSON value of the file; where the head cuts it, as far as it is whole. `None`: no JSON."""
    if source.kind != "text":
        return None
    first = source.first
    return first if first is not None else _closed(source.head[:HEAD_BYTES].lstrip(_BLANK))


def first_element(head: bytes) -> Any:
    """The first element of the JSON array that `head` begins; `None` if it is no array or the head ends."""
    start = head.lstrip(_BLANK)
    if not start.startswith(b"["):
        return None
    try:
        return _DECODER.raw_decode(start[1:].lstrip().decode(errors="replace"))[0]
    except (ValueError, RecursionError):
        return None


def _has_lines(source: Source) -> bool:
    head = source.head.lstrip(_BLANK)
    end = head.find(b"\n")
    if end < 0 or not head[end:].strip(_BLANK):  # all that can be seen is on one line
        return source.size <= source.limits.line_bytes
    if _is_container(head[:end]):
        return True
    return not head.startswith((b"{", b"[")) and _is_container(head[end + 1 :].split(b"\n", 1)[0])


def _is_container(line: bytes) -> bool:
    values, _ = parse_line(line.strip())
    return bool(values) and isinstance(values[0], dict | list)


def _closed(head: bytes) -> Any:
    """The value that `head` begins, cut after its last whole part and closed."""
    closing = b""  # what closes all that is open, the innermost first
    good: tuple[int, bytes] | None = None
    position = 0
    while (match := _TOKEN.match(head, position)) and len(closing) <= _MAX_NESTING:
        token = match[1]
        position = match.end()
        if token in _CLOSING:
            closing = _CLOSING[token] + closing
        elif token in {b"}", b"]"}:
            if closing[:1] != token:
                return None
            closing = closing[1:]
        elif token != b",":
            continue
        good = (match.start(1) if token == b"," else position, closing)
        if not closing:
            break
    if good is None:
        return None
    try:
        return orjson.loads(head[: good[0]] + good[1])
    except orjson.JSONDecodeError:
        return None
