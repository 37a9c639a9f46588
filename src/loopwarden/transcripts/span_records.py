"""Spans as the OpenTelemetry family writes them down, made alike.

OTLP JSON (documents and lines), the JSON of the OpenTelemetry SDKs, Phoenix exports and nested
`child_spans` differ in names and in how attributes are written; their meaning is the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from loopwarden.transcripts.documents import containers
from loopwarden.transcripts.fields import elements, mapping, word
from loopwarden.transcripts.shape import count, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import ReadNotes
    from loopwarden.transcripts.source import Source

_INSIDE = (
    "resourceSpans", "resource_spans", "batches", "scopeSpans", "scope_spans",
    "instrumentationLibrarySpans", "spans", "data",
)  # fmt: skip
"""Keys of the containers around spans, from the outside in."""

_MAX_NESTING = 64
_ERRORS = frozenset({"2", "error", "status_code_error"})
_DURATION = re.compile(r"P(?:(\d+)D)?T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecord:
    """One span as recorded.

    Attributes:
        span_id: Its id; empty if the record has none.
        parent: Id of the span around it.
        trace: Id of the trace.
        name: Name of the span.
        kind: What Phoenix has in a column of its own, as `TOOL`.
        start: Seconds since the epoch.
        end: The same.
        attributes: By their dotted name; values that are objects or lists also stand whole.
        error: Text of the error, `None` if the span did not fail.
        events: Name and attributes of each.
    """

    span_id: str
    parent: str | None
    trace: str
    name: str
    kind: str | None
    start: float | None
    end: float | None
    attributes: dict[str, Any]
    error: str | None
    events: tuple[tuple[str, dict[str, Any]], ...]

    def first(self, *names: str) -> Any:
        """The first of these attributes that is there and not `null`."""
        return next((self.attributes[name] for name in names if self.attributes.get(name) is not None), None)

    def text(self, *names: str) -> str | None:
        """The first of these attributes that is a text or a whole number."""
        return next((found for name in names if (found := word(self.attributes.get(name)))), None)

    def usage(self, read: tuple[str, ...], written: tuple[str, ...]) -> tuple[int, int] | None:
        """Tokens read and written under the first of these names; `None` if neither is told."""
        tokens = (self.first(*read), self.first(*written))
        return None if tokens == (None, None) else (_tokens(tokens[0]), _tokens(tokens[1]))

    def tokens(self, *names: str) -> int:
        """The number of tokens under the first of these names, 0 if none is told."""
        return _tokens(self.first(*names))


def span_records(source: Source, notes: ReadNotes) -> Iterator[SpanRecord]:
    """The spans of a file, in the order of the file.

    Raises:
        TranscriptError: The file can't be read.
    """
    for line, value in containers(source, notes):
        found = False
        for record in records_in(value):
            found = True
            yield record
        if not found:
            notes.add("unknown_record", line)


def records_in(value: Any) -> Iterator[SpanRecord]:
    """The spans in a JSON value, whatever is around them."""
    waiting: list[tuple[Any, SpanRecord | None]] = [(value, None)]
    while waiting:
        at, outer = waiting.pop()
        if isinstance(at, list):
            waiting.extend((each, outer) for each in reversed(at))
        elif isinstance(at, dict) and _is_span(at):
            record = _record(at, outer)
            yield record
            waiting.append((elements(at.get("child_spans")), record))
        elif isinstance(at, dict):
            waiting.append((next((at[key] for key in _INSIDE if isinstance(at.get(key), list)), None), outer))


def parsed(value: Any) -> Any:
    """An attribute that may hold JSON as text."""
    if isinstance(value, str) and value[:1] in {"{", "[", '"'}:
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _is_span(value: dict[str, Any]) -> bool:
    return any(key in value for key in ("spanId", "span_id", "context.span_id")) or "span_id" in mapping(
        value.get("context")
    )


def _record(value: dict[str, Any], outer: SpanRecord | None) -> SpanRecord:
    """A span; what it does not say itself it has from the span that it lies in."""
    context = mapping(value.get("context"))
    start = _time(value, "startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "timestamp")
    end = _time(value, "endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime")
    if end is None and start is not None and (lasted := _duration(value.get("duration"))) is not None:
        end = start + lasted
    given = value.get("attributes", value.get("span_attributes"))
    attributes = _attributes(given)
    for key, each in value.items():
        if key.startswith("attributes."):
            _flatten(key.removeprefix("attributes."), each, attributes)
    events = tuple(
        (word(event.get("name")) or word(event.get("Name")) or "", _attributes(inner))
        for event in map(mapping, elements(value.get("events")))
        if (inner := event.get("attributes") or event.get("Attributes") or event.get("body")) is not None
    )
    return SpanRecord(
        span_id=_named(value, "spanId", "span_id", "context.span_id") or word(context.get("span_id")) or "",
        parent=_named(value, "parentSpanId", "parent_span_id", "parent_id")
        or (outer.span_id if outer is not None else None),
        trace=_named(value, "traceId", "trace_id", "context.trace_id")
        or word(context.get("trace_id"))
        or (outer.trace if outer is not None else "trace"),
        name=_named(value, "name", "span_name") or "",
        kind=word(value.get("span_kind")),
        start=start,
        end=end,
        attributes=attributes,
        error=_error(value, attributes, events),
        events=events,
    )


def _error(
    value: dict[str, Any], attributes: dict[str, Any], events: tuple[tuple[str, dict[str, Any]], ...]
) -> str | None:
    status = mapping(value.get("status"))
    code = word(status.get("code")) or word(status.get("status_code")) or word(value.get("status_code")) or ""
    kind = word(attributes.get("error.type"))
    if code.lower().removeprefix("statuscode.") not in _ERRORS and kind is None:
        return None
    told = word(status.get("message")) or word(status.get("description")) or word(value.get("status_message"))
    raised = next(
        (word(inner.get("exception.message")) for name, inner in events if name == "exception"), None
    )
    return told or raised or kind or "error"


def _named(value: dict[str, Any], *keys: str) -> str | None:
    return next((found for key in keys if (found := word(value.get(key)))), None)


def _time(value: dict[str, Any], *keys: str) -> float | None:
    return next((found for key in keys if (found := seconds(value.get(key))) is not None), None)


def _duration(value: Any) -> float | None:
    """An ISO 8601 duration in seconds."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    return sum(
        float(part or 0) * unit for part, unit in zip(match.groups(), (86_400, 3_600, 60, 1), strict=True)
    )


