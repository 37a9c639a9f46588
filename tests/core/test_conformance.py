"""The reference's verdicts on 300 recorded situations (`tests/data/CONFORMANCE.md`), call by call."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwarden.scan.situations import Situation, load_situations, play

SITUATIONS = load_situations(Path(__file__).parents[1] / "data" / "seed_detectors.jsonl")


def test_none_is_missing() -> None:
    assert len(SITUATIONS) == 300
    assert {situation.format for situation in SITUATIONS} == {"recording"}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.id)
def test_the_verdicts_are_those_of_the_reference(situation: Situation) -> None:
    assert play(situation).failures == []
