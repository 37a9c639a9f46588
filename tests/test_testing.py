"""What users test their own agents with: strips and an agent without a model."""

from __future__ import annotations

from typing import Any

import pytest

from loopwarden import ConfigError, LoopGuard, load_config
from loopwarden.testing import LETTERS, Played, ScriptedAgent, play

SMALL: dict[str, Any] = {
    "enabled": True,
    "warningThreshold": 3,
    "criticalThreshold": 5,
    "globalCircuitBreakerThreshold": 9,
    "unknownToolThreshold": 3,
}

STRIPS: dict[str, tuple[str, str]] = {
    "nothing": ("", ""),
    "the usual result": ("aaaaaaaaaa", "...wwBBBBX"),
    "a new result": ("aAaAaAaA", "...wwwww"),
    "new results differ from each other": ("AAAAAAAA", "...wwwww"),
    "letters are calls of their own": ("abcdefgh", "........"),
    "letters of any alphabet": ("\u03b1\u03b1\u03b1\u03b1", "...w"),
    "a compaction": ("a|aaa", ".|..X"),
    "an end at a compaction": ("|||a", "||XX"),
    "a message": ("aaaaaa@a", "...wwB@w"),
}


@pytest.mark.parametrize("name", STRIPS)
def test_strips(name: str) -> None:
    strip, expected = STRIPS[name]
    played = play(strip, SMALL)
    assert played.strip == expected
    assert len(played.verdicts) == len(strip)


def test_there_is_a_verdict_for_each_letter() -> None:
    played = play("aaaa|@", SMALL)
    assert [verdict.detector for verdict in played.verdicts] == [None] * 3 + ["generic_repeat", None, None]
    assert played == play("aaaa|@", SMALL)
    assert isinstance(played, Played)
    assert played.verdicts[3].action == "warn"
    assert LETTERS == {"allow": ".", "warn": "w", "block": "B", "abort": "X"}


def test_the_defaults_only_observe_but_say_what_would_be() -> None:
    played = play("a" * 21)
    assert played.strip == "." * 10 + "w" * 10 + "B"
    assert {verdict.action for verdict in played.verdicts} == {"allow"}
    assert play("a" * 21, {"enabled": False}).strip == "." * 21


@pytest.mark.parametrize("config", [SMALL, load_config(SMALL), {"tools": {"loopDetection": SMALL}}])
def test_what_a_configuration_may_be(config: Any) -> None:
    assert play("aaaa", config).strip == "...w"


def test_observing_goes_on_where_enforcing_stops() -> None:
    assert play("aaaaaAaaaaaa", SMALL).strip == "...wwBBBBXXX"
    assert play("aaaaaAaaaaaa", SMALL, mode="observe").strip == "...wwBwwwwwB"


def test_the_unscoped_session_starts_afresh_with_a_message() -> None:
    assert play("aaaa@aaaa", SMALL, run_id=None).strip == "...w@...w"


LEGEND = (
    ("f", "exec", {"command": "try {n}"}, "!denied"),
    ("u", "web", {"query": "{n}", "page": 1}, "!Unknown tool: web"),
    ("s", "search", {"query": "the same"}, "result {n}"),
)


@pytest.mark.parametrize(
    ("strip", "expected", "detector"),
    [
        ("fffff", "...ww", "repeated_failure"),
        ("uuuu", "...B", "unknown_tool_repeat"),
        ("ssss", "...w", "generic_repeat"),
    ],
)
def test_a_legend_says_what_letters_stand_for(strip: str, expected: str, detector: str) -> None:
    played = play(strip, SMALL, legend=LEGEND)
    assert played.strip == expected
    assert played.verdicts[-1].detector == detector
    assert played.verdicts[-1].tool == next(tool for letter, tool, _, _ in LEGEND if letter == strip[0])


@pytest.mark.parametrize("strip", ["a b", "a1", "a.", "a\n", "?"])
def test_what_is_no_letter_is_refused(strip: str) -> None:
    with pytest.raises(ValueError, match="is no letter of a strip; allowed: letters"):
        play(strip, SMALL)


def test_a_wrong_configuration_is_refused() -> None:
    with pytest.raises(ConfigError):
        play("a", {"warningThreshold": -1})


def agent(on_refusal: Any = "insist", **tools: Any) -> ScriptedAgent:
    return ScriptedAgent(LoopGuard(SMALL, on_error="raise"), tools, on_refusal)


def actions(scripted: ScriptedAgent, script: list[tuple[str, dict[str, Any]]]) -> str:
    return "".join(LETTERS[verdict.action] for verdict in scripted.run(script))


def test_a_scripted_agent_calls_its_tools() -> None:
    asked: list[str] = []

    def read(path: str) -> str:
        asked.append(path)
        return "same"

    scripted = agent(read=read)
    assert actions(scripted, [("read", {"path": "a"})] * 7) == "...wwBB"
    assert asked == ["a"] * 5


def test_it_insists_up_to_the_end_or_stops_when_refused() -> None:
    script = [("read", {"path": "a"})] * 30
    assert actions(agent(read=lambda path: path), script) == "...wwBBBBX"
    assert actions(agent("stop", read=lambda path: path), script) == "...wwB"


def test_a_tool_that_is_missing_is_unknown() -> None:
    verdicts = agent().run([("fly", {"to": str(number)}) for number in range(4)])
    assert verdicts[-1].detector == "unknown_tool_repeat"


def test_what_a_tool_raises_is_its_outcome() -> None:
    verdicts = agent(divide=lambda by: 1 // (by - by)).run(
        [("divide", {"by": number}) for number in range(4)]
    )
    assert verdicts[-1].detector == "repeated_failure"


def test_an_end_that_comes_with_an_outcome_is_seen() -> None:
    scripted = agent(read=lambda path: path)
    scripted.guard.compacted(run_id="run")
    verdicts = scripted.run([("read", {"path": "a"})] * 9)
    assert [verdict.action for verdict in verdicts] == ["allow", "allow", "abort"]
    assert verdicts[-1].error == "compaction_loop_persisted"


def test_its_run_may_be_another() -> None:
    scripted = agent(read=lambda path: path)
    scripted.run([("read", {"path": "a"})] * 3)
    scripted.run_id = None
    assert actions(scripted, [("read", {"path": "a"})]) == "."
    scripted.run_id = "run"
    assert actions(scripted, [("read", {"path": "a"})]) == "w"
