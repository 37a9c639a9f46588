"""What providers answer when the history is too long, and what only sounds like it.

Shapes as they are documented or stand in public fault reports: status, body, and what is read out of it.
"""

from __future__ import annotations

from typing import Any

from loopwarden.runner.overflow import Overflow


def openai(message: str, *, code: str | None = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    """The body as the OpenAI client hands it on: what stands under `error`."""
    return {"message": message, "type": kind, "param": "messages", "code": code}


OVERFLOWS = {
    "OpenAI, chat": (
        400,
        openai(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in "
            "8545 tokens. "
            "Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
        Overflow(tokens=8545, window=8192),
    ),
    "OpenAI, with tools and a reply": (
        400,
        openai(
            "This model's maximum context length is 4097 tokens. However, you requested 4727 tokens "
            "(3727 in the "
            "messages, 1000 in the completion). Please reduce the length of the messages or completion.",
            code="context_length_exceeded",
        ),
        Overflow(tokens=3727, window=4097),
    ),
    "OpenAI, responses": (
        400,
        openai(
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            code="context_length_exceeded",
        ),
        Overflow(),
    ),
    "Azure": (
        400,
        {
            "error": openai(
                "This model's maximum context length is 16385 tokens. However, your messages resulted "
                "in 20011 "
                "tokens. Please reduce the length of the messages.",
                code="context_length_exceeded",
            )
        },
        Overflow(tokens=20011, window=16385),
    ),
    "Anthropic": (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 213462 tokens > 200000 maximum",
            },
        },
        Overflow(tokens=213462, window=200000),
    ),
    "Anthropic, with room for the reply": (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 189136 + 20000 > "
                "204648, decrease "
                "input length or `max_tokens` and try again",
            },
        },
        Overflow(tokens=189136, window=204648),
    ),
    "Anthropic, too many bytes": (
        413,
        {
            "type": "error",
            "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"},
        },
        Overflow(),
    ),
    "a proxy, too many bytes": (413, "<html><h1>413 Request Entity Too Large</h1></html>", Overflow()),
    "Google": (
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count (1196265) exceeds the maximum number of tokens allowed "
                "(1048576).",
                "status": "INVALID_ARGUMENT",
            }
        },
        Overflow(tokens=1196265, window=1048576),
    ),
    "Bedrock": (
        400,
        {"Error": {"Code": "ValidationException", "Message": "Input is too long for requested model."}},
        Overflow(),
    ),
    "vLLM": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5123 "
            "tokens in "
            "the messages, Please reduce the length of the messages.",
            "type": "BadRequestError",
            "code": 400,
        },
        Overflow(tokens=5123, window=4096),
    ),
    "vLLM, the engine": (
        400,
        {
            "error": {
                "message": "The decoder prompt (length 9001) is longer than the maximum model length of "
                "8192. Make "
                "sure that `max_model_len` is no smaller than the number of text tokens.",
                "type": "BadRequestError",
                "code": 400,
            }
        },
        Overflow(tokens=9001, window=8192),
    ),
    "SGLang": (
        400,
        {"message": "The input (70001 tokens) is longer than the model's context length (65536 tokens)."},
        Overflow(tokens=70001, window=65536),
    ),
    "llama.cpp": (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 14429,
                "n_ctx": 8192,
            }
        },
        Overflow(tokens=14429, window=8192),
    ),
    "llama.cpp, newer": (
        400,
        openai(
            "request (9212 tokens) exceeds the available context size (8192 tokens), try increasing it",
            kind="exceed_context_size_error",
        ),
        Overflow(tokens=9212, window=8192),
    ),
    "llama.cpp, older": (
        500,
        {
            "code": 500,
            "message": "the request exceeds the available context size. try increasing the context size "
            "or enable "
            "context shift",
            "type": "server_error",
        },
        Overflow(),
    ),
    "llama-cpp-python": (
        500,
        openai("Requested tokens (2285) exceed context window of 2048", kind="internal_server_error"),
        Overflow(tokens=2285, window=2048),
    ),
    "Ollama": (
        400,
        openai("prompt too long; exceeded max context length by 1101 tokens", kind="invalid_request_error"),
        Overflow(),
    ),
    "Ollama, its own API": (400, "the input length exceeds the context length", Overflow()),
    "LM Studio, of a model loaded with little room": (
        400,
        (
            "Trying to keep the first 6120 tokens when context the overflows. However, the model is loaded "
            "with context length of only 4096 tokens, which is not enough. Try to load the model with a "
            "larger context length, or provide a shorter input"
        ),
        Overflow(tokens=6120, window=4096),
    ),
    "LM Studio": (
        400,
        (
            "The number of tokens to keep from the initial prompt is greater than the context length. Try "
            "to load the "
            "model with a larger context length, or provide a shorter input"
        ),
        Overflow(),
    ),
    "OpenRouter": (
        400,
        {
            "message": "This endpoint's maximum context length is 32768 tokens. However, you requested "
            "about 42832 "
            'tokens (42832 of text input). Please reduce the length of either one, or use the "middle-out" '
            "transform to compress your prompt automatically.",
            "code": 400,
            "metadata": {"provider_name": None},
        },
        Overflow(tokens=42832, window=32768),
    ),
    "OpenRouter, another provider's error inside": (
        502,
        {
            "message": "Provider returned error",
            "code": 502,
            "metadata": {"raw": {"error": {"code": "context_length_exceeded", "message": "too long"}}},
        },
        Overflow(),
    ),
    "LiteLLM": (
        400,
        {
            "message": "litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicException "
            "- prompt is "
            "too long: 201234 tokens > 200000 maximum",
            "type": None,
            "param": None,
            "code": "400",
        },
        Overflow(tokens=201234, window=200000),
    ),
    "Mistral": (
        400,
        {
            "object": "error",
            "message": "Prompt contains 40123 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum "
            "context length",
            "type": "invalid_request_prompt",
            "code": "3051",
        },
        Overflow(tokens=40123, window=32768),
    ),
    "Groq": (
        400,
        openai(
            "Please reduce the length of the messages or completion.",
            code="context_length_exceeded",
        ),
        Overflow(),
    ),
    "xAI": (
        400,
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        Overflow(tokens=537812, window=131072),
    ),
    "GitHub Copilot": (
        400,
        openai(
            "prompt token count of 130001 exceeds the limit of 128000",
            code="model_max_prompt_tokens_exceeded",
        ),
        Overflow(tokens=130001, window=128000),
    ),
}

