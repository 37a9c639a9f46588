from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from loopwarden.transcripts import pairing as module
from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.pairing import Pairing

if TYPE_CHECKING:
    import pytest

IDS = st.sampled_from(["a", "b", "c1", "a#2", "", None, 7])
STEPS = st.lists(st.tuples(st.sampled_from(["call", "result", "withdraw"]), IDS, st.sampled_from(["x", "y"])))


def test_a_result_goes_to_the_newest_open_call_of_its_id() -> None:
    notes = ReadNotes()
    pairing = Pairing(notes)
    first, second = pairing.call("a", "x"), pairing.call("a", "x", line=4)
    assert first == "a" != second
    assert [pairing.result("a"), pairing.result("a"), pairing.result("a", line=9)] == [second, first, None]
    assert pairing.call("a", "x") == "a"
    pairing.finish()
    assert notes.counts == {"reused_id": 2, "result_without_call": 1, "call_without_result": 1}
    assert notes.first_line == {"reused_id": 4, "result_without_call": 9}


def test_without_ids_the_oldest_open_call_of_the_tool_is_answered() -> None:
    pairing = Pairing(ReadNotes())
    one, other, two = pairing.call(None, "x"), pairing.call(None, "y"), pairing.call("", "x")
    assert [pairing.result(None, "x"), pairing.result("", "x"), pairing.result(None, "y")] == [
        one,
        two,
        other,
    ]
    assert len({one, other, two}) == 3


def test_withdrawn_calls_wait_for_nothing() -> None:
    notes = ReadNotes()
    pairing = Pairing(notes)
    ours = pairing.call(5, "x")
    assert pairing.tool_of(5) == "x"
    assert pairing.withdraw(ours)
    assert not pairing.withdraw(ours)
    assert pairing.tool_of("5") is None
    assert pairing.result(5) is None
    pairing.finish()
    assert notes.counts == {"result_without_call": 1}


def test_a_result_before_its_call_answers_nothing() -> None:
    notes = ReadNotes()
    pairing = Pairing(notes)
    assert pairing.result("a", "x") is None
    pairing.call("a", "x")
    pairing.finish()
    assert notes.counts == {"result_without_call": 1, "call_without_result": 1}


def test_the_tool_is_that_of_the_call_that_would_be_answered() -> None:
    pairing = Pairing(ReadNotes())
    pairing.call("a", "x")
    pairing.call("a", "y")
    assert pairing.tool_of("a") == "y"
    pairing.result("a")
    assert pairing.tool_of("a") == "x"
    assert pairing.tool_of(None) is None


def test_an_id_withdrawn_and_used_again_is_younger_than_what_was_open() -> None:
    pairing = Pairing(ReadNotes())
    again, other = pairing.call("a", "x"), pairing.call("b", "x")
    pairing.withdraw(again)
    assert pairing.call("a", "x") == again
    assert [pairing.result(None, "x"), pairing.result(None, "x")] == [other, again]


def test_only_so_many_calls_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OPEN", 2)
    notes = ReadNotes()
    pairing = Pairing(notes)
    _, second, third = (pairing.call(None, "x") for _ in range(3))
    assert notes.counts == {"call_without_result": 1}
    assert [pairing.result(None, "x") for _ in range(3)] == [second, third, None]
    pairing.finish()
    assert notes.counts == {"call_without_result": 1, "result_without_call": 1}


@given(STEPS)
def test_open_ids_are_unique_and_every_call_is_accounted_for(steps: list[tuple[str, object, str]]) -> None:
    notes = ReadNotes()
    pairing = Pairing(notes)
    waiting: set[str] = set()
    calls = answered = withdrawn = 0
    for step, given_id, tool in steps:
        if step == "call":
            ours = pairing.call(given_id, tool)
            assert ours not in waiting
            waiting.add(ours)
            calls += 1
        elif step == "result":
            found = pairing.result(given_id, tool)
            if found is not None:
                waiting.remove(found)
                answered += 1
        elif waiting:
            ours = min(waiting)
            assert pairing.withdraw(ours)
            waiting.remove(ours)
            withdrawn += 1
    pairing.finish()
    assert notes.counts["call_without_result"] == calls - answered - withdrawn == len(waiting)
