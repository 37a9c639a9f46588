"""Histories that are made shorter, or made usable again: what always holds."""

from __future__ import annotations

import asyncio
import contextlib
from itertools import count
from typing import Any

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from loopwarden.runner.compaction import HEADING, Compacted, NothingFreed, compact
from loopwarden.runner.history import context_of, from_json, to_json, tokens_of, usable


def prompt(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def calls(*ids: str, argument: str = "a") -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart("look", {"query": argument}, call_id) for call_id in ids])


def results(*ids: str, text: str = "nothing") -> ModelRequest:
    return ModelRequest(parts=[ToolReturnPart("look", text, call_id) for call_id in ids])


def said(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


@st.composite
def histories(draw: st.DrawFn) -> list[ModelMessage]:
    """Histories that end in a request: people, replies, batches of calls, with texts of all lengths."""
    numbers = count()
    messages: list[ModelMessage] = []
    for _ in range(draw(st.integers(1, 6))):
        messages.append(prompt(f"task {next(numbers)} " + "w " * draw(st.integers(0, 600))))
        for _ in range(draw(st.integers(0, 5))):
            ids = [f"c{next(numbers)}" for _ in range(draw(st.integers(1, 3)))]
            messages.append(calls(*ids, argument="a" * draw(st.integers(0, 2000))))
            messages.append(results(*ids, text="r" * draw(st.integers(0, 4000))))
        messages.append(said("done " * draw(st.integers(1, 200))))
    messages.pop()
    return messages


def made_of(messages: list[ModelMessage], **options: Any) -> tuple[Compacted | None, list[str]]:
    records: list[str] = []

    async def summarise(record: str) -> str:
        records.append(record)
        return "in short"

    options.setdefault("window", None)
    with contextlib.suppress(NothingFreed):
        return asyncio.run(compact(messages, summarise, **options)), records
    return None, records


def prompts(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    return [str(part.content) for part in parts]


def paired(messages: list[ModelMessage]) -> bool:
    open_ids: set[str] = set()
    for message in messages:
        if isinstance(message, ModelResponse):
            if open_ids:
                return False
            open_ids = {call.tool_call_id for call in message.tool_calls}
        else:
            found = {part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)}
            if not found <= open_ids:
                return False
            open_ids -= found
    return not open_ids


@given(histories(), st.none() | st.integers(256, 8000))
def test_what_holds_of_every_compaction(messages: list[ModelMessage], window: int | None) -> None:
    before = to_json(messages)
    made, records = made_of(messages, window=window)
    assert to_json(messages) == before, "what is given is not changed"
    if made is None:
        return
    assert paired(made.messages)
    assert tokens_of(made.messages) < tokens_of(messages)
    assert made.after < made.before
    assert prompts(made.messages)[-1] == prompts(messages)[-1], "the last message of a person is kept"
    last = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    kept = [part for message in made.messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if last and isinstance(messages[-1].parts[0], ToolReturnPart):
        assert kept[-1].tool_call_id == last[-1].tool_call_id, "the newest call is kept"
    assert len(records) <= 1
    assert isinstance(made.messages[-1], ModelRequest)


def test_a_summary_is_summed_up_with_what_came_after_it() -> None:
    messages: list[ModelMessage] = [prompt("task"), *_work(20)]
    first, _ = made_of(messages)
    assert first is not None
    assert prompts(first.messages) == [f"{HEADING}\n\nin short", "task"]
    second, records = made_of([*first.messages, *_work(20)])
    assert second is not None
    assert prompts(second.messages) == [f"{HEADING}\n\nin short", "task"]
    assert "in short" in records[0]
    assert "task" in records[0]


def test_a_long_result_that_is_kept_is_shortened() -> None:
    messages: list[ModelMessage] = [
        prompt("task"),
        calls("c1"),
        results("c1", text="x" * 100_000 + "the end"),
    ]
    made, records = made_of(messages, window=4000)
    assert made is not None
    assert records == [], "there is nothing to sum up"
    text = str(made.messages[-1].parts[0].content)  # type: ignore[union-attr] - a result
    assert len(text) < 4000
    assert text.endswith("the end")
    assert "characters left out" in text


def test_long_arguments_that_are_kept_are_shortened() -> None:
    messages: list[ModelMessage] = [prompt("task"), calls("c1", argument="x" * 100_000), results("c1")]
    made, _ = made_of(messages, window=4000)
    assert made is not None
    (call,) = made.messages[1].tool_calls  # type: ignore[union-attr] - a reply
    assert 400 < len(call.args_as_dict()["query"]) < 4000


@pytest.mark.parametrize("counted", [True, False])
def test_dense_text_is_measured_as_the_provider_counts_it(counted: bool) -> None:
    messages: list[ModelMessage] = [prompt("task")]
    for number in range(20):
        messages += [calls(f"c{number}"), results(f"c{number}", text="x" * 2000)]
    letters = 20 * 2000
    dense, records = made_of(messages, window=letters, tokens=letters if counted else None)
    usual, _ = made_of(messages, window=letters, tokens=tokens_of(messages))
    assert dense is not None
    kept = sum(len(str(part.content)) for part in _results(dense.messages))
    assert letters // 8 < kept <= letters // 4, "a token each: a quarter of the window"
    assert kept < dense.after < letters // 3
    assert len(records[0]) <= letters * 0.6
    assert usual is None, "of four letters a token all of it fits in a quarter"


def test_a_dense_result_that_is_kept_fits_a_quarter_of_the_window() -> None:
    messages = [prompt("task"), calls("c1", argument="y" * 20_000), results("c1", text="x" * 20_000)]
    made, _ = made_of(messages, window=20_000, tokens=40_000)
    assert made is not None
    assert len(to_json(made.messages)) - len(to_json([prompt("task"), calls("c1"), results("c1")])) <= 5_000
    loose, _ = made_of(messages, window=20_000, tokens=10_000)
    assert loose is not None
    assert len(to_json(loose.messages)) > 15_000


def test_nothing_to_leave_out() -> None:
    for messages in ([prompt("task " * 5000)], [prompt("task"), calls("c1"), results("c1")]):
        made, records = made_of(messages, window=1000)
        assert (made, records) == (None, [])


def test_what_the_provider_counted_is_no_longer_true() -> None:
    work = _work(20)
    for message in work:
        if isinstance(message, ModelResponse):
            message.usage = RequestUsage(input_tokens=5000, output_tokens=10)
    made, _ = made_of([prompt("task"), *work])
    assert made is not None
    assert context_of(work) >= 5010
    assert context_of(made.messages) < 3000


def test_the_length_of_a_request_is_what_was_counted_and_what_came_since() -> None:
    reply = calls("c1")
    reply.usage = RequestUsage(input_tokens=1000, output_tokens=20)
    messages: list[ModelMessage] = [prompt("task"), reply]
    assert context_of(messages) == 1020
    grown = context_of([*messages, results("c1", text="word " * 400)])
    assert 1020 + 400 <= grown <= 1020 + 600


@given(histories(), st.integers(0, 40))
def test_a_history_that_broke_off_anywhere_can_be_used(messages: list[ModelMessage], cut: int) -> None:
    whole = to_json(messages)
    assert to_json(usable(messages)) == whole, "one that is whole stays as it is"
    made = usable(messages[: len(messages) - cut])
    assert paired(made)
    assert to_json(usable(made)) == to_json(made)
    assert to_json(from_json(to_json(made))) == to_json(made)
    assert paired(usable(messages[cut:]))


def test_a_reply_that_broke_off() -> None:
    broken = ModelResponse(
        parts=[TextPart("I look"), ToolCallPart("look", '{"que', "c1")], state="interrupted"
    )
    asked: list[ModelMessage] = [prompt("task"), broken]
    assert usable(asked, asks_again=True) == asked[:1]
    kept = usable(asked)
    assert [part.part_kind for message in kept for part in message.parts] == ["user-prompt", "text"]
    nothing = ModelResponse(parts=[ToolCallPart("look", '{"que', "c1")], state="interrupted")
    asked[1] = nothing
    assert usable(asked) == asked[:1]


def test_some_of_the_calls_have_results() -> None:
    messages = [prompt("task"), calls("c1", "c2"), results("c2"), prompt("and?")]
    made = usable(messages)
    assert paired(made)
    parts = [part for message in made for part in message.parts if isinstance(part, ToolReturnPart)]
    texts = {part.tool_call_id: part.content for part in parts}
    assert texts["c2"] == "nothing"
    assert "cancelled" in str(texts["c1"])
    assert prompts(made) == ["task", "and?"]


def _results(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def _work(times: int) -> list[ModelMessage]:
    numbers = count()
    found: list[ModelMessage] = []
    for _ in range(times):
        call_id = f"w{next(numbers)}-{id(found)}"
        found += [calls(call_id), results(call_id, text="word " * 100)]
    return found