OTHERS = {
    "a model that is not loaded": (400, "No models loaded. Please load a model with a context length."),
    "OpenAI, tokens per minute": (
        429,
        openai(
            "Rate limit reached for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, "
            "Used 29500, "
            "Requested 1200. Please try again in 1.4s.",
            code="rate_limit_exceeded",
            kind="tokens",
        ),
    ),
    "OpenAI, one request above the limit a minute": (
        429,
        openai(
            "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, "
            "Requested "
            "38123. The input or output tokens must be reduced in order to run successfully.",
            code="rate_limit_exceeded",
            kind="tokens",
        ),
    ),
    "Groq, the same as 413": (
        413,
        openai(
            "Request too large for model `llama-3.3-70b` in organization `org_1` service tier "
            "`on_demand` on tokens "
            "per minute (TPM): Limit 6000, Requested 8123, please reduce your message size and try again.",
            code="rate_limit_exceeded",
            kind="tokens",
        ),
    ),
    "Anthropic, a rate limit": (
        429,
        {
            "type": "error",
            "error": {
                "type": "rate_limit_error",
                "message": "This request would exceed your organization's rate limit of 40,000 input "
                "tokens per "
                "minute. Please reduce the prompt length.",
            },
        },
    ),
    "Google, a quota": (
        429,
        {
            "error": {
                "code": 429,
                "status": "RESOURCE_EXHAUSTED",
                "message": "You exceeded your current quota: input token count exceeds the maximum",
            }
        },
    ),
    "OpenAI, room for the reply": (
        400,
        openai(
            "max_tokens is too large: 20000. This model supports at most 16384 completion tokens, "
            "whereas you "
            "provided 20000.",
            code="invalid_value",
        ),
    ),
    "vLLM, room for the reply": (
        400,
        {
            "message": "'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's "
            "maximum context "
            "length is 4096 tokens and your request has 150 input tokens (8000 > 4096 - 150).",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "OpenRouter, room for the reply": (
        400,
        (
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 138956 "
            "tokens (7884 "
            "of text input, 131072 in the output). Please reduce the length of either one."
        ),
    ),
    "Anthropic, room for the reply": (
        400,
        {
            "error": {
                "type": "invalid_request_error",
                "message": "max_tokens: 300000 > 128000, which is the maximum allowed number of output "
                "tokens",
            }
        },
    ),
    "a wrong key": (401, openai("Incorrect API key provided.", code="invalid_api_key")),
    "an unknown model": (404, openai("The model `gpt-9` does not exist", code="model_not_found")),
    "a call without its result": (
        400,
        openai("An assistant message with 'tool_calls' must be followed by tool messages"),
    ),
    "a fault": (500, openai("The server had an error while processing your request.", kind="server_error")),
    "a tool's schema": (400, openai("Invalid schema for function 'look': too long", code="invalid_function")),
}
