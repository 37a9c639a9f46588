"""`generic_repeat`: one call again and again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.scene import LEGEND, SMALL, act, alone

ALONE = alone("genericRepeat")

STRIPS: dict[str, tuple[str, str]] = {
    "the same result": ("aaaaaaaaaaaa", "...wwBBBBXXX"),
    "always another result": ("aAAAAAAAAAAA", "...wwwwwwwww"),
    "another result once": ("aaaaAaaaaaaa", "...wwwwwwwBB"),
    "a result that comes and goes": ("aAaAaAaAaAaA", "...wwwwwwwww"),
    "other calls between": ("axaxaxaxaxax", "......w.w.B."),
    "two that repeat": ("aabbaabbaabb", ".....w.wwBwB"),
    "waiting between": ("azazazaz", "......w."),
    "waiting": ("zzzzzzzzzz", ".........."),
    "polls": ("pppppppp", "........"),
    "a new write between": ("aaaaaeaaaaa", "...ww....ww"),
    "a new write after a block": ("aaaaaaeaaaa", "...wwB....w"),
    "a write seen before between": ("iaaaaiaaa", "....w.wBB"),
    "the write itself, repeated": ("iiiiiii", "...wwBB"),
    "one that runs for ever": ("aaa?aaaa", "...?wwwB"),
    "all still running": ("a?a?a?a?a?a?a?", ".?.?.?w?w?w?w?"),
    "all running, then ended with the same": ("a?a?a?a?a?;a", ".?.?.?w?w?;B"),
    "a late outcome that differs": ("A?aaaa;a", ".?..ww;w"),
    "a late outcome that is the same": ("a?aaaa;a", ".?..ww;B"),
    "twins of one turn": ("aaa(aaa)aa", "...(www)wB"),
    "twins of one turn whose results differ": (
        "(aA)(aA)(aA)(aA)(aA)(aA)(aA)",
        "(..)(..)(..)(ww)(ww)(ww)(ww)",
    ),
    "a turn of its own that is too big": ("(aaaaaaa)", "(.....BB)"),
    "a big turn within bounds": ("(aaaaa)", "(.....)"),
    "after a turn that was too big": ("(aaaaaaa)a", "(.....BB)B"),
    "different calls of one turn": ("(abcde)(abcde)", "(.....)(.....)"),
}


@pytest.mark.parametrize("name", STRIPS)
def test_strips(name: str) -> None:
    strip, expected = STRIPS[name]
    assert act(strip, ALONE).strip == expected


def test_it_can_be_switched_off() -> None:
    assert act("aaaaaaaa", alone()).strip == "........"
    assert act("(aaaaaaa)", alone()).strip == "(.......)"


@pytest.mark.parametrize(
    ("strip", "expected"),
    [
        ("a" * 32, "." * 10 + "w" * 10 + "B" * 10 + "XX"),
        ("aA" * 16, "." * 10 + "w" * 22),
        ("a" * 9 + "x" + "a", "." * 11),
    ],
)
def test_at_the_defaults(strip: str, expected: str) -> None:
    assert act(strip, {"enabled": True}).strip == expected


@pytest.mark.parametrize(
    ("history", "expected"),
    [(3, "...wwwww"), (4, "...wwwww"), (5, "...wwBBB")],
)
def test_what_the_window_no_longer_holds_does_not_count(history: int, expected: str) -> None:
    assert act("aaaaaaaa", {**ALONE, "historySize": history}).strip == expected
    assert act("axxxxaaxxxxaa", {**ALONE, "historySize": history}).strip == "." * 13


def test_the_verdicts() -> None:
    played = act("aaaaaaa", ALONE)
    assert [(one.level, one.count, one.threshold) for one in played.verdicts] == [
        (None, 0, 0), (None, 0, 0), (None, 0, 0),
        ("warning", 3, 3), ("warning", 4, 3), ("critical", 5, 5), ("critical", 6, 5),
    ]  # fmt: skip
    assert {one.detector for one in played.verdicts[3:]} == {"generic_repeat"}
    assert {(one.tool, one.paired_tools, one.error) for one in played.verdicts[3:]} == {("read", (), None)}
    warning, block = played.verdicts[3].message, played.verdicts[5].message
    assert warning is not None
    assert block is not None
    assert "read was called 3 times with the same arguments." in warning
    assert "read was called 5 times with the same arguments and always gave the same result." in block
    assert "refused and did not run" in block


def test_a_batch_says_how_many_were_asked_for_at_once() -> None:
    verdict = act("(aaaaaa)", ALONE).verdicts[-1]
    assert (verdict.count, verdict.threshold) == (6, 5)
    said = "read was asked for 6 times with the same arguments before any result came back."
    assert said in (verdict.message or "")
    assert "came back" not in (act("aaaaaaa", ALONE).verdicts[-1].message or "")


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"warningThreshold": 2}, "..wwwBBBBX"),
        ({"criticalThreshold": 4}, "...wBBBBBX"),
        ({"warningThreshold": 7}, ".......wBX"),  # its critical threshold is lifted above it
        ({"criticalThreshold": 20}, "...wwwwwww"),  # and so is its breaker
        ({"exempt": True}, ".........."),
    ],
)
def test_a_tool_may_have_its_own_thresholds(profile: dict[str, Any], expected: str) -> None:
    config = {**ALONE, "toolProfiles": {"read": profile}}
    assert act("aaaaaaaaaa", config).strip == expected
    legend = [*LEGEND, ("a", "look", {"path": "a"}, "content of a")]
    assert act("aaaaaaa", config, legend=legend).strip == "...wwBB"


def test_without_reset_on_write_evidence_goes_on() -> None:
    assert act("aaaaeaaaa", {**ALONE, "resetOnWrite": False}).strip == "...w.wBBB"


def test_a_failed_write_is_no_edit() -> None:
    legend = [*LEGEND, ("e", "edit", {"path": "f", "content": "version {n}"}, "!no such file")]
    assert act("aaaaeaaa", SMALL, legend=legend).strip == "...w.wBB"
