"""`known_poll_no_progress`: a poll that brings nothing new."""

from __future__ import annotations

from typing import Any

import pytest

from loopwarden.testing import play
from tests.core.scene import LEGEND, act, alone

ALONE = alone("knownPollNoProgress")

STRIPS: dict[str, tuple[str, str]] = {
    "the same answer": ("ppppppppp", "...wwBBBB"),
    "always news": ("pPPPPPPPPPPP", "............"),
    "news that comes and goes": ("pPpPpPpPpP", ".........."),
    "news once": ("ppppPpppppp", "...ww...wwB"),
    "two jobs": ("pqpqpqpqpqpq", "......wwwwBB"),
    "other calls between": ("axpaxpaxpaxp", "...........w"),
    "a new write does not help": ("ppppepppp", "...w.wBBB"),
    "a new write half-opens": ("ppppppeppp", "...wwB.wBB"),
    "calls that are no polls": ("aaaaaaaa", "........"),
    "one that still runs": ("ppp?ppppp", "...?.wwBB"),
    "late news": ("P?pppp;p", ".?...w;w"),
    "twins of one turn": ("(ppp)(ppp)(ppp)(ppp)", "(...)(...)(...)(www)"),
    "a turn that is too big": ("(ppppppp)", "(.....BB)"),
}


@pytest.mark.parametrize("name", STRIPS)
def test_strips(name: str) -> None:
    strip, expected = STRIPS[name]
    assert act(strip, ALONE).strip == expected


@pytest.mark.parametrize(
    ("strip", "expected"),
    [("p" * 31, "." * 10 + "w" * 10 + "B" * 10 + "X"), ("pP" * 20, "." * 40)],
)
def test_at_the_defaults(strip: str, expected: str) -> None:
    assert act(strip, {"enabled": True}).strip == expected


def test_it_can_be_switched_off() -> None:
    assert act("pppppppp", alone("genericRepeat")).strip == "........"


def test_the_verdicts() -> None:
    played = act("pppppp", ALONE)
    assert [(one.detector, one.level, one.count, one.threshold) for one in played.verdicts[2:]] == [
        (None, None, 0, 0),
        ("known_poll_no_progress", "warning", 3, 3),
        ("known_poll_no_progress", "warning", 4, 3),
        ("known_poll_no_progress", "critical", 5, 5),
    ]
    assert {(one.tool, one.paired_tools) for one in played.verdicts} == {("process", ())}
    assert "process was polled 5 times and nothing changed." in (played.verdicts[-1].message or "")


@pytest.mark.parametrize(
    ("tool", "arguments", "polls"),
    [
        ("process", {"action": "poll", "sessionId": "s"}, True),
        ("process", {"action": "log", "sessionId": "s"}, True),
        ("process", {"action": "list"}, False),
        ("command_status", {"id": "1"}, True),
        ("BashOutput", {"bash_id": "1"}, True),
        ("read", {"path": "a"}, False),
    ],
)
def test_which_calls_are_polls(tool: str, arguments: dict[str, Any], polls: bool) -> None:
    legend = [*LEGEND, ("k", tool, arguments, "running")]
    by_poll = act("kkkk", ALONE, legend=legend).verdicts[-1].detector
    by_repeat = act("kkkk", alone("genericRepeat"), legend=legend).verdicts[-1].detector
    assert (by_poll is not None, by_repeat is not None) == (polls, not polls)


def test_hints_when_to_ask_again_are_no_news() -> None:
    def legend(**details: Any) -> list[tuple[str, str, dict[str, Any], Any]]:
        said = {"content": [{"type": "text", "text": "running"}], "details": details}
        return [("p", "process", {"action": "poll", "n": 1}, said)]

    same = {"status": "running", "tail": "10%"}
    assert act("pppp", ALONE, legend=legend(**same, retryInMs=5)).strip == "...w"


WAITS = (
    ("p", "process", {"action": "poll", "sessionId": "s1"}, "running"),
    ("w", "nap", {"seconds": "30"}, "rested"),
)


@pytest.mark.parametrize("waits", [1, 3])
def test_waits_between_polls_hide_nothing(waits: int) -> None:
    config = {"enabled": True, "toolProfiles": {"nap": {"kind": "wait"}}}
    strip = ("p" + "w" * waits) * 22
    assert play(strip, config, legend=WAITS).strip[:: waits + 1] == "." * 10 + "w" * 10 + "BB"
    news = ("P" + "w" * waits) * 40
    assert "B" not in play(news, config, legend=WAITS).strip
