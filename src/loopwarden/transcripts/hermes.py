"""Hermes agent: `hermes sessions export` (a session a line) and its database `state.db`.

A compression ends a session and begins another with `parent_session_id`, or (in place) marks the rows that
were summarised `compacted` and writes the summary and the rows that stay as new rows; both copy rows that
were there before. Rows that are neither active nor compacted were taken back. Sub-agents and branches
have a parent too, told by `end_reason` of the parent and marks in `model_config`. Source:
NousResearch/hermes-agent `hermes_state_common.py`.
"""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from loopwarden.transcripts.chat_calls import chat_calls
from loopwarden.transcripts.fields import mapping, money, word
from loopwarden.transcripts.hermes_trajectory import is_trajectory, read_trajectories, result_of
from loopwarden.transcripts.shape import arguments, count, seconds
from loopwarden.transcripts.sqlite_file import looks_like, open_database
from loopwarden.transcripts.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

SESSION_COLUMNS = (
    "id", "source", "model", "model_config", "parent_session_id", "title", "started_at", "ended_at",
    "end_reason", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
    "reasoning_tokens", "actual_cost_usd", "estimated_cost_usd",
)  # fmt: skip
MESSAGE_COLUMNS = (
    "id", "role", "content", "tool_call_id", "tool_calls", "tool_name", "timestamp", "active", "compacted",
    "_compressed_summary", "display_kind",
)  # fmt: skip

NO_CONTINUATION = ("_branched_from", "_delegate_from", "_reset_from")
"""Marks in `model_config` of a child session that is no continuation after a compression."""

_EXPORT_HEAD = re.compile(rb'\s*\{\s*"id"\s*:\s*"[^"]*",\s*"source"\s*:')


