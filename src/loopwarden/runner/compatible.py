"""Servers that speak OpenAI's chat API: errors in a stream that the client does not know as errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.errors import MissingExtraError

try:
    from openai import APIError
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIStreamedResponse
except ImportError as error:
    raise MissingExtraError("pydantic-ai-slim[openai]", "runner") from error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class CompatibleModel(OpenAIChatModel):
    """A chat model of a server that may say what is wrong in its own way."""

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return _Stream


class _Stream(OpenAIStreamedResponse):
    """A stream in which an error object stands where a piece of the reply would.

    The client knows errors under `error` only. Of `{"object": "error", "message": ..., "code": 400}`, as vLLM
    and SGLang send it, and of an event `error` of another shape it makes an empty piece.
    """

    async def _validate_response(self) -> AsyncIterator[Any]:
        async for piece in self._response:
            message = None if piece.choices else _message(piece)
            if message is not None:
                request = self._response.source.response.request
                raise APIError(message, request, body=piece.model_dump(exclude_none=True, warnings=False))
            yield piece


def _message(piece: Any) -> str | None:
    """What a piece that is an error says; `None`: it is none."""
    said = getattr(piece, "message", None)
    if isinstance(said, str) and said:
        return said
    return "the server ended the reply" if getattr(piece, "object", None) == "error" else None
