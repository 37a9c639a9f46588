"""JSON-RPC messages as bytes: read, answered, and added to without writing anew what is not ours."""

from __future__ import annotations

import json
import re
from json.decoder import JSONDecodeError, JSONDecoder
from typing import Any, Final, TypeAlias

import orjson

RequestId: TypeAlias = str | int | float
"""As JSON-RPC has it."""


class _Digits(str):
    """An integer with more digits than Python reads."""

    __slots__ = ()


def _integer(digits: str) -> int | _Digits:
    try:
        return int(digits)
    except ValueError:
        return _Digits(digits)


_decode: Final = JSONDecoder(parse_int=_integer).raw_decode
_space: Final = re.compile(r"[ \t\n\r]*").match
_EXACT: Final = 2**53
"""Whole numbers from here on are read once more, as orjson may take them for fractions."""


def parse(line: bytes) -> Any:
    """What the line says; `None` where it is no JSON, or JSON of a depth that nobody reads."""
    try:
        message = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _parse_slowly(line)
    for one in message if isinstance(message, list) else (message,):
        if isinstance(one, dict) and isinstance(number := one.get("id"), float) and abs(number) >= _EXACT:
            return _parse_slowly(line)
    return message


def _parse_slowly(line: bytes) -> Any:
    """For what only the standard library reads: NaN, lone surrogates, long numbers."""
    try:
        return json.loads(line.decode(), parse_int=_integer)
    except (ValueError, RecursionError):
        return None


def id_key(message: dict[str, Any]) -> tuple[bool, RequestId] | None:
    """The id of a request, so that 1 and "1" differ; `None` where there is none that can be answered."""
    found = message.get("id")
    if isinstance(found, bool | _Digits) or not isinstance(found, str | int | float):
        return None
    return isinstance(found, str), found


def dump(message: Any) -> bytes:
    """One line, in ASCII."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def elements(line: bytes) -> list[tuple[int, int]]:
    """Where each element of the array begins and ends in the line.

    Raises:
        ValueError: The line is no array.
    """
    text = line.decode()
    spans = _spans(text, _skip(text, 0))
    if text.isascii():
        return spans
    places, position, offset = [], 0, 0
    for begin, end in spans:
        offset += len(text[position:begin].encode())
        size = len(text[begin:end].encode())
        places.append((offset, offset + size))
        position, offset = end, offset + size
    return places


def with_note(message: bytes, note: str, path: tuple[str, ...] = ("result",)) -> bytes:
    """The message of a response with a block of text more in its result.

    Every other byte stays. An error, which has no content, is told in its message. A message that has
    neither place comes back as it is.

    Args:
        message: One JSON-RPC response.
        note: What the model is to read.
        path: The fields that lead to the result.
    """
    try:
        text = message.decode()
        place = _inside(text, path)
        if place is not None:
            found = _in_result(text, place, note)
        else:
            place = _inside(text, (*path[:-1], "error"))
            found = _in_error(text, place, note) if place is not None else None
    except (ValueError, RecursionError):
        return message
    return message if found is None else found.encode()


def _in_result(text: str, begin: int, note: str) -> str | None:
    block = json.dumps({"type": "text", "text": note}, separators=(",", ":"))
    content = _fields(text, begin).get("content")
    if content is None:
        inside = _skip(text, begin + 1)
        comma = "" if text[inside] == "}" else ","
        return f'{text[: begin + 1]}"content":[{block}]{comma}{text[begin + 1 :]}'
    if text[content[0]] != "[":
        return None
    end = content[1] - 1
    comma = "" if text[_skip(text, content[0] + 1)] == "]" else ","
    return f"{text[:end]}{comma}{block}{text[end:]}"


def _in_error(text: str, begin: int, note: str) -> str | None:
    said = _fields(text, begin).get("message")
    if said is None or text[said[0]] != '"':
        return None
    end = said[1] - 1
    more = json.dumps("\n\n" + note)[1:-1]
    return text[:end] + more + text[end:]


def _inside(text: str, path: tuple[str, ...]) -> int | None:
    """Where the object at `path` begins, `None` if there is no object."""
    begin = _skip(text, 0)
    for name in path:
        place = _fields(text, begin).get(name)
        if place is None or text[place[0]] != "{":
            return None
        begin = place[0]
    return begin


def _fields(text: str, begin: int) -> dict[str, tuple[int, int]]:
    """Where the value of each field of the object that begins here lies; the last of equal names counts."""
    found: dict[str, tuple[int, int]] = {}
    position = _skip(text, begin + 1)
    while text[position : position + 1] == '"':
        name, position = _decode(text, position)
        position = _skip(text, _skip(text, position) + 1)
        end = _decode(text, position)[1]
        found[name] = position, end
        position = _skip(text, end)
        if text[position : position + 1] == ",":
            position = _skip(text, position + 1)
    return found


def _spans(text: str, begin: int) -> list[tuple[int, int]]:
    if text[begin : begin + 1] != "[":
        raise JSONDecodeError("no array", text, begin)
    found = []
    position = _skip(text, begin + 1)
    while text[position : position + 1] not in {"]", ""}:
        end = _decode(text, position)[1]
        found.append((position, end))
        position = _skip(text, end)
        if text[position : position + 1] == ",":
            position = _skip(text, position + 1)
    return found


def _skip(text: str, position: int) -> int:
    """Over white space."""
    found = _space(text, position)
    return found.end() if found else position
