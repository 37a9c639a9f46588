"""Records of a line-based file that are gone through twice: later ones say which earlier ones count."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import orjson

from loopwarden.transcripts.model import ReadNotes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.source import Source

KEPT_BYTES: Final = 32 * 1024 * 1024
"""Bytes of text up to which the parsed records are kept between the passes; a larger file is read anew."""


class Passes:
    """The two passes over one file. The first must be exhausted before the second begins."""

    def __init__(self, source: Source) -> None:
        source.keep()
        self._source = source
        self._size = source.size
        self._bytes = 0
        self._first_notes = ReadNotes()
        self._kept: deque[tuple[int, dict[str, Any]]] | None = deque()
        self._count = 0

    def first(self) -> Iterator[dict[str, Any]]:
        """The records, to look at and not to keep."""
        kept = self._kept
        for numbered in self._source.records(self._first_notes, loads=self._loads):
            self._count += 1
            if kept is not None:
                if self._bytes > KEPT_BYTES:
                    kept = self._kept = None
                else:
                    kept.append(numbered)
            yield numbered[1]

    def second(self, notes: ReadNotes) -> Iterator[tuple[int, dict[str, Any]]]:
        """The same records with their lines; what was met is counted in `notes`."""
        kept = self._kept
        if kept is not None:
            while kept:
                yield kept.popleft()
            notes.merge(self._first_notes)
            if self._source.size > self._size:
                notes.add("still_growing")
            return
        for place, (line, record) in enumerate(self._source.records(notes)):
            if place >= self._count:
                notes.add("still_growing", line)
                return
            yield line, record

    def _loads(self, line: bytes) -> Any:
        self._bytes += len(line)
        return orjson.loads(line)
