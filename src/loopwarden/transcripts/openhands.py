"""OpenHands: events of V0 and of the V1 SDK.

V0: a JSON list, or `history` in the rows of `output.jsonl`. V1: JSON lines, a JSON list, or the `events`
folder of a conversation with a file an event.

A V0 event is an action or an observation; `cause` is the id of the action that is answered. A V1 event
names its class in `kind`. Sources: OpenHands/OpenHands `openhands/events/` and
OpenHands/software-agent-sdk `openhands-sdk/openhands/sdk/event/`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.documents import first_element
from loopwarden.transcripts.fields import elements, mapping, numbered, word
from loopwarden.transcripts.json_folder import listed, loaded
from loopwarden.transcripts.openhands_v0 import EventsV0
from loopwarden.transcripts.openhands_v1 import V1_KINDS, EventsV1
from loopwarden.transcripts.stream import Stream, StreamNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

_EVENT_FILE = re.compile(r"event-(\d{5,18})-[0-9a-fA-F-]{8,}\.json")
_ROW_HEAD = re.compile(rb'\s*\{\s*"instance_id"\s*:')
_V1_HEAD = re.compile(rb'\s*\{\s*"(id|kind|timestamp)"\s*:')


class OpenHandsReader:
    """Events of OpenHands, V0 and V1."""

    name = "openhands"
    title = "OpenHands events"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`. For a folder the names of its files are looked at."""
        if source.kind != "text":
            return source.kind == "folder" and _is_folder(source)
        if source.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            first = first_element(source.head)
            first = first[0] if isinstance(first, list) and first else first  # older pairs
            return _is_v0(first) or _is_v1(first)
        return _is_rows(source) or _has_v1_lines(source)

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        if source.kind == "folder":
            yield from _v1(_event_files(source, notes), source.label, notes)
        elif _is_rows(source):
            yield from _rows(source, notes)
        elif _has_v1_lines(source):
            yield from _v1(source.records(notes), source.label, notes)
        else:
            document = source.document()
            events = document.get("history") if isinstance(document, dict) else document
            if not isinstance(events, list):
                raise TranscriptError(source.label, "no OpenHands events: no list and no history")
            flat = _flat(events)
            if any(_is_v1(event) for event in flat[:50]):
                yield from _v1(numbered(flat, notes), source.label, notes)
            else:
                stream = Stream("main", notes)
                yield stream.start(source.label, agent="OpenHands")
                yield from _v0(stream, flat, {}, notes)


READER = OpenHandsReader()


def _is_v0(event: object) -> bool:
    if not isinstance(event, dict) or "source" not in event:
        return False
    return (isinstance(event.get("action"), str) and "args" in event) or (
        isinstance(event.get("observation"), str) and "content" in event
    )


def _is_v1(event: object) -> bool:
    return (
        isinstance(event, dict)
        and isinstance(event.get("kind"), str)
        and event["kind"] in V1_KINDS
        and "timestamp" in event
    )


def _is_rows(source: Source) -> bool:
    for record in source.head_records[:1]:
        events = _flat(elements(record.get("history")))
        return "instance_id" in record and any(_is_v0(event) or _is_v1(event) for event in events[:50])
    head = source.head
    return bool(_ROW_HEAD.match(head)) and b'"history"' in head and b'"action"' in head


def _has_v1_lines(source: Source) -> bool:
    if any(_is_v1(record) for record in source.head_records):
        return True
    # the first line is the system prompt with all tools, longer than what is looked at
    head = source.head
    return not source.head_records and bool(_V1_HEAD.match(head)) and b'"system_prompt"' in head[:4096]


def _is_folder(source: Source) -> bool:
    try:
        return source.path is not None and any(
            _EVENT_FILE.fullmatch(path.name) for path in source.path.iterdir()
        )
    except OSError:
        return False


def _event_files(source: Source, notes: ReadNotes) -> Iterator[tuple[int, dict[str, Any]]]:
    """The events with their numbers; numbers over 99999 are longer, so the names alone give no order."""
    if source.path is None or not _is_folder(source):
        raise TranscriptError(source.label, "no OpenHands conversation: no files of events")
    names = ((_EVENT_FILE.fullmatch(path.name), path) for path in listed(source.path, source, notes))
    files = sorted((int(match[1]), path) for match, path in names if match)
    for number, path in files:
        event = loaded(path, source, notes)
        if event is not None:
            yield number, event


def _flat(events: list[Any]) -> list[Any]:
    """The events; old files keep pairs of an action and its observation."""
    flat: list[Any] = []
    for event in events:
        if isinstance(event, list):
            flat += event
        else:
            flat.append(event)
    return flat


def _rows(source: Source, notes: ReadNotes) -> Iterator[Item]:
    """Each row of an evaluation is a stream, named after its task."""
    names = StreamNames()
    for line, row in source.records(notes):
        events = row.get("history")
        if not isinstance(events, list):
            notes.add("unknown_record", line)
            continue
        task = word(row.get("instance_id")) or f"line {line}"
        stream = Stream(names.take(task), notes)
        config = mapping(mapping(row.get("metadata")).get("llm_config"))
        yield stream.start(task, agent="OpenHands", model=word(config.get("model")))
        flat = _flat(events)
        if any(_is_v1(event) for event in flat[:50]):
            v1 = EventsV1(stream, notes)
            for _, event in numbered(flat, notes):
                yield from v1.event(event, None)
            v1.finish()
        else:
            yield from _v0(stream, flat, mapping(row.get("metrics")), notes)


def _v0(stream: Stream, events: list[Any], metrics: dict[str, Any], notes: ReadNotes) -> Iterator[Item]:
    v0 = EventsV0(stream, metrics, notes)
    for _, event in numbered(events, notes):
        yield from v0.event(event)
    yield from v0.finish()


def _v1(records: Iterator[tuple[int, dict[str, Any]]], label: str, notes: ReadNotes) -> Iterator[Item]:
    stream = Stream("main", notes)
    yield stream.start(label, agent="OpenHands")
    events = EventsV1(stream, notes)
    for line, record in records:
        yield from events.event(record, line)
    events.finish()
