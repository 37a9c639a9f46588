"""Bytes in front of a stream, and gzip that may expand only so far."""

from __future__ import annotations

import gzip
import io
from typing import IO, TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from pathlib import Path

GZIP_MAGIC: Final = b"\x1f\x8b"

MAX_RATIO: Final = 200
"""How many times larger than its packed form a file may be, once it is over `RATIO_FREE_BYTES`.

Recorded runs shrink to between a fifth and a fiftieth; the most that gzip can reach is a thousandth.
"""

RATIO_FREE_BYTES: Final = 256 * 1024 * 1024

_BUFFER = 256 * 1024


class Prefixed(io.RawIOBase):
    """A stream with some bytes put back in front.

    Attributes:
        taken: Bytes that were read so far.
    """

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = io.BytesIO(head)
        self._rest = rest
        self.taken = 0

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`."""
        data = self._head.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(data)] = data
        self.taken += len(data)
        return len(data)


def unpacked_file(path: Path) -> IO[bytes]:
    """The content of a gzip file.

    Raises:
        OSError: It can't be opened. Reading raises `OSError` too if it expands too far.
    """
    return _bounded(path.open("rb"))


def unpacked_stream(stream: IO[bytes]) -> IO[bytes]:
    """The content of a gzip stream, as `unpacked_file`; the stream itself stays open."""
    return _bounded(stream)


def _bounded(stream: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", io.BufferedReader(_Unpacked(stream), _BUFFER))


class _Unpacked(io.RawIOBase):
    """Decompresses a stream that it closes in the end, and counts what goes in and out."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._packed = Prefixed(b"", stream)
        self._stream = stream
        self._gzip = gzip.GzipFile(fileobj=cast("IO[bytes]", io.BufferedReader(self._packed)))
        self._total = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._gzip.readinto(buffer)
        self._total += size
        if self._total > RATIO_FREE_BYTES and self._total > self._packed.taken * MAX_RATIO:
            raise OSError(f"it expands to more than {MAX_RATIO} times its size, the limit")
        return size

    def close(self) -> None:
        if not self.closed:
            self._gzip.close()
            self._stream.close()
        super().close()
