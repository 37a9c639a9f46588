"""opencode: `opencode export`, `opencode run --format json`, its storage folder and its database."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.fields import elements, mapping, numbered, word
from loopwarden.transcripts.opencode_session import Session
from loopwarden.transcripts.opencode_storage import is_database, is_storage, read_database, read_folder
from loopwarden.transcripts.shape import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

RUN_TYPES = frozenset({"tool_use", "step_start", "step_finish", "text", "reasoning", "error", "done"})
"""Types of the lines of `opencode run --format json`."""

_EXPORT_HEAD = re.compile(rb'\s*\{\s*"info"\s*:\s*\{\s*"id"\s*:\s*"ses_')


class OpencodeReader:
    """All containers of opencode sessions."""

    name = "opencode"
    title = "opencode session"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`. For a folder and a database the layout is looked at."""
        if source.kind == "folder":
            return is_storage(source)
        if source.kind == "sqlite":
            return is_database(source)
        return source.kind == "text" and (_is_run(source) or _is_export(source))

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        if source.kind == "folder":
            return read_folder(source, notes)
        if source.kind == "sqlite":
            return read_database(source, notes)
        return _run(source, notes) if _is_run(source) else _export(source, notes)


READER = OpencodeReader()


def _is_run(source: Source) -> bool:
    return any(
        isinstance(record.get("sessionID"), str)
        and isinstance(record.get("type"), str)
        and record["type"] in RUN_TYPES
        and "timestamp" in record
        for record in source.head_records
    )


def _is_export(source: Source) -> bool:
    first = source.first
    if isinstance(first, dict):
        identity = mapping(first.get("info")).get("id")
        return isinstance(identity, str) and "role" not in first["info"] and "messages" in first
    return _EXPORT_HEAD.match(source.head) is not None


def _export(source: Source, notes: ReadNotes) -> Iterator[Item]:
    document = source.document()
    messages = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(messages, list):
        raise TranscriptError(source.label, "no opencode export: it has no list of messages")
    info = mapping(document.get("info"))
    stream = word(info.get("id")) or "session"
    told = [(mapping(message.get("info")), message) for _, message in numbered(messages, notes)]
    session = Session(stream, notes, revert=info.get("revert"))
    yield session.start(
        info, next((model for about, _ in told if (model := word(about.get("modelID")))), None)
    )
    for about, message in told:
        if not about:
            notes.add("bad_line")
            continue
        yield from session.message(
            about, [part for _, part in numbered(elements(message.get("parts")), notes)]
        )
    yield from session.finish()


def _run(source: Source, notes: ReadNotes) -> Iterator[Item]:
    """One line an event; a reply ends with `step_finish`, and its calls share the message."""
    sessions: dict[str, Session] = {}
    done: set[tuple[str, str]] = set()  # a tool part is told once, when it is over
    for line, record in source.records(notes):
        stream, kind = word(record.get("sessionID")), record.get("type")
        if stream is None or not isinstance(kind, str) or kind not in RUN_TYPES:
            notes.add("unknown_record", line)
            continue
        if stream not in sessions:
            sessions[stream] = Session(stream, notes)
            yield sessions[stream].start({})
        part: dict[str, Any] = mapping(record.get("part"))
        if not part:
            if kind not in ("error", "done"):
                notes.add("bad_line", line)
            continue
        identity = word(part.get("id"))
        if kind == "tool_use" and identity is not None:
            if (stream, identity) in done:
                notes.add("replaced_record", line)
                continue
            done.add((stream, identity))
        turn = word(part.get("messageID")) or f"line {line}"
        yield from sessions[stream].part(part, turn, seconds(record.get("timestamp")), line=line)
    for session in sessions.values():
        yield from session.finish()
