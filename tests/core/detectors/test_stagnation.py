"""`stagnation`: other questions, always the same answer."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.core.scene import LEGEND, LONG, SMALL, act, alone

ALONE = alone("stagnation")

STAGE: Final = [
    *LEGEND,
    ("l", "search", {"query": "the same"}, LONG),
    ("o", "search", {"query": "way {n}"}, "nothing found"),
    ("n", "notes", {"query": "way {n}"}, LONG),
    ("w", "edit", {"path": "f", "content": "version {n}"}, LONG),
    ("m", "sessions_send", {"text": "{n}"}, LONG),
    ("f", "search", {"query": "way {n}"}, "!" + LONG),
]

STRIPS: dict[str, tuple[str, str]] = {
    "other words": ("ssssss", "...www"),
    "the same words": ("llllll", "......"),
    "other words once": ("lllsl", "....w"),
    "another answer": ("sssSsss", "...w..."),
    "ever another answer": ("sSSSSSS", "......."),
    "a short answer": ("oooooo", "......"),
    "failures": ("ffffff", "......"),
    "writing": ("wwwwww", "......"),
    "sending": ("mmmmmm", "......"),
    "another tool between": ("ssasss", "......"),
    "another tool with the same answer": ("snsnsn", "......"),
    "another tool is not judged": ("sssn", "...."),
    "waiting between": ("sszsss", "....ww"),
    "a new write between is a call of another tool": ("sssesss", "......."),
    "calls of one turn count once": ("(sss)(ss)(s)s", "(...)(..)(.)w"),
    "one still runs": ("sss?ssss", "...?...w"),
}


@pytest.mark.parametrize("name", STRIPS)
def test_strips(name: str) -> None:
    strip, expected = STRIPS[name]
    assert act(strip, ALONE, legend=STAGE).strip == expected


def test_at_the_defaults_and_off() -> None:
    assert act("s" * 25, {"enabled": True}).strip == "." * 10 + "w" * 15
    assert act("s" * 9, alone()).strip == "." * 9


@pytest.mark.parametrize(
    ("tool", "result", "told"),
    [
        ("search", {"content": [{"type": "text", "text": "x" * 63}]}, False),
        ("search", {"content": [{"type": "text", "text": "x" * 64}]}, True),
        ("search", {"content": [{"type": "text", "text": "\u00e9" * 32}]}, True),
        (
            "search",
            {"content": [{"type": "text", "text": "x" * 40}, {"type": "text", "text": "y" * 40}]},
            True,
        ),
        ("search", {"content": [{"type": "text", "text": "x" * 63}], "details": {"lines": 3}}, False),
        ("search", {"content": [{"type": "text", "text": "x" * 64}], "details": {"lines": 3}}, True),
        ("exec", {"content": [], "details": {"exitCode": 0, "aggregated": "x" * 63}}, False),
        ("exec", {"content": [], "details": {"exitCode": 0, "aggregated": "x" * 64}}, True),
        ("exec", {"content": [], "details": {"exitCode": 2, "aggregated": "x" * 64}}, False),
    ],
)
def test_how_long_the_answer_must_be(tool: str, result: Any, told: bool) -> None:
    legend = [("s", tool, {"query": "{n}"}, result)]
    assert act("ssss", ALONE, legend=legend).strip == ("...w" if told else "....")


def test_the_verdict() -> None:
    verdict = act("sssss", SMALL).verdicts[-1]
    assert (verdict.detector, verdict.level, verdict.count, verdict.threshold) == (
        "stagnation",
        "warning",
        4,
        3,
    )
    assert (verdict.tool, verdict.paired_tools) == ("search", ())
    said = verdict.message or ""
    assert said.startswith("The last 4 calls of search all gave the same result, although their arguments")