class HermesReader:
    """Sessions of Hermes agent."""

    name = "hermes"
    title = "Hermes agent session"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`. For a database the tables are looked at."""
        if source.kind == "sqlite":
            return looks_like(
                source,
                sessions=("id", "parent_session_id", "started_at"),
                messages=("id", "session_id", "role", "tool_calls", "tool_call_id"),
            )
        return source.kind == "text" and (_is_export(source) or is_trajectory(source))

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        if source.kind == "sqlite":
            return _database(source, notes)
        return _export(source, notes) if _is_export(source) else read_trajectories(source, notes)


READER = HermesReader()


def _is_export(source: Source) -> bool:
    for record in source.head_records[:1]:
        return "parent_session_id" in record and "started_at" in record and "messages" in record
    head = source.head
    return bool(_EXPORT_HEAD.match(head)) and b'"parent_session_id"' in head and b'"started_at"' in head


def _export(source: Source, notes: ReadNotes) -> Iterator[Item]:
    lineage = _Lineage()
    for line, session in source.records(notes):
        stream = word(session.get("id"))
        messages = session.get("messages")
        if stream is None or not isinstance(messages, list) or stream in lineage:
            notes.add("replaced_record" if stream in lineage else "unknown_record", line)
            continue
        rows = []
        for row in messages:
            if isinstance(row, dict):
                rows.append(row)
            else:
                notes.add("bad_line", line)
        yield from _session(session, stream, rows, lineage, notes)


def _database(source: Source, notes: ReadNotes) -> Iterator[Item]:
    lineage = _Lineage()
    with open_database(source) as database:
        for session in database.rows("sessions", SESSION_COLUMNS, where=None, order=("started_at", "id")):
            stream = word(session["id"])
            if stream is None or stream in lineage:
                notes.add("bad_line")
                continue
            rows = database.rows(
                "messages", MESSAGE_COLUMNS, where=("session_id", session["id"]), order=("id",)
            )
            yield from _session(session, stream, rows, lineage, notes)


class _Lineage:
    """What is kept of each session for its children: how it ended, and digests of its rows."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[bool, object]] = {}
        self._rows: dict[str, set[bytes]] = {}

    def __contains__(self, stream: str | None) -> bool:
        return stream in self._ends

    def add(self, session: dict[str, Any], stream: str, rows: set[bytes]) -> None:
        self._ends[stream] = "end_reason" in session, session.get("end_reason")
        self._rows[stream] = rows

    def continues(self, session: dict[str, Any]) -> bool:
        """Whether the session goes on where its parent was compressed, as far as the file tells."""
        parent = word(session.get("parent_session_id"))
        if parent is None or session.get("source") in ("tool", "subagent"):
            return False
        told, reason = self._ends.get(parent, (False, None))
        if told:
            return reason in ("compression", "compaction")
        config = mapping(arguments(session.get("model_config")))
        return not any(config.get(mark) for mark in NO_CONTINUATION)

    def rows_of(self, parent: str | None) -> set[bytes]:
        return self._rows.get(parent or "", set())


def _session(
    session: dict[str, Any],
    name: str,
    rows: Iterable[dict[str, Any]],
    lineage: _Lineage,
    notes: ReadNotes,
) -> Iterator[Item]:
    parent = word(session.get("parent_session_id"))
    stream = Stream(name, notes)
    yield stream.start(
        session.get("title"), parent=parent, agent="Hermes agent", model=word(session.get("model"))
    )
    known: set[bytes] = set()
    copied: set[bytes] = set()  # rows that may come again until the first call after a compression
    resuming = lineage.continues(session)
    if resuming:
        copied |= lineage.rows_of(parent)
        yield stream.compaction(seconds(session.get("started_at")))
    compacted = False
    for row in rows:
        if row.get("active", 1) in (0, False) and not row.get("compacted"):
            notes.add("abandoned_branch")
            continue
        boundary = bool(row.get("_compressed_summary")) or (compacted and not row.get("compacted"))
        if boundary and not resuming:
            resuming = True
            copied |= known
            yield stream.compaction(seconds(row.get("timestamp")))
        compacted = bool(row.get("compacted"))
        digest = _digest(row)
        if digest in copied:
            notes.add("copied_history")
            continue
        known.add(digest)
        if row.get("role") == "assistant" and row.get("tool_calls"):
            resuming = False
            copied.clear()
        yield from _row(stream, row, notes)
    lineage.add(session, name, known)
    yield from _spent(session, stream)
    stream.finish()


def _digest(row: dict[str, Any]) -> bytes:
    """Equal for a row and its copy: calls and the ids of results tell rows apart, elsewhere the time does.

    A compression may shorten a result, so the text of a result with an id does not count.
    """
    told: list[object] = [row.get("role")]
    if row.get("tool_calls"):
        told.append(arguments(row["tool_calls"]))
    elif row.get("tool_call_id"):
        told.append(row["tool_call_id"])
    else:
        told += [row.get("content"), row.get("timestamp")]
    try:
        text = json.dumps(told, sort_keys=True, default=repr)
    except RecursionError:  # too deep to be written out
        text = f"{word(row.get('role'))} at {seconds(row.get('timestamp'))}"
    return blake2b(text.encode(), digest_size=16).digest()


def _row(stream: Stream, row: dict[str, Any], notes: ReadNotes) -> Iterator[Item]:
    role = row.get("role")
    at = seconds(row.get("timestamp"))
    if role == "user":
        by_program = row.get("_compressed_summary") or row.get("display_kind") == "hidden"
        if row.get("content") and not by_program:
            yield stream.user(at)
    elif role == "assistant":
        for call in chat_calls(arguments(row.get("tool_calls")), notes):
            turn = word(row.get("id"))
            yield stream.call(call.tool, call.arguments, given=call.call_id, turn=turn, at=at)
    elif role == "tool":
        tool = word(row.get("tool_name"))
        result = result_of(tool, row.get("content"))
        yield from stream.result(row.get("tool_call_id"), result, tool=tool, at=at)
    elif role not in ("system", "session_meta", "developer"):
        notes.add("unknown_record")


def _spent(session: dict[str, Any], stream: Stream) -> Iterable[Item]:
    """Tokens are kept for the session as a whole."""
    read = sum(count(session.get(f"{kind}_tokens")) for kind in ("input", "cache_read", "cache_write"))
    written = count(session.get("output_tokens"))
    cost = money(session.get("actual_cost_usd"))
    cost = cost if cost is not None else money(session.get("estimated_cost_usd"))
    cached = count(session.get("cache_read_tokens"))
    return stream.spent(read, written, cost, seconds(session.get("ended_at")), cached=cached)