def _tokens(value: Any) -> int:
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else 0  # noqa: PLR2004 - 64 bits
    return count(value)


def _attributes(given: Any) -> dict[str, Any]:
    """Attributes by dotted name, from an object or from the pairs of OTLP."""
    found: dict[str, Any] = {}
    if isinstance(given, list):
        for pair in map(mapping, given):
            if name := word(pair.get("key")):
                _flatten(name, _any_value(pair.get("value"), 0), found)
    for name, value in mapping(given).items():
        _flatten(name, value, found)
    return found


def _flatten(name: str, value: Any, into: dict[str, Any], depth: int = 0) -> None:
    into.setdefault(name, value)
    if depth > 8:  # noqa: PLR2004 - the deepest name of the conventions has seven steps
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(f"{name}.{key}", inner, into, depth + 1)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            if isinstance(inner, dict):
                _flatten(f"{name}.{place}", inner, into, depth + 1)


def _any_value(value: Any, depth: int) -> Any:
    """An OTLP `AnyValue` as plain JSON; nested too deep, it is cut off."""
    given = mapping(value)
    if depth > _MAX_NESTING:
        return None
    for kind in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if kind in given:
            return given[kind]
    if "intValue" in given:
        number = given["intValue"]
        return _tokens(number) if isinstance(number, str) and number.isdigit() else number
    if "arrayValue" in given:
        values = elements(mapping(given["arrayValue"]).get("values"))
        return [_any_value(each, depth + 1) for each in values]
    if "kvlistValue" in given:
        pairs = map(mapping, elements(mapping(given["kvlistValue"]).get("values")))
        return {
            name: _any_value(pair.get("value"), depth + 1)
            for pair in pairs
            if (name := word(pair.get("key")))
        }
    return None
