"""Repairs and warnings: each once, in plain words, where the person finds the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.config import load_config

if TYPE_CHECKING:
    from pathlib import Path


def warnings(block: dict[str, Any]) -> list[str]:
    return [str(one) for one in load_config(block).warnings]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"warningThreshold": 19}, []),
        (
            {"warningThreshold": 25},
            ["criticalThreshold: 20 (default) is not above warningThreshold 25 (global); 26 is used"],
        ),
        (
            {"warningThreshold": 9, "criticalThreshold": 9, "globalCircuitBreakerThreshold": 2},
            [
                "criticalThreshold: 9 (global) is not above warningThreshold 9 (global); 10 is used",
                (
                    "globalCircuitBreakerThreshold: 2 (global) is not above criticalThreshold 10 (repaired); "
                    "11 is used"
                ),
            ],
        ),
        (
            {"preset": "sensitive", "warningThreshold": 8},
            ["criticalThreshold: 8 (preset sensitive) is not above warningThreshold 8 (global); 9 is used"],
        ),
        (
            {"postCompactionGuard": {"windowSize": 1}},
            ["postCompactionGuard.windowSize: 1 is too small, since a single call is no repeat; 2 is used"],
        ),
        ({"postCompactionGuard": {"windowSize": 2}}, []),
    ],
)
def test_repairs(block: dict[str, Any], expected: list[str]) -> None:
    assert warnings(block) == expected


@pytest.mark.parametrize(
    ("block", "concerned"),
    [
        ({"historySize": 20}, []),  # calls are refused first, and refusals need no place in the window
        ({"historySize": 19}, ["criticalThreshold", "globalCircuitBreakerThreshold"]),
        (
            {"historySize": 5},
            [
                "warningThreshold",
                "criticalThreshold",
                "unknownToolThreshold",
                "globalCircuitBreakerThreshold",
            ],
        ),
        ({"historySize": 29, "onCritical": "warn"}, ["globalCircuitBreakerThreshold"]),
        ({"unknownToolThreshold": 31}, ["unknownToolThreshold"]),
        (
            {"toolProfiles": {"job": {"warningThreshold": 40, "criticalThreshold": 80}}},
            ["toolProfiles.job.warningThreshold", "toolProfiles.job.criticalThreshold"],
        ),
    ],
)
def test_thresholds_that_the_window_never_reaches(block: dict[str, Any], concerned: list[str]) -> None:
    found = load_config(block).warnings
    assert [one.path for one in found] == concerned
    assert all("can never be reached" in one.message for one in found)


def test_an_alternation_counts_once_more() -> None:
    block = {"historySize": 29, "warningThreshold": 30, "criticalThreshold": 31}
    first, second = load_config(block | {"globalCircuitBreakerThreshold": 40}).warnings[:2]
    assert "only an alternation of two calls counts so far" in first.message
    assert "only an alternation" not in second.message


@pytest.mark.parametrize(
    ("profiles", "critical"),
    [
        ({"x": {"criticalThreshold": 4}}, {"x": 11}),
        ({"x": {"warningThreshold": 25}}, {"x": 26}),
        ({"x": {"warningThreshold": 2, "criticalThreshold": 2}}, {"x": 3}),
        # the warning of the wider pattern counts, not the global one
        (
            {"m*": {"warningThreshold": 3, "criticalThreshold": 12}, "md*": {"criticalThreshold": 5}},
            {"md*": 5},
        ),
        ({"m*": {"criticalThreshold": 12}, "md*": {"warningThreshold": 15}}, {"m*": 12, "md*": 16}),
        ({"m*": {"warningThreshold": 15}, "other": {"criticalThreshold": 12}}, {"m*": 20, "other": 12}),
    ],
)
def test_profiles_are_repaired_with_what_they_inherit(
    profiles: dict[str, Any], critical: dict[str, int]
) -> None:
    resolved = {one.pattern: one for one in load_config({"toolProfiles": profiles}).settings().profiles}
    for pattern, value in critical.items():
        assert (resolved[pattern].critical_threshold or 20) == value


def test_what_agents_have_in_common_is_said_once() -> None:
    config = load_config(
        {
            "tools": {"loopDetection": {"warningThreshold": 25}},
            "agents": {
                "list": [
                    {"id": "a", "tools": {"loopDetection": {"enabled": True}}},
                    {"id": "b", "tools": {"loopDetection": {"warningThreshold": 27}}},
                ]
            },
        }
    )
    assert [(one.path, one.message.rpartition("; ")[2]) for one in config.warnings] == [
        ("tools.loopDetection.criticalThreshold", "26 is used"),
        ("agents.list[1].tools.loopDetection.criticalThreshold", "28 is used"),
    ]


def test_a_warning_points_to_the_line_of_its_cause(tmp_path: Path) -> None:
    path = tmp_path / "c.json5"
    path.write_text("{\n  enabled: true,\n  warningThreshold: 25,\n}")
    (warning,) = load_config(path).warnings
    assert warning.line == 3
