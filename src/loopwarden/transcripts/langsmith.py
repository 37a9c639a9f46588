"""LangSmith runs: lines or a list, newest first as exported, or nested `child_runs`.

A call is a run of type `tool`. Its arguments are the inputs, or JSON text under the one key `input`;
its result is the output, often a message of LangChain around the content. `session_id` names the
project and says nothing about the conversation; `thread_id` in the metadata does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts import openai_chat, shape
from loopwarden.transcripts.documents import containers, opening
from loopwarden.transcripts.fields import elements, mapping, money, word
from loopwarden.transcripts.messages import (
    Author,
    Call,
    Message,
    Result,
    Step,
    Words,
    exchanged,
    plain_text,
    tool_output,
)
from loopwarden.transcripts.shape import count, seconds
from loopwarden.transcripts.spans import Role, Span, replay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.messages import Exchange
    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

_THREADS = ("thread_id", "conversation_id", "session_id")
"""Keys of the metadata that LangSmith itself groups traces by."""

_ROLES: dict[str, Role] = {"tool": "tool", "llm": "model"}
_AUTHORS: dict[str | None, Author] = {"human": "user", "ai": "model", "system": "system"}


def _runs(value: Any, notes: ReadNotes, line: int | None) -> Iterator[dict[str, Any]]:
    """The runs in a value, also those inside others."""
    waiting: list[Any] = [value]
    while waiting:
        at = waiting.pop()
        if isinstance(at, list):
            waiting.extend(reversed(at))
        elif isinstance(at, dict) and "run_type" in at:
            yield at
            waiting.append(elements(at.get("child_runs")))
        elif isinstance(at, dict) and isinstance(at.get("runs"), list):
            waiting.append(at["runs"])
        else:
            notes.add("unknown_record", line)


def _span(run: dict[str, Any], kinds: dict[str, str]) -> Span:
    kind = word(run.get("run_type")) or ""
    parent = word(run.get("parent_run_id"))
    # only a chain that starts a trace or runs inside a tool is an agent; all others are its parts
    agent = kind == "chain" and (parent is None or kinds.get(parent) == "tool")
    metadata = mapping(mapping(run.get("extra")).get("metadata"))
    run_id = word(run.get("id")) or ""
    span = Span(
        span_id=run_id,
        parent=parent,
        trace=word(run.get("trace_id")) or parent or run_id or "trace",
        thread=next((found for key in _THREADS if (found := word(metadata.get(key)))), None),
        role=_ROLES.get(kind, "agent" if agent else "other"),
        name=word(run.get("name")) or "(no name)",
        start=seconds(run.get("start_time")),
        end=seconds(run.get("end_time")),
        order=word(run.get("dotted_order")) or "",
        asked=agent and parent is None and bool(run.get("inputs")),
    )
    if kind == "tool":
        inputs = run.get("inputs")
        span.has_arguments = inputs is not None
        span.arguments = _arguments(inputs)
        _close(span, run)
    else:
        span.usage = _usage(run)
        told = mapping(mapping(run.get("outputs")).get("usage_metadata"))
        span.cached = count(mapping(told.get("input_token_details")).get("cache_read"))
        span.cost = money(run.get("total_cost"))
        if kind == "llm":
            span.name = word(metadata.get("ls_model_name")) or span.name
            span.exchange = _exchange(run, span)
    return span


def _arguments(inputs: object) -> object:
    if isinstance(inputs, dict) and inputs.keys() == {"input"}:
        return shape.arguments(inputs["input"])
    return inputs


def _close(span: Span, run: dict[str, Any]) -> None:
    """Set the outcome of a tool run, and the id of the call, which only its result tells."""
    outputs = run.get("outputs")
    error = word(run.get("error"))
    failed = error is not None or run.get("status") == "error"
    if isinstance(outputs, dict) and outputs.keys() == {"output"}:
        outputs = outputs["output"]
    message = _plain(outputs) if isinstance(outputs, dict) else {}
    if "content" in message and ("tool_call_id" in message or message.get("type") == "tool"):
        span.call_id = word(message.get("tool_call_id"))
        failed = failed or message.get("status") == "error"
        span.outcome = (tool_output(message["content"], is_error=failed), None)
    elif outputs is not None and outputs != {}:
        span.outcome = (tool_output(outputs, is_error=failed), None)
    elif failed:
        span.outcome = (None, error or "error")


def _usage(run: dict[str, Any]) -> tuple[int, int] | None:
    outputs = mapping(run.get("outputs"))
    told = mapping(outputs.get("usage_metadata"))
    read = run.get("prompt_tokens", told.get("input_tokens"))
    written = run.get("completion_tokens", told.get("output_tokens"))
    return (count(read), count(written)) if read or written else None


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message of LangChain without the wrapper of its serialisation."""
    return mapping(message["kwargs"]) if "kwargs" in message and "lc" in message else message


def _exchange(run: dict[str, Any], span: Span) -> Exchange | None:
    told = _messages(mapping(run.get("inputs")).get("messages"))
    outputs = mapping(run.get("outputs"))
    said = _messages([outputs["message"]] if "message" in outputs else outputs.get("messages"))
    if not said:
        said = _messages([mapping(choice).get("message") for choice in elements(outputs.get("choices"))])
    for batch in elements(outputs.get("generations"))[:1]:
        said = _messages(
            [mapping(each).get("message") for each in (batch if isinstance(batch, list) else [batch])]
        )
    return exchanged(told, said, start=span.start, end=span.end)


def _messages(value: object) -> list[Message]:
    given = elements(value)
    if given and isinstance(given[0], list):  # one list for each prompt of a batch
        given = given[0]
    return [_message(_plain(each)) for each in given if isinstance(each, dict)]


def _message(item: dict[str, Any]) -> Message:
    """A message of LangChain, or a chat message as OpenAI has them."""
    kind = word(item.get("type"))
    if kind == "tool":
        failed = item.get("status") == "error"
        result = Result(
            call_id=word(item.get("tool_call_id")),
            tool=word(item.get("name")),
            result=tool_output(item.get("content"), is_error=failed),
        )
        return Message(by_model=False, steps=(result,))
    if kind not in _AUTHORS:
        return openai_chat.message(item)
    written = plain_text(item.get("content"))
    steps: list[Step] = [Words(author=_AUTHORS[kind], text=written)] if written else []
    if kind == "ai":
        steps.extend(
            Call(tool=tool, arguments=call.get("args"), call_id=word(call.get("id")))
            for call in map(mapping, elements(item.get("tool_calls")))
            if (tool := word(call.get("name")))
        )
    return Message(by_model=kind == "ai", steps=tuple(steps))


class LangSmithReader:
    """Reads LangSmith runs."""

    name = "langsmith"
    title = "LangSmith runs"

    def sniff(self, source: Source) -> bool:
        """Runs, which have a type and a place in a trace."""
        value = opening(source)
        if isinstance(value, dict) and isinstance(value.get("runs"), list):
            value = value["runs"]
        first = mapping(value[0] if isinstance(value, list) and value else value)
        return "run_type" in first and not {"dotted_order", "trace_id", "child_runs", "inputs"}.isdisjoint(
            first
        )

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        runs: list[dict[str, Any]] = []
        kinds: dict[str, str] = {}
        for line, value in containers(source, notes):
            for run in _runs(value, notes, line):
                runs.append(run)
                kinds[word(run.get("id")) or ""] = word(run.get("run_type")) or ""
        if not runs:
            raise TranscriptError(source.label, "holds no runs")
        return replay([_span(run, kinds) for run in runs], notes)


READER = LangSmithReader()
