"""Traces after the OpenInference conventions: Phoenix exports, OTLP, and the TRAIL layout.

A call is a span of kind `TOOL`; model spans hold messages under numbered names. Code agents have no
tool spans and no calls in their messages: what they run stands in the model's text only.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts import openai_chat
from loopwarden.transcripts.documents import opening
from loopwarden.transcripts.fields import mapping, money
from loopwarden.transcripts.messages import exchanged, tool_output
from loopwarden.transcripts.span_records import SpanRecord, parsed, records_in, span_records
from loopwarden.transcripts.spans import Role, Span, replay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.messages import Exchange, Message
    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

_ROLES: dict[str, Role] = {"TOOL": "tool", "LLM": "model", "AGENT": "agent"}
_MESSAGE = re.compile(r"llm\.(input|output)_messages\.(\d{1,6})\.message\.(.+)", re.ASCII)
_TOOL_CALL = re.compile(
    r"tool_calls\.(\d{1,6})\.tool_call\.(id|function\.name|function\.arguments)", re.ASCII
)
_CALL_ID = re.compile(r"\s*\b(?:tool_call_id|id)='[^']*'")
_SMOLAGENTS = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})
_SEEN_BY_SNIFF = 50


def _kind(record: SpanRecord) -> str:
    return (record.text("openinference.span.kind") or record.kind or "").upper()


def _span(record: SpanRecord) -> Span:
    role = _ROLES.get(_kind(record), "other")
    span = Span(
        span_id=record.span_id,
        parent=record.parent,
        trace=record.trace,
        thread=record.text("session.id"),
        role=role,
        name=record.name or "(no name)",
        start=record.start,
        end=record.end,
    )
    if role == "tool":
        span.name = record.text("tool.name") or span.name
        given = record.first("input.value", "tool.parameters")
        span.call_id = record.text("tool_call.id", "tool.id")
        span.has_arguments = given is not None
        span.arguments = _arguments(parsed(given))
        span.outcome = _outcome(record)
        return span
    span.usage = record.usage(("llm.token_count.prompt",), ("llm.token_count.completion",))
    span.cached = record.tokens("llm.token_count.prompt_details.cache_read")
    span.cost = money(record.first("llm.cost.total"))
    span.asked = record.parent is None and record.text("input.value") is not None
    if role == "model":
        span.name = record.text("llm.model_name") or ""
        span.exchange = _exchange(record)
    elif role == "agent":
        span.name = record.text("agent.name") or span.name
    return span


def _arguments(given: Any) -> Any:
    """Arguments without the switch that smolagents records with them."""
    if isinstance(given, dict) and given.keys() == _SMOLAGENTS:
        return {"args": given["args"], "kwargs": given["kwargs"]}
    return given


def _outcome(record: SpanRecord) -> tuple[object, str | None] | None:
    given = parsed(record.first("output.value"))
    if given is None:
        return None if record.error is None else (None, record.error)
    message = mapping(given)
    if isinstance(message.get("output"), dict):
        message = message["output"]
    failed = record.error is not None
    if "tool_call_id" in message and "content" in message:  # a message of LangChain around the result
        failed = failed or message.get("status") == "error"
        given = message["content"]
    elif isinstance(given, str) and given.startswith("content="):  # the same, as Python prints it
        given = _CALL_ID.sub("", given)
    return tool_output(given, is_error=failed), None


def _exchange(record: SpanRecord) -> Exchange | None:
    found: dict[str, dict[int, dict[str, Any]]] = {"input": {}, "output": {}}
    for name, value in record.attributes.items():
        match = _MESSAGE.fullmatch(name)
        if match is not None and not isinstance(value, dict | list):
            side, place, key = match.groups()
            found[side].setdefault(int(place), {})[key] = value
    told = [_message(fields) for _, fields in sorted(found["input"].items())]
    said = [_message({**fields, "role": "assistant"}) for _, fields in sorted(found["output"].items())]
    return exchanged(told, said, start=record.start, end=record.end)


def _message(fields: dict[str, Any]) -> Message:
    calls: dict[int, dict[str, Any]] = {}
    texts = []
    for name, value in fields.items():
        match = _TOOL_CALL.fullmatch(name)
        if match is not None:
            calls.setdefault(int(match[1]), {})[match[2]] = value
        elif name.startswith("contents.") and name.endswith(".message_content.text"):
            texts.append({"type": "text", "text": value})
    tool_calls = [
        {
            "id": call.get("id"),
            "function": {"name": call.get("function.name"), "arguments": call.get("function.arguments")},
        }
        for _, call in sorted(calls.items())
    ]
    return openai_chat.message({**fields, "content": fields.get("content", texts), "tool_calls": tool_calls})


class OpenInferenceReader:
    """Reads OpenInference traces."""

    name = "openinference"
    title = "OpenInference trace"

    def sniff(self, source: Source) -> bool:
        """Spans of which at least one has a kind after these conventions."""
        records = islice(records_in(opening(source)), _SEEN_BY_SNIFF)
        return any(
            "openinference.span.kind" in record.attributes or record.kind in {*_ROLES, "CHAIN", "RETRIEVER"}
            for record in records
        )

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        spans = [_span(record) for record in span_records(source, notes)]
        if not spans:
            raise TranscriptError(source.label, "holds no spans")
        return replay(spans, notes)


READER = OpenInferenceReader()
