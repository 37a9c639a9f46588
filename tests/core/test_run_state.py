"""One run: ids, roll-back, idle time, what ends a run and what outlives a compaction."""

from __future__ import annotations

from typing import Any

import pytest

from loopwarden.guard import LoopGuard
from loopwarden.testing import LETTERS, play
from tests.core.scene import LEGEND, SMALL, act, alone


class Run:
    """A guard with one run, told of each call and outcome apart."""

    def __init__(self, config: dict[str, Any] = SMALL, run_id: str | None = "run") -> None:
        self.guard = LoopGuard(config, on_error="raise")
        self.run_id = run_id

    def ask(self, name: str, call_id: str, at: float | None = None, turn: str | None = None) -> str:
        verdict = self.guard.before(
            "read", {"path": name}, call_id=call_id, run_id=self.run_id, at=at, turn_id=turn
        )
        return LETTERS[verdict.action]

    def end(self, call_id: str, result: str = "same") -> None:
        self.guard.after(call_id, result=result, run_id=self.run_id)

    def calls(self, count: int, name: str = "a", prefix: str = "c", at: float | None = None) -> str:
        answers = ""
        for number in range(count):
            answers += self.ask(name, f"{prefix}{number}", at)
            self.end(f"{prefix}{number}")
        return answers

    def others(self, count: int, name: str = "n") -> None:
        """Calls that come once, with results of their own."""
        for number in range(count):
            self.ask(f"{name}{number}", f"{name}{number}")
            self.end(f"{name}{number}", f"{name} {number}")


def test_a_call_that_is_reported_again_while_it_is_open_counts_once() -> None:
    run = Run()
    assert [run.ask("a", "c1") for _ in range(20)] == ["."] * 20
    run.end("c1")
    assert run.calls(3) == "..w"


def test_outcomes_of_a_round_that_come_after_it_is_forgotten_are_passed_over() -> None:
    run = Run()
    asked = [(name, f"{name}{number}") for number in range(1_000) for name in "abc"]
    for name, call_id in asked:
        run.ask(name, call_id)
    for _, call_id in asked[:-400]:
        run.end(call_id)
    assert run.ask("a", "next") in ".w"


def test_outcomes_of_a_round_that_come_late_count_while_it_is_remembered() -> None:
    run = Run()
    asked = [(name, f"{name}{number}") for number in range(1_000) for name in "abc"]
    for name, call_id in asked:
        run.ask(name, call_id)
    for _, call_id in asked:
        run.end(call_id)
    assert run.ask("a", "next") == "X"


def test_a_call_that_is_rolled_back_after_it_is_forgotten_leaves_the_others_alone() -> None:
    run = Run()
    run.ask("long ago", "open")
    for number in range(1_000):
        run.ask(f"n{number}", f"n{number}")
        run.end(f"n{number}")
    assert run.calls(4) == "...w"
    run.guard.retract(["open"], run_id="run")
    assert run.calls(2, prefix="d") == "wB"


def test_identical_calls_of_one_reply_keep_their_place_when_earlier_calls_are_rolled_back() -> None:
    run = Run()
    earlier = [f"n{number}" for number in range(20)]
    for name in earlier:
        run.ask(name, name)
        run.end(name)
    for call_id in ("one", "other"):
        run.ask("a", call_id, turn="both")
    run.guard.before("edit", {"path": "f", "content": "new"}, call_id="write", run_id="run")
    run.end("one")
    run.end("write")
    run.ask("x", "x")
    run.end("x")
    run.guard.retract(earlier, run_id="run")
    run.end("other", "news")
    assert run.calls(5, prefix="d") == "...ww"


@pytest.mark.parametrize("others", [50, 1_000])
def test_refusals_of_a_call_count_however_many_calls_came_since(others: int) -> None:
    run = Run(SMALL | {"globalCircuitBreakerThreshold": 99})
    assert run.calls(10) == "...wwBBBBB"
    run.others(others)
    assert run.ask("a", "probe") == "w"


def test_refusals_of_a_call_that_had_news_since_do_not_count() -> None:
    run = Run(SMALL | {"globalCircuitBreakerThreshold": 99})
    assert run.calls(10) == "...wwBBBBB"
    run.others(5)
    assert run.ask("a", "probe") == "w"
    run.end("probe", "news")
    run.others(1_000, "m")
    assert run.ask("a", "later") == "."


