"""Is this exception of a provider a context overflow: does the history no longer fit?

Providers say it in words of their own, and say something like it where the history is not to blame: a rate
limit on tokens, a `max_tokens` that leaves no room for a short history. Those are no overflows: a compaction
would not help. A request of too many bytes (413) is one: the history is all that can be made shorter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_LONGEST: Final = 20_000
"""Characters of an error that are looked at."""

_DEEPEST: Final = 8
"""Exceptions behind each other that are looked at."""

_NEVER: Final = frozenset({401, 402, 403, 404, 407, 408, 429})
"""Statuses that say something else, whatever the text."""

_CODES: Final = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "exceed_context_size_error",
        "model_max_prompt_tokens_exceeded",
        "request_too_large",
    }
)
"""Codes and types of errors: OpenAI and who follows it, llama.cpp, GitHub Copilot, Anthropic (413)."""

_RATE: Final = re.compile(
    r"tokens per (?:min|day|hour)|\b[ti]pm\b|\btpd\b|rate.?limit|per.minute|quota|throttl", re.IGNORECASE
)
"""How many tokens an account may use in a time; also sent with 400 and 413."""

_WORDS: Final = (
    r"maximum context length",  # OpenAI, vLLM, OpenRouter, DeepSeek, Mistral
    r"exceeds? the context window",  # OpenAI's Responses API
    r"prompt is too long",  # Anthropic, Bedrock, Vertex
    r"exceed context limit",  # Anthropic, together with max_tokens
    r"input token count.{0,40}exceeds the maximum",  # Google
    r"maximum number of tokens allowed",
    r"input is too long for requested model",  # Bedrock
    r"input tokens exceeded",
    r"exceeds? the available context size",  # llama.cpp
    r"exceed context window of \d",  # llama-cpp-python
    r"longer than the (?:maximum )?model(?:'s)? (?:context )?length",  # vLLM, SGLang
    r"exceeds the max_model_len",
    r"exceeded (?:max(?:imum)? )?context length",  # Ollama
    r"exceeds (?:the |model's )?(?:maximum )?context length",
    r"greater than the context length|when (?:the )?context (?:the )?overflows",  # LM Studio
    r"loaded with (?:a )?context length of (?:only )?\d+ tokens, which is not enough",
    r"context (?:length|window) exceeded",
    r"contextwindowexceedederror",  # LiteLLM
    r"context window exceeds limit",  # MiniMax
    r"exceeded model token limit",  # Moonshot
    r"maximum prompt length is \d",  # xAI
    r"prompt token count of \d+ exceeds the limit",  # GitHub Copilot
    r"reduce the length of the (?:messages|input|prompt)",  # Groq and others
    r"request (?:entity|exceeds the maximum) (?:too large|size)",  # a body of too many bytes
)
_SAYS: Final = re.compile("|".join(_WORDS), re.IGNORECASE | re.DOTALL)

_REPLY_TOO_LONG: Final = re.compile(
    r"max(?:imum)?_(?:completion_|output_|new_)?tokens['`]?(?: or ['`]?max_completion_tokens['`]?)? (?:is )?"
    r"(?:too large|exceeds|must be|should be|cannot|:)|supports at most \d+ completion tokens",
    re.IGNORECASE,
)
"""The room that is asked for the reply is larger than the model allows."""

_SHARES: Final = (
    re.compile(r"\((\d+) (?:in (?:the messages|the prompt|your prompt)|of text input|input)", re.IGNORECASE),
    re.compile(r"exceed context limit:\s*(\d+)\s*\+", re.IGNORECASE),
    re.compile(r"your request has (\d+) input tokens", re.IGNORECASE),
)
"""What the history alone takes, where the error counts it apart from the reply."""

_WINDOWS: Final = (
    re.compile(r"maximum context length (?:is|of)\s*(\d+)", re.IGNORECASE),
    re.compile(r"too large for model with (\d+) maximum context length", re.IGNORECASE),
    re.compile(r"tokens > (\d+) maximum", re.IGNORECASE),
    re.compile(r"exceed context limit:\s*\d+\s*\+\s*\d+\s*>\s*(\d+)", re.IGNORECASE),
    re.compile(r"tokens allowed \((\d+)\)", re.IGNORECASE),
    re.compile(r"available context size \((\d+)", re.IGNORECASE),
    re.compile(r"context window of (\d+)", re.IGNORECASE),
    re.compile(r"loaded with (?:a )?context length of (?:only )?(\d+)", re.IGNORECASE),
    re.compile(r"model(?:'s)? (?:context )?length (?:of |\()?(\d+)", re.IGNORECASE),
    re.compile(r"max_model_len (?:of )?(\d+)", re.IGNORECASE),
    re.compile(r"maximum prompt length is (\d+)", re.IGNORECASE),
    re.compile(r"exceeds the limit of (\d+)", re.IGNORECASE),
    re.compile(r"exceeded model token limit: (\d+)", re.IGNORECASE),
)

_USED: Final = (
    re.compile(r"resulted in (\d+) tokens", re.IGNORECASE),
    re.compile(r"requested (?:about )?(\d+) tokens", re.IGNORECASE),
    re.compile(r"prompt is too long: (\d+) tokens", re.IGNORECASE),
    re.compile(r"input token count \((\d+)\)", re.IGNORECASE),
    re.compile(r"request \((\d+) tokens\) exceeds", re.IGNORECASE),
    re.compile(r"requested tokens \((\d+)\)", re.IGNORECASE),
    re.compile(r"prompt \(length (\d+)\)|input \((\d+) tokens\)|prompt length (\d+) exceeds", re.IGNORECASE),
    re.compile(r"prompt contains (\d+) tokens", re.IGNORECASE),
    re.compile(r"keep the first (\d+) tokens when", re.IGNORECASE),
    re.compile(r"request contains (\d+) tokens", re.IGNORECASE),
    re.compile(r"prompt token count of (\d+)", re.IGNORECASE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """The history does not fit.

    Attributes:
        tokens: How long the request was, as the provider says; `None`: it does not.
        window: How long it may be, likewise.
    """

    tokens: int | None = None
    window: int | None = None


def overflow_of(error: BaseException) -> Overflow | None:
    """What the provider's exception says of an overflow.

    Looks at the exception, at those it came from, and at the bodies that they carry.

    Returns:
        `None`: it is another fault.
    """
    texts: list[str] = []
    codes: set[str] = set()
    numbers: dict[str, int] = {}
    status: int | None = None
    seen: set[int] = set()
    behind: BaseException | None = error
    while behind is not None and id(behind) not in seen and len(seen) < _DEEPEST:
        seen.add(id(behind))
        given = getattr(behind, "status_code", None)
        status = given if status is None and isinstance(given, int) else status
        texts.append(_text(behind))
        body = getattr(behind, "body", None)
        if body is not None:
            texts.append(_text(body))
            _read(body, codes, numbers, 0)
        for name in ("code", "type", "provider_error_code", "provider_error_type"):
            said = getattr(behind, name, None)
            if isinstance(said, str):
                codes.add(said.lower())
        behind = behind.__cause__
    text = "\n".join(texts)[:_LONGEST]
    return _judged(text, codes, numbers, status)


def _judged(text: str, codes: set[str], numbers: Mapping[str, int], status: int | None) -> Overflow | None:
    if status in _NEVER:
        return None
    named = bool(codes & _CODES)
    if not named and (_RATE.search(text) or codes & {"rate_limit_exceeded", "rate_limit_error"}):
        return None
    if not (named or status == 413 or _SAYS.search(text)):  # noqa: PLR2004 - content too large
        return None
    window = numbers.get("n_ctx") or _first(_WINDOWS, text)
    tokens = numbers.get("n_prompt_tokens") or _first(_USED, text)
    alone = _first(_SHARES, text)
    if alone is not None:
        tokens = alone
        if window is not None and alone * 2 < window:  # the reply takes the room, not the history
            return None
    elif _REPLY_TOO_LONG.search(text):
        return None
    return Overflow(tokens=tokens, window=window)


def _read(value: Any, codes: set[str], numbers: dict[str, int], depth: int) -> None:
    """Codes and counts in the body of an error, which some wrap in another one."""
    if depth > _DEEPEST or not isinstance(value, Mapping):
        return
    for name in ("code", "type", "status", "error_type"):
        said = value.get(name)
        if isinstance(said, str):
            codes.add(said.lower())
    for name in ("n_ctx", "n_prompt_tokens"):
        number = value.get(name)
        if isinstance(number, int):
            numbers[name] = number
    for name in ("error", "metadata", "raw"):
        _read(value.get(name), codes, numbers, depth + 1)


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        found = pattern.search(text)
        if found is not None:
            digits = next(group for group in found.groups() if group is not None)
            return int(digits[:12])
    return None


def _text(value: object) -> str:
    try:
        return str(value)[:_LONGEST]
    except Exception:  # noqa: BLE001 - an error's own text may be broken
        return ""
