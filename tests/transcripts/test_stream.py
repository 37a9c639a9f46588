from __future__ import annotations

import pytest

from loopwarden.events import Outcome, Retraction, ToolCall
from loopwarden.transcripts.model import ReadNotes, Spent
from loopwarden.transcripts.stream import Stream, StreamNames
from tests.transcripts.facts import events


def test_names_are_given_once() -> None:
    names = StreamNames()
    assert [names.take(name) for name in ("a", "a", "a~2", "b", "a")] == ["a", "a~2", "a~2~2", "b", "a~3"]


def test_calls_and_results_pair_within_a_stream() -> None:
    notes = ReadNotes()
    stream = Stream("s", notes)
    call = stream.call("f", {"x": 1}, given="c", turn="t", at=1.0)
    assert call.event == ToolCall(tool="f", arguments={"x": 1}, call_id="c", turn_id="t", at=1.0)
    (result,) = stream.result("c", "y", at=2.0)
    assert result.event == Outcome(call_id="c", result="y", at=2.0)
    assert list(stream.result("c", "again")) == []
    stream.call("f", None)
    stream.finish()
    assert stream.calls == 2
    assert notes.counts == {"result_without_call": 1, "call_without_result": 1}


def test_a_title_is_one_line_and_never_empty() -> None:
    stream = Stream("s", ReadNotes())
    assert stream.start("a\nb").title == "a"
    assert stream.start(" \n").title == "s"


def test_the_first_title_that_says_something_is_taken() -> None:
    stream = Stream("s", ReadNotes())
    assert stream.start(None, 7, "", "x", "y").title == "x"
    assert stream.start().title == "s"
    assert Stream(" ", ReadNotes()).start().title == "(no name)"


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        ((3.0, 1.0, 2.0), ["c2", "c3", "c1"]),
        ((3.0, None, 1.0), ["c1", "c2", "c3"]),  # times that are not told give no order
    ],
)
def test_held_results_come_as_they_came_in(ended: tuple[float | None, ...], told: list[str]) -> None:
    notes = ReadNotes()
    stream = Stream("s", notes)
    for at in ended:
        stream.call("f", None)
        stream.hold("y", at=at)
    assert [event.call_id for event in events(stream.release(), Outcome)] == told
    assert stream.release() == []
    stream.finish()
    assert notes.counts == {}


def test_open_calls_are_taken_back_once() -> None:
    stream = Stream("s", ReadNotes())
    for name in "abc":
        stream.call("f", None, given=name)
    stream.end("b")
    assert stream.end("b") == ()
    (item,) = stream.retract("abc", at=1.0)
    assert item.event == Retraction(call_ids=("a", "c"), at=1.0)
    assert stream.retract("abc") == ()
    (item,) = stream.retract("abc", ended=True)
    assert item.event == Retraction(call_ids=("a", "b", "c"))


def test_what_costs_nothing_is_not_told() -> None:
    stream = Stream("s", ReadNotes())
    assert stream.spent(0, 0, 0.0) == stream.spent() == ()
    assert stream.spent(1, 2, 0.5, 3.0) == (
        Spent(stream="s", input_tokens=1, output_tokens=2, cost=0.5, at=3.0),
    )


def test_a_call_that_the_file_never_answers_is_not_missed() -> None:
    notes = ReadNotes()
    stream = Stream("s", notes)
    stream.call("search", None, answered=False)
    stream.finish()
    assert notes.counts == {}


def test_many_streams_of_one_name_are_told_apart() -> None:
    names = StreamNames()
    assert len({names.take("a") for _ in range(20_000)}) == 20_000
