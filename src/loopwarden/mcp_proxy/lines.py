"""Lines out of chunks of bytes, in memory that is bounded and time that is linear."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST: Final = 64 * 1024 * 1024
"""Bytes of a line that is read as a whole; a longer one goes through in pieces and is not looked into."""

_EDGE: Final = 4096
_ID: Final = rb'"id"[ \t]*:[ \t]*(?P<id>-?[0-9]{1,15}|"[^"\\]{0,200}")[ \t]*'
_HEAD: Final = re.compile(rb'[ \t]*\{[ \t]*(?:"jsonrpc"[ \t]*:[ \t]*"2\.0"[ \t]*,[ \t]*)?' + _ID + rb",")
_TAIL: Final = re.compile(rb"," + rb"[ \t]*" + _ID + rb"\}\s*\Z")


@dataclass(frozen=True, slots=True)
class Piece:
    """A line, or a piece of one that is too long.

    Attributes:
        data: The bytes, with the end of the line where there is one.
        kind: `line`: a whole line; `part`: of a long one; `last`: its last part.
        long: What is known of the long line, with its last part.
    """

    data: bytes
    kind: Literal["line", "part", "last"] = "line"
    long: LongLine | None = None


class LongLine:
    """What is kept of a line that is not read: its edges, its length and a digest."""

    def __init__(self) -> None:
        self.size = 0
        self._head = b""
        self._tail = b""
        self._digest = blake2b(digest_size=16)

    def add(self, data: bytes) -> None:
        """One more piece of it."""
        self.size += len(data)
        self._digest.update(data)
        if len(self._head) < _EDGE:
            self._head += data[: _EDGE - len(self._head)]
        self._tail = (self._tail + data[-_EDGE:])[-_EDGE:]

    @property
    def digest(self) -> str:
        """Equal for lines that are equal."""
        return self._digest.hexdigest()

    @property
    def id(self) -> str | int | None:
        """The id of the message where it stands first or last in it, as known programs write it."""
        found = _HEAD.match(self._head) or _TAIL.search(self._tail)
        if found is None:
            return None
        text = found["id"].decode(errors="replace")
        return text[1:-1] if text.startswith('"') else int(text)


class Lines:
    """Cuts a stream of bytes into lines.

    Args:
        longest: Bytes from which a line is given on in parts.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0
        self._long: LongLine | None = None

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """The pieces that are complete with this chunk."""
        start = 0
        while (end := chunk.find(b"\n", start) + 1) > 0:
            yield self._ended(chunk[start:end])
            start = end
        rest = chunk[start:] if start else chunk
        if not rest:
            return
        if self._long is not None:
            self._long.add(rest)
            yield Piece(rest, "part")
            return
        self._parts.append(rest)
        self._size += len(rest)
        if self._size > self._longest:
            self._long = LongLine()
            data = self._taken()
            self._long.add(data)
            yield Piece(data, "part")

    def end(self) -> Iterator[Piece]:
        """What is left when the stream ends: a line without an end."""
        if self._parts or self._long is not None:
            yield self._ended(b"")

    def _ended(self, data: bytes) -> Piece:
        if self._long is not None:
            long, self._long = self._long, None
            long.add(data)
            return Piece(data, "last", long)
        if self._parts:
            self._parts.append(data)
            data = self._taken()
        return Piece(data)

    def _taken(self) -> bytes:
        data = b"".join(self._parts)
        self._parts, self._size = [], 0
        return data
