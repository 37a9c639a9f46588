"""A recorded file as a reader sees it: bounded, decompressed, never trusted.

Limits stand here once, so that no reader can be made to take more memory or time than they allow.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
import weakref
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias

import orjson

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.packed import GZIP_MAGIC, Prefixed, unpacked_file, unpacked_stream
from loopwarden.transcripts.parsing import MOST_IN_LINE, parse, parse_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import UnionType

    from loopwarden.transcripts.model import ReadNotes
    from loopwarden.transcripts.parsing import Loads

HEAD_BYTES = 65_536
"""How much of a file is looked at to tell its format."""

HEAD_LINE_BYTES = 4 * 1024 * 1024
"""How much of it instead if its first line is longer than that (a prompt or an image in it)."""

HEAD_RECORDS = 64
"""How many records of the head are parsed at most to tell the format."""

_PIECE = 1024 * 1024  # what is read at once where it is only gone through
_SHOWN = 1024
_BEGINS = re.compile(rb"(\xef\xbb\xbf)?(\s*\Z|\s*[{\[\"\-0-9tfnNI])")  # a JSON value, as Python writes it

SPOOL_BYTES = 16 * 1024 * 1024
"""How much of standard input is kept in memory before it goes to a temporary file."""


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
    document_bytes: int = 512 * 1024 * 1024
    member_bytes: int = 256 * 1024 * 1024
    members: int = 100_000


DEFAULT_LIMITS = Limits()


_BUFFER = 128 * 1024


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
        self._stream: IO[bytes] | None = data  # can be read only once, unless it is kept
        self._kept: IO[bytes] | None = None
        self._unpacked = False
        self._whole = False  # whether the head is all there is

    @cached_property
    def head(self) -> bytes:
        """The first `HEAD_BYTES` bytes, decompressed; empty for a folder.

        If the first line does not end within them, up to `HEAD_LINE_BYTES`.
        """
        if self._is_folder:
            return b""
        if self._stream is not None:
            self._unpack_stream()
            head = self._read_head(self._stream)
            self._stream = io.BufferedReader(Prefixed(head, self._stream))
            return head
        with self._open() as stream:
            head = self._read_head(stream)
            self._whole = not _guarded(self, stream.read, 1)
            return head

    def _read_head(self, stream: IO[bytes]) -> bytes:
        head = _guarded(self, stream.read, HEAD_BYTES)
        if len(head) == HEAD_BYTES and b"\n" not in head and head.lstrip(b"\xef\xbb\xbf \t\r")[:1] in b"{[":
            head += _guarded(self, stream.readline, HEAD_LINE_BYTES - HEAD_BYTES)
        return head

    @property
    def _is_folder(self) -> bool:
        try:
            return self.path is not None and self.path.is_dir()
        except OSError:  # told when it is opened
            return False

    @cached_property
    def kind(self) -> Kind:
        """What the file is by its first bytes."""
        if self._is_folder:
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

    @cached_property
    def head_records(self) -> list[dict[str, Any]]:
        """The JSON objects on the first lines that lie within the head; empty if the first line has none.

        Never raises; other values and damaged lines are passed over.
        """
        if self.kind != "text":
            return []
        whole, newline, _ = self.head.rpartition(b"\n")
        lines = (whole if newline else self.head).lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n")
        if not lines[0].startswith(b"{"):
            return []
        records: list[dict[str, Any]] = []
        for line in lines[:HEAD_RECORDS]:
            values, _ = parse_line(line.strip())
            records += [value for value in values if isinstance(value, dict)]
            if not records:
                return []
        return records

    def forget(self) -> None:
        """Give back the memory that the beginning of a file takes; it is read again when it is needed."""
        if self._stream is None:
            for name in ("head", "kind", "first", "head_records"):
                self.__dict__.pop(name, None)

    def keep(self) -> None:
        """Make standard input readable more than once, by copying it; does nothing for a file."""
        if self._stream is None or self._kept is not None:
            return
        _ = self.head
        self._kept = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES)  # noqa: SIM115 - lives as long as we
        weakref.finalize(self, self._kept.close)
        try:
            shutil.copyfileobj(self._stream, self._kept)
        except (OSError, EOFError, zlib.error) as error:
            raise TranscriptError(self.label, f"could not be read: {error}") from error

    def records(
        self, notes: ReadNotes, *, kept: bool = False, loads: Loads = orjson.loads
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The JSON objects of a line-based file with the number of their line; bad lines are counted.

        A line that holds several objects gives all of them; what follows a fault on a line is lost.

        Args:
            notes: Where oddities are counted.
            kept: Whether they will all be kept in memory, because later ones change earlier ones; the
                limit for one document then holds for all of them.
            loads: What parses a line; `exact` keeps integers over 64 bit.

        Raises:
            TranscriptError: The file can't be read, or is larger than it may be.
        """
        return self.values(notes, dict, most=self.limits.document_bytes if kept else None, loads=loads)

    def values(
        self,
        notes: ReadNotes,
        wanted: type | UnionType,
        *,
        most: int | None = None,
        loads: Loads = orjson.loads,
    ) -> Iterator[tuple[int, Any]]:
        """As `records`, for JSON values of the types `wanted`; at most `most` bytes of them."""
        total = 0
        for number, line in self.lines(notes):
            total += len(line)
            if most is not None and total > most:
                raise TranscriptError(self.label, f"larger than {most} bytes, the limit for this format")
            if len(line) <= MOST_IN_LINE:
                try:
                    value = loads(line)
                except ValueError:
                    pass  # taken apart below
                else:
                    if isinstance(value, wanted):
                        yield number, value
                    else:
                        notes.add("bad_line", number)
                    continue
            values, fault = parse_line(line, loads)
            if fault is not None:
                notes.add(fault, number)
            if len(values) > 1:
                notes.add("two_on_a_line", number)
            for value in values:
                if isinstance(value, wanted):
                    yield number, value
                else:
                    notes.add("bad_line", number)

    def lines(self, notes: ReadNotes) -> Iterator[tuple[int, bytes]]:
        """The lines that are not blank, with their number from 1, without the line end.

        Too long ones are counted and left out; memory stays at one line.
        """
        with self._open() as stream:
            number = 0
            limit = self.limits.line_bytes
            readline = stream.readline
            while True:
                try:
                    line = readline(limit + 1)
                except (OSError, EOFError, zlib.error) as error:
                    raise TranscriptError(self.label, f"could not be read: {error}") from error
                if not line:
                    return
                number += 1
                if len(line) > limit and not line.endswith(b"\n"):
                    notes.add("long_line", number)
                    while line and not line.endswith(b"\n"):
                        line = _guarded(self, stream.readline, min(limit, _PIECE))
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
        if self._whole and "head" in self.__dict__:
            return parse(self.head.removeprefix(b"\xef\xbb\xbf"), self.label)
        pieces: list[bytes] = []
        left = limit - self.size if self.size > limit else limit
        with self._open() as stream:
            while left >= 0 and (piece := _guarded(self, stream.read, min(_PIECE, left + 1))):
                if not pieces and not _BEGINS.match(piece):
                    return parse(piece[:_SHOWN], self.label)  # which says what is wrong
                pieces.append(piece)
                left -= len(piece)
        if left < 0:
            raise TranscriptError(self.label, f"larger than {limit} bytes, the limit for one JSON document")
        return parse(b"".join(pieces).removeprefix(b"\xef\xbb\xbf"), self.label)

    def text_lines(self, notes: ReadNotes) -> Iterator[tuple[int, str]]:
        """As `lines`, decoded; invalid UTF-8 is replaced and counted. Blank lines are left out."""
        for number, line in self.lines(notes):
            try:
                yield number, line.decode()
            except UnicodeDecodeError:
                notes.add("not_utf8", number)
                yield number, line.decode(errors="replace")

    def _open(self) -> IO[bytes]:
        if self._kept is not None:
            self._kept.seek(0)
            return io.BufferedReader(Prefixed(b"", self._kept))
        if self._stream is not None:
            self._unpack_stream()
            return self._stream
        if self.path is None:
            raise TranscriptError(self.label, "there is nothing to read")
        try:
            stream = self.path.open("rb", buffering=_BUFFER)
            try:
                packed = stream.read(2) == GZIP_MAGIC
                stream.seek(0)
            except OSError:
                stream.close()
                raise
            if packed:
                stream.close()
                return unpacked_file(self.path)
        except (OSError, ValueError) as error:  # a path with a null byte is a ValueError
            raise TranscriptError(self.label, getattr(error, "strerror", None) or str(error)) from error
        return stream

    def _unpack_stream(self) -> None:
        """Put a decompressor over standard input if it is gzip."""
        if self._stream is None or self._unpacked:
            return
        self._unpacked = True
        magic = _guarded(self, self._stream.read, 2)
        self._stream = io.BufferedReader(Prefixed(magic, self._stream))
        if magic == GZIP_MAGIC:
            self._stream = unpacked_stream(self._stream)

    @property
    def size(self) -> int:
        """Bytes on disk, 0 where unknown."""
        try:
            return os.stat(self.path).st_size if self.path is not None else 0  # noqa: PTH116 - one call
        except OSError:
            return 0


def _guarded(source: Source, read: Any, size: int) -> bytes:
    try:
        data: bytes = read(size)
    except (OSError, EOFError, zlib.error) as error:
        raise TranscriptError(source.label, f"could not be read: {error}") from error
    return data
