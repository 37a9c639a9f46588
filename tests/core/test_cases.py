"""Situations from public fault reports (`tests/data/CASES.md`): bounds on the right answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwarden.scan.situations import Situation, load_situations, play

CASES = load_situations(Path(__file__).parents[1] / "data" / "cases.jsonl")


def test_none_is_missing() -> None:
    assert len(CASES) == 208
    assert {case.format for case in CASES} == {"case"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_bounds_hold(case: Situation) -> None:
    assert play(case).failures == [], case.title
