"""The log: counts and streaks by signature, whatever order outcomes come in and calls leave in."""

from __future__ import annotations

import random
from typing import Final

import pytest

from loopwarden.core.fingerprint import FAILED, Observed
from loopwarden.core.log import NEVER, Entry, Log
from loopwarden.core.profile import ToolUse
from loopwarden.core.settings import Settings

READ: Final = ToolUse("read", "read", None, Settings())
POLL: Final = ToolUse("process", "poll", None, Settings())


def name(letter: str) -> bytes:
    return letter.lower().encode() * 15


def came(outcome: str) -> bytes:
    return outcome.encode() * 16


def put(log: Log, letter: str, outcome: str | None = "1", call_id: str = "") -> int:
    """Add a call of the letter; `p` and `q` are polls, an outcome of None is still due."""
    entry = Entry(call_id, POLL if letter in "pq" else READ, name(letter), log.end, None)
    if outcome is not None:
        entry.shared = came(outcome)
        entry.outcome = Observed(entry.shared, 0, None, None)
    return log.append(entry)


def counts(log: Log, letter: str) -> tuple[int, int]:
    return log.counts(name(letter), letter in "pq")


def test_a_signature_that_is_not_kept() -> None:
    log = Log(5, 20)
    assert (counts(log, "a"), log.newest(name("a")), log.outcome(name("a"))) == ((0, 0), NEVER, None)
    assert (log.broke(name("a")), log.repeated(name("a"))) == (NEVER, False)


def test_the_first_call_and_the_second() -> None:
    log = Log(5, 20)
    put(log, "a")
    assert (counts(log, "a"), log.newest(name("a")), log.repeated(name("a"))) == ((1, 1), 0, False)
    put(log, "a")
    assert (counts(log, "a"), log.newest(name("a")), log.repeated(name("a"))) == ((2, 2), 1, True)
    assert log.outcome(name("a")) == came("1")


def test_one_that_still_runs_has_a_place_and_no_outcome() -> None:
    log = Log(5, 20)
    place = put(log, "a", None)
    assert (counts(log, "a"), list(log.open)) == ((1, 0), [place])
    log.settle(place, came("1"))
    assert (counts(log, "a"), list(log.open)) == ((1, 1), [])


def test_calls_leave_the_window_and_then_the_memory() -> None:
    log = Log(5, 20)
    for _ in range(5):
        put(log, "a")
    assert (log.start, counts(log, "a")) == (0, (5, 5))
    for number in range(4):
        put(log, "b")
        assert counts(log, "a") == (4 - number, 4 - number)
    put(log, "b")
    assert (log.start, counts(log, "a"), log.newest(name("a"))) == (5, (0, 0), 4)
    for _ in range(20):
        put(log, "b")
    assert (counts(log, "a"), log.newest(name("a"))) == ((0, 0), NEVER)


def test_what_is_kept_is_bounded() -> None:
    log = Log(5, 20)
    for number in range(2000):
        put(log, chr(0x4E00 + number), None if number % 3 else "1")
    assert log.end == 2000
    kept = (log.signatures, log.outcomes, log.uses, log.turns, log.ids, log.open, log.marked, log.known)
    assert max(len(one) for one in kept) <= 20 + 64 + 1
    assert len(log.open) <= 21


def test_a_late_outcome_of_a_call_that_left_changes_nothing() -> None:
    log = Log(3, 10)
    early = put(log, "a", None)
    for _ in range(3):
        put(log, "a")
    log.settle(early, came("2"))
    assert counts(log, "a") == (3, 3)
    for _ in range(200):
        put(log, "b")
    log.settle(early, came("3"))
    assert log.newest(name("a")) == NEVER


LATE: dict[str, tuple[list[str | None], int, str, int]] = {
    # outcomes by place, the place that is settled late, its outcome, the streak then
    "the newest, the same": (["1", "1", None], 2, "1", 3),
    "the newest, another": (["1", "1", None], 2, "2", 1),
    "one between, the same": (["1", None, "1"], 1, "1", 3),
    "one between, another": (["1", None, "1"], 1, "2", 1),
    "before the break, the same": (["1", None, "2", "1", "1"], 1, "1", 2),
    "before the break, another": (["1", None, "2", "1", "1"], 1, "3", 2),
    "the first": ([None, "1", "1"], 0, "1", 3),
    "changed, once more": (["1", "1", "1"], 1, "2", 1),
    "changed, the newest": (["1", "1", "1"], 2, "2", 1),
    "changed back": (["1", "2", "1"], 1, "1", 3),
}


@pytest.mark.parametrize("case", LATE)
def test_outcomes_may_come_late_or_change(case: str) -> None:
    outcomes, place, outcome, streak = LATE[case]
    log = Log(10, 20)
    for one in outcomes:
        put(log, "a", one)
    log.settle(place, came(outcome))
    assert counts(log, "a") == (len(outcomes), streak)


