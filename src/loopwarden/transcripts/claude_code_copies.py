"""Records that a Claude Code session took over from another session in the same folder.

A session that goes on under a new id, or was forked, begins with the records of the old one; their
`uuid` stays. They were judged in the old file, so they are left out if it is there and has them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.fields import mapping
from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.source import Source

if TYPE_CHECKING:
    from pathlib import Path

_SESSION = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UUID = re.compile(rb'"uuid" ?: ?"([^"\\]{1,64})"')


class Copies:
    """Tells which records of one file are copies. Other files are read only if there may be any."""

    def __init__(self, source: Source) -> None:
        path = source.path
        named = path is not None and path.suffix == ".jsonl" and _SESSION.fullmatch(path.stem)
        self._path: Path | None = path if named else None
        self._limits = source.limits
        self._known: dict[str, set[bytes]] = {}  # by session, the ids of its records

    def __contains__(self, record: dict[str, Any]) -> bool:
        if self._path is None:
            return False
        origin = mapping(record.get("forkedFrom")).get("sessionId") or record.get("sessionId")
        if not isinstance(origin, str) or origin == self._path.stem or not _SESSION.fullmatch(origin):
            return False
        uuid = record.get("uuid")
        return isinstance(uuid, str) and uuid.encode(errors="replace") in self._records_of(origin, self._path)

    def _records_of(self, session: str, path: Path) -> set[bytes]:
        if session not in self._known:
            found: set[bytes] = set()
            other = path.with_name(f"{session}.jsonl")
            if other.is_file():
                try:
                    for _, line in Source(other, limits=self._limits).lines(ReadNotes()):
                        found.update(_UUID.findall(line))
                except TranscriptError:
                    found.clear()
            self._known[session] = found
        return self._known[session]
