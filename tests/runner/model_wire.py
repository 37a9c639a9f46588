"""Replies of a scripted model as OpenAI's API writes them: in one piece, or in many."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.runner.model_server import Call, Reply

_PIECE: Final = 12
"""Characters of a piece in a stream."""


def completion(reply: Reply, number: int, model: str) -> dict[str, Any]:
    """A reply in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.tool, "arguments": _json(call)},
            }
            for call in reply.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _ends(reply)}
    return {**_name(number, model, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


def chunks(reply: Reply, number: int, model: str, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A reply in many pieces: names and ids first, then text and arguments bit by bit."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "" if reply.text else None}]
    deltas += [{"content": piece} for piece in _pieces(reply.text)]
    for index, call in enumerate(reply.calls):
        opening = {"index": index, "id": call.call_id, "type": "function"}
        deltas.append({"tool_calls": [{**opening, "function": {"name": call.tool, "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in _pieces(_json(call))
        ]
    head = _name(number, model, "chat.completion.chunk")
    counted = bool(options.get("include_usage"))
    more: dict[str, Any] = {"usage": None} if counted else {}
    made = [
        {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": ends}], **more}
        for delta, ends in [*((delta, None) for delta in deltas), ({}, _ends(reply))]
    ]
    return [*made, {**head, "choices": [], "usage": _usage(reply)}] if counted else made


def _name(number: int, model: str, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 1_780_000_000, "model": model}


def _ends(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _json(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(dict(call.arguments))


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def _usage(reply: Reply) -> dict[str, int]:
    said = 1 + (len(reply.text) + sum(len(_json(call)) for call in reply.calls)) // 4
    read = reply.tokens or 0
    return {"prompt_tokens": read, "completion_tokens": said, "total_tokens": read + said}
