from __future__ import annotations

import re
from typing import Any

import pytest

from loopwarden.transcripts.openai_chat import READER
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import SAMPLES, Facts, facts, items_of
from tests.transcripts.handmade import (
    as_document,
    as_lines,
    assert_survives_damage,
    other_samples,
    read,
    source_of,
)
from tests.transcripts.recordings import Recording, captures, stream
from tests.transcripts.tale import tale, tales, turns

USER = {"role": "user", "content": "look"}


def asked(*calls: tuple[str, str, str], text: str | None = None) -> dict[str, Any]:
    """An assistant message with calls of (id, tool, JSON arguments)."""
    made = [
        {"id": call, "type": "function", "function": {"name": tool, "arguments": given}}
        for call, tool, given in calls
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}


def gave(call: str, text: object) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": text}


def answer(message: dict[str, Any], read_tokens: int) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{read_tokens}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": read_tokens, "completion_tokens": 2},
    }


def chunks(message: dict[str, Any], read_tokens: int) -> str:
    """The answer in pieces: names first, then arguments, then the tokens."""
    calls = message.get("tool_calls", [])
    head = {"object": "chat.completion.chunk", "id": f"chatcmpl-{read_tokens}", "model": "m-1"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": message["content"]}]
    for index, call in enumerate(calls):
        name, given = call["function"]["name"], call["function"]["arguments"]
        begun = {"index": index, "id": call["id"], "function": {"name": name, "arguments": given[:3]}}
        deltas += [{"tool_calls": [begun]}]
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": given[3:]}}]}]
    last = {
        **head,
        "choices": [],
        "usage": {"prompt_tokens": read_tokens, "completion_tokens": 2},
    }
    return stream(*({**head, "choices": [{"index": 0, "delta": delta}]} for delta in deltas), last)


REPLIES = [
    asked(("c1", "read", '{"a":1}')),
    asked(("c2", "read", '{"a":2}'), ("c3", "list", "{}"), text="both"),
    asked(text="done"),
]
HISTORY = [
    {"role": "system", "content": "be good"},
    USER,
    REPLIES[0],
    gave("c1", "one"),
    REPLIES[1],
    gave("c3", [{"type": "text", "text": "three"}]),
    gave("c2", "two"),
    REPLIES[2],
]
RECORDING = Recording(
    requests=[{"model": "m", "messages": HISTORY[:end]} for end in (2, 4, 7)],
    answers=[answer(message, tokens) for message, tokens in zip(REPLIES, (10, 20, 30), strict=True)],
    messages=HISTORY,
    streams=[chunks(message, tokens) for message, tokens in zip(REPLIES, (10, 20, 30), strict=True)],
)
ALL = 'u read({"a":1}) $10/2 =one read({"a":2}) list({}) $20/2 =three =two $30/2'


def without_tokens(text: str) -> str:
    return " ".join(word for word in text.split() if not word.startswith("$"))


@pytest.mark.parametrize(
    ("sample", "calls", "win", "winres"),
    [
        ("openai-chat/tau_retail_task27.messages.json", 10, 2, 1),
        ("openai-chat/tau_retail_task3.messages.json", 10, 2, 2),
        ("openai-chat/tau_retail_task4.messages.json", 16, 2, 2),
    ],
)
def test_facts(sample: str, calls: int, win: int, winres: int) -> None:
    assert facts(items_of(READER, sample)) == Facts(calls=calls, win=win, winres=winres, streak=1)


def test_capture_of_several_conversations() -> None:
    told = tales(items_of(READER, "openai-chat/tool_search.json"))
    assert [text.count("(") for text in told] == [2, 2, 0, 0]
    assert [text.split()[0] for text in told] == ["u"] * 4
    assert [len(re.findall(r" \$\d+/", text)) for text in told] == [3, 3, 1, 1]


@pytest.mark.parametrize(("container", "data"), list(captures(RECORDING)))
def test_every_capture_is_read_once(container: str, data: bytes) -> None:
    items, notes = read(READER, data)
    assert tale(items) == ALL, container
    assert turns(items) == [["read"], ["read", "list"]]
    assert notes.counts["copied_history"] == 2
    assert {kind for kind in notes.counts if kind != "copied_history"} <= {"unknown_record"}


@pytest.mark.parametrize(
    "data",
    [
        as_document(HISTORY),
        as_lines(HISTORY),
        as_lines([HISTORY]),
        as_document({"messages": HISTORY, "tools": []}),
        as_lines([{"messages": HISTORY}]),
        as_lines([{"custom_id": "t", "method": "POST", "url": "/v1/x", "body": {"messages": HISTORY}}]),
        as_lines([*RECORDING.requests, {"messages": HISTORY}]),
        as_document([{"messages": HISTORY[:4]}, HISTORY]),
    ],
)
def test_histories_without_answers(data: bytes) -> None:
    items, _ = read(READER, data)
    assert tale(items) == without_tokens(ALL)


def test_requests_alone_lack_the_last_answer() -> None:
    items, notes = read(READER, as_lines(RECORDING.requests))
    assert tale(items) == without_tokens(ALL)
    items, notes = read(READER, as_lines(RECORDING.requests[:2]))
    assert tale(items) == 'u read({"a":1}) =one'
    assert notes.counts["call_without_result"] == 0


def test_each_line_of_a_data_set_is_a_conversation_of_its_own() -> None:
    other = [USER | {"content": "other"}, asked(("c1", "list", "{}")), gave("c1", "x")]
    items, _ = read(READER, as_lines([{"messages": HISTORY}, {"messages": other}]))
    assert tales(items) == [without_tokens(ALL), "u list({}) =x"]


def test_old_function_calls_are_paired_by_name() -> None:
    history = [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": '{"a":1}'}},
        {"role": "function", "name": "read", "content": "one"},
        {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "no json"}},
        {"role": "function", "name": "read", "content": None},
    ]
    items, notes = read(READER, as_document(history))
    assert tale(items) == 'u read({"a":1}) =one read("no json") ='
    assert not notes.counts