@pytest.mark.parametrize(("result", "answers"), [("same", "..wB"), ("news", "..ww")])
def test_an_outcome_that_comes_after_its_call_left_the_window_is_what_the_call_gave(
    result: str, answers: str
) -> None:
    run = Run(SMALL | {"refusedCallLimit": 99})
    run.ask("a", "early")
    run.ask("a", "late")
    run.others(40)
    run.end("early")
    for number in range(5):
        run.ask("xyzxy"[number], f"x{number}")
        run.guard.after(f"x{number}", error="permission denied", run_id="run")
    assert run.ask("a", "refused") == "B"
    run.end("late", result)  # what it gave before: the refusal still counts
    assert run.ask("a", "probe") == "w"
    run.end("probe")
    assert run.calls(4, prefix="d") == answers


@pytest.mark.parametrize(("twin", "answer"), [("permission denied", "w"), ("no such host", ".")])
def test_a_failure_beside_a_call_that_runs_on_is_remembered_when_others_are_rolled_back(
    twin: str, answer: str
) -> None:
    run = Run()
    for call_id in ("runs on", "failed"):
        run.ask("a", call_id, turn="both")
    run.guard.after("failed", error=twin, run_id="run")
    for number in range(100):
        run.ask(f"n{number}", f"n{number}")  # so many that the rows go on past the one that runs
    for name in "xy":
        run.ask(name, name)
        run.guard.after(name, error="permission denied", run_id="run")
    run.guard.retract(["n50"], run_id="run")
    assert run.ask("z", "z") == answer


@pytest.mark.parametrize(("gone", "answer"), [(["one", "other"], "."), ([], "B")])
def test_identical_calls_of_one_reply_are_rolled_back_together(gone: list[str], answer: str) -> None:
    run = Run(SMALL | {"unknownToolThreshold": 3})
    for call_id in ("one", "other"):
        run.ask("a", call_id, turn="both")
    run.guard.after("other", error="Unknown tool: read", run_id="run")
    run.guard.retract(gone, run_id="run")
    for name in "xy":
        run.ask(name, name)
        run.guard.after(name, error="Unknown tool: read", run_id="run")
    assert run.ask("z", "z") == answer


@pytest.mark.parametrize("turn", ["both", None])
def test_identical_calls_of_one_reply_that_end_apart_have_one_place_after_a_compaction(
    turn: str | None,
) -> None:
    run = Run({})
    for call_id in ("one", "other"):
        run.ask("a", call_id, turn=turn)
    run.ask("a", "third")
    run.guard.compacted(run_id="run")
    run.end("one")
    run.end("third")
    run.end("other")
    assert run.ask("b", "next") == ("." if turn else "X")


def test_an_id_may_be_used_anew_after_its_outcome() -> None:
    run = Run()
    answers = ""
    for _ in range(6):
        answers += run.ask("a", "c")
        run.end("c")
    assert answers == "...wwB"


def test_an_id_whose_call_was_refused_is_free_and_has_no_outcome() -> None:
    run = Run()
    assert run.calls(6) == "...wwB"
    run.end("c5", "the refusal itself, told as an outcome")
    assert run.ask("a", "c5") == "B"


@pytest.mark.parametrize("call_id", ["c9", "", "c0"])
def test_an_outcome_of_no_open_call_belongs_to_nothing(call_id: str) -> None:
    run = Run()
    run.calls(4)
    run.end(call_id, "other")
    assert run.calls(2) == "wB"


def test_a_second_outcome_of_a_call_is_dropped() -> None:
    run = Run()
    for number in range(5):
        run.ask("a", f"c{number}")
        run.end(f"c{number}")
        run.end(f"c{number}", "other")
    assert run.ask("a", "c") == "B"


def test_calls_without_a_turn_are_turns_of_their_own() -> None:
    run = Run()
    assert "".join(run.ask("a", f"c{number}") for number in range(5)) == "...ww"
    run = Run()
    assert "".join(run.ask("a", f"c{number}", turn="t") for number in range(5)) == "....."


ROLLED_BACK: dict[str, tuple[str, list[int], str]] = {
    # calls so far, numbers of those that are rolled back, answers to five calls of `a` afterwards
    "nothing": ("aaa", [], "wwBBB"),
    "the newest": ("aaaa", [4], "wwBBB"),
    "all": ("aaaa", [1, 2, 3, 4], "...ww"),
    "one in the middle": ("aaaxaa", [4], "BBBBB"),
    "the one with news": ("aaaAaa", [4], "BBBBB"),
    "unknown ones": ("aaaa", [7, 8], "wBBBB"),
    "more than once": ("aaaa", [4, 4], "wwBBB"),
}


@pytest.mark.parametrize("name", ROLLED_BACK)
def test_rolled_back_calls_have_not_been(name: str) -> None:
    strip, gone, expected = ROLLED_BACK[name]
    run = Run(alone("genericRepeat", globalCircuitBreakerThreshold=50))
    for number, letter in enumerate(strip, 1):
        run.ask(letter.lower(), f"c{number}")
        run.end(f"c{number}", "news" if letter.isupper() else "same")
    run.guard.retract([f"c{number}" for number in gone], run_id="run")
    assert run.calls(5, prefix="d") == expected


