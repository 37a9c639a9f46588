"""Anthropic messages: message lists, requests, answers and captures of them.

Calls and results are content blocks: `tool_use` and `tool_result`, and what the API's own tools write
(`server_tool_use`, `mcp_tool_use` and blocks whose type ends in `_tool_result`). A `compaction` block
stands where the API summarised the history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.transcripts import captures, shape
from loopwarden.transcripts.fields import elements, mapping, whole, word
from loopwarden.transcripts.messages import (
    Call,
    Message,
    Reply,
    Result,
    Step,
    Summary,
    Words,
    json_text,
    plain_text,
    tool_output,
)
from loopwarden.transcripts.shape import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

_ROLES = frozenset({"user", "assistant", "system"})
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_FOREIGN = frozenset({"parts", "extra", "uuid", "tool_calls", "message"})
_REMINDER = "<system-reminder>"
"""What Claude Code's own texts begin with where it puts them into a user message."""


class AnthropicDialect(captures.MessageLists):
    """What the messages API calls things."""

    roles = _ROLES

    def is_item(self, value: dict[str, Any]) -> bool:
        """Whether this is a message."""
        return word(value.get("role")) in _ROLES and "content" in value and _FOREIGN.isdisjoint(value)

    def is_answer(self, body: dict[str, Any]) -> bool:
        """Whether this is a message that the API gave."""
        return body.get("type") == "message" and body.get("role") == "assistant" and "stop_reason" in body

    def message(self, item: dict[str, Any]) -> Message:
        """One message of any role."""
        return _message(item)

    def reply(self, body: dict[str, Any], notes: ReadNotes) -> Reply | None:
        """What an answer says."""
        if not isinstance(body.get("content"), list):
            notes.add("unknown_record")
            return None
        return Reply(
            message=_message({**body, "role": "assistant"}),
            reply_id=word(body.get("id")),
            model=word(body.get("model")),
            usage=_usage(body.get("usage")),
            cached=count(mapping(body.get("usage")).get("cache_read_input_tokens")),
        )

    def assembled(self, events: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """An answer from the events of its stream."""
        start = next((event for event in events if event.get("type") == "message_start"), None)
        if start is None:
            return None
        blocks: dict[int | None, dict[str, Any]] = {}
        pieces: dict[int | None, list[str]] = {}
        body = mapping(start.get("message"))
        told = dict(mapping(body.get("usage")))
        for event in events:
            index = whole(event.get("index"))
            if event.get("type") == "content_block_start":
                blocks[index] = dict(mapping(event.get("content_block")))
            elif event.get("type") == "content_block_delta" and index in blocks:
                delta = mapping(event.get("delta"))
                if "partial_json" in delta:
                    pieces.setdefault(index, []).append(word(delta["partial_json"]) or "")
                elif blocks[index].get("type") == "text":
                    blocks[index]["text"] = (word(blocks[index].get("text")) or "") + (
                        word(delta.get("text")) or ""
                    )
            elif event.get("type") == "message_delta":
                told.update(mapping(event.get("usage")))
        for index, written in pieces.items():
            blocks[index]["input"] = shape.arguments("".join(written))
        return {"stop_reason": None, **body, "content": list(blocks.values()), "usage": told}


DIALECT = AnthropicDialect()


def _message(item: dict[str, Any]) -> Message:
    by_model = item.get("role") == "assistant"
    content = item.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    steps = [step for block in blocks if (step := _step(mapping(block), item.get("role"))) is not None]
    return Message(by_model=by_model, steps=tuple(steps))


def _step(block: dict[str, Any], role: object) -> Step | None:
    kind = word(block.get("type")) or ""
    if kind in _CALLS:
        name = word(block.get("name"))
        return Call(tool=name, arguments=block.get("input"), call_id=word(block.get("id"))) if name else None
    if kind.endswith("tool_result"):
        return _result(block)
    if kind == "compaction":
        return Summary(name=json_text(block.get("content")))
    if kind in {"thinking", "redacted_thinking", "container_upload"}:
        return None
    written = plain_text([block])
    if not written or (role == "user" and written.startswith(_REMINDER)):
        return None
    author: dict[object, Any] = {"assistant": "model", "user": "user"}
    return Words(author=author.get(role, "system"), text=written)


def _result(block: dict[str, Any]) -> Result:
    content = block.get("content")
    given = mapping(content)
    kind = word(given.get("type")) or ""
    call_id = word(block.get("tool_use_id"))
    if kind.endswith("_error"):
        code = word(given.get("error_code")) or kind
        return Result(call_id=call_id, result=tool_output(code, is_error=True))
    if "stdout" in given:
        output = (word(given.get("stdout")) or "") + (word(given.get("stderr")) or "")
        return Result(
            call_id=call_id,
            result=shape.command_result(output, exit_code=whole(given.get("return_code"))),
        )
    return Result(call_id=call_id, result=tool_output(content, is_error=block.get("is_error") is True))


def _usage(value: object) -> tuple[int, int] | None:
    told = mapping(value)
    read = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return (sum(count(told.get(key)) for key in read), count(told.get("output_tokens"))) if told else None


class AnthropicMessagesReader:
    """Reads Anthropic messages."""

    name = "anthropic-messages"
    title = "Anthropic messages"

    def sniff(self, source: Source) -> bool:
        """Messages with at least one block, tool or answer that only this API has."""
        return any(map(_is_certain, captures.sample(DIALECT, source)))

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        return captures.read(DIALECT, source, notes)


def _is_certain(part: captures.Part) -> bool:
    if part.answer is not None:
        return True
    request = part.request or {}
    if any("input_schema" in mapping(tool) for tool in elements(request.get("tools"))) or "system" in request:
        return True
    messages = [mapping(each) for each in part.items or elements(request.get("messages"))]
    kinds = {word(mapping(block).get("type")) for each in messages for block in elements(each.get("content"))}
    return not kinds.isdisjoint({*_CALLS, "tool_result", "thinking", "redacted_thinking", "compaction"})


READER = AnthropicMessagesReader()
