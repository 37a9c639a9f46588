"""How a refused loop goes on: held, probed, freed, or the end of the run (SPEC section 8)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.scene import LEGEND, SMALL, act, alone

HELD: dict[str, tuple[str, str]] = {
    "it stays refused": ("aaaaaaxaxxa", "...wwB.B..B"),
    "others are free": ("aaaaaabxcxd", "...wwB....."),
    "after other work a probe, which closes": ("aaaaaaxxxaa", "...wwB...wB"),
    "the work counts from the last refusal": ("aaaaaaxxaxxxa", "...wwB..B...w"),
    "failed work counts": ("aaaaaagggaa", "...wwB...wB"),
    "work that still runs does not": ("aaaaaaxx?xax", "...wwB..?.B."),
    "a probe with another outcome frees": ("aaaaaaxxxAaaaaaa", "...wwB...wwwwwwB"),
    "a message, and a probe that closes": ("aaaaaa@aa", "...wwB@wB"),
    "a message, and a probe that frees": ("aaaaaa@Aa", "...wwB@ww"),
    "a message does not stack up probes": ("aaaaaa@@aaa", "...wwB@@wBB"),
    "a new write frees": ("aaaaaaxeaaaaaa", "...wwB.....wwB"),
    "a write seen before does not": ("iaaaaaaiaa", "....wwB.BB"),
    "one probe at a time": ("aaaaaaxxx(aa)a", "...wwB...(wB)B"),
    "a probe that runs": ("aaaaaaxxxa?aa", "...wwB...w?BB"),
    "a probe that runs, then the same": ("aaaaaaxxxa?a;a", "...wwB...w?B;B"),
    "a probe that runs, then news": ("aaaaaaxxxA?a;a", "...wwB...w?B;w"),
    "a lost probe is followed by another": ("aaaaaaxxxa?axxxa", "...wwB...w?B...w"),
    "a lost probe comes back with news": ("aaaaaaxxxA?axxx;a", "...wwB...w?B...;w"),
    "both sides of an alternation": ("abababxaxb", "..wwBB.B.B"),
    "news on one side frees both": ("ababab@Abab", "..wwBB@wwww"),
    "polls": ("ppppppxxxpp", "...wwB...wB"),
    "polls with news": ("ppppppxxxPpppppp", "...wwB...w...wwB"),
    "all of a round": ("abcabcabcabcab", "........wwwBBB"),
    "one probe for the round": ("abcabcabcabc@abca", "........wwwB@wBBB"),
    "news in the round": ("abcabcabcabc@Abc", "........wwwB@www"),
}


@pytest.mark.parametrize("name", HELD)
def test_held(name: str) -> None:
    strip, expected = HELD[name]
    assert act(strip, {**SMALL, "globalCircuitBreakerThreshold": 50}).strip == expected


ONE_REFUSAL: dict[str, tuple[str, str]] = {
    "every second call is a probe": ("fffffffff", "...wwBwBw"),
    "a probe that succeeds ends the row": ("fffffkkkf", "...wwBw.."),
    "one of a turn": ("fffff(ffff)", "...ww(BwBw)"),
    "unknown tools": ("uvuvuvuvu", "...wwwBwB"),
}


def test_without_reset_a_new_write_half_opens() -> None:
    config = {**SMALL, "resetOnWrite": False}
    assert act("aaaaaaeaa", config).strip == "...wwB.wB"


@pytest.mark.parametrize("name", ONE_REFUSAL)
def test_some_detectors_hold_up_one_call_only(name: str) -> None:
    strip, expected = ONE_REFUSAL[name]
    legend = [*LEGEND, ("k", "exec", {"command": "look {n}"}, "all is well {n}")]
    assert act(strip, SMALL, legend=legend).strip == expected


LIMIT: dict[str, tuple[str, str]] = {
    "refusal number three ends the run": ("aaaaaaaaa", "...wwBBXX"),
    "of several loops": ("aaaaaabbbbbbaa", "...wwB...wwBwX"),
    "other work between": ("aaaaaaxaxxa", "...wwB.B..X"),
    "new work forgives": ("aaaaaaaxxxaaaa", "...wwBB...wBBX"),
    "not quite enough": ("aaaaaaaxxa", "...wwBB..X"),
    "work seen before does not": ("baaaaaaabbbxxaaa", "....wwBB..w..wX" + "X"),
    "failures do not": ("aaaaaaagggaa", "...wwBB...wX"),
    "a failure between starts again": ("aaaaaaaxxgxaa", "...wwBB....wX"[:12] + "X"),
    "a refusal between starts again": ("aaaaaaxxaxa", "...wwB..B.X"),
    "work that still runs is none": ("aaaaaaaxxx?a", "...wwBB...?X"),
    "a message forgives": ("aaaaaaa@aaaa", "...wwBB@wBBX"),
    "identical work of one turn counts once": ("aaaaaaa(xbb)aa", "...wwBB(...)wX"),
}


@pytest.mark.parametrize("name", LIMIT)
def test_the_number_of_refusals_is_limited(name: str) -> None:
    strip, expected = LIMIT[name]
    played = act(strip, {**SMALL, "refusedCallLimit": 3, "globalCircuitBreakerThreshold": 50})
    assert played.strip == expected
    if "X" in expected:
        end = next(verdict for verdict in played.verdicts if verdict.action == "abort")
        assert end.error == "tool_loop_persisted"
        assert "refused call number 3 of this run" in (end.message or "")


def test_the_limit_at_the_defaults() -> None:
    config = {"enabled": True, "globalCircuitBreakerThreshold": 100}
    assert act("a" * 36, config).strip == "." * 10 + "w" * 10 + "B" * 14 + "XX"


def test_the_breaker_ends_a_loop_that_is_refused_on_and_on() -> None:
    played = act("a" * 11)
    assert played.strip == "...wwBBBBXX"
    assert (played.verdicts[-1].detector, played.verdicts[-1].error) == (
        "global_circuit_breaker",
        "tool_loop_persisted",
    )


def test_refusals_take_no_place_in_the_window() -> None:
    played = act("a" * 14, {**SMALL, "historySize": 5, "globalCircuitBreakerThreshold": 9})
    assert played.strip == "...wwBBBBXXXXX"


@pytest.mark.parametrize("after", ["ab", "@ab", "eab", "xxxab"])
def test_the_end_is_final(after: str) -> None:
    played = act("a" * 10 + after)
    assert played.strip.endswith("X" + "".join("@" if letter == "@" else "X" for letter in after))
    ends = [verdict for verdict in played.verdicts[9:] if verdict.detector]
    assert {(verdict.key, verdict.error, verdict.count) for verdict in ends} == {
        (ends[0].key, "tool_loop_persisted", 9)
    }
    assert [verdict.announce for verdict in ends] == [True] + [False] * (len(ends) - 1)


def test_a_message_starts_an_unscoped_session_afresh() -> None:
    assert act("aaaaaa@aaaaaa", run_id=None).strip == "...wwB@...wwB"
    assert act("aaaaaaaaaa@aaaa", run_id=None).strip == "...wwBBBBX@...w"


ON_CRITICAL: dict[str, str] = {
    "block": "...wwBBBBX",
    "ask": "...wwBBBBX",
    "abort": "...wwXXXXX",
    "warn": "...wwwwwww",
}


@pytest.mark.parametrize("on_critical", ON_CRITICAL)
@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_what_a_critical_verdict_does(on_critical: str, mode: Any) -> None:
    played = act("a" * 10, {**SMALL, "onCritical": on_critical}, mode=mode)
    assert played.strip == ON_CRITICAL[on_critical]
    assert [verdict.level for verdict in played.verdicts] == [None] * 3 + ["warning"] * 2 + ["critical"] * 5
    errors = {letter: verdict.error for letter, verdict in zip(played.strip, played.verdicts, strict=True)}
    assert errors.get("X", "tool_loop_persisted") == "tool_loop_persisted"
    assert {errors[letter] for letter in errors if letter != "X"} == {None}


def test_warn_never_refuses_but_the_post_compaction_guard_still_ends_the_run() -> None:
    assert act("aaaaaa|aaaa", {**SMALL, "onCritical": "warn"}).strip == "...www|wwXX"


def test_observing_nothing_is_held_counted_or_final() -> None:
    played = act("a" * 10 + "Aaaaaaa", {**SMALL, "refusedCallLimit": 2}, mode="observe")
    assert played.strip == "...wwBBBBXXwwwwwB"
    assert {verdict.action for verdict in played.verdicts} == {"allow"}
    assert [verdict.would for verdict in played.verdicts[2:6]] == [None, "warn", "warn", "block"]


@pytest.mark.parametrize(("enabled", "strip"), [(None, "...wwBBBBX"), (False, "..........")])
def test_not_enabled(enabled: bool | None, strip: str) -> None:
    played = act("a" * 10, {**SMALL, "enabled": enabled})
    assert played.strip == strip
    assert {verdict.action for verdict in played.verdicts} == {"allow"}


@pytest.mark.parametrize(
    ("strip", "config"),
    [
        ("aaaaaaaaaa", SMALL),
        ("pppppppppp", SMALL),
        ("abababxxxxab", alone("pingPong")),
        ("abcabcabcabcabc", alone("cycle")),
        ("fffffff", SMALL),
        ("uvuvuvu", SMALL),
    ],
)
def test_the_key_names_the_loop_from_warning_to_end(strip: str, config: dict[str, Any]) -> None:
    keys = {verdict.key for verdict in act(strip, config).verdicts if verdict.detector}
    assert len(keys) == 1


def test_unlike_loops_have_unlike_keys() -> None:
    strips = ("aaaa", "bbbb", "pppp", "qqqq", "aba", "aca", "ffff", "uuuu", "ssss", "fgfg", "uvuv")
    keys = [act(strip).verdicts[-1].key for strip in strips]
    assert len(set(keys)) == len(keys)


def test_the_model_is_told_on_crossings_and_every_ten() -> None:
    config = {**SMALL, "globalCircuitBreakerThreshold": 100, "refusedCallLimit": 100}
    played = act("a" * 40, config)
    assert [verdict.count for verdict in played.verdicts if verdict.announce] == [3, 5, 15, 25, 35]
    played = act("aA" * 20, {**SMALL, "historySize": 100})
    assert [verdict.count for verdict in played.verdicts if verdict.announce] == [3, 13, 23, 33]


def test_each_loop_is_told_on_its_own_and_again_when_it_comes_back() -> None:
    played = act("aAaAbBbB", alone("genericRepeat"))
    assert [verdict.announce for verdict in played.verdicts] == [False, False, False, True] * 2
    played = act("aAaA" + "x" * 12 + "aAaA", alone("genericRepeat", historySize=10))
    assert [place for place, verdict in enumerate(played.verdicts) if verdict.announce] == [3, 19]


def test_an_end_is_always_told() -> None:
    assert act("aaaaaaaa", {**SMALL, "refusedCallLimit": 3}).verdicts[-1].announce
