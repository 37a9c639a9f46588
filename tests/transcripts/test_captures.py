from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.transcripts import (
    anthropic_messages,
    langfuse,
    langsmith,
    openai_chat,
    openai_responses,
    openinference,
    otel_genai,
)
from loopwarden.transcripts.model import ReadNotes
from tests.transcripts.handmade import as_document, as_lines, assert_survives, read, source_of
from tests.transcripts.tale import tales

if TYPE_CHECKING:
    from loopwarden.transcripts.model import Reader

READERS: list[Reader] = [
    anthropic_messages.READER,
    langfuse.READER,
    langsmith.READER,
    openai_chat.READER,
    openai_responses.READER,
    openinference.READER,
    otel_genai.READER,
]
USER = {"role": "user", "content": "look"}


def nested(before: bytes, after: bytes, depth: int) -> bytes:
    return before * depth + b"{}" + after * depth


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
@pytest.mark.parametrize(
    "data",
    [
        nested(b"[", b"]", 1000),
        nested(b'{"data":[', b"]}", 500),
        nested(b'{"runs":[', b"]}", 500),
        nested(b'{"spans":[', b"]}", 500),
        nested(b'{"request":', b"}", 1000),
        nested(b'{"log":{"entries":[', b"]}}", 330),
        nested(b'{"observations":[', b"]}", 500),
        nested(b'{"span_id":"x","child_spans":[', b"]}", 500),
        nested(b'{"run_type":"tool","child_runs":[', b"]}", 500),
        b'[{"role":"tool","content":' + nested(b"[", b"]", 900) + b"}]",
        b'[{"type":"x_call","input":' + nested(b'{"a":', b"}", 900) + b"}]",
        b'{"span_id":"x","attributes":{"gen_ai.tool.name":' + nested(b'{"a":', b"}", 900) + b"}}",
        b"[" * 100_000,
    ],
    ids=lambda data: data[:30].decode(),
)
def test_depth_is_no_danger(reader: Reader, data: bytes) -> None:
    assert_survives(reader, data)
    assert_survives(reader, data + b"\n" + data)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
@pytest.mark.parametrize("value", [{}, [], {"a": 1}, [{"a": 1}], [1, "x"]])
def test_a_file_without_anything_of_the_format_is_one_error(reader: Reader, value: object) -> None:
    source = source_of(as_document(value))
    assert not reader.sniff(source)
    with pytest.raises(TranscriptError, match="holds no"):
        list(reader.read(source, ReadNotes()))


def test_requests_that_failed_leave_their_history() -> None:
    lines = [
        {"request": {"messages": [USER]}, "response": {"error": {"message": "overloaded"}}},
        {"request": {"messages": [USER]}, "response": {"status": 429, "body": "slow down"}},
    ]
    items, notes = read(openai_chat.READER, as_lines(lines))
    assert tales(items) == ["u"]
    assert notes.counts == {"copied_history": 1}


def test_batches_name_their_conversations() -> None:
    lines = [{"custom_id": f"task {name}", "body": {"messages": [USER | {"content": name}]}} for name in "ab"]
    items, _ = read(openai_chat.READER, as_lines(lines))
    assert [getattr(item, "title", None) for item in items][::2] == ["task a", "task b"]


def test_lines_that_are_no_exchange_are_counted() -> None:
    data = as_lines([{"messages": [USER]}]) + b"not json\n" + as_lines([{"other": 1}])
    items, notes = read(openai_chat.READER, data)
    assert tales(items) == ["u"]
    assert notes.counts == {"bad_line": 1, "unknown_record": 1}
    assert notes.first_line == {"bad_line": 2, "unknown_record": 3}


def test_times_of_a_har_are_those_of_the_requests() -> None:
    entry = {
        "startedDateTime": "2026-01-01T00:00:00Z",
        "request": {"postData": {"text": '{"messages":[{"role":"user","content":"x"}]}'}},
        "response": {"content": {"encoding": "base64", "text": "not base64!"}},
    }
    items, _ = read(openai_chat.READER, as_document({"log": {"entries": [entry]}}))
    assert [item.event.at for item in items[1:]] == [1767225600.0]  # type: ignore[union-attr]  # events only
