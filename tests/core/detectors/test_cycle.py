"""`cycle`: a round of three or more calls."""

from __future__ import annotations

import pytest

from tests.core.scene import LEGEND, act, alone

ALONE = alone("cycle")

STRIPS: dict[str, tuple[str, str]] = {
    "three calls": ("abcabcabcabcab", "........wwwBBB"),
    "four calls": ("abcdabcdabcdabcda", "...........wwwwBB"),
    "one below three laps": ("abcabcab", "........"),
    "a call twice in the round": ("aabaabaabaaba", "........wwwBB"),
    "two calls": ("abababababab", "............"),
    "one call": ("aaaaaaaa", "........"),
    "one changes in every lap": ("abcabCabcabCabcabCabcabC", "." * 24),
    "one changed once": ("abcabCabcabcabcabcabc", "..............wwwBBBB"),
    "the round is broken": ("abcabcabxabcabcab", "................."),
    "and starts again": ("abcabcabcxabcabcabc", "........w.........w"),
    "another round": ("abcabcabcdddhjkhjkhjk", "........w" + "........" + "...w"),
    "polls alone": ("pqkpqkpqkpqkpqk", "..............."),
    "waiting alone": ("pqzpqzpqzpqzpqz", "..............."),
    "a look among polls": ("apqapqapqapqa", "........wwwBB"),
    "edits that are new": ("aebaebaebaebaeb", "..............."),
    "an edit seen before": ("aibaibaibaiba", ".........wwwB"),
    "a new write between": ("abcabceabcabcabc", "...............w"),
    "one still runs": ("abc?abcabcabcabc", "...?.....wwwwwwB"),
    "one of a lap is late, the same": ("abcabcabcabc?;ab", "........wwwB?;BB"),
    "late news": ("abcabcabcaB?c;abc", "........www?w;..."),
    "turns of three": ("(abc)(abc)(abc)(abc)(abc)", "(...)(...)(...)(w..)(BBB)"),
    "a round within one turn": ("(abcabcabcabcabc)", "(...............)"),
}


@pytest.mark.parametrize("name", STRIPS)
def test_strips(name: str) -> None:
    strip, expected = STRIPS[name]
    legend = [*LEGEND, ("k", "process", {"action": "poll", "sessionId": "s3"}, "running")]
    assert act(strip, ALONE, legend=legend).strip == expected


def round_of(period: int) -> str:
    return "".join(chr(0x4E00 + number) for number in range(period))


@pytest.mark.parametrize(
    ("period", "warned", "refused"),
    # by SPEC section 8: max(warning, 3 laps) and max(critical, max(warning, 3 laps) + a lap)
    [(3, 10, 20), (4, 12, 20), (5, 15, 20), (6, 18, 24), (30, 90, 120), (64, 192, 256)],
)
def test_every_period_reaches_both_levels_at_the_defaults(period: int, warned: int, refused: int) -> None:
    switches = dict.fromkeys(("genericRepeat", "pingPong"), False)
    played = act(round_of(period) * 7, {"enabled": True, "detectors": switches, "refusedCallLimit": 1000})
    assert played.strip.index("w") + 1 == warned
    assert played.strip.index("B") + 1 == refused
    verdict = played.verdicts[refused - 1]
    assert (verdict.detector, verdict.level, verdict.count) == ("cycle", "critical", refused)
    assert verdict.threshold == refused


def test_longer_rounds_are_none() -> None:
    switches = dict.fromkeys(("genericRepeat", "pingPong"), False)
    assert set(act(round_of(65) * 5, {"enabled": True, "detectors": switches}).strip) == {"."}


def test_it_can_be_switched_off() -> None:
    assert set(act("abc" * 5, alone()).strip) == {"."}


def test_the_verdicts() -> None:
    legend = [("b", "list", {"folder": "b"}, "nothing"), ("c", "grep", {"for": "c"}, "no match")]
    played = act("abcabcabcabcabc", ALONE, legend=legend)
    warning, block = played.verdicts[8], played.verdicts[11]
    assert (warning.level, warning.count, warning.threshold) == ("warning", 9, 9)
    assert (block.level, block.count, block.threshold) == ("critical", 12, 12)
    assert (warning.tool, warning.paired_tools) == ("grep", ("read", "list"))
    assert {one.key for one in played.verdicts if one.key} == {warning.key}
    assert "The same 3 calls (grep, read, list) have gone round 3 times." in (warning.message or "")
    assert "with the same results in every lap" in (block.message or "")


def test_a_round_entered_elsewhere_is_the_same_loop() -> None:
    assert act("abcabcabc", ALONE).verdicts[-1].key == act("bcabcabca", ALONE).verdicts[-1].key
    assert act("abcabcabc", ALONE).verdicts[-1].key != act("acbacbacb", ALONE).verdicts[-1].key


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((2, 3), "........wwwBBB"),  # a low number of one tool is not lent to the others
        ((11, 15), "..........wwww"),
    ],
)
def test_of_all_tools_the_highest_numbers_hold(numbers: tuple[int, int], expected: str) -> None:
    legend = [*LEGEND, ("d", "exec", {"command": "deploy"}, "done")]
    profile = {"warningThreshold": numbers[0], "criticalThreshold": numbers[1]}
    config = ALONE | {"toolProfiles": {"exec": profile}}
    assert act("abdabdabdabdab", config, legend=legend).strip == expected
