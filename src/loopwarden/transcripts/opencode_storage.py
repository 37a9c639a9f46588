"""Where opencode keeps its sessions: a folder with a JSON file a part, or since 2026 a SQLite database.

The folder is `storage/{session/<project>/<session>, message/<session>/<message>,
part/<message>/<part>}.json`; names of files and folders say what belongs together, as in the program's own
move to the database (`packages/opencode/src/storage/json-migration.ts`). Tables: `session.sql.ts`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.fields import mapping
from loopwarden.transcripts.opencode_session import Session, start
from loopwarden.transcripts.shape import arguments, seconds
from loopwarden.transcripts.sqlite_file import looks_like, open_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

_FOLDERS = ("session", "message", "part")


def is_database(source: Source) -> bool:
    """Whether the source is opencode's database; never raises."""
    columns = ("id", "message_id", "session_id", "data")
    return looks_like(source, session=("id", "title"), message=("id", "session_id", "data"), part=columns)


def storage_folder(source: Source) -> Path | None:
    """The storage folder at or right below the path of the source; never raises."""
    if source.path is None:
        return None
    try:
        for folder in (source.path, source.path / "storage"):
            if all((folder / name).is_dir() for name in _FOLDERS):
                return folder
    except OSError:
        pass
    return None


def read_database(source: Source, notes: ReadNotes) -> Iterator[Item]:
    """All sessions of the database, the oldest first, a message at a time."""
    with open_database(source) as database:
        sessions = database.rows(
            "session",
            ("id", "parent_id", "title", "agent", "model", "revert"),
            where=None,
            order=("time_created", "id"),
        )
        for row in sessions:
            stream = row["id"]
            if not isinstance(stream, str) or not stream:
                notes.add("bad_line")
                continue
            info = {"title": row.get("title"), "parentID": row.get("parent_id"), "agent": row.get("agent")}
            yield start(info | {"model": arguments(row.get("model"))}, stream)
            session = Session(stream, notes, revert=arguments(row.get("revert")))
            messages = database.rows(
                "message", ("id", "data"), where=("session_id", stream), order=("time_created", "id")
            )
            for message in messages:
                parts = database.rows(
                    "part", ("id", "data"), where=("message_id", message["id"]), order=("id",)
                )
                told = _told(message, notes)
                if told is not None:
                    read = (_told(part, notes) for part in parts)
                    yield from session.message(told, [part for part in read if part is not None])
            yield from session.finish()


def _told(row: dict[str, Any], notes: ReadNotes) -> dict[str, Any] | None:
    """What a row says in its JSON, with its id; `None`, counted, if that is no object."""
    data = row["data"]
    value = arguments(data) if isinstance(data, str | bytes) else None
    if not isinstance(value, dict):
        notes.add("bad_line")
        return None
    return value | {"id": row["id"]}


def read_folder(source: Source, notes: ReadNotes) -> Iterator[Item]:
    """All sessions of the folder in the order of their names, which is that of their creation.

    Raises:
        TranscriptError: It is no storage folder.
    """
    folder = storage_folder(source)
    if folder is None:
        raise TranscriptError(source.label, "no opencode storage: no session, message and part folders")
    names = [
        (path.stem, path)
        for project in _listed(folder / "session", source, notes, folders=True)
        for path in _listed(project, source, notes)
    ]
    taken: set[str] = set()
    for stream, path in sorted(names):
        info = _loaded(path, source, notes)
        if info is None or stream in taken:
            continue
        taken.add(stream)
        yield start(info, stream)
        session = Session(stream, notes, revert=info.get("revert"))
        loaded = [
            (file.stem, message)
            for file in _listed(folder / "message" / stream, source, notes)
            if (message := _loaded(file, source, notes)) is not None
        ]
        loaded.sort(
            key=lambda named: (seconds(mapping(named[1].get("time")).get("created")) or 0.0, named[0])
        )
        for name, message in loaded:
            parts = [
                part | {"id": file.stem}
                for file in _listed(folder / "part" / name, source, notes)
                if (part := _loaded(file, source, notes)) is not None
            ]
            yield from session.message(message | {"id": name}, parts)
        yield from session.finish()


def _listed(folder: Path, source: Source, notes: ReadNotes, *, folders: bool = False) -> list[Path]:
    """JSON files (or folders) right in a folder, sorted by name; links are not followed."""
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


def _loaded(path: Path, source: Source, notes: ReadNotes) -> dict[str, Any] | None:
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
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        notes.add("bad_line")
        return None
    return value
