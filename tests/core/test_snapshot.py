"""A run that is saved and restored goes on as if nothing had been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from loopwarden import LoopGuard, StoreError
from loopwarden.core.snapshot import VERSION
from loopwarden.scan.situations import Situation, load_situations

CASES = load_situations(Path(__file__).parent.parent / "data" / "cases.jsonl")
SECRET = "the-secret-argument"  # noqa: S105 - a word to look for, no password


def answers(case: Situation, *, saving: bool) -> list[Any]:
    guard = LoopGuard(case.config, mode=case.mode, on_error="raise")
    found = []
    for event in case.events:
        run_id = event.run_id
        saved = guard.save(run_id=run_id) if saving else None
        if saved is not None:
            guard.restore(saved, run_id=run_id)
        found.append(guard.feed(event))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_saved_run_goes_on_alike(case: Situation) -> None:
    assert answers(case, saving=True) == answers(case, saving=False)


def busy() -> LoopGuard:
    guard = LoopGuard({"enabled": True}, on_error="raise")
    for number in range(30):
        guard.before("read", {"path": SECRET, "n": number % 3}, call_id=f"c{number}", run_id="r")
        guard.after(f"c{number}", result=f"{SECRET} {number % 2}", run_id="r")
    return guard


def test_a_saved_run_holds_no_arguments_and_no_results() -> None:
    saved = busy().save(run_id="r")
    assert saved is not None
    assert SECRET.encode() not in saved


def test_a_saved_run_is_bounded() -> None:
    guard = busy()
    sizes = []
    for number in range(4000):
        guard.before("read", {"n": number}, call_id="c", run_id="r")
        guard.after("c", result=str(number), run_id="r")
        if number in {1000, 3999}:
            saved = guard.save(run_id="r")
            assert saved is not None
            sizes.append(len(saved))
    assert sizes[1] < 1.2 * sizes[0]


def test_an_unknown_run_has_nothing_to_save() -> None:
    assert busy().save(run_id="other") is None


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"[]",
        b"not json",
        b'{"version": 99}',
        orjson.dumps({"version": VERSION}),
        orjson.dumps({"version": VERSION, "root": {"o": 0}, "objects": []}),
        orjson.dumps({"version": VERSION, "root": {"o": 0}, "objects": [["os", {}]]}),
        orjson.dumps({"version": VERSION, "root": {"o": 0}, "objects": [["Verdict", {}]]}),
        orjson.dumps({"version": VERSION, "root": 7, "objects": []}),
        orjson.dumps({"version": VERSION, "root": {"o": 0}, "objects": [["RunState", {}]]}),
    ],
)
def test_damage_is_told(damage: bytes) -> None:
    guard = busy()
    before = guard.save(run_id="r")
    with pytest.raises(StoreError, match="saved run"):
        guard.restore(damage, run_id="r")
    assert guard.save(run_id="r") == before


def test_every_cut_of_a_saved_run_is_told() -> None:
    guard = busy()
    saved = guard.save(run_id="r")
    assert saved is not None
    data = orjson.loads(saved)
    for place in range(len(data["objects"])):
        for field in range(len(data["objects"][place][1])):
            cut = orjson.loads(saved)
            del cut["objects"][place][1][field]
            with pytest.raises(StoreError):
                LoopGuard({"enabled": True}).restore(orjson.dumps(cut), run_id="r")
