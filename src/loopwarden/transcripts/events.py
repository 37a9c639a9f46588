"""The project's own format: one event a line, as described in `docs/reference/events.md`.

The only format that says everything the core can hear: runs, turns, retractions and continued runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.transcripts.fields import title_of, word
from loopwarden.transcripts.messages import json_text
from loopwarden.transcripts.model import Recorded, StreamStart
from loopwarden.transcripts.parsing import exact
from loopwarden.transcripts.shape import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.events import Event
    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

FIELDS: dict[str, frozenset[str]] = {
    "call": frozenset({"type", "stream", "run", "at", "id", "tool", "args", "turn"}),
    "outcome": frozenset({"type", "stream", "run", "at", "id", "result", "error", "unknown_tool", "always"}),
    "compaction": frozenset({"type", "stream", "run", "at", "continues"}),
    "user": frozenset({"type", "stream", "run", "at"}),
    "retract": frozenset({"type", "stream", "run", "at", "ids"}),
}
"""The fields of each type of event; others are passed over."""


class EventsReader:
    """Files of loopwarden events."""

    name = "events"
    title = "loopwarden events"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        records = source.head_records
        return bool(records) and all(
            isinstance(kind := record.get("type"), str)
            and kind in FIELDS
            and (record.keys() <= FIELDS[kind] or (kind == "call" and "tool" in record and "id" in record))
            for record in records
        )

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        decoder = Decoder(source.label)
        for line, record in source.records(notes, loads=exact):
            yield from decoder.items(record, notes, line)
        if not decoder.streams:
            yield StreamStart(stream="main", title=title_of(source.label))
        for calls in decoder.streams.values():
            for _ in calls.open:
                notes.add("call_without_result")


READER = EventsReader()


class Decoder:
    """Makes items of one file's or pipe's objects, given one by one.

    Attributes:
        streams: The calls of each stream so far.
    """

    def __init__(self, label: str) -> None:
        self.streams: dict[str, _Calls] = {}
        self._label = label

    def items(self, record: dict[str, Any], notes: ReadNotes, line: int) -> Iterator[Item]:
        """What one object says; where it says nothing that can be used, `notes` has why."""
        kind = word(record.get("type"))
        if kind is None or kind not in FIELDS:
            notes.add("unknown_record", line)
            return
        name = word(record.get("stream"))
        stream = name or "main"
        if stream not in self.streams:
            self.streams[stream] = _Calls()
            yield StreamStart(stream=stream, title=title_of(name, self._label))
        for event in _events(kind, record, self.streams[stream], notes, line):
            yield Recorded(stream, event)


@dataclass(slots=True)
class _Calls:
    """The calls of one stream."""

    open: set[str] = field(default_factory=set)
    runs: dict[str, str] = field(default_factory=dict)  # run of each call that has one


def _events(kind: str, record: dict[str, Any], calls: _Calls, notes: ReadNotes, line: int) -> Iterator[Event]:
    at = seconds(record.get("at"))
    run = word(record.get("run"))
    if kind == "user":
        yield UserMessage(run_id=run, at=at)
    elif kind == "compaction":
        yield Compaction(run_id=run, continues=word(record.get("continues")), at=at)
    elif kind == "retract":
        yield from _retractions(record, calls, notes, line)
    else:
        call_id = word(record.get("id"))
        tool = word(record.get("tool"))
        if call_id is None or (kind == "call" and tool is None):
            notes.add("bad_line", line)
        elif kind == "call":
            calls.open.add(call_id)
            calls.runs.pop(call_id, None)
            if run is not None:
                calls.runs[call_id] = run
            yield ToolCall(
                tool=str(tool),
                arguments=record.get("args"),
                call_id=call_id,
                run_id=run,
                turn_id=word(record.get("turn")),
                at=at,
            )
        elif call_id not in calls.open:
            notes.add("result_without_call", line)
        else:
            calls.open.discard(call_id)
            error, unknown = record.get("error"), record.get("unknown_tool")
            yield Outcome(
                call_id=call_id,
                result=record.get("result"),
                error=error if error is None or isinstance(error, str) else json_text(error),
                unknown_tool=word(unknown),
                run_id=run if run is not None else calls.runs.get(call_id),
                at=at,
            )


def _retractions(record: dict[str, Any], calls: _Calls, notes: ReadNotes, line: int) -> Iterator[Retraction]:
    """One event a run; without `run` each call is taken back in its own."""
    ids, run = record.get("ids"), word(record.get("run"))
    if not isinstance(ids, list):
        notes.add("bad_line", line)
        return
    by_run: dict[str | None, list[str]] = {}
    for call_id in filter(None, map(word, ids)):
        calls.open.discard(call_id)
        by_run.setdefault(run if run is not None else calls.runs.get(call_id), []).append(call_id)
    for of_run, call_ids in by_run.items():
        yield Retraction(call_ids=tuple(call_ids), run_id=of_run, at=seconds(record.get("at")))
