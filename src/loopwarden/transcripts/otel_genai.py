"""OpenTelemetry traces after the GenAI conventions, and those of the Vercel AI SDK.

A call is a span whose operation is `execute_tool` (Vercel: `ai.toolCall`); arguments and results are
opt-in. Where there are no such spans, model spans may hold the messages, as attributes or as events.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts import openai_chat, shape
from loopwarden.transcripts.documents import opening
from loopwarden.transcripts.fields import elements, mapping, word
from loopwarden.transcripts.messages import (
    Author,
    Call,
    Message,
    Result,
    Step,
    Words,
    exchanged,
    tool_output,
)
from loopwarden.transcripts.span_records import SpanRecord, parsed, records_in, span_records
from loopwarden.transcripts.spans import Role, Span, replay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.messages import Exchange
    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

_MODEL_OPERATIONS = frozenset({"chat", "generate_content", "text_completion"})
_MODEL_ENDS = (".doGenerate", ".doStream")
_THREADS = ("gen_ai.conversation.id", "session.id", "ai.telemetry.metadata.sessionId")
_ARGUMENTS = ("gen_ai.tool.call.arguments", "ai.toolCall.args", "tool_arguments")
_RESULTS = ("gen_ai.tool.call.result", "ai.toolCall.result", "tool_response")
_READ = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
)
_WRITTEN = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
)
_CACHED = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "ai.usage.cachedInputTokens",
)
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_SEEN_BY_SNIFF = 50


def _span(record: SpanRecord) -> Span:
    role = _role(record)
    span = Span(
        span_id=record.span_id,
        parent=record.parent,
        trace=record.trace,
        thread=record.text(*_THREADS),
        role=role,
        name=_name(record, role),
        start=record.start,
        end=record.end,
    )
    if role == "tool":
        given = record.first(*_ARGUMENTS)
        span.call_id = record.text("gen_ai.tool.call.id", "ai.toolCall.id")
        span.has_arguments = given is not None
        span.arguments = parsed(given)
        span.outcome = _outcome(record)
    else:
        span.usage = record.usage(_READ, _WRITTEN)
        span.cached = record.tokens(*_CACHED)
        if role == "model":
            span.exchange = _exchange(record)
    return span


def _role(record: SpanRecord) -> Role:
    operation = record.text("gen_ai.operation.name")
    vercel = record.text("ai.operationId") or ""
    if operation == "execute_tool" or vercel == "ai.toolCall":
        return "tool"
    if operation is None and not vercel and record.text("gen_ai.tool.name"):
        return "tool"
    if vercel:
        return "model" if vercel.endswith(_MODEL_ENDS) else "agent"
    if operation in _MODEL_OPERATIONS:
        return "model"
    return "agent" if operation == "invoke_agent" else "other"


def _name(record: SpanRecord, role: Role) -> str:
    names = {
        "tool": ("gen_ai.tool.name", "ai.toolCall.name"),
        "model": ("gen_ai.response.model", "gen_ai.request.model", "ai.model.id"),
        "agent": ("gen_ai.agent.name", "ai.telemetry.functionId"),
        "other": (),
    }
    found = record.text(*names[role])
    if found is not None or role == "model":
        return found or ""
    return record.name.removeprefix("execute_tool ").removeprefix("invoke_agent ") or "(no name)"


def _outcome(record: SpanRecord) -> tuple[object, str | None] | None:
    given = parsed(record.first(*_RESULTS))
    if given is not None:
        return tool_output(given, is_error=record.error is not None), None
    return None if record.error is None else (None, record.error)


def _exchange(record: SpanRecord) -> Exchange | None:
    """The messages of a model span; `None` if contents were left out."""
    told = [_message(each) for each in _listed(record, "gen_ai.input.messages", "ai.prompt.messages")]
    said = [_message(each) for each in _listed(record, "gen_ai.output.messages")]
    calls = _listed(record, "ai.response.toolCalls")
    if calls:
        said.append(
            _message(
                {"role": "assistant", "content": [{**mapping(each), "type": "tool-call"} for each in calls]}
            )
        )
    for name, event in record.events:
        if name == "gen_ai.choice":
            message = mapping(parsed(event.get("message")))
            given = event.get("tool_calls", message.get("tool_calls"))
            said.append(openai_chat.message({**message, "role": "assistant", "tool_calls": parsed(given)}))
        elif name in _EVENT_ROLES:
            told.append(_event_message(_EVENT_ROLES[name], event))
    return exchanged(told, said, start=record.start, end=record.end)


def _listed(record: SpanRecord, *names: str) -> list[dict[str, Any]]:
    events = (event for name, event in record.events if name == "gen_ai.client.inference.operation.details")
    values = [record.first(*names), *(event.get(name) for event in events for name in names)]
    return [each for value in values for each in elements(parsed(value)) if isinstance(each, dict)]


def _event_message(role: str, event: dict[str, Any]) -> Message:
    return openai_chat.message(
        {
            "role": role,
            "content": parsed(event.get("content")),
            "tool_calls": parsed(event.get("tool_calls")),
            "tool_call_id": event.get("id"),
        }
    )


def _message(item: dict[str, Any]) -> Message:
    """A message whose parts are typed; one without such parts is read as a chat message."""
    content = item.get("parts") if isinstance(item.get("parts"), list) else item.get("content")
    if not isinstance(content, list) or item.get("tool_calls"):
        return openai_chat.message(item)
    role = word(item.get("role")) or ""
    authors: dict[str, Author] = {"user": "user", "assistant": "model"}
    steps = [step for part in content if (step := _step(mapping(part), authors.get(role, "system")))]
    return Message(by_model=role == "assistant", steps=tuple(steps))


def _step(part: dict[str, Any], author: Author) -> Step | None:
    kind = (word(part.get("type")) or "").replace("-", "_")
    call_id = word(part.get("id")) or word(part.get("toolCallId"))
    tool = word(part.get("name")) or word(part.get("toolName"))
    if kind == "tool_call" and tool:
        given = next((part[key] for key in ("arguments", "args", "input") if part.get(key) is not None), None)
        return Call(tool=tool, arguments=shape.arguments(given), call_id=call_id)
    if kind in {"tool_call_response", "tool_result"}:
        given = next(
            (part[key] for key in ("response", "result", "output") if part.get(key) is not None), None
        )
        return Result(
            call_id=call_id, tool=tool, result=tool_output(given, is_error=part.get("isError") is True)
        )
    written = word(part.get("content")) or word(part.get("text"))
    return Words(author=author, text=written) if written and kind == "text" else None


class OTelGenAIReader:
    """Reads OpenTelemetry traces."""

    name = "otel-genai"
    title = "OpenTelemetry GenAI trace"

    def sniff(self, source: Source) -> bool:
        """OTLP of any kind, and other spans that have an attribute of these conventions."""
        value = opening(source)
        records = list(islice(records_in(value), _SEEN_BY_SNIFF))
        if not records or any("openinference.span.kind" in record.attributes for record in records):
            return False
        otlp = isinstance(value, dict) and not {"resourceSpans", "resource_spans"}.isdisjoint(value)
        return otlp or any(
            name.startswith(("gen_ai.", "ai.")) for record in records for name in record.attributes
        )

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        spans = [_span(record) for record in span_records(source, notes)]
        if not spans:
            raise TranscriptError(source.label, "holds no spans")
        return replay(spans, notes)


READER = OTelGenAIReader()
