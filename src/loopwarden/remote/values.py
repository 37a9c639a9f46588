"""Arguments and results as JSON that compares at a gateway as the values compare in process.

What is equal to a JSON value is sent as that value. The rest is stood for by `{"$loopwarden": DIGEST}`, the
digest of the form that the guard compares in process, so that equal values stay equal and unlike ones
unlike; a value of that very shape is sent as a digest, too. A long text keeps its head, which is all that
patterns are looked for in, and the digest of what follows. Never raises, and what is sent is bounded.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final

import orjson

from loopwarden.core.canonical import canonical

MARK: Final = "$loopwarden"

LONGEST_NAME: Final = 200
"""Characters of an id or a tool's name; a longer one is cut, with its digest."""

LONGEST_TEXT: Final = 32_768
"""Characters of a text; a longer one is cut, with the digest of the rest."""

LARGEST: Final = 262_144
"""Bytes of one value; a larger one is sent as a digest, or its largest parts are."""

DEEPEST: Final = 100
"""Containers inside each other; a deeper value is sent as a digest."""

_HEAD: Final = 20_000  # what the core blanks and masks; see `core.failure`
_FIELDS: Final = 32  # of a large result
_NODES: Final = 50_000  # items that are looked at one by one
_SMALL: Final = 64  # bytes: from here on a result counts as substantial
_MARK_KEY: Final = b'"' + MARK.encode()
_TEXTS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_PAIRS: Final = re.compile(rb"\[\]|\{\}")
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def sendable(value: object) -> orjson.Fragment:
    """The JSON text that stands for a value."""
    data = _written(value)
    if data is None and type(value) is dict and len(value) <= _FIELDS and _is_plain(value):
        share = LARGEST // (2 * len(value))  # the shape of a result stays readable
        data = orjson.dumps({text(key): _part(item, share) for key, item in value.items()})
    return orjson.Fragment(data if data and len(data) <= LARGEST else orjson.dumps(_mark(canonical(value))))


def text(value: str, longest: int = LONGEST_TEXT) -> str:
    """A text that can be sent: unlike texts stay unlike."""
    value = str.__str__(value)
    head = min(longest, _HEAD)
    try:
        if len(value) <= longest:
            value.encode()
            return value
        rest = value[head:].encode()
        value[:head].encode()
    except UnicodeEncodeError:  # lone surrogates
        rest = value.encode("utf-8", "surrogatepass")
        value = value.encode("utf-8", "backslashreplace").decode()
    return f"{value[:head]}...[loopwarden {len(rest)} {_digest(rest, 15)}]"


def name(value: object) -> str | None:
    """An id or a tool's name, whatever a host takes for one; `None` stays `None`, and none is empty."""
    if value is None:
        return None
    return text(value if isinstance(value, str) else str(value), LONGEST_NAME) or f"({MARK} empty)"


def seconds(value: object) -> float | None:
    """A time; `None` for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _digest(data: bytes, size: int) -> str:
    return blake2b(data, digest_size=size).hexdigest()


def _mark(data: bytes) -> dict[str, str]:
    """Stands for a value by its canonical bytes; as long as it takes to count as substantial, if those do."""
    return {MARK: _digest(data, 15 if len(data) < _SMALL else 32)}


def _is_shallow(data: bytes) -> bool:
    """Whether JSON text surely has no more than `DEEPEST` levels, or turns out to have none."""
    if data.count(b"[") + data.count(b"{") <= DEEPEST:
        return True
    brackets = _TEXTS.sub(b"", data).translate(None, _NO_BRACKETS)
    for _ in range(DEEPEST):  # the innermost pairs are one level
        brackets = _PAIRS.sub(b"", brackets)
        if not brackets:
            return True
    return False


def _is_plain(value: dict[Any, object]) -> bool:
    """Whether a dict is an object of JSON, as far as its keys are concerned, and no mark of ours."""
    return MARK not in value and all(type(key) is str for key in value)


def _written(value: object) -> bytes | None:
    """The JSON text of a value; `None` where it is too deep, too large or in itself."""
    data = canonical(value)
    try:
        if len(data) > LARGEST or b"!" in data or _MARK_KEY in data or not _is_shallow(data):
            data = orjson.dumps(_Rebuilt().plain(value))
        elif len(data) > LONGEST_TEXT:
            data = orjson.dumps(_Rebuilt().plain(orjson.loads(data)))
    except _TooMuchError:
        return None
    return data if len(data) <= LARGEST else None


def _part(item: object, share: int) -> object:
    data = _written(item)
    return orjson.Fragment(data) if data and len(data) <= share else _mark(canonical(item))


class _TooMuchError(Exception):
    """The value is sent as a digest."""


class _Rebuilt:
    """Rebuilds a value, with digests in place of what can't be sent; used once."""

    def __init__(self) -> None:
        self._left = _NODES
        self._above: set[int] = set()

    def plain(self, value: Any) -> object:
        """An equal value that can be written, or one that stands for it.

        Raises:
            _TooMuchError: It is too deep, too large or in itself.
        """
        self._left -= 1
        if self._left < 0:
            raise _TooMuchError
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return text(value)
        if kind is int:
            if -(2**63) <= value < 2**64:
                return value
            with suppress(OverflowError):
                if float(value) == value:  # read back as the same number
                    return float(value)
        elif kind is float and math.isfinite(value):
            return value
        elif kind is dict and _is_plain(value):
            self._enter(value)
            fields = {text(key): self.plain(item) for key, item in value.items()}
            self._above.remove(id(value))
            return fields
        elif kind is list or kind is tuple:
            self._enter(value)
            items = [self.plain(item) for item in value]
            self._above.remove(id(value))
            return items
        return self._odd(value)

    def _enter(self, container: object) -> None:
        if id(container) in self._above or len(self._above) >= DEEPEST:
            raise _TooMuchError
        self._above.add(id(container))

    def _odd(self, value: object) -> object:
        """What is no plain value itself may still equal one, as a subclass of `dict` does."""
        data = canonical(value)
        self._left -= len(data) // 16  # many members may share a large one
        if len(data) <= LONGEST_TEXT and b"!" not in data and _MARK_KEY not in data and _is_shallow(data):
            return orjson.Fragment(data)
        return _mark(data)
