"""The OpenAI chat completions API, as far as Qwen Code uses it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tests.agents.model_server import ModelServer, Reply, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUMMARIZE: Final = "<state_snapshot>"
"""Stands in a request for a summary by Qwen Code."""


class ChatRequest(Request):
    """A request for a completion."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history."""
        return self.body["messages"]

    @property
    def tools(self) -> list[str]:
        """Names of the tools that the model is offered."""
        return [tool["function"]["name"] for tool in self.body.get("tools", [])]

    @property
    def answers(self) -> dict[str, list[str]]:
        """What the model reads as results of each call, by id."""
        found: dict[str, list[str]] = {}
        for message in self.messages:
            if message["role"] == "tool":
                found.setdefault(message["tool_call_id"], []).append(_text(message["content"]))
        return found

    @property
    def asks_for_summary(self) -> bool:
        """The client compacts the history."""
        return _SUMMARIZE in json.dumps([self.messages[0], self.messages[-1]])


class ChatServer(ModelServer):
    """The server."""

    def read(self, path: str, body: dict[str, Any]) -> Request | None:
        """The request for a reply that this is."""
        return ChatRequest(path, body) if path.endswith("/chat/completions") else None

    def written(self, request: Request, reply: Reply, number: int) -> tuple[str, str]:
        """One completion, in a stream if one was asked for."""
        head = {"id": f"chat_{number}", "created": 0, "model": "scripted"}
        usage = {"prompt_tokens": reply.tokens, "completion_tokens": 1, "total_tokens": reply.tokens + 1}
        message = _message(reply, number)
        ends = "tool_calls" if reply.calls else "stop"
        if not request.body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": ends}
            whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
            return "application/json", json.dumps(whole)
        pieces = [
            {**head, "object": "chat.completion.chunk", "choices": [choice]}
            for choice in _choices(message, ends)
        ]
        pieces.append({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
        lines = [f"data: {json.dumps(piece)}\n\n" for piece in pieces]
        return "text/event-stream", "".join([*lines, "data: [DONE]\n\n"])


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _message(reply: Reply, number: int) -> dict[str, Any]:
    calls = [
        {
            "index": place - 1,
            "id": call.call_id or f"call_{number}_{place}",
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(call.arguments)},
        }
        for place, call in enumerate(reply.calls, 1)
    ]
    return {"role": "assistant", "content": reply.text or None} | ({"tool_calls": calls} if calls else {})


def _choices(message: dict[str, Any], ends: str) -> Iterator[dict[str, Any]]:
    yield {"index": 0, "delta": message, "finish_reason": None}
    yield {"index": 0, "delta": {}, "finish_reason": ends}
