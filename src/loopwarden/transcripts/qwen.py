"""Qwen Code sessions (`~/.qwen/projects/<folder>/chats/<session>.jsonl`): one record a line, a tree.

The live branch is the way from the last record back to the root (`parentUuid`); a rewind leaves the records
that were taken back beside it. Records of sub-agents carry an `agentId` and are streams of their own.
Source: QwenLM/qwen-code `packages/core/src/services/chatRecordingService.ts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.transcripts import gemini_content as content
from loopwarden.transcripts.fields import mapping, word
from loopwarden.transcripts.shape import arguments, count, seconds
from loopwarden.transcripts.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

    Line = tuple[int, dict[str, Any]]

PERSON_SUBTYPES = frozenset({"mid_turn_user_message", "at_command"})
"""Subtypes of user records that a person wrote; others (`notification`, `cron`, ...) are the program's."""

RECORD_TYPES = frozenset({"user", "assistant", "tool_result", "system"})


class QwenReader:
    """Sessions of Qwen Code."""

    name = "qwen-code"
    title = "Qwen Code session"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        return any(
            isinstance(record.get("sessionId"), str)
            and isinstance(record.get("type"), str)
            and record["type"] in RECORD_TYPES
            and isinstance(mapping(record.get("message")).get("parts"), list)
            for record in source.head_records
        )

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        streams: dict[str | None, list[Line]] = {}
        for line, record in source.records(notes, kept=True):
            kind = record.get("type")
            if not isinstance(kind, str) or kind not in RECORD_TYPES:
                notes.add("unknown_record", line)
                continue
            streams.setdefault(word(record.get("agentId")), []).append((line, record))
        main = streams.pop(None, [])
        session = next((name for _, record in main if (name := word(record.get("sessionId")))), None)
        names: list[tuple[str, str | None, list[Line]]] = []
        if main or not streams:
            names.append((session or "session", None, main))
        names += [(f"agent {agent}", session, lines) for agent, lines in streams.items() if agent]
        for name, parent, lines in names:
            stream = Stream(name, notes)
            yield from _session(stream, parent if main else None, lines, source.label, notes)


READER = QwenReader()


def _live(lines: list[Line]) -> set[int]:
    """Places of the records on the live branch.

    A record without `parentUuid`, or whose parent was lost, follows the record before it; an explicit
    `null` is a root. Records of the program at the end that hang on nothing (a title) don't end a branch.
    """
    parents: list[int] = []
    places: dict[str, int] = {}
    for place, (_, record) in enumerate(lines):
        parent = record.get("parentUuid")
        above = places.get(parent, place - 1) if isinstance(parent, str) else place - 1
        root = (parent is None and "parentUuid" in record) or (
            record.get("subtype") == "rewind" and not (isinstance(parent, str) and parent in places)
        )
        parents.append(-1 if root else above)
        identity = record.get("uuid")
        if isinstance(identity, str):
            places.setdefault(identity, place)
    live: set[int] = set()
    place = len(lines) - 1
    while place > 0 and lines[place][1]["type"] == "system" and not lines[place][1].get("parentUuid"):
        live.add(place)
        place -= 1
    while place >= 0 and place not in live:
        live.add(place)
        place = parents[place]
    return live


def _session(
    stream: Stream, parent: str | None, lines: list[Line], label: str, notes: ReadNotes
) -> Iterator[Item]:
    live = _live(lines)
    title = next(
        (
            mapping(record.get("systemPayload")).get("customTitle")
            for _, record in reversed(lines)
            if record.get("subtype") == "custom_title"
        ),
        None,
    )
    yield stream.start(
        title,
        stream.id if stream.id != "session" else label,
        parent=parent,
        agent=next((name for _, record in lines if (name := word(record.get("agentName")))), "Qwen Code"),
        model=next((model for _, record in lines if (model := word(record.get("model")))), None),
    )
    for place, (line, record) in enumerate(lines):
        if place not in live:
            if record.get("type") != "system":
                notes.add("abandoned_branch", line)
            continue
        if record.get("forkedFrom"):
            notes.add("copied_history", line)
            continue
        at = seconds(record.get("timestamp"))
        kind, subtype, message = record["type"], record.get("subtype"), record.get("message")
        if kind == "assistant":
            turn = word(record.get("uuid")) or f"line {line}"
            for tool, call in content.calls(message):
                asked = arguments(call.get("args"))
                yield stream.call(tool, asked, given=call.get("id"), turn=turn, at=at, line=line)
            yield from _spent(stream, mapping(record.get("usageMetadata")), at)
        elif kind == "tool_result":
            yield from _results(stream, record, at, line)
        elif kind == "system" and subtype == "chat_compression":
            yield stream.compaction(at)
        elif kind == "user" and _by_a_person(subtype) and content.has_text(message):
            yield stream.user(at)
    stream.finish()


def _by_a_person(subtype: object) -> bool:
    return subtype is None or (isinstance(subtype, str) and subtype in PERSON_SUBTYPES)


def _results(stream: Stream, record: dict[str, Any], at: float | None, line: int) -> Iterator[Item]:
    told = mapping(record.get("toolCallResult"))
    failed = told.get("status") in ("error", "cancelled")
    answers = [
        (response.get("id"), response.get("name"), [{"functionResponse": response}])
        for response in content.responses(record.get("message"))
    ]
    if not answers:  # some versions keep the text only
        shown = content.parts(record.get("message")) or content.parts(told.get("result"))
        answers = [(None, told.get("name"), shown)]
    for call_id, name, shown in answers:
        tool = word(name) or ""
        answer = content.result_of(tool, shown, failed=failed)
        given = word(call_id) or word(told.get("callId"))
        yield from stream.result(given, answer.result, error=answer.error, tool=tool, at=at, line=line)


def _spent(stream: Stream, usage: dict[str, Any], at: float | None) -> Iterable[Item]:
    read = count(usage.get("promptTokenCount")) + count(usage.get("toolUsePromptTokenCount"))
    written = count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount"))
    return stream.spent(read, written, at=at, cached=count(usage.get("cachedContentTokenCount")))