def test_a_rolled_back_call_that_was_open_has_no_outcome() -> None:
    run = Run()
    run.calls(4)
    run.ask("a", "open")
    run.guard.retract(["open"], run_id="run")
    run.end("open", "news")
    assert run.calls(2, prefix="d") == "wB"


def test_rolling_back_brings_back_the_rows_before_it() -> None:
    """A failing row that a reply ended goes on when that reply is rolled back."""
    guard = LoopGuard(alone("repeatedFailure"), on_error="raise")
    for number, error in enumerate(["denied", "denied", None, "denied"]):
        guard.before("exec", {"n": number}, call_id=f"c{number}", run_id="r")
        guard.after(f"c{number}", result="fine" if error is None else None, error=error, run_id="r")
    guard.retract(["c2"], run_id="r")
    assert guard.before("exec", {"n": 9}, call_id="d", run_id="r").count == 3


def test_a_rolled_back_probe_is_still_to_come() -> None:
    run = Run()
    run.calls(6)
    run.guard.user_message(run_id="run")
    assert run.ask("a", "probe") == "w"
    run.guard.retract(["probe"], run_id="run")
    assert run.ask("a", "again") == "w"
    assert run.ask("a", "third") == "B"


@pytest.mark.parametrize(
    ("run_id", "gap", "expected"),
    [(None, 61.0, "...ww"), (None, 60.0, "BBBBB"), ("run", 61.0, "BBBBB")],
)
def test_a_long_gap_starts_an_unscoped_session_afresh(run_id: str | None, gap: float, expected: str) -> None:
    run = Run({**SMALL, "idleResetSeconds": 60, "globalCircuitBreakerThreshold": 50}, run_id)
    assert run.calls(6, at=1000.0) == "...wwB"
    assert run.calls(5, at=1000.0 + gap) == expected


def test_without_the_setting_no_gap_does() -> None:
    run = Run(SMALL, None)
    run.calls(5, at=0.0)
    assert run.ask("a", "c", 1e9) == "B"


def test_a_compaction_clears_no_evidence() -> None:
    assert act("aaaa|xaa").strip == "...w|.wB"
    assert act("aaaaaa|xa").strip == "...wwB|.B"


def test_evidence_goes_along_where_a_run_is_continued() -> None:
    guard = LoopGuard(SMALL, on_error="raise")
    for number in range(4):
        guard.before("read", {}, call_id=f"c{number}", run_id="1")
        guard.after(f"c{number}", result="x", run_id="1")
    guard.compacted(run_id="2", continues="1")
    assert guard.before("read", {}, call_id="c", run_id="2").count == 4
    assert guard.before("read", {}, call_id="c", run_id="1").count == 0


@pytest.mark.parametrize(
    ("strip", "expected"),
    [("kakakakaka", ".......w.w"), ("aaakkkaa", "......ww"), ("kkkkkkkkkkkk", "............")],
)
def test_exempt_calls_are_neither_judged_nor_evidence(strip: str, expected: str) -> None:
    legend = [*LEGEND, ("k", "think", {"about": "it"}, "thought")]
    config = {**SMALL, "toolProfiles": {"think": {"exempt": True}}}
    assert act(strip, config, legend=legend).strip == expected


def test_a_write_counts_when_its_outcome_comes() -> None:
    assert act("aaaaae?a", alone("genericRepeat")).strip == "...ww.?B"
    assert act("aaaaae?;a", alone("genericRepeat")).strip == "...ww.?;."


def test_writes_with_the_same_arguments_are_no_news_however_far_apart() -> None:
    assert act("i" + "x" * 40 + "aaaia", alone("genericRepeat")).strip == "." * 45 + "w"


def test_a_call_that_never_ends_does_not_stop_the_count_of_those_after_it() -> None:
    config = alone("repeatedFailure", criticalThreshold=200, globalCircuitBreakerThreshold=300)
    assert act("f?" + "f" * 150, config).verdicts[-1].count == 149
    config = alone("stagnation", historySize=500)
    assert act("s?" + "s" * 150, config).verdicts[-1].count == 149


def test_deciding_needs_no_outcomes_at_all() -> None:
    run = Run()
    assert "".join(run.ask("a", f"c{number}") for number in range(40)) == "..." + "w" * 37


def test_where_nothing_is_done_no_message_claims_it() -> None:
    strip = "a" * 25
    acted = play(strip, {"enabled": True}).verdicts[22].message or ""
    watched = play(strip, {"enabled": True}, mode="observe").verdicts[22].message or ""
    assert "was refused and did not run" in acted
    assert watched.startswith("read was called 22 times")
    assert "refused" not in watched
