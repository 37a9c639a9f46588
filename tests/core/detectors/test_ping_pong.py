"""`ping_pong`: two calls that take turns."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.scene import LEGEND, act, alone

ALONE = alone("pingPong")

STRIPS: dict[str, tuple[str, str]] = {
    "the same results": ("abababab", "..wwBBBB"),
    "too short": ("ab", ".."),
    "one call": ("aaaaaaaa", "........"),
    "pairs": ("aabbaabb", "........"),
    "one side has news": ("aBaBaBaBaB", "..wwwwwwww"),
    "both sides have news": ("aBAbaBAbaB", "..wwwwwwww"),
    "one side had news once": ("abAbabababab", "..wwwwwwwwww"),
    "a third call ends it": ("ababcabab", "..ww...ww"),
    "another partner starts anew": ("abacacac", "..w.wwBB"),
    "the same call twice starts anew": ("ababbabab", "..ww..wwB"),
    "does not go on": ("ababc", "..ww."),
    "a loop that was refused stays refused": ("ababaxab", "..wwB.BB"),
    "waiting between": ("azbzazbzaz", "....w.w.B."),
    "one of them still running": ("ab?ababab", "..?wwwwww"),
    "running, then ended": ("ab?aba;babb", "..?www;BBBB"),
    "turns of two": ("(ab)(ab)(ab)", "(..)(w.)(BB)"),
    "turns of two in changing order": ("(ab)(ba)(ab)(ba)", "(..)(.w)(.w)(.w)"),
    "siblings are no evidence": ("(ababababab)", "(..........)"),
    "polls of two jobs": ("pqpqpqpq", "..wwBBBB"),
    "polls with news": ("pQPqpQPq", "..wwwwww"),
    "with edits that are new": ("aeaeaeaeae", "..w.w.w.w."),
    "with an edit that is not": ("aiaiaiai", "..wwBBBB"),
    "an edit half-opens, and the probe closes": ("ababaexab", "..wwB...B"),
}


@pytest.mark.parametrize("name", STRIPS)
def test_strips(name: str) -> None:
    strip, expected = STRIPS[name]
    assert act(strip, ALONE).strip == expected


@pytest.mark.parametrize(
    ("strip", "expected"),
    [
        ("ab" * 15, "." * 9 + "w" * 10 + "B" * 11),
        ("aB" * 15, "." * 9 + "w" * 21),
        ("ab" * 4 + "c" + "ab" * 4, "." * 17),
    ],
)
def test_at_the_defaults(strip: str, expected: str) -> None:
    assert act(strip, {"enabled": True}).strip == expected


def test_it_can_be_switched_off() -> None:
    assert act("abababab", alone()).strip == "........"


def test_it_is_seen_within_the_window_only() -> None:
    assert act("abababababab", {**ALONE, "historySize": 3}).strip == "..wwwwwwwwww"
    assert act("abAbabababab", {**ALONE, "historySize": 5}).strip == "..wwwwwwBBBB"


def test_the_verdicts() -> None:
    legend = [*LEGEND, ("b", "list", {"folder": "b"}, "nothing")]
    played = act("ababab", ALONE, legend=legend)
    assert [(one.level, one.count, one.threshold, one.tool, one.paired_tools) for one in played.verdicts] == [
        (None, 0, 0, "read", ()),
        (None, 0, 0, "list", ()),
        ("warning", 3, 3, "read", ("list",)),
        ("warning", 4, 3, "list", ("read",)),
        ("critical", 5, 5, "read", ("list",)),
        ("critical", 6, 5, "list", ("read",)),
    ]
    assert len({one.key for one in played.verdicts[2:]}) == 1
    assert "read and list have been taking turns for 5 calls" in (played.verdicts[4].message or "")


def test_two_calls_of_one_tool_are_no_pair_of_tools() -> None:
    verdict = act("ababa", ALONE).verdicts[-1]
    assert verdict.paired_tools == ()
    assert "Two calls of read have been taking turns for 5 calls" in (verdict.message or "")


OWN = {"warningThreshold": 2, "criticalThreshold": 3}


@pytest.mark.parametrize(
    ("profiles", "expected"),
    [
        ({}, "..wwBBBB"),
        ({"exec": OWN}, "..wwBBBB"),  # a low number of one tool is not lent to the other
        ({"read": OWN}, "..wwBBBB"),
        ({"exec": OWN, "read": OWN}, "..BBBBBB"),
        ({"exec": {"warningThreshold": 5, "criticalThreshold": 7}}, "....wwBB"),
    ],
)
def test_of_two_tools_the_higher_numbers_hold(profiles: dict[str, Any], expected: str) -> None:
    legend = [*LEGEND, ("d", "exec", {"command": "deploy"}, "done")]
    assert act("adadadad", ALONE | {"toolProfiles": profiles}, legend=legend).strip == expected
