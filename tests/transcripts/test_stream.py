from __future__ import annotations

from loopwarden.events import Outcome, ToolCall
from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.stream import Stream, StreamNames


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
