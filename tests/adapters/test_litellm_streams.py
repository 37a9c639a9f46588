"""What needs no proxy: streams that are cut anywhere, and what other workers are handed."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.adapters.litellm_conversations import Conversation, Conversations
from loopwarden.adapters.litellm_formats import DIALECTS
from loopwarden.adapters.litellm_streams import AnthropicStream
from tests.adapters.contract import Ask
from tests.adapters.litellm_wire import FORMATS, Anthropic
from tests.adapters.writing_guard import WritingGuard

CALLS = [Ask(tool="look", call_id=f"c{number}", query="ü") for number in range(3)]
STREAM = Anthropic.stream(CALLS, "let me see")


def passed(stream: AnthropicStream, chunks: list[bytes], refused: set[str]) -> bytes:
    units = [unit for chunk in chunks for unit in stream.units(chunk)]
    sent = [stream.passed(unit, refused) for unit in units]
    return b"".join(unit for unit in sent if unit is not None) + (stream.rest() or b"")


@pytest.mark.parametrize("whole", [STREAM, STREAM.replace(b"\n", b"\r\n")])
@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_a_stream_that_is_cut_anywhere_is_the_same(whole: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(whole)]
    chunks = [whole[start:end] for start, end in itertools.pairwise(places)]
    stream = AnthropicStream()
    assert passed(stream, chunks, set()) == whole
    assert stream.reply() == Anthropic.assembled(STREAM.decode())


@given(st.sets(st.sampled_from([call.call_id for call in CALLS])))
def test_refused_calls_are_taken_out_of_a_stream(refused: set[str]) -> None:
    stream = AnthropicStream()
    left = Anthropic.assembled(passed(stream, [STREAM], refused).decode())
    assert [call_id for call_id, _, _ in Anthropic.asked(left)] == [
        call.call_id for call in CALLS if call.call_id not in refused
    ]
    assert Anthropic.text(left) == "let me see"


@given(st.binary(max_size=200))
def test_any_bytes_pass(data: bytes) -> None:
    assert passed(AnthropicStream(), [data], set()) == data


def test_a_reply_goes_on_where_the_one_before_was_left() -> None:
    """The client has the words of the first reply when its call is refused."""
    stream = AnthropicStream()
    head = [unit for unit in stream.units(STREAM) if b"let me see" in unit or b'"text"' in unit]
    begun = [stream.passed(unit) for unit in list(AnthropicStream().units(STREAM))[:1] + head]
    stream.again()
    more = passed(stream, [Anthropic.stream([CALLS[0]], "or so")], set())
    stop = b'data: {"type": "content_block_stop", "index": 0}\n\n'
    reply = Anthropic.assembled((b"".join(filter(None, begun)) + stop + more).decode())
    assert Anthropic.text(reply) == "let me seeor so"
    assert [call_id for call_id, _, _ in Anthropic.asked(reply)] == ["c0"]


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_handed_on_has_no_payload(name: str) -> None:
    form, dialect = (
        FORMATS[name],
        DIALECTS[{"chat": "acompletion", "anthropic": "anthropic_messages"}.get(name, "aresponses")],
    )
    guard = WritingGuard()
    conversations = Conversations(guard, 9)
    history: list[dict[str, Any]] = [form.person("the secret")]
    for number in range(5):
        told = dialect.parsed(history)
        found = conversations.of((None, None), told)
        found.heard(told, None, part=False)
        reply = form.read(form.body([Ask(tool="look", call_id=f"c{number}", query="secret")], None))
        allowed, refused = found.said(told, dialect.parsed(reply), part=False)
        assert not refused
        conversations.keep((None, None), told, found, allowed)
        history += [*reply, form.answer(f"c{number}", "a secret result")]
    saved = found.saved()
    assert b"secret" not in saved
    again = Conversation(guard, "other")
    again.restore(saved)
    assert again.saved() == saved
    assert json.loads(saved)["replies"] == 5
    assert again.shown(dialect, history) == found.shown(dialect, history) != history
