"""OpenAI chat completions: message lists, requests, answers and captures of them.

A call stands in `tool_calls` of an assistant message, its result in a message of role `tool`; the old
form is `function_call` and role `function`, without ids. Neither has an error flag. Many other
providers and frameworks write the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.transcripts import anthropic_messages, captures, shape
from loopwarden.transcripts.fields import elements, mapping, word
from loopwarden.transcripts.messages import (
    Author,
    Call,
    Message,
    Reply,
    Result,
    Step,
    Words,
    plain_text,
    tool_output,
)
from loopwarden.transcripts.shape import count, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

_AUTHORS: dict[str, Author] = {
    "assistant": "model",
    "developer": "system",
    "system": "system",
    "user": "user",
}
_ROLES = frozenset({*_AUTHORS, "tool", "function"})
_FOREIGN = frozenset({"parts", "extra", "message_type", "turn_idx", "requestor", "uuid", "author"})
"""Keys of messages in other programs' files."""

_ITEM_ENDS = ("_call", "_output", "reasoning", "compaction")
"""What types of items of OpenAI Responses end in; messages have no type."""


class ChatDialect(captures.MessageLists):
    """What the chat completions API calls things."""

    roles = _ROLES

    def is_item(self, value: dict[str, Any]) -> bool:
        """Whether this is a message."""
        return (
            word(value.get("role")) in _ROLES
            and ("content" in value or "tool_calls" in value or "function_call" in value)
            and _FOREIGN.isdisjoint(value)
        )

    def is_answer(self, body: dict[str, Any]) -> bool:
        """Whether this is a completion."""
        return any(
            isinstance(choice, dict) and "message" in choice for choice in elements(body.get("choices"))
        )

    def message(self, item: dict[str, Any]) -> Message:
        """One message of any role."""
        return message(item)

    def reply(self, body: dict[str, Any], notes: ReadNotes) -> Reply | None:
        """What a completion says; of several choices the first, as agents use it."""
        choices = [mapping(choice) for choice in elements(body.get("choices"))]
        answer = next((mapping(choice.get("message")) for choice in choices if choice.get("message")), None)
        if answer is None:
            notes.add("unknown_record")
            return None
        return Reply(
            message=message({**answer, "role": "assistant"}),
            reply_id=word(body.get("id")),
            model=word(body.get("model")),
            usage=usage(body.get("usage")),
            cached=count(
                mapping(mapping(body.get("usage")).get("prompt_tokens_details")).get("cached_tokens")
            ),
            at=seconds(body.get("created")),
        )

    def assembled(self, events: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """A completion from its chunks."""
        chunks = [event for event in events if event.get("object") == "chat.completion.chunk"]
        if not chunks:
            return None
        words: list[str] = []
        calls: dict[object, dict[str, Any]] = {}
        for chunk in chunks:
            delta = mapping(mapping(next(iter(elements(chunk.get("choices"))), None)).get("delta"))
            words.append(word(delta.get("content")) or "")
            for piece in elements(delta.get("tool_calls")):
                _add_piece(calls, mapping(piece))
        answer = {"content": "".join(words), "tool_calls": list(calls.values())}
        told = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
        return {**chunks[0], "choices": [{"message": answer}], "usage": told[-1] if told else None}


DIALECT = ChatDialect()


def message(item: dict[str, Any]) -> Message:
    """One message of any role."""
    role = word(item.get("role"))
    content = item.get("content")
    if role in {"tool", "function"}:
        result = tool_output(content)
        call_id = word(item.get("tool_call_id"))
        return Message(
            by_model=False, steps=(Result(call_id=call_id, result=result, tool=word(item.get("name"))),)
        )
    author = _AUTHORS.get(role, "system") if isinstance(role, str) else "system"
    written = plain_text(content)
    steps: list[Step] = [Words(author=author, text=written)] if written else []
    if author == "model":
        steps.extend(_calls(item))
    return Message(by_model=author == "model", steps=tuple(steps))


def usage(value: object) -> tuple[int, int] | None:
    """Tokens read and written, `None` if not told."""
    told = mapping(value)
    return (count(told.get("prompt_tokens")), count(told.get("completion_tokens"))) if told else None


def _calls(item: dict[str, Any]) -> Iterator[Call]:
    for each in elements(item.get("tool_calls")):
        call = mapping(each)
        function = mapping(call.get("function")) or mapping(call.get("custom"))
        name = word(function.get("name"))
        if name is not None:
            given = function["arguments"] if "arguments" in function else function.get("input")
            yield Call(tool=name, arguments=shape.arguments(given), call_id=word(call.get("id")))
    old = mapping(item.get("function_call"))
    if name := word(old.get("name")):
        yield Call(tool=name, arguments=shape.arguments(old.get("arguments")), call_id=None)


def _add_piece(calls: dict[object, dict[str, Any]], piece: dict[str, Any]) -> None:
    index = piece.get("index")
    key = index if isinstance(index, int) else len(calls)
    call = calls.setdefault(key, {"id": None, "function": {"name": "", "arguments": ""}})
    call["id"] = call["id"] or word(piece.get("id"))
    function = mapping(piece.get("function"))
    for part in ("name", "arguments"):
        call["function"][part] += word(function.get(part)) or ""


class OpenAIChatReader:
    """Reads chat completions."""

    name = "openai-chat"
    title = "OpenAI chat completions"

    def sniff(self, source: Source) -> bool:
        """Message lists and completions, unless their content is another program's or API's."""
        found = captures.sample(DIALECT, source)
        foreign = any(map(_is_foreign, found)) or anthropic_messages.READER.sniff(source)
        return bool(found) and not foreign

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        return captures.read(DIALECT, source, notes)


def _is_foreign(part: captures.Part) -> bool:
    """Whether these are items of OpenAI Responses, or mini-swe-agent's commands in fences."""
    messages = [mapping(each) for each in part.items or elements(mapping(part.request).get("messages"))]
    if any((word(each.get("type")) or "").endswith(_ITEM_ENDS) for each in messages):
        return True
    fenced = any(
        each.get("role") == "assistant" and "```bash" in (word(each.get("content")) or "")
        for each in messages
    )
    return fenced and not any(each.get("tool_calls") for each in messages)


READER = OpenAIChatReader()
