"""The message history of a session: its size, its JSON, and what is made good after an interruption."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic_ai.messages import ModelMessage

_LETTERS: Final = 4
"""Characters of a token, about."""

_FILE: Final = 1_500
"""Tokens of a picture or another file, about."""

_MESSAGE: Final = 4
"""Tokens around each part."""

_CANCELLED: Final = "The call was cancelled before it ended; whether it had an effect is not known."


def to_json(messages: Sequence[ModelMessage]) -> bytes:
    """The messages as JSON."""
    return ModelMessagesTypeAdapter.dump_json(list(messages))


def from_json(data: bytes) -> list[ModelMessage]:
    """What `to_json` gave.

    Raises:
        ValueError: It is damaged.
    """
    return ModelMessagesTypeAdapter.validate_json(data)


def tokens_of(messages: Iterable[ModelMessage]) -> int:
    """About how many tokens the messages take, by their length alone."""
    return sum(_part(part) for message in messages for part in message.parts)


def context_of(messages: Sequence[ModelMessage]) -> int:
    """About how many tokens a request with these messages takes.

    What the provider counted for the last reply, instructions and tools included, and an estimate of what
    was added since.
    """
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, ModelResponse) and message.usage.input_tokens:
            counted = message.usage.input_tokens + message.usage.output_tokens
            return counted + tokens_of(messages[index + 1 :])
    return tokens_of(messages)


def usable(messages: Iterable[ModelMessage], *, asks_again: bool = False) -> list[ModelMessage]:
    """The history so that a model takes it: no call without a result, no result without a call.

    A reply that broke off is kept as far as it says something, or left out where it `asks_again`.
    """
    found: list[ModelMessage] = []
    open_calls: dict[str, ToolCallPart] = {}
    for message in messages:
        if isinstance(message, ModelResponse):
            _close(found, open_calls)
            kept = _response(message, asks_again=asks_again)
            if kept is None:
                continue
            open_calls = {part.tool_call_id: part for part in kept.parts if isinstance(part, ToolCallPart)}
            found.append(kept)
        else:
            parts = [_bare(part) for part in message.parts if _answered(part, open_calls)]
            if parts:
                found.append(replace(message, parts=parts, state="complete"))
    _close(found, open_calls)
    return found


def drop_structure(messages: Sequence[ModelMessage]) -> None:
    """Forget, in the newest requests, what stood beside the text of results: the guard has compared it."""
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            break
        message.parts = [_bare(part) for part in message.parts]


def last_words(messages: Sequence[ModelMessage]) -> str | None:
    """What the model said last, if the last message is its."""
    last = messages[-1] if messages else None
    if not isinstance(last, ModelResponse):
        return None
    return text_of(last) or None


def text_of(response: ModelResponse) -> str:
    """What a reply says."""
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def _response(message: ModelResponse, *, asks_again: bool) -> ModelResponse | None:
    if message.state != "interrupted":
        return message
    said = [part for part in message.parts if isinstance(part, TextPart) and part.content]
    if asks_again or not said:
        return None
    return replace(message, parts=said, state="complete")


def _bare(part: Any) -> Any:
    return replace(part, metadata=None) if isinstance(part, ToolReturnPart) and part.metadata else part


def _answered(part: Any, open_calls: dict[str, ToolCallPart]) -> bool:
    """Whether the part fits: it answers an open call, or no call at all."""
    if isinstance(part, ToolReturnPart) or (isinstance(part, RetryPromptPart) and part.tool_name):
        return open_calls.pop(part.tool_call_id, None) is not None
    return True


def _close(found: list[ModelMessage], open_calls: dict[str, ToolCallPart]) -> None:
    """Calls that nothing answers get an answer, in the request that follows their reply."""
    if not open_calls:
        return
    parts = [
        ToolReturnPart(call.tool_name, _CANCELLED, call.tool_call_id, outcome="failed")
        for call in open_calls.values()
    ]
    open_calls.clear()
    last = found[-1]
    if isinstance(last, ModelRequest):
        after_results = sum(isinstance(part, ToolReturnPart | RetryPromptPart) for part in last.parts)
        merged = [*last.parts[:after_results], *parts, *last.parts[after_results:]]
        found[-1] = replace(last, parts=merged)
    else:
        found.append(ModelRequest(parts=parts))


def _part(part: Any) -> int:
    """Tokens of one part, about."""
    if isinstance(part, ToolCallPart):
        return _MESSAGE + (len(part.args_as_json_str()) + len(part.tool_name)) // _LETTERS
    if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
        texts = [piece for piece in part.content if isinstance(piece, str)]
        files = len(part.content) - len(texts)
        return _MESSAGE + sum(map(len, texts)) // _LETTERS + files * _FILE
    if isinstance(part, ToolReturnPart | RetryPromptPart):
        said = part.model_response_str() if isinstance(part, ToolReturnPart) else part.model_response()
        return _MESSAGE + len(said) // _LETTERS
    if isinstance(part, ThinkingPart):
        return _MESSAGE + len(part.content) // _LETTERS
    content = getattr(part, "content", None)
    return _MESSAGE + (len(content) // _LETTERS if isinstance(content, str) else 0)
