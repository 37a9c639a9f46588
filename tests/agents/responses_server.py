"""The OpenAI Responses API, as far as Codex CLI uses it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.agents.model_server import ModelServer, Reply, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUMMARIZE = "CONTEXT CHECKPOINT COMPACTION"
"""Stands in a request for a summary by Codex CLI."""


class ResponsesRequest(Request):
    """A request for a response."""

    @property
    def items(self) -> list[dict[str, Any]]:
        """The history."""
        return self.body["input"]

    @property
    def answers(self) -> dict[str, list[str]]:
        """What the model reads as results of each call, by id."""
        found: dict[str, list[str]] = {}
        for item in self.items:
            if item["type"] in {"function_call_output", "custom_tool_call_output"}:
                found.setdefault(item["call_id"], []).append(_text(item["output"]))
        return found

    @property
    def notes(self) -> list[str]:
        """What hooks said to the model: messages of the developer after the first call."""
        types = [item["type"] for item in self.items]
        rest = self.items[types.index("function_call") :] if "function_call" in types else []
        messages = [item for item in rest if item["type"] == "message" and item["role"] == "developer"]
        return [part["text"] for message in messages for part in message["content"]]

    @property
    def asks_for_summary(self) -> bool:
        """The client compacts the history."""
        return _SUMMARIZE in json.dumps(self.items[-1])


class ResponsesServer(ModelServer):
    """The server; a tool of a namespace is called `namespace/tool`."""

    def read(self, path: str, body: dict[str, Any]) -> Request | None:
        """The request for a reply that this is."""
        return ResponsesRequest(path, body) if path.endswith("/responses") else None

    def written(self, request: Request, reply: Reply, number: int) -> tuple[str, str]:
        """The events of a stream."""
        lines = (f"event: {data['type']}\ndata: {json.dumps(data)}\n\n" for data in _events(reply, number))
        return "text/event-stream", "".join(lines)


def _text(output: Any) -> str:
    return output if isinstance(output, str) else "\n".join(part.get("text", "") for part in output)


def _items(reply: Reply, number: int) -> Iterator[dict[str, Any]]:
    if reply.text:
        content = [{"type": "output_text", "text": reply.text}]
        yield {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": content}
    for place, call in enumerate(reply.calls, 1):
        namespace, _, name = call.tool.rpartition("/")
        yield {
            "type": "function_call",
            "call_id": call.call_id or f"call_{number}_{place}",
            "name": name,
            "arguments": json.dumps(call.arguments),
            **({"namespace": namespace} if namespace else {}),
        }


def _events(reply: Reply, number: int) -> Iterator[dict[str, Any]]:
    identity = {"id": f"resp_{number}"}
    yield {"type": "response.created", "response": identity}
    for place, item in enumerate(_items(reply, number)):
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    usage = {
        "input_tokens": reply.tokens,
        "input_tokens_details": None,
        "output_tokens": 1,
        "output_tokens_details": None,
        "total_tokens": reply.tokens + 1,
    }
    yield {"type": "response.completed", "response": {**identity, "usage": usage}}
