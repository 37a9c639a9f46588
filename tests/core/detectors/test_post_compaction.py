"""`post_compaction`: a loop that outlives a compaction."""

from __future__ import annotations

import pytest

from loopwarden.guard import LoopGuard
from tests.core.scene import act

STRIPS: dict[str, tuple[str, str]] = {
    "the same thrice": ("ab|aaaa", "..|..XX"),
    "without a compaction": ("aaaaaa", "......"),
    "one below": ("ab|aa", "..|.."),
    "another call at the end": ("ab|aabaaaa", "..|......."),
    "another call at the start": ("ab|baaaa", "..|....."),
    "news": ("ab|aaAaaa", "..|......"),
    "news at once": ("ab|AAA", "..|..."),
    "armed anew by the next": ("ab|aa|aa", "..|..|.."),
    "and then it sees the window": ("ab|aa|aaa", "..|..|..X"),
    "disarmed after the window": ("ab|abcaaaaa", "..|........"),
    "an unfinished call has no outcome": ("ab|a?aaa", "..|.?..X"),
    "identical calls of one turn are one": ("ab|(aaa)", "..|(...)"),
    "in every turn": ("ab|(aa)(aa)(aa)", "..|(..)(..)(.X)"),
    "news among identical calls of a turn": ("ab|(aA)(aA)(aA)", "..|(..)(..)(..)"),
    "a message of the user does not disarm": ("ab|aa@a", "..|..@X"),
    "compactions without work": ("a|||", ".||X"),
    "from the start": ("|||a", "||XX"),
    "work between": ("a||b||c||", ".||.||.||"),
    "a call that does not end is no work": ("a||b?|", ".||.?X"),
}


@pytest.mark.parametrize("name", STRIPS)
@pytest.mark.parametrize("config", [{}, {"enabled": True}], ids=["unset", "on"])
def test_strips(name: str, config: dict[str, bool]) -> None:
    strip, expected = STRIPS[name]
    assert act(strip, config).strip == expected


def test_it_is_off_with_everything_else() -> None:
    assert act("ab|aaaa|||", {"enabled": False}).strip == "..|....|||"


@pytest.mark.parametrize(("size", "expected"), [(2, "|.X"), (3, "|..X"), (5, "|....X")])
def test_the_size_of_the_window(size: int, expected: str) -> None:
    config = {"postCompactionGuard": {"windowSize": size}}
    assert act("|" + "a" * size, config).strip == expected
    assert act("|" + "a" * (size - 1) + "bb", config).strip == "|" + "." * (size + 1)


def test_the_verdict() -> None:
    verdict = act("|aaa").verdicts[-1]
    assert (verdict.action, verdict.level, verdict.detector) == ("abort", "critical", "post_compaction")
    assert (verdict.error, verdict.tool) == ("compaction_loop_persisted", "read")
    assert (verdict.count, verdict.threshold) == (3, 3)
    assert "read was called 3 times with the same arguments and gave the same result" in (
        verdict.message or ""
    )


def test_the_verdict_on_compactions_without_work() -> None:
    verdict = act("|||").verdicts[-1]
    assert (verdict.action, verdict.error, verdict.tool) == ("abort", "compaction_loop_persisted", None)
    assert (verdict.count, verdict.threshold) == (3, 3)
    assert "compaction freed no room" in (verdict.message or "")


def test_observing_it_only_says_so() -> None:
    guard = LoopGuard({}, mode="observe", on_error="raise")
    guard.compacted(run_id="r")
    verdicts = []
    for call_id in ("c1", "c2", "c3"):
        guard.before("read", {}, call_id=call_id, run_id="r")
        verdicts.append(guard.after(call_id, result="x", run_id="r"))
    assert [(one.action, one.would) for one in verdicts] == [("allow", None)] * 2 + [("allow", "abort")]
    assert guard.before("read", {}, call_id="c4", run_id="r").would is None


def test_a_run_that_goes_on_under_another_id_takes_the_count_along() -> None:
    guard = LoopGuard({}, on_error="raise")
    assert guard.compacted(run_id="1").action == "allow"
    assert guard.compacted(run_id="2", continues="1").action == "allow"
    assert guard.compacted(run_id="3", continues="2").error == "compaction_loop_persisted"
    assert guard.before("read", {}, call_id="c", run_id="3").action == "abort"
    assert guard.before("read", {}, call_id="c", run_id="1").action == "allow"
