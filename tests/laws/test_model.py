"""The model itself: the recordings and the cases hold on it, so that it can judge the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loopwarden.config import load_config
from loopwarden.events import Outcome, ToolCall
from loopwarden.scan.bounds import Answer, broken_bounds
from loopwarden.scan.situations import BEYOND_THE_REFERENCE, Situation, load_situations
from tests.laws.model import Model

DATA = Path(__file__).parents[1] / "data"


def by_id(situation: Situation) -> str:
    return situation.id


@pytest.mark.parametrize("case", load_situations(DATA / "cases.jsonl"), ids=by_id)
def test_case(case: Situation) -> None:
    model = Model(load_config(dict(case.config or {})).settings(mode=case.mode))
    refused: set[tuple[str | None, str]] = set()
    answers: list[Answer] = []
    calls = 0
    for place, event in enumerate(case.events):
        if (
            isinstance(event, Outcome)
            and (event.run_id, event.call_id) in refused
            and place not in case.always
        ):
            continue
        said: Any = model.feed(event)
        if isinstance(event, ToolCall):
            calls += 1
            mark = refused.add if said.action in ("block", "abort") else refused.discard
            mark((event.run_id, event.call_id))
        action: Any = said.action if case.mode == "enforce" else said.would or "allow"
        answers.append(Answer(calls=calls, call=isinstance(event, ToolCall), action=action, verdict=said))
    assert broken_bounds(case.bounds, answers) == []


@pytest.mark.parametrize("recording", load_situations(DATA / "seed_detectors.jsonl"), ids=by_id)
def test_recording(recording: Situation) -> None:
    written = recording.config or {}
    switches = written.get("detectors", {}) | dict.fromkeys(BEYOND_THE_REFERENCE, False)
    config = load_config({**written, "detectors": switches, "resetOnWrite": False})
    model = Model(config.settings(mode="observe"))
    said = [(event, model.feed(event)) for event in recording.events]
    got = [
        None if one.detector is None else (one.level, one.detector, one.count)
        for event, one in said
        if isinstance(event, ToolCall)
    ]
    assert got == list(recording.expected)
