"""What a list of messages says, the same for every API that keeps an agent's history as one.

The readers of the API formats turn messages into these few words; `conversations` turns them into
events and reads a history that is sent again and again only once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import orjson

from loopwarden.transcripts import shape
from loopwarden.transcripts.fields import word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Author: TypeAlias = Literal["user", "model", "system"]
"""Who wrote a message: a person, the model, or the program around it (prompts)."""

_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "summary_text"})
_OPAQUE = frozenset({"encrypted_content", "encrypted_stdout", "cache_control"})
"""Keys of result parts that differ between equal results, or say nothing about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The model asks for a tool; `call_id` is `None` where the format has no ids."""

    tool: str
    arguments: object
    call_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a tool gave. `tool` is for results that name their tool instead of the call."""

    call_id: str | None
    result: object = None
    error: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Text of an author; kept only as long as it takes to compare two histories."""

    author: Author
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The place where the API put a compacted history; `name` is equal for the same one seen again."""

    name: str


Step: TypeAlias = Call | Result | Words | Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message, or one run of items from the same side.

    Attributes:
        by_model: Whether the model wrote it; its calls are then one turn.
        steps: What it says, in order.
        at: Seconds since the epoch, where the message itself tells.
    """

    by_model: bool
    steps: tuple[Step, ...]
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the API answered.

    Attributes:
        message: The model's message; for a compaction the history that replaces the old one.
        reply_id: Id by which a later request may refer to it.
        follows: Id of the reply that came before it, where the answer names it.
        model: Model that answered.
        usage: Tokens read (cached ones included) and written; `None` if not told.
        cached: Those of the tokens read that came from a cache.
        cost: US dollars, if told.
        at: Seconds since the epoch.
        replaces_history: Whether `message` is a compacted history and no model reply.
    """

    message: Message
    reply_id: str | None = None
    follows: str | None = None
    model: str | None = None
    usage: tuple[int, int] | None = None
    cached: int = 0
    cost: float | None = None
    at: float | None = None
    replaces_history: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request with its answer, or either of them alone.

    Attributes:
        history: All that the request says; `None` if only the answer was recorded.
        reply: The answer, `None` if it was not recorded or failed.
        follows: Id of the reply (or the conversation) that the request goes on from; `history` then
            holds only what is new.
        model: Model that was asked.
        title: What the file calls this request, where it has a name of its own.
        at: When the request was sent, in seconds since the epoch.
    """

    history: tuple[Message, ...] | None
    reply: Reply | None = None
    follows: str | None = None
    model: str | None = None
    title: str | None = None
    at: float | None = None


def exchanged(
    told: Sequence[Message], said: Sequence[Message], *, start: float | None, end: float | None
) -> Exchange | None:
    """What a trace recorded of one request; `None` if it is nothing.

    Args:
        told: What the model was told.
        said: What it said, in however many pieces; they are one reply.
        start: When the request was sent, in seconds since the epoch.
        end: When the answer had come, likewise.
    """
    if not told and not said:
        return None
    steps = tuple(step for message in said for step in message.steps)
    reply = Reply(message=Message(by_model=True, steps=steps), at=end)
    return Exchange(history=tuple(told) or None, reply=reply if said else None, at=start)


def tool_output(content: object, *, is_error: bool = False) -> dict[str, Any]:
    """The result of a tool from a message: text, parts, or any JSON value."""
    if isinstance(content, str):
        return shape.tool_result(content, is_error=is_error)
    if content is None:
        return shape.tool_result("", is_error=is_error)
    if isinstance(content, list) and all(isinstance(part, str | dict) for part in content):
        return shape.tool_result([_part(part) for part in content], is_error=is_error)
    return shape.tool_result(json_text(content), is_error=is_error)


def plain_text(content: object) -> str:
    """The text of a message's content; parts that are no text stand as their type."""
    if isinstance(content, str):
        return content.strip()
    if not isinstance(content, list):
        return ""
    found = [
        part["text"] if isinstance(part.get("text"), str) else f"({word(part.get('type'))})"
        for part in content
        if isinstance(part, dict)
    ]
    return "\n".join(found).strip()


def json_text(value: object) -> str:
    """A value as JSON, equal text for equal values; nested too deep, only its type is told."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, ValueError, RecursionError):
        return f"({type(value).__name__} that can't be shown)"


def _part(part: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if word(part.get("type")) in _TEXT_PARTS and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    return {key: value for key, value in part.items() if key not in _OPAQUE}
