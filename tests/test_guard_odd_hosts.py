"""Hosts that are not quite as they should be: the guard takes them as they are."""

from __future__ import annotations

from typing import Any

import pytest

from loopwarden import LoopGuard
from loopwarden.core.settings import Settings


class BrokenError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_calls_may_be_numbered() -> None:
    guard = LoopGuard({"enabled": True}, on_error="raise")
    numbered: Any = 7
    for _ in range(20):
        assert guard.before("read", {"path": "a"}, call_id=numbered, run_id="r").action in {"allow", "warn"}
        guard.after(numbered, result="same", run_id="r")
    assert guard.before("read", {"path": "a"}, call_id=numbered, run_id="r").action == "block"
    guard.retract([numbered], run_id="r")


def test_an_error_without_a_text_is_an_outcome_all_the_same() -> None:
    guard = LoopGuard({"enabled": True}, on_error="raise")
    for number in range(20):
        guard.before("read", {"path": "a"}, call_id=f"c{number}", run_id="r")
        guard.after(f"c{number}", error=BrokenError(), run_id="r")
    assert guard.before("read", {"path": "a"}, call_id="c", run_id="r").action == "block"


def test_the_mode_lies_over_settings() -> None:
    assert LoopGuard(Settings(enabled=True), mode="observe").settings.mode == "observe"
    assert LoopGuard(Settings(enabled=True, mode="observe")).settings.mode == "observe"
    assert LoopGuard({"enabled": True}).settings.mode == "enforce"


@pytest.mark.parametrize("wrong", [{"mode": "observ"}, {"on_error": "rais"}])
def test_a_mistyped_switch_is_told(wrong: Any) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        LoopGuard({"enabled": True}, **wrong)
