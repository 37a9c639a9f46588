"""Which of the tokens read came from a provider's cache, where a format tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.transcripts.model import ReadNotes, Spent
from loopwarden.transcripts.registry import by_name, read
from loopwarden.transcripts.stream import Stream
from tests.transcripts import (
    test_atif,
    test_codex,
    test_langfuse,
    test_langsmith,
    test_openai_chat,
    test_openai_responses,
    test_openinference,
    test_otel_genai,
)
from tests.transcripts.facts import SAMPLES
from tests.transcripts.handmade import as_document, as_lines, source_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.transcripts.model import Item


def tokens(items: Iterable[Item]) -> tuple[int, int]:
    """Tokens read, and those of them that were cached."""
    spent = [item for item in items if isinstance(item, Spent)]
    return sum(item.input_tokens for item in spent), sum(item.cached_tokens for item in spent)


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ("claude-code/real_records_one_of_each_tool.jsonl", (479930, 391306)),
        ("inspect/browser_agent.json.gz", (15235, 9088)),
        ("mini-swe-agent/v2_pydicom-1139_head.traj.json", (8078, 4864)),
        ("openclaw/openclaw_v3_real_head.jsonl", (28585, 15488)),
    ],
)
def test_samples(sample: str, expected: tuple[int, int]) -> None:
    assert tokens(read(SAMPLES / sample).items) == expected


def counted(read_tokens: int, cached: int) -> dict[str, Any]:
    total = {"input_tokens": read_tokens, "output_tokens": 1, "cached_input_tokens": cached}
    return test_codex.line("event_msg", type="token_count", info={"total_token_usage": total})


CHAT = test_openai_chat.answer({"role": "assistant", "content": "done"}, 10)
RESPONSE = test_openai_responses.answer([test_openai_responses.said("done")], 10)
MADE: list[tuple[str, bytes]] = [
    ("codex", as_lines([test_codex.line("session_meta", **test_codex.META), counted(4, 1), counted(10, 7)])),
    (
        "atif",
        as_document(
            test_atif.trajectory(
                test_atif.agent(results=None, metrics={"prompt_tokens": 10, "cached_tokens": 7})
            )
        ),
    ),
    (
        "atif",
        as_document(
            test_atif.trajectory(
                test_atif.agent(), final_metrics={"total_prompt_tokens": 10, "total_cached_tokens": 7}
            )
        ),
    ),
    (
        "openai-chat",
        as_document(CHAT | {"usage": CHAT["usage"] | {"prompt_tokens_details": {"cached_tokens": 7}}}),
    ),
    (
        "openai-responses",
        as_document(RESPONSE | {"usage": RESPONSE["usage"] | {"input_tokens_details": {"cached_tokens": 7}}}),
    ),
    (
        "langfuse",
        as_document(
            test_langfuse.trace(
                test_langfuse.generation(
                    1, [test_langfuse.USER], None, usageDetails={"input": 3, "input_cached_tokens": 7}
                )
            )
        ),
    ),
    (
        "langsmith",
        as_lines(
            [
                test_langsmith.run(
                    "n",
                    "llm",
                    3,
                    outputs={
                        "usage_metadata": {"input_tokens": 10, "input_token_details": {"cache_read": 7}}
                    },
                )
            ]
        ),
    ),
    *(
        (
            "otel-genai",
            as_document(
                test_otel_genai.otlp(test_otel_genai.chat("m", 1, {"gen_ai.usage.input_tokens": 10, name: 7}))
            ),
        )
        for name in ("gen_ai.usage.cache_read.input_tokens", "ai.usage.cachedInputTokens")
    ),
    (
        "openinference",
        as_document(
            [
                test_openinference.span(
                    "m",
                    1,
                    "LLM",
                    {"llm.token_count.prompt": 10, "llm.token_count.prompt_details.cache_read": 7},
                )
            ]
        ),
    ),
]


@pytest.mark.parametrize(("format_name", "data"), MADE)
def test_made_files(format_name: str, data: bytes) -> None:
    assert tokens(by_name(format_name).read(source_of(data), ReadNotes())) == (10, 7)


def test_no_more_are_cached_than_were_read() -> None:
    (spent,) = Stream("s", ReadNotes()).spent(5, 1, cached=9)
    assert spent.cached_tokens == 5
