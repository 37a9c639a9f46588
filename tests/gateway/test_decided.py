"""What people decided: as cells, as bytes, and in memory."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("starlette", reason="the extra gateway is not installed")

from loopwarden.gateway.decided import (
    ALL_LOOPS,
    LOOPS,
    RUNS,
    SECONDS,
    Decided,
    bounded,
    changed,
    packed,
    unpacked,
)
from loopwarden.gateway.decisions import Decisions

NOW = 1_800_000_000.0
KEPT = "00000000000000aa"


def name(number: int) -> str:
    return f"{number:016x}"


def test_what_is_packed_is_unpacked() -> None:
    cells = {(name(1), ""): NOW, (name(1), name(7)): NOW + 1, (name(2), name(8)): NOW + 2}
    assert unpacked(packed(Decided(KEPT, cells))) == Decided(KEPT, cells)
    assert unpacked(packed(Decided(KEPT, {}))) == Decided(KEPT, {})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'{"name": 1}',
        b'{"name": "short"}',
        b"[" * 100_000,
        b'{"name": "00000000000000aa", "paused": ' + b" " * 4_000_000 + b"{}}",
    ],
)
def test_bytes_that_are_none_of_ours(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpacked(data)


def test_entries_that_make_no_sense_are_left_out() -> None:
    said = {
        "name": KEPT,
        "paused": {name(1): NOW, name(2): "x", name(3): None, name(4): True, '"><script>': NOW, "": NOW},
        "released": {name(5): {name(6): NOW, "<b>": NOW, name(7): []}, "<i>": {name(8): NOW}, name(9): 3},
    }
    assert unpacked(json.dumps(said).encode()).cells == {(name(1), ""): NOW, (name(5), name(6)): NOW}
    odd = {"name": KEPT, "paused": [1], "released": "no"}
    assert unpacked(json.dumps(odd).encode()).cells == {}


def test_changes_of_two_merge_in_any_order() -> None:
    start = {(name(1), ""): NOW, (name(1), name(7)): NOW}
    one = {(name(1), ""): None, (name(3), ""): NOW + 1}
    two = {(name(1), name(8)): NOW + 2, (name(1), name(7)): None}
    both = changed(changed(start, one), two)
    assert both == changed(changed(start, two), one)
    assert both == {(name(3), ""): NOW + 1, (name(1), name(8)): NOW + 2}
    assert changed(both, two) == both  # made twice it is made


def test_what_is_too_old_or_from_another_age_counts_no_more() -> None:
    cells = {
        (name(1), ""): NOW - SECONDS - 1,
        (name(2), ""): NOW - SECONDS + 1,
        (name(3), ""): NOW + 60,
        (name(4), ""): 1e300,
        (name(5), ""): -1e300,
    }
    assert bounded(cells, NOW) == {(name(2), ""): NOW - SECONDS + 1, (name(3), ""): NOW + 60}


def test_too_many_are_bounded_and_the_newest_stay() -> None:
    paused = {(name(number), ""): NOW + number / 1000 for number in range(RUNS + 5)}
    loops = {(name(0), name(number)): NOW + number for number in range(LOOPS + 5)}
    kept = bounded(paused | loops, NOW)
    assert len(kept) == RUNS + LOOPS
    assert (name(4), "") not in kept
    assert (name(5), "") in kept
    assert (name(0), name(4)) not in kept
    assert (name(0), name(5)) in kept
    many = {(name(run), name(loop)): NOW for run in range(RUNS + 5) for loop in range(3)}
    assert len(bounded(many, NOW)) == ALL_LOOPS
    assert len({run for run, _ in bounded(many, NOW)}) <= RUNS


def test_all_that_is_allowed_can_be_read_again() -> None:
    cells = {(name(number), ""): NOW + 0.123 for number in range(RUNS)}
    cells |= {(name(run), name(loop)): NOW + 0.123 for run in range(RUNS) for loop in range(2)}
    assert unpacked(packed(Decided(KEPT, bounded(cells, NOW)))).cells == cells


def test_what_was_decided_here_since_stays_over_what_is_kept() -> None:
    decisions = Decisions(clock=lambda: NOW)
    decisions.noted = lambda: None
    heard: list[str] = []
    decisions.heard = heard.append
    decisions.pause(name(1))
    first = decisions.changes()
    decisions.resume(name(2))
    decisions.adopt({(name(1), ""): NOW, (name(2), ""): NOW, (name(3), name(7)): NOW}, first)
    assert decisions.is_paused(name(1))
    assert not decisions.is_paused(name(2))
    assert decisions.is_released(name(3), name(7))
    assert decisions.changes() == {(name(2), ""): None}
    assert heard == [name(3)]
    decisions.adopt({}, decisions.changes())
    assert not decisions
    assert not decisions.changes()
    assert sorted(heard) == [name(1), name(3), name(3)]


def test_a_change_back_while_the_first_one_is_written_is_written_too() -> None:
    times = iter([NOW, NOW + 1])
    decisions = Decisions(clock=lambda: next(times, NOW + 2))
    decisions.noted = lambda: None
    decisions.pause(name(1))
    changes = decisions.changes()
    decisions.resume(name(1))
    decisions.adopt({(name(1), ""): NOW}, changes)
    assert not decisions.is_paused(name(1))
    assert decisions.changes() == {(name(1), ""): None}


def test_a_run_under_another_name_takes_its_decisions_along() -> None:
    decisions = Decisions(clock=lambda: NOW)
    decisions.noted = lambda: None
    decisions.pause(name(1))
    decisions.release(name(1), name(7))
    decisions.release(name(2), name(8))
    decisions.move(name(1), name(2))
    decisions.move(name(2), name(2))
    decisions.move(name(5), name(6))
    assert decisions.cells() == {(name(2), ""): NOW, (name(2), name(7)): NOW, (name(2), name(8)): NOW}
    assert decisions.changes() == decisions.cells() | {(name(1), ""): None, (name(1), name(7)): None}


def test_old_decisions_are_forgotten_as_time_goes_by() -> None:
    now = NOW
    decisions = Decisions(clock=lambda: now)
    heard: list[str] = []
    decisions.heard = heard.append
    decisions.pause(name(1))
    now += SECONDS / 2
    decisions.release(name(2), name(7))
    decisions.forget_old()
    assert decisions.is_paused(name(1))
    now += SECONDS / 2 + 1
    decisions.forget_old()
    assert not decisions.is_paused(name(1))
    assert decisions.is_released(name(2), name(7))
    assert heard == [name(1)]


def test_changes_that_nobody_fetches_are_bounded() -> None:
    decisions = Decisions()
    decisions.noted = lambda: None
    for number in range(10_100):
        decisions.resume(name(number))
    assert len(decisions.changes()) == 10_000
    alone = Decisions()
    alone.pause(name(1))
    assert not alone.changes()  # nobody keeps them
