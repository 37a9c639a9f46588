"""JSON text to values, as lines, as documents and as pieces within records; bounded in depth and number.

In memory a value takes up to 80 times its bytes in the text, so how many there may be is a limit of its own.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from loopwarden.errors import TranscriptError

if TYPE_CHECKING:
    from collections.abc import Callable

Loads: TypeAlias = "Callable[[bytes], Any]"
"""What parses one JSON value."""

MOST_IN_LINE: Final = 4_000_000
"""Most values of one line, or of JSON text within a record."""

MOST_IN_DOCUMENT: Final = 16_000_000
"""Most values of a file, or a member of an archive, that is one JSON document."""


def too_many(data: bytes, most: int) -> bool:
    """Whether JSON text may hold more than `most` values, by its brackets and commas, those in text too."""
    return len(data) > most and data.count(b",") + data.count(b"[") + data.count(b"{") > most


def parse(data: bytes, label: str) -> Any:
    """One JSON value from `data`; the parser itself stops at 1,024 levels of nesting.

    Raises:
        TranscriptError: Too deep, too many values, or no JSON (with the place, as far as the parser tells).
    """
    if too_many(data, MOST_IN_DOCUMENT):
        raise TranscriptError(label, f"more than {MOST_IN_DOCUMENT} values, the limit for one JSON document")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        values, fault = parse_line(data.strip())  # takes NaN and lone surrogates, which Python writes
        if len(values) == 1 and fault is None:
            return values[0]
        raise TranscriptError(label, f"no valid JSON: {error.msg} (line {error.lineno})") from error


def integer(digits: str) -> int | str:
    """An integer of a JSON text; one with more digits than Python reads counts as text."""
    try:
        return int(digits)
    except ValueError:
        return digits


_decoder = json.JSONDecoder(parse_int=integer)


def parse_line(line: bytes, loads: Loads = orjson.loads) -> tuple[list[Any], str | None]:
    """The JSON values on one line, and the kind of the fault that was met (a key of `NOTE_KINDS`).

    What `loads` refuses (two values, invalid UTF-8, lone surrogates) is tried again value by value.
    """
    if too_many(line, MOST_IN_LINE):
        return [], "too_many_values"
    try:
        return [loads(line)], None
    except ValueError as error:
        if not isinstance(error, orjson.JSONDecodeError) or "limit" in error.msg:  # of depth
            return [], "too_deep"
    fault = None
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text, fault = line.decode(errors="replace"), "not_utf8"
    values = []
    place = 0
    try:
        while place < len(text):
            value, place = _decoder.raw_decode(text, place)
            values.append(value)
            while place < len(text) and text[place] in " \t\r":
                place += 1
    except RecursionError:
        return values, "too_deep"
    except ValueError:
        return values, "bad_line"
    return values, fault


_LONG_INTEGER = re.compile(rb"\d{19}")


def exact(data: bytes | str) -> Any:
    """A small JSON value with every integer exact; the fast parser makes floats of those over 64 bit.

    Raises:
        ValueError: No JSON, nested too deep, or more values than a line may hold.
    """
    encoded = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if too_many(encoded, MOST_IN_LINE):
        raise ValueError("too many values")
    value = orjson.loads(encoded)
    if _LONG_INTEGER.search(encoded):
        try:
            value = json.loads(encoded)
        except RecursionError as error:
            raise ValueError("nested too deep") from error
    return value
