from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.events import ToolCall
from loopwarden.transcripts.messages import Call, Exchange, Message, Reply, Result, Words
from loopwarden.transcripts.model import ReadNotes, Spent, StreamStart
from loopwarden.transcripts.spans import Span, replay
from tests.transcripts.facts import events
from tests.transcripts.handmade import assert_sound
from tests.transcripts.tale import tale, tales, turns

if TYPE_CHECKING:
    from loopwarden.transcripts.model import Item


def tool(span_id: str, start: float | None = None, end: float | None = None, **more: Any) -> Span:
    known: dict[str, Any] = {"parent": None, "trace": "t", "name": "read", "has_arguments": True}
    known |= {"arguments": 1, "outcome": ("x", None)}
    return Span(span_id=span_id, role="tool", start=start, end=end, **(known | more))


def other(span_id: str, role: Any, start: float, **more: Any) -> Span:
    known: dict[str, Any] = {"parent": None, "trace": "t", "name": span_id, "end": start + 0.5}
    return Span(span_id=span_id, role=role, start=start, **(known | more))


def played(*spans: Span) -> tuple[list[Item], dict[str, int]]:
    notes = ReadNotes()
    items = list(replay(spans, notes))
    assert_sound(items)
    return items, dict(notes.counts)


def test_spans_are_put_in_the_order_of_their_start() -> None:
    items, _ = played(tool("b", 3, 4, arguments=2), tool("a", 1, 2))
    assert tale(items) == 'read(1) ="x" read(2) ="x"'


def test_an_order_of_the_format_goes_before_times() -> None:
    items, _ = played(tool("b", 1, 1, order="2", arguments=2), tool("a", 1, 1, order="1"))
    assert tale(items) == 'read(1) ="x" read(2) ="x"'


def test_calls_that_run_at_the_same_time() -> None:
    items, _ = played(
        tool("a", 1, 5, outcome=("slow", None)), tool("b", 2, 3, arguments=2, outcome=("fast", None))
    )
    assert tale(items) == 'read(1) read(2) ="fast" ="slow"'


def test_times_may_be_missing() -> None:
    items, _ = played(tool("a"), tool("b", arguments=2), tool("c", 1, arguments=3))
    assert tale(items) == 'read(1) ="x" read(2) ="x" read(3) ="x"'


def test_calls_after_one_reply_are_one_turn() -> None:
    items, _ = played(
        tool("a", 0, 1, name="alone"),
        other("m1", "model", 2),
        tool("b", 3, 4, name="b"),
        tool("c", 3, 4, name="c"),
        other("m2", "model", 5),
        tool("d", 6, 7, name="d"),
    )
    assert turns(items) == [["alone"], ["b", "c"], ["d"]]
    assert events(items, ToolCall)[0].turn_id is None


def test_tokens_come_after_the_calls_of_their_reply_and_once() -> None:
    items, _ = played(
        other("agent", "agent", 0, usage=(30, 3)),
        other("wrapper", "model", 1, parent="agent", usage=(30, 3)),
        other("m1", "model", 1.1, parent="wrapper", usage=(10, 1)),
        tool("a", 2, 3, parent="agent"),
        other("m2", "model", 4, parent="wrapper", usage=(20, 2), cost=0.5),
    )
    assert tale(items) == 'read(1) ="x" $10/1 $20/2'
    assert [item.cost for item in items if isinstance(item, Spent)] == [None, 0.5]


def test_tokens_of_an_agent_count_where_no_model_tells_any() -> None:
    items, _ = played(other("agent", "agent", 0, usage=(30, 3)), tool("a", 2, 3, parent="agent"))
    assert tale(items) == 'read(1) ="x" $30/3'


def test_arguments_that_were_not_recorded_are_never_equal() -> None:
    spans = [tool(name, at, at, has_arguments=False, outcome=None) for at, name in enumerate("abc")]
    items, notes = played(*spans)
    assert len({str(call.arguments) for call in events(items, ToolCall)}) == 3
    assert notes == {"call_without_result": 3}


def test_a_tool_without_arguments_among_others_keeps_none() -> None:
    items, _ = played(tool("a", 1, 2), tool("b", 3, 4, has_arguments=False, arguments=None))
    assert [call.arguments for call in events(items, ToolCall)] == [1, None]


