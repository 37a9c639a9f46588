"""Messages of chat completions and of Anthropic: what the adapter for hand-written loops reads in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from loopwarden.adapters import with_note
from loopwarden.guarded import said
from loopwarden.transcripts import anthropic_messages, openai_chat
from loopwarden.transcripts.messages import Call, Message, Result, Words, json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.transcripts.messages import Author

_BLOCKS: Final = frozenset({"tool_use", "tool_result", "server_tool_use", "mcp_tool_use", "compaction"})
"""Types of content that only Anthropic's messages have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """A call of the newest reply; `arguments` are parsed, where they are JSON."""

    call_id: str
    tool: str
    arguments: Any


def parsed_message(message: Any) -> tuple[Message, bool]:
    """A message of either format, and whether it is one of Anthropic's."""
    item = _plain(message)
    for name in ("content", "tool_calls"):
        if isinstance(item.get(name), list | tuple):
            item[name] = [_plain(part) for part in item[name]]
    blocks = item.get("content")
    anthropic = isinstance(blocks, list) and any(block.get("type") in _BLOCKS for block in blocks)
    dialect = anthropic_messages.DIALECT if anthropic else openai_chat.DIALECT
    return dialect.message(item), anthropic


def _plain(value: Any) -> dict[str, Any]:
    """A message or a part of one as a mapping; the clients' own objects can say themselves as one."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str):
        return {"type": "text", "text": value}
    dump = getattr(value, "model_dump", None)
    return dict(dump(mode="json", exclude_none=True)) if callable(dump) else {}


def calls_of(message: Message) -> Iterator[AskedCall]:
    """The calls that the caller has to answer; those that the API ran have their result beside them."""
    done = {step.call_id for step in message.steps if isinstance(step, Result)}
    for step in message.steps:
        if isinstance(step, Call) and step.call_id is not None and step.call_id not in done:
            yield AskedCall(call_id=step.call_id, tool=step.tool, arguments=step.arguments)


def ids_of(message: Message) -> tuple[str, ...]:
    """Ids of the calls of a reply; none for what is no reply, or asks for nothing."""
    return tuple(call.call_id for call in calls_of(message)) if message.by_model else ()


def content_of(result: object) -> tuple[Any, bool]:
    """What stands in a message for a result, and whether it is a failure."""
    if isinstance(result, BaseException):
        return said(result), True
    if isinstance(result, str):
        return result, False
    if (
        isinstance(result, list)
        and result
        and all(isinstance(part, dict) and "type" in part for part in result)
    ):
        return result, False
    return json_text(result), False


def words_of(messages: Iterable[Message]) -> list[tuple[Author, str]]:
    """What a person and the model wrote, in order; prompts of the program are in every conversation."""
    steps = (step for message in messages for step in message.steps)
    return [
        (step.author, text)
        for step in steps
        if isinstance(step, Words) and step.author != "system" and (text := step.text.strip())
    ]


def written(contents: Mapping[str, tuple[Any, bool]], *, anthropic: bool) -> list[dict[str, Any]]:
    """The messages with results: by call id what stands in each, and whether it is a failure."""
    if not anthropic:
        return [
            {"role": "tool", "tool_call_id": call_id, "content": content}
            for call_id, (content, _) in contents.items()
        ]
    blocks = [
        {"type": "tool_result", "tool_use_id": call_id, "content": content}
        | ({"is_error": True} if failed else {})
        for call_id, (content, failed) in contents.items()
    ]
    return [{"role": "user", "content": blocks}] if blocks else []


def noted(content: Any, note: str | None) -> Any:
    """The content of a result with a note at its end."""
    if note is None:
        return content
    return (
        with_note(content, note) if isinstance(content, str) else [*content, {"type": "text", "text": note}]
    )


def without_note(result: Any, note: str | None) -> Any:
    """A result without the note that was added to it."""
    if note is None or not isinstance(result, dict) or not isinstance(result.get("content"), list):
        return result
    *parts, last = result["content"] or [{}]
    text = last.get("text") if isinstance(last, dict) else None
    if text == note and parts:
        return result | {"content": parts}
    if isinstance(text, str) and text.endswith(f"\n\n{note}"):
        return result | {"content": [*parts, last | {"text": text.removesuffix(f"\n\n{note}")}]}
    return result
