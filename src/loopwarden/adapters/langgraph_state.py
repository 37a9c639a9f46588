"""LangGraph's states, messages and results of tools: what the adapter reads in them."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from loopwarden.adapters import with_note
from loopwarden.errors import MissingExtraError

try:
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
    from langgraph.types import Command
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

if TYPE_CHECKING:
    from collections.abc import Iterator

Mark: TypeAlias = tuple[object, object]
"""Changes with a compaction: id of the summary's message, and where the history is cut."""

Extent: TypeAlias = tuple[int, object, object]
"""How long a history is, and the ids of its first and last message."""

_RESUMING: Final = "__pregel_resuming"
"""LangGraph's key in the configuration of a step that is taken up again (its `_internal/_constants.py`)."""

SUMMARY: Final = "summarization"
"""What LangChain's summariser writes into `lc_source` of the message with its summary."""

_EDITED: Final = "hitl_edited_tool_calls"
"""Where `HumanInTheLoopMiddleware` keeps the calls that a person put in the place of the model's."""

DEPTH: Final = 4
"""Levels below a result at which its message may stand: list, command, update, list of messages."""


def messages_of(state: Any, call_id: str | None = None) -> list[Any]:
    """The history: the state is a list of messages, a mapping or a model that has one under any name.

    Args:
        state: The state.
        call_id: A call that the history asks for; `None` takes `messages`, else the first there is.
    """
    if isinstance(state, list):
        return state if _is_history(state) else []
    values = state if isinstance(state, Mapping) else getattr(state, "__dict__", {})
    found = [value for value in (values.get("messages"), *values.values()) if _is_history(value)]
    if len(found) > 1 and call_id is not None:
        found.sort(key=lambda history: not _asks(history, call_id))
    return found[0] if found else []


def _is_history(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[-1], BaseMessage)


def _asks(history: list[Any], call_id: str) -> bool:
    return any(_asks_for(message, call_id) for message in reversed(history))


def _asks_for(message: Any, call_id: str) -> bool:
    return isinstance(message, AIMessage) and any(call.get("id") == call_id for call in message.tool_calls)


def invocation_of(runtime: Any) -> object:
    """What stands for this invocation of the graph: its stream writer, which each has for itself.

    A `RunControl` may be one for many invocations, and ids of runs and tasks are new in each step. Outside
    a graph every call stands for itself.
    """
    writer = getattr(runtime, "stream_writer", None)
    if writer is None or getattr(runtime, "execution_info", None) is None:
        return object()
    return weakref.ref(writer)


def is_taken_up(runtime: Any) -> bool:
    """Whether this is the first step of an invocation that goes on from a checkpoint, and not from new input.

    LangGraph runs again what ran in such a step.
    """
    config = getattr(runtime, "config", None) or {}
    return config.get("configurable", {}).get(_RESUMING) is True


def mark_of(state: Any, messages: list[Any]) -> Mark:
    """What changes with a compaction: LangChain's summary message, the cut of deepagents."""
    summary = None
    for message in messages:
        more = getattr(message, "additional_kwargs", None)
        if more and more.get("lc_source") == SUMMARY:
            summary = message.id
    event = state.get("_summarization_event") if isinstance(state, Mapping) else None
    return summary, event.get("cutoff_index") if isinstance(event, Mapping) else None


def extent_of(messages: list[Any]) -> Extent:
    """What `is_shrunken` compares."""
    if not messages:
        return 0, None, None
    return len(messages), getattr(messages[0], "id", None), getattr(messages[-1], "id", None)


def is_shrunken(before: Extent, messages: list[Any]) -> bool:
    """Whether messages are gone, and not only those at the end, as where a run is wound back."""
    length, first, last = before
    if len(messages) >= length:
        return False
    return extent_of(messages)[1] != first or any(getattr(each, "id", None) == last for each in messages)


def own_messages(messages: list[Any]) -> tuple[list[str], Any]:
    """Ids of the replies of this run, the newest first, and the message of the person before them, if any."""
    replies: list[str] = []
    for message in reversed(messages):
        if isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs:
            return replies, message
        if isinstance(message, AIMessage) and message.id is not None:
            replies.append(message.id)
    return replies, None


def turn_of(messages: list[Any], call_id: str) -> str | None:
    """Id of the newest reply that asks for the call."""
    for message in reversed(messages):
        if _asks_for(message, call_id):
            found: str | None = message.id
            return found
    return None


def answered_calls(messages: list[Any]) -> tuple[str | None, list[tuple[Any, ToolMessage]]]:
    """Id of the newest reply, and those of its calls that have an answer, with it.

    `None` and none where another message than an answer has come since.
    """
    given: dict[str, ToolMessage] = {}
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            given.setdefault(message.tool_call_id, message)
        elif isinstance(message, AIMessage):
            return message.id, [
                (call, given[call["id"]]) for call in message.tool_calls if call["id"] in given
            ]
        else:
            break
    return None, []


def call_of(request: Any) -> tuple[str, Any]:
    """Tool and arguments of what will run: a person may have put them in the place of what was asked for."""
    asked, state = request.tool_call, request.state
    edited = state.get(_EDITED) if isinstance(state, Mapping) else None
    instead = edited.get(asked["id"]) if isinstance(edited, Mapping) else None
    if isinstance(instead, Mapping) and isinstance(instead.get("name"), str):
        return instead["name"], instead.get("args")
    return asked["name"], asked["args"]


def is_asked_once(messages: list[Any], call_id: str) -> bool:
    """Whether the id names one call in this history; some models count their calls in each reply."""
    return sum(_asks_for(message, call_id) for message in messages) <= 1


def answers(value: Any, call_id: str, depth: int = DEPTH) -> Iterator[ToolMessage]:
    """The messages in a tool's result that answer the call."""
    if isinstance(value, ToolMessage):
        if value.tool_call_id == call_id:
            yield value
    elif depth > 0:
        if isinstance(value, Command):
            yield from answers(value.update, call_id, depth - 1)
        elif isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                yield from answers(item, call_id, depth - 1)


def replaced(value: Any, old: ToolMessage, new: ToolMessage, depth: int = DEPTH) -> Any:
    """The result with another message in the place of `old`."""
    if value is old:
        return new
    if depth > 0:
        if isinstance(value, Command):
            return replace(value, update=replaced(value.update, old, new, depth - 1))
        if isinstance(value, dict):
            return {name: replaced(item, old, new, depth - 1) for name, item in value.items()}
        if isinstance(value, list):
            return [replaced(item, old, new, depth - 1) for item in value]
    return value


def plain(content: Any) -> Any:
    """What the tool said, without the ids that LangChain gives to blocks of content."""
    if not isinstance(content, list):
        return content
    return {
        "content": [
            {name: value for name, value in block.items() if name != "id"}
            if isinstance(block, dict)
            else {"type": "text", "text": block}
            for block in content
        ]
    }


def noted(content: Any, note: str) -> Any:
    """The content of a message with a warning at its end."""
    return (
        with_note(content, note) if isinstance(content, str) else [*content, {"type": "text", "text": note}]
    )