def test_a_reset_is_for_all_but_polls() -> None:
    log = Log(10, 20)
    for letter in "apapapbq":
        put(log, letter)
    log.reset()
    assert [counts(log, letter) for letter in "apbq"] == [(0, 0), (3, 3), (0, 0), (1, 1)]
    for letter in "apb":
        put(log, letter)
    assert [counts(log, letter) for letter in "apb"] == [(1, 1), (4, 4), (1, 1)]


def test_a_late_outcome_of_a_call_before_the_reset_does_not_count() -> None:
    log = Log(10, 20)
    early = put(log, "a", None)
    put(log, "a")
    log.reset()
    put(log, "a")
    log.settle(early, came("1"))
    assert counts(log, "a") == (1, 1)


def test_flagged_outcomes_are_known_by_place() -> None:
    log = Log(5, 20)
    entry = Entry("c", READ, name("a"), 0, None)
    entry.outcome = Observed(came("1"), FAILED, b"f", "gone")
    entry.shared = entry.outcome.fingerprint
    assert log.append(entry) == entry.position == 0
    put(log, "b")
    first, second = log.entries()
    assert first.outcome is entry.outcome
    assert second.outcome is not None
    assert (second.outcome.flags, second.outcome.fingerprint) == (0, came("1"))


def test_calls_are_found_by_id_the_newest_first() -> None:
    log = Log(5, 20)
    for call_id in ("c", "d", "c", "\ud800"):
        put(log, "a", call_id=call_id)
    assert log.find(["c"]) == {2}
    assert log.find(["d", "c", "none", "\ud800"]) == {1, 2, 3}
    assert log.find([]) == set()


def test_a_log_without_some_calls() -> None:
    log = Log(10, 20)
    for letter, outcome in (("a", "1"), ("a", "2"), ("b", None), ("a", "1"), ("p", "1")):
        put(log, letter, outcome, call_id=letter)
    other, moved = log.without({1, 4})
    assert moved == {0: 0, 2: 1, 3: 2}
    assert [counts(other, letter) for letter in "abp"] == [(2, 2), (1, 0), (0, 0)]
    assert list(other.open) == [1]
    assert other.find(["a", "b", "p"]) == {1, 2}
    assert counts(log, "a") == (3, 1)


def test_without_keeps_the_place_of_the_reset() -> None:
    log = Log(10, 20)
    for _ in range(3):
        put(log, "a")
    log.reset()
    for _ in range(2):
        put(log, "a")
    other, _ = log.without({0, 4})
    assert other.floor == 2
    assert counts(other, "a") == (1, 1)


class Slow:
    """The same counts, found by looking at every call again."""

    def __init__(self, history: int) -> None:
        self.history = history
        self.calls: list[tuple[str, str | None]] = []
        self.floor = 0

    def counts(self, letter: str) -> tuple[int, int]:
        floor = max(len(self.calls) - self.history, 0)
        if letter not in "pq":
            floor = max(floor, self.floor)
        outcomes = [outcome for one, outcome in self.calls[floor:] if one == letter]
        known = [outcome for outcome in outcomes if outcome is not None]
        streak = 0
        while streak < len(known) and known[-1 - streak] == known[-1]:
            streak += 1
        return len(outcomes), streak


@pytest.mark.parametrize("seed", range(40))
def test_it_counts_as_if_it_looked_at_every_call_again(seed: int) -> None:
    dice = random.Random(seed)
    history = dice.choice([1, 2, 5, 12])
    log, slow = Log(history, dice.choice([1, 12, 40])), Slow(history)
    for _ in range(400):
        done = dice.random()
        if done < 0.03:
            log.reset()
            slow.floor = len(slow.calls)
        elif done < 0.25 and slow.calls:
            place = dice.randrange(max(0, len(slow.calls) - 15), len(slow.calls))
            outcome = dice.choice("112")
            log.settle(place, came(outcome))
            slow.calls[place] = slow.calls[place][0], outcome
        elif done < 0.26 and slow.calls:
            gone = {place for place in range(log.base, log.end) if dice.random() < 0.1}
            log, moved = log.without(gone)
            slow.floor = sum(1 for place in moved if place < slow.floor)
            slow.calls = [slow.calls[place] for place in moved]
        else:
            letter = dice.choice("aabcp")
            outcome_now = dice.choice(["1", "1", "2", None])
            put(log, letter, outcome_now)
            slow.calls.append((letter, outcome_now))
        assert {letter: counts(log, letter) for letter in "abcp"} == {
            letter: slow.counts(letter) for letter in "abcp"
        }
