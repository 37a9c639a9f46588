"""The record as a file of JSON lines, to which threads and processes may append at once.

Each entry goes out in one `write` on a descriptor that appends, so lines of several processes never mix.
A line that a process could not finish (killed, disk full) ends where the next entry begins; readers skip it.
Processes take turns, since half a line that is just being written looks like one that is torn.
"""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, Final

from loopwarden.errors import StoreError
from loopwarden.records.entry import from_json
from loopwarden.records.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from loopwarden.records.entry import Entry

_OWNER: Final = 0o600
_OWNER_FOLDER: Final = 0o700
_BINARY: Final = getattr(os, "O_BINARY", 0)
LONGEST: Final = 1024 * 1024
"""Bytes of a line; a longer one is no entry."""


class JsonLinesRecord:
    """Appends entries to a file that only its owner may read.

    Args:
        path: The file; it and its folder are made with the first entry.
        rotate_bytes: A file that has grown to this size is renamed (the time is added to its name) and a new
            one begun; `None`: never. Renamed files are read along and never deleted.
    """

    def __init__(self, path: Path, *, rotate_bytes: int | None = None) -> None:
        if rotate_bytes is not None and rotate_bytes < 1:
            raise ValueError(f"rotate_bytes={rotate_bytes}; allowed: 1 or more, or None")
        self._path = path
        self._rotate_bytes = rotate_bytes
        self._descriptor: int | None = None
        self._lock = threading.Lock()
        self._turns = Turns()

    def write(self, entries: Sequence[Entry]) -> None:
        """Append the entries.

        Raises:
            OSError: They could not be written; the next write opens the file anew.
            StoreError: Only a part could be written.
        """
        with self._lock:
            try:
                descriptor = self._open()
                with self._turns.taken(descriptor):
                    for entry in entries:
                        self._append(descriptor, entry.to_json() + b"\n")
            except (OSError, StoreError):
                self._drop()
                raise

    def close(self) -> None:
        """Give the file back; a later write opens it anew."""
        with self._lock:
            self._drop()

    def after_fork(self) -> None:
        """In a child process: a lock of its own, and a descriptor, since two with one have the same turn."""
        self._lock = threading.Lock()
        self._turns = Turns()
        self._drop()

    def _open(self) -> int:
        """The descriptor of the file that has the name now; others may have renamed or removed it."""
        if self._descriptor is not None:
            try:
                there, ours = self._path.stat(), os.fstat(self._descriptor)
            except FileNotFoundError:
                self._drop()
            else:
                if not os.path.samestat(there, ours):
                    self._drop()
                elif self._rotate_bytes is not None and there.st_size >= self._rotate_bytes:
                    self._drop()
                    self._rotate()
        if self._descriptor is None:
            self._path.parent.mkdir(mode=_OWNER_FOLDER, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY
            self._descriptor = os.open(self._path, flags, _OWNER)
        return self._descriptor

    def _rotate(self) -> None:
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        try:
            # Names are not used twice, so that two processes that do this at once lose nothing.
            self._path.rename(self._path.with_name(f"{self._path.name}.{moment}-{os.getpid()}"))
        except FileNotFoundError:
            return

    def _append(self, descriptor: int, line: bytes) -> None:
        end = os.lseek(descriptor, 0, os.SEEK_END)
        if end:
            os.lseek(descriptor, end - 1, os.SEEK_SET)
            if os.read(descriptor, 1) != b"\n":
                line = b"\n" + line
        written = os.write(descriptor, line)
        if written < len(line):
            raise StoreError(
                f"{self._path}: only {written} of {len(line)} bytes of an entry could be written"
            )

    def _drop(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            try:
                os.close(descriptor)
            except OSError:  # closed by someone else
                return


def read_lines(path: Path) -> Iterator[Entry]:
    """The entries of a file and of those that were renamed when they had grown, oldest first.

    Raises:
        OSError: The file can't be read.
        StoreError: It has lines, but none of them is an entry.
    """
    found, strange = False, 0
    parts = rotated(path)
    if path.exists() or not parts:  # else it was just renamed
        parts.append(path)
    for part in parts:
        with part.open("rb") as stream:
            for line in _lines(stream):
                entry = from_json(line)
                if entry is not None:
                    found = True
                    yield entry
                else:
                    strange += not line.isspace()
    if strange > 1 and not found:  # one alone may be torn
        raise StoreError(f"{path}: no run record; none of its {strange} lines is an entry")


def rotated(path: Path) -> list[Path]:
    """The files that were renamed, oldest first."""
    names = (part for part in path.parent.glob("*") if part.name.startswith(f"{path.name}.2"))
    return sorted(part for part in names if part.name.rpartition("-")[0].endswith("Z"))


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines that are not too long."""
    whole = True
    while line := stream.readline(LONGEST):
        ends = line.endswith(b"\n")
        if whole and (ends or len(line) < LONGEST):
            yield line
        whole = ends
