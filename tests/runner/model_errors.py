"""How OpenAI's API says that a request failed: status, body and headers as they come over the wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that is none."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


def _failure(
    status: int,
    message: str,
    kind: str,
    code: str | None,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Failure:
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return Failure(status, body, headers or {})


def too_long(window: int, used: int) -> Failure:
    """The messages do not fit into the context window."""
    message = (
        f"This model's maximum context length is {window} tokens. However, your messages resulted in "
        f"{used} tokens. Please reduce the length of the messages."
    )
    return _failure(400, message, "invalid_request_error", "context_length_exceeded", "messages")


def too_often(after: float) -> Failure:
    """Too many tokens a minute."""
    message = (
        "Rate limit reached for gpt-4o in organization org-scripted on tokens per min (TPM): Limit 30000, "
        f"Used 29500, Requested 1200. Please try again in {after:g}s."
    )
    headers = {
        "retry-after": f"{after:g}",
        "retry-after-ms": f"{after * 1000:.0f}",
        "x-ratelimit-limit-tokens": "30000",
        "x-ratelimit-remaining-tokens": "500",
        "x-ratelimit-reset-tokens": f"{after:g}s",
    }
    return _failure(429, message, "tokens", "rate_limit_exceeded", headers=headers)


def broken() -> Failure:
    """The server has a fault."""
    message = "The server had an error while processing your request. Sorry about that!"
    return _failure(500, message, "server_error", None, headers={"retry-after-ms": "10"})


def wrong_key() -> Failure:
    """The key is none."""
    return _failure(401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key")


def unknown_path(method: str, path: str) -> Failure:
    """There is nothing at this place."""
    return _failure(404, f"Invalid URL ({method} {path})", "invalid_request_error", None)


def unpaired(messages: Sequence[Mapping[str, Any]]) -> Failure | None:
    """What is wrong where calls and results are not paired; `None` where they are."""
    open_ids: list[str] = []
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_ids:
                text = (
                    "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                )
                return _wrong_message(text, place)
            open_ids.remove(message["tool_call_id"])
        elif open_ids:
            return _unanswered(open_ids, place)
        else:
            open_ids = [call["id"] for call in message.get("tool_calls") or ()]
    return _unanswered(open_ids, len(messages)) if open_ids else None


def _unanswered(ids: Sequence[str], place: int) -> Failure:
    text = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(ids)}"
    )
    return _wrong_message(text, place)


def _wrong_message(text: str, place: int) -> Failure:
    whole = f"Invalid parameter: {text}"
    return _failure(400, whole, "invalid_request_error", None, f"messages.[{place}].role")
