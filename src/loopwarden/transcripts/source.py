"""A recorded file as a reader sees it: bounded, decompressed, never trusted.

Limits stand here once, so that no reader can be made to take more memory or time than they allow.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias

import orjson

from loopwarden.errors import TranscriptError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import ReadNotes

HEAD_BYTES = 65_536
"""How much of a file is looked at to tell its format."""

Kind: TypeAlias = Literal["text", "zip", "sqlite", "folder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a single file may ask for.

    Attributes:
        line_bytes: Longest line of a line-based file; longer ones are left out and counted.
        document_bytes: Largest file that has to be read as one JSON document, decompressed.
        member_bytes: Largest member of an archive, decompressed.
        members: Most members of an archive that are looked at.
    """

    line_bytes: int = 64 * 1024 * 1024
    document_bytes: int = 1024 * 1024 * 1024
    member_bytes: int = 256 * 1024 * 1024
    members: int = 100_000


DEFAULT_LIMITS = Limits()


class Source:
    """One file, folder or stream to read.

    Attributes:
        path: Where it is on disk; `None` for standard input.
        label: What to call it in messages.
        limits: Bounds that the readers keep to.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        data: IO[bytes] | None = None,
        label: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.path = path
        self.label = label if label is not None else (str(path) if path is not None else "(standard input)")
        self.limits = limits
        self._stream: IO[bytes] | None = data  # can be read only once

    @cached_property
    def head(self) -> bytes:
        """The first `HEAD_BYTES` bytes, decompressed; empty for a folder."""
        if self.path is not None and self.path.is_dir():
            return b""
        if self._stream is not None:
            head = self._stream.read(HEAD_BYTES)
            self._stream = io.BufferedReader(_Prefixed(head, self._stream))
            return head
        with self._open() as stream:
            return _guarded(self, stream.read, HEAD_BYTES)

    @cached_property
    def kind(self) -> Kind:
        """What the file is by its first bytes."""
        if self.path is not None and self.path.is_dir():
            return "folder"
        if self.head.startswith(b"PK\x03\x04"):
            return "zip"
        if self.head.startswith(b"SQLite format 3\x00"):
            return "sqlite"
        return "text"

    @cached_property
    def first(self) -> Any:
        """The first JSON value of the file if it lies within the head, else `None`."""
        line = self.head.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
        for data in (line, self.head):
            try:
                return orjson.loads(data)
            except orjson.JSONDecodeError:
                continue
        return None

    def lines(self, notes: ReadNotes) -> Iterator[tuple[int, bytes]]:
        """The lines that are not blank, with their number from 1, without the line end.

        Too long ones are counted and left out; memory stays at one line.
        """
        with self._open() as stream:
            number = 0
            limit = self.limits.line_bytes
            while True:
                line = _guarded(self, stream.readline, limit + 1)
                if not line:
                    return
                number += 1
                if len(line) > limit:
                    notes.add("long_line", number)
                    while line and not line.endswith(b"\n"):
                        line = _guarded(self, stream.readline, limit)
                    continue
                line = line.strip(b"\xef\xbb\xbf \t\r\n" if number == 1 else b" \t\r\n")
                if line:
                    yield number, line

    def document(self) -> Any:
        """The whole file as one JSON value.

        Raises:
            TranscriptError: Too large, too deep, or no JSON.
        """
        limit = self.limits.document_bytes
        with self._open() as stream:
            data = _guarded(self, stream.read, limit + 1)
        if len(data) > limit:
            raise TranscriptError(self.label, f"larger than {limit} bytes, the limit for one JSON document")
        return parse(data.removeprefix(b"\xef\xbb\xbf"), self.label)

    def text_lines(self, notes: ReadNotes) -> Iterator[tuple[int, str]]:
        """As `lines`, decoded; invalid UTF-8 is replaced and counted. Blank lines are left out."""
        for number, line in self.lines(notes):
            try:
                yield number, line.decode()
            except UnicodeDecodeError:
                notes.add("not_utf8", number)
                yield number, line.decode(errors="replace")

    def _open(self) -> IO[bytes]:
        if self._stream is not None:
            return self._stream
        if self.path is None:
            raise TranscriptError(self.label, "standard input can be read only once")
        try:
            stream: IO[bytes] = self.path.open("rb")
            magic = stream.read(2)
            stream.seek(0)
        except OSError as error:
            raise TranscriptError(self.label, error.strerror or str(error)) from error
        if magic == b"\x1f\x8b":
            return gzip.GzipFile(fileobj=stream)  # type: ignore[return-value]  # a reading file in all we use
        return stream

    @property
    def size(self) -> int:
        """Bytes on disk, 0 where unknown."""
        try:
            return os.stat(self.path).st_size if self.path is not None else 0  # noqa: PTH116 - one call
        except OSError:
            return 0


def parse(data: bytes, label: str) -> Any:
    """One JSON value from `data`; the parser itself stops at 1,024 levels of nesting.

    Raises:
        TranscriptError: Too deep, or no JSON (with the place, as far as the parser tells).
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise TranscriptError(label, f"no valid JSON: {error.msg} (line {error.lineno})") from error


class _Prefixed(io.RawIOBase):
    """A stream with some bytes put back in front."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = io.BytesIO(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _guarded(source: Source, read: Any, size: int) -> bytes:
    try:
        data: bytes = read(size)
    except (OSError, EOFError, zlib.error) as error:
        raise TranscriptError(source.label, f"could not be read: {error}") from error
    return data
