"""Where opencode keeps its sessions: a folder with a JSON file a part, or since 2026 a SQLite database.

The folder is `storage/{session/<project>/<session>, message/<session>/<message>,
part/<message>/<part>}.json`; names of files and folders say what belongs together, as in the program's own
move to the database (`packages/opencode/src/storage/json-migration.ts`). Tables: `session.sql.ts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.fields import mapping
from loopwarden.transcripts.json_folder import listed, loaded
from loopwarden.transcripts.opencode_session import Session
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


def is_storage(source: Source) -> bool:
    """Whether the source is the storage folder; never raises."""
    try:
        return source.path is not None and all((source.path / name).is_dir() for name in _FOLDERS)
    except OSError:
        return False


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
            session = Session(stream, notes, revert=arguments(row.get("revert")))
            yield session.start(info | {"model": arguments(row.get("model"))})
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
    folder = source.path
    if folder is None or not is_storage(source):
        raise TranscriptError(source.label, "no opencode storage: no session, message and part folders")
    names = [
        (path.stem, path)
        for project in listed(folder / "session", source, notes, folders=True)
        for path in listed(project, source, notes)
    ]
    taken: set[str] = set()
    for stream, path in sorted(names):
        info = loaded(path, source, notes)
        if info is None or stream in taken:
            continue
        taken.add(stream)
        session = Session(stream, notes, revert=info.get("revert"))
        yield session.start(info)
        messages = [
            (file.stem, message)
            for file in listed(folder / "message" / stream, source, notes)
            if (message := loaded(file, source, notes)) is not None
        ]
        messages.sort(
            key=lambda named: (seconds(mapping(named[1].get("time")).get("created")) or 0.0, named[0])
        )
        for name, message in messages:
            parts = [
                part | {"id": file.stem}
                for file in listed(folder / "part" / name, source, notes)
                if (part := loaded(file, source, notes)) is not None
            ]
            yield from session.message(message | {"id": name}, parts)
        yield from session.finish()
