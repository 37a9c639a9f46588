"""OpenClaw and pi sessions, versions 1 to 3: one JSON object a line, from version 2 on a tree of entries.

The live branch is the way from the last entry back to the root; what is not on it was abandoned. Only
the links between entries are kept in memory, so a file is gone through twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.transcripts.fields import elements, mapping, money, word
from loopwarden.transcripts.passes import Passes
from loopwarden.transcripts.shape import arguments, count, seconds, tool_result
from loopwarden.transcripts.stream import Stream, StreamNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

KNOWN_ENTRIES = frozenset({
    "session", "message", "compaction", "branch_summary", "custom", "custom_message", "model_change",
    "thinking_level_change", "label", "session_info",
})  # fmt: skip
"""Entry types of the format; all but `session`, `message` and `compaction` hold no event."""

VOLATILE_DETAILS = frozenset({
    "durationMs", "tookMs", "runtimeMs", "fetchedAt", "startedAt", "endedAt", "pid",
})  # fmt: skip
"""Details by which results differ that are otherwise equal."""


class OpenClawReader:
    """Sessions of OpenClaw and of the pi coding agent, whose format it is."""

    name = "openclaw"
    title = "OpenClaw or pi session"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        records = source.head_records
        if not records:
            return False
        head = records[0]
        if head.get("type") == "session" and "id" in head and ("cwd" in head or "timestamp" in head):
            return True
        # a file whose first line was lost or cut
        return any(
            record.get("type") == "message"
            and isinstance(record.get("message"), dict)
            and record["message"].get("role") in ("assistant", "toolResult", "user")
            and ("parentId" in record or record["message"].get("role") == "toolResult")
            for record in records
        )

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        passes = Passes(source)
        abandoned = _abandoned(passes.first())
        names = StreamNames()
        session = _Session(source.label, names, notes)
        for place, (line, record) in enumerate(passes.second(notes)):
            if place in abandoned:
                notes.add("abandoned_branch", line)
                continue
            if record.get("type") == "session" and session.begun:  # several files in one
                yield from session.finish()
                session = _Session(source.label, names, notes)
            yield from session.items(record, line)
        yield from session.finish()


READER = OpenClawReader()


def _abandoned(records: Iterable[dict[str, Any]]) -> set[int]:
    """Places of the entries that are not on the live branch of their session.

    An entry whose parent is not in the file is taken to follow the entry before it (its parent was on
    a damaged line), and one without an id belongs to the entry before it.
    """
    parents: list[int] = []  # place of the parent, -1 for none; always an earlier place
    places: dict[str, int] = {}
    heads = []
    for place, record in enumerate(records):
        if record.get("type") == "session":
            heads.append(place)
            places.clear()
            parents.append(-1)
            continue
        identity, parent = record.get("id"), record.get("parentId")
        above = places.get(parent, place - 1) if isinstance(parent, str) else place - 1
        parents.append(-1 if "parentId" in record and parent is None else above)
        if isinstance(identity, str):
            places[identity] = place
    abandoned = set(range(len(parents))).difference(heads)
    for end in (*(head for head in heads if head), len(parents)):
        place = end - 1
        while place in abandoned:
            abandoned.remove(place)
            place = parents[place]
    return abandoned


class _Session:
    """Turns the live entries of one file into items."""

    def __init__(self, label: str, names: StreamNames, notes: ReadNotes) -> None:
        self.begun = False
        self._stream = Stream("session", notes)
        self._names = names
        self._label = label
        self._notes = notes
        self._turns = 0
        self._failed: list[str] = []  # calls of a reply that ended in an error

    def items(self, record: dict[str, Any], line: int) -> Iterator[Item]:
        kind = word(record.get("type"))
        if not self.begun:
            yield self._start(record if kind == "session" else {})
        if kind == "message" and isinstance(record.get("message"), dict):
            yield from self._message(record, record["message"], line)
        elif kind == "compaction":
            yield self._stream.compaction(seconds(record.get("timestamp")))
        elif kind not in KNOWN_ENTRIES or kind == "message":
            self._notes.add("unknown_record", line)

    def finish(self) -> Iterator[Item]:
        if not self.begun:
            yield self._start({})
        self._stream.finish()

    def _start(self, head: dict[str, Any]) -> Item:
        self.begun = True
        identity = word(head.get("id"))
        self._stream = Stream(self._names.take(identity or "session"), self._notes)
        return self._stream.start(
            identity or self._label, parent=word(head.get("parentSession")), model=word(head.get("modelId"))
        )

    def _message(self, record: dict[str, Any], message: dict[str, Any], line: int) -> Iterator[Item]:
        at = seconds(record.get("timestamp"))
        if at is None:
            at = seconds(message.get("timestamp"))
        role = message.get("role")
        if role == "user":
            yield self._stream.user(at)
        elif role == "assistant":
            yield from self._reply(message, at, line)
        elif role == "toolResult":
            given, tool = message.get("toolCallId"), word(message.get("toolName"))
            yield from self._stream.result(given, _result(message), tool=tool, at=at, line=line)

    def _reply(self, message: dict[str, Any], at: float | None, line: int) -> Iterator[Item]:
        self._turns += 1
        yield from self._stream.retract(self._failed, at)  # the model was asked again
        self._failed = []
        for part in map(mapping, elements(message.get("content"))):
            if part.get("type") != "toolCall":
                continue
            tool = word(part.get("name"))
            if tool is None:
                self._notes.add("bad_line", line)
                continue
            asked, turn = arguments(part.get("arguments")), f"reply {self._turns}"
            yield self._stream.call(tool, asked, given=part.get("id"), turn=turn, at=at, line=line)
            if message.get("stopReason") == "error":
                self._failed.append(self._stream.latest)
        usage = mapping(message.get("usage"))
        read = count(usage.get("input")) + count(usage.get("cacheRead")) + count(usage.get("cacheWrite"))
        cost = money(mapping(usage.get("cost")).get("total"))
        written, cached = count(usage.get("output")), count(usage.get("cacheRead"))
        yield from self._stream.spent(read, written, cost, at, cached=cached)


def _result(message: dict[str, Any]) -> dict[str, Any]:
    """The result as the core reads it; it is of this shape already, but for what is volatile.

    Some versions flag a failure only in `details.status`.
    """
    details = mapping(message.get("details"))
    return tool_result(
        message.get("content"),
        is_error=message.get("isError") is True or details.get("status") == "error",
        details={name: value for name, value in details.items() if name not in VOLATILE_DETAILS},
    )
