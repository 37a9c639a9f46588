"""Members of a zip archive that nobody trusts: bounded in number, size and ratio, whatever it claims.

Stored, deflated and Zstandard members (zip method 93) are read; the last need the extra `zstd`. Other
methods can't be decompressed piece by piece, so they are refused.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, cast

from loopwarden.errors import MissingExtraError, TranscriptError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from loopwarden.transcripts.source import Limits

MAX_RATIO = 1_000
"""How many times larger than its compressed form a member may be, once it is over `RATIO_FREE_BYTES`."""

RATIO_FREE_BYTES = 8 * 1024 * 1024

WINDOW_BYTES = 128 * 1024 * 1024
"""Most memory that a Zstandard member may ask for."""

_DIRECTORY_BYTES_PER_MEMBER = 320  # twice what a member of the usual name takes
_CHUNK = 256 * 1024
_ZSTD = 93
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTD)
_END = struct.Struct("<4s4H2LH")  # the record at the end of an archive
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
_LOCAL = struct.Struct("<4s5H3L2H")  # the header before each member
_ZIP_FAULTS = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    NotImplementedError,  # a version or flag that `zipfile` does not know
    RuntimeError,  # an encrypted member
    ValueError,  # a name that is no UTF-8
    OverflowError,
    struct.error,
    zlib.error,
)


class MemberFault(Exception):  # noqa: N818 - caught by the reader, which counts it
    """A member can't be used.

    Attributes:
        kind: The oddity, a key of `NOTE_KINDS`.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(kind)


class EvalArchive:
    """An open archive.

    Attributes:
        names: Names of the members in the order of the directory, at most `Limits.members`.
        left_out: How many members there are beyond that.
    """

    def __init__(self, archive: zipfile.ZipFile, raw: IO[bytes], limits: Limits) -> None:
        self._raw = raw
        self._archive = archive
        self._limits = limits
        names = list(dict.fromkeys(archive.namelist()))
        self.names = names[: limits.members]
        self.left_out = len(names) - len(self.names)

    def read(self, name: str) -> bytes:
        """The decompressed member.

        Raises:
            MemberFault: Damaged, encrypted, of an unknown method, or too large.
            MissingExtraError: It is a Zstandard member and `zstandard` is not installed.
        """
        info = self._archive.getinfo(name)
        if info.compress_type not in _METHODS or info.flag_bits & 1:
            raise MemberFault("bad_line")
        try:
            if info.compress_type == _ZSTD:
                data = b"".join(self._bounded(self._zstd(info), info))
                if zlib.crc32(data) != info.CRC:
                    raise MemberFault("bad_line")
                return data
            with self._archive.open(info) as member:
                return b"".join(self._bounded(iter(lambda: member.read(_CHUNK), b""), info))
        except _ZIP_FAULTS as error:
            raise MemberFault("bad_line") from error

    def _bounded(self, chunks: Iterator[bytes], info: zipfile.ZipInfo) -> Iterator[bytes]:
        total = 0
        for chunk in chunks:
            total += len(chunk)
            if total > self._limits.member_bytes:
                raise MemberFault("cut_member")
            if total > RATIO_FREE_BYTES and total > info.compress_size * MAX_RATIO:
                raise MemberFault("cut_member")
            yield chunk

    def _zstd(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        try:
            import zstandard
        except ImportError as error:
            raise MissingExtraError("zstandard", "zstd") from error
        self._raw.seek(info.header_offset)
        fields = _LOCAL.unpack(self._raw.read(_LOCAL.size))
        self._raw.seek(fields[-2] + fields[-1], 1)  # the name and extra fields
        decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES)
        source = cast("IO[bytes]", _Limited(self._raw, info.compress_size))
        try:
            # `closefd=False`: the archive stays open for its other members
            with decompressor.stream_reader(source, read_across_frames=True, closefd=False) as reader:
                while chunk := reader.read(_CHUNK):
                    yield chunk
        except zstandard.ZstdError as error:
            raise MemberFault("bad_line") from error


class _Limited:
    """The next `size` bytes of a file, as all that there is to read."""

    def __init__(self, raw: IO[bytes], size: int) -> None:
        self._raw = raw
        self._left = size

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


@contextmanager
def open_archive(path: Path, label: str, limits: Limits) -> Iterator[EvalArchive]:
    """Open the archive for as long as the context lasts.

    Raises:
        TranscriptError: No zip archive, cut, or its directory is larger than the limits allow.
    """
    try:
        raw = path.open("rb")
    except OSError as error:
        raise TranscriptError(label, error.strerror or str(error)) from error
    with raw:
        try:
            size = raw.seek(0, 2)
            directory = _directory_bytes(raw, size)
            if directory > limits.members * _DIRECTORY_BYTES_PER_MEMBER:
                raise TranscriptError(label, f"the directory of the archive has {directory} bytes, too many")
            archive = zipfile.ZipFile(raw)
        except _ZIP_FAULTS as error:
            raise TranscriptError(label, f"no readable zip archive: {error}") from error
        with archive:
            if sum(info.compress_size for info in archive.infolist()) > size:
                raise TranscriptError(label, "members of the archive overlap")
            yield EvalArchive(archive, raw, limits)


def _directory_bytes(raw: IO[bytes], size: int) -> int:
    """How large the directory says it is, before `zipfile` reads it whole; 0 if no end record is found.

    Whichever of several end records `zipfile` takes, none of them may be too large.
    """
    raw.seek(max(0, size - _END.size - 0xFFFF))
    base = raw.tell()
    tail = raw.read()
    largest = 0
    place = tail.find(b"PK\x05\x06")
    while 0 <= place <= len(tail) - _END.size:
        largest = max(largest, _END.unpack_from(tail, place)[5])
        locator = base + place - _LOCATOR_64.size
        if locator >= 0:
            raw.seek(locator)
            mark, _, where, _ = _LOCATOR_64.unpack(raw.read(_LOCATOR_64.size))
            if mark == b"PK\x06\x07":
                # the record stands before its locator, or where the locator says
                largest = max(
                    largest, _directory_bytes_64(raw, locator - _END_64.size), _directory_bytes_64(raw, where)
                )
        place = tail.find(b"PK\x05\x06", place + 1)
    return largest


def _directory_bytes_64(raw: IO[bytes], place: int) -> int:
    if not 0 <= place < 1 << 62:
        return 0
    raw.seek(place)
    data = raw.read(_END_64.size)
    if len(data) < _END_64.size or not data.startswith(b"PK\x06\x06"):
        return 0
    return int(_END_64.unpack(data)[8])