def test_custom_tools_and_images() -> None:
    history = [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "a"},
    ]
    assert tale(read(READER, as_document(history))[0]) == 'u sh("ls") =a'


def test_what_does_not_pair_is_counted() -> None:
    history = [
        USER,
        asked(("c1", "read", "{}"), ("c1", "read", "{}")),
        gave("c1", "newest"),
        gave("gone", "x"),
        asked(("c2", "read", "{}")),
    ]
    items, notes = read(READER, as_document(history))
    assert tale(items) == "u read({}) read({}) =newest read({})"
    assert notes.counts == {"reused_id": 1, "result_without_call": 1, "call_without_result": 2}


@pytest.mark.parametrize("sample", [name for name in other_samples() if not name.startswith("openai-chat/")])
def test_no_other_sample_is_taken(sample: str) -> None:
    assert not READER.sniff(Source(SAMPLES / sample))


@pytest.mark.parametrize(
    "value",
    [
        [USER, {"role": "assistant", "content": "do\n```bash\nls\n```"}],
        [{"role": "user", "parts": [{"text": "x"}]}],
        {"traj": HISTORY},
        [],
        {},
        [1],
        "x",
        {"messages": []},
        {"messages": HISTORY, "trajectory_format": "mini-swe-agent-1.1"},
    ],
)
def test_what_is_no_chat(value: object) -> None:
    assert not READER.sniff(source_of(as_document(value)))


def test_large_documents_are_known_by_their_beginning() -> None:
    long = [{"role": "system", "content": "x" * 50_000}, *HISTORY, gave("c", "y" * 50_000)]
    assert READER.sniff(source_of(as_document({"messages": long})))
    assert READER.sniff(source_of(as_lines([long])))


def test_damage() -> None:
    assert_survives_damage(READER, [HISTORY[1:5]], lines=False)
    assert_survives_damage(
        READER, [{"request": {"messages": [USER]}, "response": RECORDING.answers[0]}], lines=True
    )
