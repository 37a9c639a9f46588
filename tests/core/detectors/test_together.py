"""What holds for all detectors: who speaks first, what is never said, and that each is reached."""

from __future__ import annotations

from importlib import import_module
from typing import Any, get_args

import pytest

from loopwarden.events import DetectorId
from tests.core.scene import LEGEND, SMALL, act, alone

DETECTORS: tuple[str, ...] = get_args(DetectorId)
LEVELS = {
    "unknown_tool_repeat": {"critical"},
    "global_circuit_breaker": {"critical"},
    "failure_streak": {"warning"},
    "stagnation": {"warning"},
    "post_compaction": {"critical"},
}
BOTH = {"warning", "critical"}
OFF = {"global_circuit_breaker": {"genericRepeat": False, "knownPollNoProgress": False}}


@pytest.mark.parametrize("detector", DETECTORS)
def test_arguments_and_results_are_never_quoted(detector: str) -> None:
    module = import_module(f"loopwarden.core.detectors.{detector}")
    letters = {letter: (tool, given, came) for letter, tool, given, came in module.LEGEND}
    legend = []
    for letter in set(module.EXAMPLE) - {"|"}:
        tool, given, came = letters.get(letter, ("read", {"path": letter}, letter))
        legend.append((letter, tool, {**given, "password": "sesame"}, f"{came} (sesame)"))
    config = {"enabled": True, "detectors": OFF.get(detector, {})}
    played = act(module.EXAMPLE, config, legend=legend)
    said = [verdict for verdict in played.verdicts if verdict.detector == detector]
    assert {verdict.level for verdict in said} == LEVELS.get(detector, BOTH)
    assert all(verdict.message and verdict.key for verdict in said)
    assert "sesame" not in repr(played.verdicts)


FIRST: dict[str, tuple[str, str, str]] = {
    # strip, played in observe mode; detector and level of its last verdict
    "unknown tool before breaker": ("kkkkkkkkkk", "unknown_tool_repeat", "critical"),
    "breaker before poll": ("pppppppppp", "global_circuit_breaker", "critical"),
    "breaker before repeat": ("aaaaaaaaaa", "global_circuit_breaker", "critical"),
    "poll before alternation": ("pqpqpqpqpqp", "known_poll_no_progress", "critical"),
    "alternation before repeat": ("abababababa", "ping_pong", "critical"),
    "repeat before round": ("abcabcabcabcabca", "generic_repeat", "critical"),
    "churn before failures": ("jjjj", "unknown_tool_churn", "warning"),
    "one tool's failures before all tools'": ("fffgf", "repeated_failure", "warning"),
    "a refusal before a warning of higher rank": ("aBaBaBaBaBa", "generic_repeat", "critical"),
    "a round's refusal before a repeat's warning": ("abcabcabcabc", "cycle", "critical"),
}


@pytest.mark.parametrize("name", FIRST)
def test_the_most_severe_speaks_and_of_equals_the_first(name: str) -> None:
    legend: list[tuple[str, str, dict[str, Any], str]] = [
        *((letter, tool, dict(given), came) for letter, tool, given, came in LEGEND),
        ("k", "search_web", {"query": "the same"}, "!Unknown tool: search_web"),
        ("j", "call", {"tool": "made_up_{n}"}, "!Unknown tool: made_up_{n}"),
    ]
    strip, detector, level = FIRST[name]
    verdict = act(strip, SMALL, legend=legend, mode="observe").verdicts[-1]
    assert (verdict.detector, verdict.level) == (detector, level)


def test_a_round_of_failures_is_a_round() -> None:
    legend = [(letter, "exec", {"command": letter}, "!permission denied") for letter in "mno"]
    config = {**SMALL, "criticalThreshold": 12, "globalCircuitBreakerThreshold": 20}
    assert [verdict.detector for verdict in act("mnomnomno", config, legend=legend).verdicts[-2:]] == [
        "repeated_failure",
        "cycle",
    ]


def test_where_the_breakers_condition_holds_the_run_ends_whoever_is_named() -> None:
    legend = [("k", "search_web", {"query": "the same"}, "!Unknown tool: search_web")]
    played = act("kkkkkkkkkk", alone(), legend=legend)
    assert played.strip == "...BBBBBBX"
    assert played.verdicts[-1].detector == "unknown_tool_repeat"
    assert played.verdicts[-1].error == "tool_loop_persisted"
