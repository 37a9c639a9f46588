"""`global_circuit_breaker`: the end of a call without progress that nothing else stopped."""

from __future__ import annotations

import pytest

from tests.core.scene import SMALL, act, alone

ALONE = alone()

STRIPS: dict[str, tuple[str, str]] = {
    "one call": ("aaaaaaaaaaa", ".........XX"),
    "one below": ("aaaaaaaaa", "........."),
    "polls": ("ppppppppppp", ".........XX"),
    "the newest result differs": ("aaaaaaaaAa", ".........."),
    "news once": ("aaaaAaaaaaaaaaa", "..............X"),
    "other calls between": ("ax" * 10, ".................." + "XX"),
    "the other calls are out too": ("aaaaaaaaaabx", ".........XXX"),
    "waiting": ("z" * 12, "." * 12),
    "a new write": ("aaaaaeaaaaaea", "............."),
    "a write seen before": ("iaaaaaiaaaaa", "...........X"),
    "polls and a new write": ("pppppeppppp", "..........X"),
    "still running": ("a?" * 12, ".?" * 12),
    "twins of one turn": ("(aaa)" * 10, "(...)" * 9 + "(XXX)"),
}


@pytest.mark.parametrize("name", STRIPS)
def test_strips(name: str) -> None:
    strip, expected = STRIPS[name]
    assert act(strip, ALONE).strip == expected


def test_the_verdict() -> None:
    verdict = act("a" * 10, ALONE).verdicts[-1]
    assert (verdict.detector, verdict.level) == ("global_circuit_breaker", "critical")
    assert (verdict.count, verdict.threshold, verdict.tool, verdict.error) == (
        9,
        9,
        "read",
        "tool_loop_persisted",
    )
    assert "the run ends here" in (verdict.message or "")


def test_refused_repeats_count() -> None:
    played = act("a" * 10)
    assert played.strip == "...wwBBBBX"
    assert (played.verdicts[-1].detector, played.verdicts[-1].count) == ("global_circuit_breaker", 9)


def test_at_the_defaults() -> None:
    switches = {"genericRepeat": False, "knownPollNoProgress": False}
    played = act("p" * 32, {"enabled": True, "detectors": switches})
    assert played.strip == "." * 30 + "XX"


def test_the_window_must_hold_that_many() -> None:
    assert act("a" * 20, {**ALONE, "historySize": 8}).strip == "." * 20
    assert act("a" * 11, {**ALONE, "historySize": 9}).strip == "." * 9 + "XX"


@pytest.mark.parametrize(
    ("on_critical", "expected"),
    [("block", "...wwBBBBX"), ("ask", "...wwBBBBX"), ("abort", "...wwXXXXX"), ("warn", "...wwwwwww")],
)
def test_what_a_critical_verdict_does(on_critical: str, expected: str) -> None:
    assert act("a" * 10, {**SMALL, "onCritical": on_critical}).strip == expected
