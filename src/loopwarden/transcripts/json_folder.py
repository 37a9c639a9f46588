"""Folders that hold one JSON object a file, read within the limits; links are not followed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.parsing import MOST_IN_LINE, too_many

if TYPE_CHECKING:
    from loopwarden.transcripts.model import ReadNotes
    from loopwarden.transcripts.source import Source


def listed(folder: Path, source: Source, notes: ReadNotes, *, folders: bool = False) -> list[Path]:
    """The JSON files (or the folders) right in a folder, sorted by name; none if there is no such folder.

    Raises:
        TranscriptError: The folder can't be read.
    """
    found: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                wanted = (
                    entry.is_dir(follow_symlinks=False)
                    if folders
                    else entry.name.endswith(".json") and entry.is_file(follow_symlinks=False)
                )
                if wanted and len(found) < source.limits.members:
                    found.append(Path(entry.path))
                elif wanted:
                    notes.add("cut_member")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TranscriptError(source.label, f"{folder.name}: {error.strerror or error}") from error
    return sorted(found)


def loaded(path: Path, source: Source, notes: ReadNotes) -> dict[str, Any] | None:
    """The object in a JSON file; `None`, counted, if it is too large or damaged."""
    try:
        with path.open("rb") as file:
            data = file.read(source.limits.member_bytes + 1)
    except OSError:
        notes.add("bad_line")
        return None
    if len(data) > source.limits.member_bytes:
        notes.add("cut_member")
        return None
    if too_many(data, MOST_IN_LINE):
        notes.add("too_many_values")
        return None
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        notes.add("bad_line")
        return None
    return value
