from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.pairing import Pairing

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
    assert pairing.is_open("5")
    assert pairing.withdraw(ours)
    assert not pairing.withdraw(ours)
    assert not pairing.is_open("5")
    assert pairing.result(5) is None
    pairing.finish()
    assert notes.counts == {"result_without_call": 1}


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