def test_failures() -> None:
    items, _ = played(tool("a", 1, 2, outcome=(None, "no file")))
    assert tale(items) == "read(1) !no_file"


def test_streams_are_conversations_traces_and_sub_agents() -> None:
    items, _ = played(
        tool("x", 9, 9, trace="u"),
        tool("a", 1, 1, trace="t1", thread="chat"),
        tool("b", 2, 2, trace="t2", thread="chat"),
        other("root", "agent", 3, trace="t3"),
        tool("task", 4, 8, trace="t3", parent="root", name="task"),
        other("chain", "other", 4.2, trace="t3", parent="task"),
        other("sub", "agent", 4.5, trace="t3", parent="chain"),
        tool("inner", 5, 6, trace="t3", parent="sub", arguments=2),
    )
    starts = [(item.stream, item.parent, item.agent) for item in items if isinstance(item, StreamStart)]
    assert starts == [("chat", None, None), ("t3", None, "root"), ("t3/sub", "t3", "sub"), ("u", None, None)]
    assert tales(items) == ['read(1) ="x" read(1) ="x"', 'task(1) ="x"', 'read(2) ="x"', 'read(1) ="x"']


def test_agents_without_a_tool_between_them_share_a_stream() -> None:
    items, _ = played(
        other("root", "agent", 1),
        other("handoff", "agent", 2, parent="root"),
        tool("a", 3, 4, parent="handoff"),
    )
    assert tale(items) == 'read(1) ="x"'


def test_a_call_recorded_by_two_layers_counts_once() -> None:
    items, _ = played(tool("outer", 1, 4), tool("inner", 2, 3, parent="outer"))
    assert tale(items) == 'read(1) ="x"'
    items, _ = played(tool("outer", 1, 4), tool("inner", 2, 3, parent="outer", name="other"))
    assert tale(items) == 'read(1) other(1) ="x" ="x"'


def test_a_span_told_twice_counts_once() -> None:
    items, notes = played(
        tool("a", 1, 2), tool("a", 1, None, outcome=None), tool("a", 1, 3, outcome=("y", None))
    )
    assert tale(items) == 'read(1) ="y"'
    assert notes == {"replaced_record": 2}


def test_parents_in_a_ring_end() -> None:
    items, _ = played(
        tool("a", 1, 2, parent="b"),
        other("b", "agent", 0, parent="a", usage=(1, 1)),
        other("c", "other", 3, parent="c"),
    )
    assert tale(items) == 'read(1) ="x" $1/1'


def model(span_id: str, start: float, history: list[Message], *steps: Any) -> Span:
    reply = Reply(message=Message(by_model=True, steps=steps))
    exchange = Exchange(history=tuple(history) or None, reply=reply)
    return other(span_id, "model", start, exchange=exchange, usage=(10, 1))


USER = Message(by_model=False, steps=(Words(author="user", text="go"),))
CALL = Call(tool="list", arguments=2, call_id="c")
GAVE = Message(by_model=False, steps=(Result(call_id="c", result="y"),))


def test_calls_in_messages_count_where_there_are_no_tool_spans() -> None:
    spans = [
        model("m1", 1, [USER], CALL),
        model("m2", 2, [USER, Message(by_model=True, steps=(CALL,)), GAVE], Words(author="model", text="so")),
    ]
    items, notes = played(*spans)
    assert tale(items) == 'u list(2) $10/1 ="y" $10/1'
    assert notes == {"copied_history": 1}


def test_calls_in_messages_never_count_beside_tool_spans() -> None:
    items, _ = played(model("m1", 1, [USER], CALL), tool("a", 2, 3, name="list", arguments=2))
    assert tale(items) == 'u list(2) ="x" $10/1'


@pytest.mark.parametrize("asked", [True, False])
def test_words_of_people_are_told_once(asked: bool) -> None:
    items, _ = played(
        other("root", "agent", 0, asked=True),
        *([model("m1", 1, [USER]), model("m2", 3, [USER, USER])] if not asked else []),
        tool("a", 2, 2),
    )
    assert tale(items).replace(" $10/1", "").count("u") == (1 if asked else 2)
