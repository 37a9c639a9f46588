"""Langfuse traces with their observations: one, a list of them, one a line, or observations alone.

A call is an observation of type `TOOL`. Older SDKs wrote tools as `SPAN`: where a trace has no `TOOL`,
spans that bear the name of a tool which the model called are the calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts import openai_chat
from loopwarden.transcripts.documents import containers, opening
from loopwarden.transcripts.fields import elements, mapping, money, word
from loopwarden.transcripts.messages import Call, exchanged, tool_output
from loopwarden.transcripts.shape import count, seconds
from loopwarden.transcripts.span_records import parsed
from loopwarden.transcripts.spans import Role, Span, replay

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from loopwarden.transcripts.messages import Exchange, Message
    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

_ROLES: dict[str, Role] = {"TOOL": "tool", "GENERATION": "model", "AGENT": "agent"}
_TYPES = frozenset({*_ROLES, "SPAN", "EVENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"})


def _traces(value: Any, notes: ReadNotes, line: int | None) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """The traces in a value, each with its observations; observations alone have an empty trace."""
    waiting: list[Any] = [value]
    while waiting:
        at = waiting.pop()
        if isinstance(at, list):
            alone = [each for each in at if _is_observation(each)]
            if alone:
                yield {}, alone
            waiting.extend(each for each in reversed(at) if not _is_observation(each))
        elif _is_observation(at):
            yield {}, [at]
        elif isinstance(at, dict) and isinstance(at.get("observations"), list):
            inner = at.get("trace")
            yield (inner if isinstance(inner, dict) else at), at["observations"]
        elif isinstance(at, dict) and isinstance(at.get("data"), list):
            waiting.append(at["data"])
        else:
            notes.add("unknown_record", line)


def _is_observation(value: object) -> bool:
    return isinstance(value, dict) and word(value.get("type")) in _TYPES and "startTime" in value


def _spans(trace: dict[str, Any], observations: Sequence[Any], notes: ReadNotes) -> Iterator[Span]:
    trace_id = word(trace.get("id"))
    thread = word(trace.get("sessionId"))
    kept = [each for each in observations if isinstance(each, dict)]
    for _ in range(len(observations) - len(kept)):
        notes.add("unknown_record")
    by_trace: dict[str, list[tuple[Span, dict[str, Any]]]] = {}
    for each in kept:
        span = _span(each, trace_id, thread)
        by_trace.setdefault(span.trace, []).append((span, each))
    for pairs in by_trace.values():
        spans = [span for span, _ in pairs]
        if not any(span.role == "tool" for span in spans):
            called = _called(spans)
            for span, observation in pairs:
                if observation.get("type") == "SPAN" and span.name in called:
                    _as_tool(span, observation)
        if trace.get("input") is not None and not any(span.asked for span in spans):
            min(spans, key=lambda span: span.start or 0.0).asked = True
        yield from spans


def _span(observation: dict[str, Any], trace_id: str | None, thread: str | None) -> Span:
    kind = observation.get("type")
    role = _ROLES.get(kind, "other") if isinstance(kind, str) else "other"
    parent = word(observation.get("parentObservationId"))
    span = Span(
        span_id=word(observation.get("id")) or "",
        parent=parent,
        trace=word(observation.get("traceId")) or trace_id or "trace",
        thread=thread or word(observation.get("sessionId")),
        role=role,
        name=word(observation.get("name")) or "(no name)",
        start=seconds(observation.get("startTime")),
        end=seconds(observation.get("endTime")),
        asked=role != "tool" and parent is None and observation.get("input") is not None,
    )
    if role == "tool":
        _as_tool(span, observation)
        return span
    span.usage = _usage(observation)
    span.cached = _cached(observation)
    costs = mapping(observation.get("costDetails"))
    span.cost = next(
        (
            found
            for value in (costs.get("total"), observation.get("calculatedTotalCost"))
            if (found := money(value)) is not None
        ),
        None,
    )
    if role == "model":
        span.name = word(observation.get("model")) or ""
        span.exchange = _exchange(observation, span)
    return span


def _as_tool(span: Span, observation: dict[str, Any]) -> None:
    span.role = "tool"
    span.has_arguments = observation.get("input") is not None
    span.arguments = parsed(observation.get("input"))
    failed = observation.get("level") == "ERROR"
    output = parsed(observation.get("output"))
    if isinstance(output, dict) and "tool_call_id" in output and "content" in output:
        span.call_id = word(output["tool_call_id"])
        failed = failed or output.get("status") == "error"
        output = output["content"]
    if output is not None:
        span.outcome = (tool_output(output, is_error=failed), None)
    elif failed:
        span.outcome = (None, word(observation.get("statusMessage")) or "error")


def _usage(observation: dict[str, Any]) -> tuple[int, int] | None:
    told = mapping(observation.get("usageDetails")) or mapping(observation.get("usage"))
    read = told.get("input", told.get("promptTokens", told.get("prompt_tokens")))
    written = told.get("output", told.get("completionTokens", told.get("completion_tokens")))
    cached = sum(count(value) for key, value in told.items() if key.startswith("input_cache"))
    return (count(read) + cached, count(written)) if read or written else None


def _cached(observation: dict[str, Any]) -> int:
    told = mapping(observation.get("usageDetails"))
    return sum(
        count(told.get(name))
        for name in ("input_cache_read", "input_cached_tokens", "input_cache_read_input_tokens")
    )


def _exchange(observation: dict[str, Any], span: Span) -> Exchange | None:
    told = _messages(observation.get("input"))
    said = _messages(observation.get("output"), role="assistant")
    return exchanged(told, said, start=span.start, end=span.end)


def _messages(value: object, role: str | None = None) -> list[Message]:
    """Chat messages of a generation: a list, an object with a list, a completion, or one message."""
    given = parsed(value)
    if isinstance(given, dict):
        choices = [mapping(choice).get("message") for choice in elements(given.get("choices"))]
        given = given.get("messages") or choices or [given]
    return [
        openai_chat.message({**each, "role": role or each.get("role")})
        for each in elements(given)
        if isinstance(each, dict)
    ]


def _called(spans: Sequence[Span]) -> set[str]:
    """Names of the tools that the model called in these spans."""
    replies = [span.exchange.reply for span in spans if span.exchange is not None]
    steps = [step for reply in replies if reply is not None for step in reply.message.steps]
    return {step.tool for step in steps if isinstance(step, Call)}


class LangfuseReader:
    """Reads Langfuse traces."""

    name = "langfuse"
    title = "Langfuse trace"

    def sniff(self, source: Source) -> bool:
        """Traces with observations, or observations."""
        value = opening(source)
        if isinstance(value, dict) and isinstance(value.get("data"), list):
            value = value["data"]
        first = value[0] if isinstance(value, list) and value else value
        if _is_observation(first):
            return True
        observations = elements(mapping(first).get("observations"))
        return bool(observations) and _is_observation(observations[0])

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        spans: list[Span] = []
        for line, value in containers(source, notes):
            for trace, observations in _traces(value, notes, line):
                spans.extend(_spans(trace, observations, notes))
        if not spans:
            raise TranscriptError(source.label, "holds no observations")
        return replay(spans, notes)


READER = LangfuseReader()
