"""The pages of the detectors: whole, and each level that can be reached is shown."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, get_args

import pytest

from loopwarden.cli.pages import page
from loopwarden.config import load_config
from loopwarden.events import DetectorId

DETECTORS: tuple[str, ...] = get_args(DetectorId)
ACTIONS = {
    "unknown_tool_repeat": ["block"],
    "global_circuit_breaker": ["abort"],
    "failure_streak": ["warn"],
    "stagnation": ["warn"],
    "post_compaction": ["abort"],
}
HEADINGS = [
    "What it sees",
    "Why it matters",
    "When it stays silent",
    "What it doesn't catch",
    "An example",
    "What the model is told",
    "Options",
]
MARKS = {"warn": "w", "block": "B", "abort": "X"}


def sections(detector: str) -> dict[str, str]:
    found = re.split(r"^## (.+)$", page(detector), flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_page_is_whole(detector: str) -> None:
    assert page(detector).startswith(f"# `{detector}`\n\n**")
    found = sections(detector)
    assert list(found) == HEADINGS
    assert all(text.strip() for text in found.values())


@pytest.mark.parametrize("detector", DETECTORS)
def test_every_level_is_shown_with_what_the_model_is_told(detector: str) -> None:
    expected = ACTIONS.get(detector, ["warn", "block"])
    found = sections(detector)
    told = found["What the model is told"]
    assert re.findall(r"^- (\w+), at a count of \d+ \(threshold \d+\):$", told, re.MULTILINE) == expected
    assert len(re.findall(r"^ +> \S", told, re.MULTILINE)) >= len(expected)
    verdicts = "".join(re.findall(r"^verdicts +(.*)$", found["An example"], re.MULTILINE))
    assert verdicts.startswith("...")
    assert {MARKS[action] for action in expected} <= set(verdicts)


@pytest.mark.parametrize("detector", DETECTORS)
def test_the_example_is_the_detectors_own(detector: str) -> None:
    """The strip has a verdict for each call, and every letter is explained."""
    example = sections(detector)["An example"]
    strip = "".join(re.findall(r"^calls +(.*)$", example, re.MULTILINE))
    verdicts = "".join(re.findall(r"^verdicts +(.*)$", example, re.MULTILINE))
    assert strip == import_module(f"loopwarden.core.detectors.{detector}").EXAMPLE
    assert len(strip) == len(verdicts)
    assert set(re.findall(r"^- `(.)`: ", example, re.MULTILINE)) == set(strip)


@pytest.mark.parametrize("detector", DETECTORS)
def test_every_option_is_one(detector: str) -> None:
    values: dict[str, Any] = {"enabled": True, "detectors": {}, "postCompactionGuard": {}, "toolProfiles": {}}
    for option in import_module(f"loopwarden.core.detectors.{detector}").OPTIONS:
        explained = {setting.field: setting.value for setting in load_config({}).explain()}
        if option == "toolProfiles.*.kind":
            assert "toolProfiles.exec.kind" in explained
            continue
        assert option in explained
        head, _, rest = option.partition(".")
        if rest:
            values[head][rest] = explained[option]
        else:
            values[head] = explained[option]
        load_config({"tools": {"loopDetection": values}})
