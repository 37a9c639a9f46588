"""The Gemini API, as far as Gemini CLI uses it."""

from __future__ import annotations

import json
from typing import Any

from tests.agents.model_server import ModelServer, Reply, Request


class GeminiRequest(Request):
    """A request for content."""

    @property
    def contents(self) -> list[dict[str, Any]]:
        """The history."""
        return self.body["contents"]

    @property
    def answers(self) -> dict[str, list[str]]:
        """What the model reads as results of each call, by id."""
        found: dict[str, list[str]] = {}
        for content in self.contents:
            for part in content["parts"]:
                if answer := part.get("functionResponse"):
                    found.setdefault(answer["id"], []).append(json.dumps(answer["response"]))
        return found

    @property
    def asks_for_summary(self) -> bool:
        """The client compacts the history."""
        return "<state_snapshot>" in json.dumps(self.body.get("systemInstruction", ""))


class GeminiServer(ModelServer):
    """The server."""

    def read(self, path: str, body: dict[str, Any]) -> Request | None:
        """The request for a reply that this is."""
        return GeminiRequest(path, body) if "enerateContent" in path else None

    def written(self, request: Request, reply: Reply, number: int) -> tuple[str, str]:
        """One piece of content, in a stream if one was asked for."""
        text = json.dumps(_content(reply, number))
        if ":streamGenerateContent" in request.path:
            return "text/event-stream", f"data: {text}\n\n"
        return "application/json", text


def _content(reply: Reply, number: int) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
    for place, call in enumerate(reply.calls, 1):
        call_id = call.call_id or f"call_{number}_{place}"
        parts.append({"functionCall": {"name": call.tool, "args": call.arguments, "id": call_id}})
    return {
        "candidates": [
            {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"},
        ],
        "usageMetadata": {
            "promptTokenCount": reply.tokens,
            "candidatesTokenCount": 1,
            "totalTokenCount": reply.tokens + 1,
        },
        "modelVersion": "scripted",
        "responseId": f"reply_{number}",
    }
