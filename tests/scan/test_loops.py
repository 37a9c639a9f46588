"""Which calls belong to a loop, where it began, and what it cost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.events import Outcome, ToolCall
from loopwarden.scan.html_report import report_html
from loopwarden.scan.summary import CallRef
from loopwarden.scan.words import guard_line, spend
from loopwarden.transcripts.model import Recorded, Spent, StreamStart
from tests.scan.strips import SMALL, events, report_of, scan_items, scan_strip

if TYPE_CHECKING:
    from loopwarden.transcripts.model import Item


@pytest.mark.parametrize(
    ("strip", "found"),
    [
        ("xyaaaaaaqr", ("generic_repeat", "same", 6, 3, 8)),
        ("xabcadeafgahija", ("generic_repeat", "same", 5, 2, 15)),
        ("xyabababababqr", ("ping_pong", "sequence", 10, 3, 12)),
        ("xyabcabcabcabcqr", ("cycle", "sequence", 12, 3, 14)),
        ("AAAAAAA", ("generic_repeat", "same", 7, 1, 7)),
    ],
)
def test_members(strip: str, found: tuple[str, str, int, int, int]) -> None:
    run = scan_strip(strip)
    (loop,) = run.loops
    assert (loop.detectors[0], loop.pattern, loop.calls, loop.first.number, loop.last.number) == found
    assert run.calls_in_loops + run.calls_in_repetitions == loop.calls
    assert run.calls == len(strip)


def test_work_that_goes_on_is_no_loop() -> None:
    run = scan_strip("abcdefghijklmnop")
    assert run.loops == ()
    assert run.waste.calls == run.calls_in_loops == 0


@pytest.mark.parametrize(
    ("strip", "same"), [("aaaaaaa", True), ("aaaAaaa", False), ("AAAAAAA", False), ("abababab", True)]
)
def test_same_results(strip: str, same: bool) -> None:
    assert scan_strip(strip).loops[0].same_results is same


def test_where_the_guard_would_have_acted() -> None:
    (loop,) = scan_strip("a" * 12).loops
    places = (loop.warned, loop.blocked, loop.aborted, loop.ended_by)
    assert [place and place.number for place in places] == [4, 6, 10, 10]
    assert loop.detectors == ("generic_repeat", "global_circuit_breaker")
    assert loop.level == "critical"


def test_the_run_ends_at_the_last_refusal_at_the_latest() -> None:
    config = {**SMALL, "refusedCallLimit": 3, "globalCircuitBreakerThreshold": 100}
    (loop,) = scan_strip("a" * 12, config).loops
    assert loop.blocked is not None
    assert loop.blocked.number == 6
    assert loop.aborted is None
    assert loop.ended_by is not None
    assert loop.ended_by.number == 8
    (short,) = scan_strip("a" * 7, config).loops
    assert short.ended_by is None


def test_the_sequence_is_shown_from_its_start_with_its_arguments() -> None:
    (loop,) = scan_strip("xybcabcabcabcabca").loops
    assert [step.arguments for step in loop.steps] == ['q: "b"', 'q: "c"', 'q: "a"']
    assert sum(step.calls for step in loop.steps) == loop.calls


def test_findings_about_the_same_calls_are_one_loop() -> None:
    run = scan_strip("abc" * 14)
    assert len(run.loops) == 1
    assert run.loops[0].pattern == "sequence"
    assert set(run.loops[0].detectors) == {"cycle", "generic_repeat", "global_circuit_breaker"}
    assert [step.calls for step in run.loops[0].steps] == [14, 14, 14]
    assert run.calls_in_loops == 42


def test_two_loops_are_two() -> None:
    run = scan_strip("aaaaaaaa" + "bcdef" + "gggg")
    assert [loop.level for loop in run.loops] == ["critical", "warning"]
    assert [loop.calls for loop in run.loops] == [8, 4]
    assert (run.calls_in_loops, run.calls_in_repetitions) == (8, 4)
    assert (run.waste.calls, run.repeated.calls) == (4, 0)


def test_work_with_news_costs_no_loop_anything() -> None:
    poll, stuck = scan_strip("P" * 30, tokens=100), scan_strip("a" * 8, tokens=100)
    totals = report_of(poll, stuck).totals
    assert (totals.loops, totals.runs_with_loops, totals.calls_in_loops) == (1, 1, 8)
    assert (totals.repetitions, totals.with_news, totals.calls_in_repetitions) == (1, 1, 30)
    assert (totals.waste.calls, totals.waste.input_tokens) == (4, 400)
    assert (totals.repeated.calls, totals.repeated.input_tokens) == (26, 2600)


def test_what_is_in_a_loop_is_not_counted_as_a_repetition_too() -> None:
    run = scan_strip("AbAbAbAbAbAb" + "a" * 12)
    indices = run.calls_in_loops + run.calls_in_repetitions
    assert indices <= run.calls
    assert run.waste.calls + run.repeated.calls < indices


def test_cached_tokens_are_summed_by_the_same_shares() -> None:
    items = [
        replace(item, cached_tokens=900) if isinstance(item, Spent) else item
        for item in events("xy" + "a" * 8, tokens=1000)
    ]
    (run,) = scan_items(items)
    assert (run.spent.cached_tokens, run.waste.cached_tokens) == (9000, 3600)
    assert spend(run.waste) == "4 calls, 4.4k tokens, 3.6k of them cached, $0.04"
    assert scan_strip("aaaaaa", tokens=10).spent.cached_tokens is None


@pytest.mark.parametrize(
    ("strip", "config", "told"),
    [
        ("abab" * 5, SMALL, "ping_pong"),
        ("abc" * 14, SMALL, "cycle"),
        ("a" * 12, SMALL, "generic_repeat"),
        ("a" * 12, {**SMALL, "detectors": {"genericRepeat": False}}, "global_circuit_breaker"),
    ],
)
def test_the_most_telling_detector_names_the_loop(strip: str, config: dict[str, Any], told: str) -> None:
    (loop,) = scan_strip(strip, config).loops
    assert loop.detectors[0] == told
    assert (loop.threshold == 9) is (told == "global_circuit_breaker")


def test_compactions_within_a_loop() -> None:
    (loop,) = scan_strip("|aaa|aa|a|").loops
    assert loop.compactions == 2


def test_a_compaction_loop_is_found_at_an_outcome() -> None:
    (loop,) = scan_strip("aa|aaa", {"enabled": True}).loops
    assert loop.detectors == ("post_compaction",)
    assert loop.aborted is not None
    assert loop.aborted.number == 5
    assert loop.first.number == 3


def test_nothing_is_claimed_after_the_end_of_the_run() -> None:
    config = {"enabled": True, "warningThreshold": 8, "criticalThreshold": 12}
    run = scan_strip("aa|aaa" + "a" * 14, config)
    (loop,) = run.loops
    assert loop.detectors[0] == "post_compaction"
    assert "generic_repeat" in loop.detectors
    assert (loop.warned, loop.blocked, loop.after_block) == (None, None, None)
    assert (loop.aborted, loop.ended_by) == (CallRef(number=5), CallRef(number=5))
    assert (loop.aborted_by, loop.after_warning.calls) == ("post_compaction", run.calls - 5)
    assert guard_line(loop) == (
        "the guard would have ended the run at call 5 (three identical calls after a compaction)"
    )
    assert run.timeline.weights == bytes([0, 0, 0, 0, 3]) + bytes(run.calls - 5)


def test_places_are_told_in_the_order_of_the_calls() -> None:
    (warned,) = scan_strip("a" * 12).loops
    assert (
        guard_line(warned)
        == "the guard would have warned at call 4, refused call 6, ended the run at call 10"
    )
    (early,) = scan_strip("a" * 12, {**SMALL, "refusedCallLimit": 3}).loops
    assert guard_line(early) == (
        "the guard would have warned at call 4, refused call 6; had the agent gone on as recorded, "
        "the run would have ended at call 8 at the latest"
    )
    (at_once,) = scan_strip("a" * 12, {**SMALL, "onCritical": "abort"}).loops
    assert guard_line(at_once) == "the guard would have warned at call 4, ended the run at call 6"


@pytest.mark.parametrize(("strip", "place"), [("|||", 0), ("abc|||d", 3)])
def test_compactions_without_work_are_a_loop_without_calls(strip: str, place: int) -> None:
    (loop,) = scan_strip(strip, {"enabled": True}).loops
    where = f"at call {place}" if place else "before its first call"
    assert guard_line(loop) == (
        f"the guard would have ended the run {where} (three compactions without a finished call between them)"
    )
    assert (loop.pattern, loop.calls, loop.compactions) == ("none", 0, 3)
    assert loop.first.number == loop.last.number == place


def test_costs_after_the_warning_and_after_the_refusal() -> None:
    run = scan_strip("xy" + "a" * 8, seconds=4.0, tokens=1000)
    (loop,) = run.loops
    assert loop.warned is not None
    assert loop.blocked is not None
    assert (loop.warned.number, loop.blocked.number) == (6, 8)
    after = loop.after_warning
    assert (after.calls, after.seconds, after.input_tokens, after.output_tokens) == (4, 16.0, 4000, 400)
    assert after.cost == pytest.approx(0.04)
    assert loop.after_block is not None
    assert (loop.after_block.calls, loop.after_block.input_tokens) == (2, 2000)
    assert run.waste == after
    assert run.spent.input_tokens == 10_000
    assert run.spent.seconds == pytest.approx(9 * 4.0 + 2.0)


def test_a_person_s_pause_is_not_the_loop_s_time() -> None:
    quiet = list(events("aaaaaa", seconds=4.0))
    slow = list(events("aaaaauua", seconds=4.0))
    (first,), (second,) = scan_items(quiet)[0].loops, scan_items(slow)[0].loops
    assert first.after_warning.seconds == 8.0
    assert second.after_warning.seconds is None or second.after_warning.seconds <= 8.0


def test_a_reply_counts_by_the_share_of_its_calls() -> None:
    items: list[Item] = [StreamStart(stream="s", title="s")]
    for number in range(6):
        names = [f"{number}-0", "again", f"{number}-1", f"{number}-2"]
        items += [
            Recorded("s", ToolCall(tool="t", arguments=name, call_id=name, turn_id=f"t{number}"))
            for name in names
        ]
        items.append(Spent(stream="s", input_tokens=100))
        items += [Recorded("s", Outcome(call_id=name, result=f"r {name}")) for name in names]
    (run,) = scan_items(items)
    (loop,) = run.loops
    assert loop.calls == 6
    assert loop.after_warning.input_tokens == 25.0 * loop.after_warning.calls > 0
    assert run.spent.input_tokens == 600


def test_money_and_tokens_are_unknown_where_the_file_has_none() -> None:
    (loop,) = scan_strip("a" * 6).loops
    after = loop.after_warning
    assert (after.seconds, after.input_tokens, after.output_tokens, after.cost, after.tokens) == (None,) * 5


def test_streams_are_judged_apart() -> None:
    items = [StreamStart(stream="p", title="p"), StreamStart(stream="q", title="q", parent="p")]
    mixed: list[Item] = [*items]
    for number in range(6):
        stream = "pq"[number % 2]
        mixed.append(Recorded(stream, ToolCall(tool="t", arguments=1, call_id=f"c{number}")))
        mixed.append(Recorded(stream, Outcome(call_id=f"c{number}", result="r")))
    runs = scan_items(mixed)
    assert [run.calls for run in runs] == [3, 3]
    assert not any(run.loops for run in runs)


def test_an_id_that_is_still_open_is_the_same_call() -> None:
    items: list[Item] = [StreamStart(stream="s", title="s")]
    items += [Recorded("s", ToolCall(tool="t", arguments=1, call_id="c")) for _ in range(9)]
    (run,) = scan_items(items)
    assert (run.calls, run.loops) == (1, ())


def test_nothing_is_found_where_all_is_off() -> None:
    run = scan_strip("a" * 50 + "|aaaa", {"enabled": False})
    assert (run.calls, run.loops) == (54, ())


@pytest.mark.parametrize("odd", [float("inf"), float("-inf"), float("nan"), 1e300, -1e300])
def test_numbers_that_cannot_be_are_left_out(odd: float) -> None:
    items: list[Item] = [StreamStart(stream="s", title="s")]
    for number in range(8):
        items.append(Recorded("s", ToolCall(tool="t", arguments=1, call_id=f"c{number}", at=odd)))
        items.append(Spent(stream="s", input_tokens=10**400, output_tokens=-5, cost=odd))
        items.append(Recorded("s", Outcome(call_id=f"c{number}", result="r", at=odd)))
    (run,) = scan_items(items)
    (loop,) = run.loops
    assert (run.first_at, run.last_at, loop.first.at) == (None, None, None)
    assert (run.spent.seconds, run.spent.cost, run.spent.output_tokens) == (None, None, 0)
    assert loop.after_warning.input_tokens == 1e12 * loop.after_warning.calls
    assert "critical" in report_html(report_of(run))
