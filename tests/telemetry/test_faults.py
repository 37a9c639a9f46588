"""Faults in the guard: the first of a kind is told in full, the others are counted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden import LoopGuard
from loopwarden.telemetry import faults
from loopwarden.telemetry.faults import Faults
from tests.guards import SMALL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.events import Event, Verdict

BROKEN: Any = ["a name that can be no key"]
TEXT = "fault in the guard: the call is let through"


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, bool]]:
    """The lines, and whether each has a traceback."""
    return [(record.message, record.exc_info is not None) for record in caplog.records]


def fail(error: Exception) -> None:
    raise error


def meet(found: Faults, errors: Iterable[Exception], what: str = "fault") -> None:
    for error in errors:
        try:
            fail(error)
        except Exception:  # noqa: BLE001 - any
            found.tell(what)


def test_a_run_that_fails_at_every_call_is_told_of_a_few_times(caplog: pytest.LogCaptureFixture) -> None:
    guard = LoopGuard(SMALL)
    for number in range(1_063):
        assert guard.before("read", {}, call_id=str(number), run_id=BROKEN).action == "allow"
    (first, traced), *others = told(caplog)
    assert (first, traced) == (TEXT, True)
    assert [count.split("; ")[1] for count, _ in others] == [
        f"{number} times by now)" for number in (10, 100, 1000)
    ]
    for line, traced in others:
        assert not traced
        assert line.startswith(f"{TEXT} (TypeError in loopwarden.runs, line ")


def test_another_kind_of_fault_is_told_in_full_however_often_the_first_came(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = LoopGuard(SMALL)
    for number in range(50):
        guard.before("read", {}, call_id=str(number), run_id=BROKEN)
    guard.before(BROKEN, {}, call_id="x", run_id="r")
    assert told(caplog)[-1] == (TEXT, True)
    assert "profile" in str(caplog.records[-1].exc_text)
    assert len([line for line, traced in told(caplog) if traced]) == 2


def test_type_place_and_consequence_make_a_kind(caplog: pytest.LogCaptureFixture) -> None:
    found = Faults()
    meet(found, (KeyError("a"), ValueError("b"), KeyError("c"), KeyError("a")))
    meet(found, (KeyError("a"),), what="another fault")
    assert told(caplog) == [("fault", True), ("fault", True), ("another fault", True)]


def test_each_guard_tells_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        LoopGuard(SMALL).before("read", {}, call_id="x", run_id=BROKEN)
    assert told(caplog) == [(TEXT, True)] * 2


def test_kinds_are_bounded(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_KINDS", 3)
    found = Faults()
    for number in range(200):
        meet(found, (type(f"Odd{number}", (Exception,), {})(),))
    assert len(told(caplog)) == 3 + 1 + 2  # three kinds, the first of the others, the 10th and the 100th


def test_a_type_cannot_forge_lines(caplog: pytest.LogCaptureFixture) -> None:
    odd = type("Odd\nWARNING loop", (Exception,), {})
    meet(Faults(), (odd() for _ in range(10)))
    assert "\n" not in told(caplog)[-1][0]


def test_a_broken_listener_is_told_of_a_few_times(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Verdict] = []

    def broken(verdict: Verdict, _event: Event) -> None:
        seen.append(verdict)
        raise RuntimeError("no room on the disk")

    caplog.set_level(logging.ERROR, logger="loopwarden")
    guard = LoopGuard(SMALL, on_verdict=[broken], mode="observe")
    for number in range(30):
        guard.before("read", {}, call_id=str(number), run_id="r")
        guard.after(str(number), result="same", run_id="r")
    assert len(seen) > 20
    assert [traced for _, traced in told(caplog)] == [True, False]


def test_where_faults_are_raised_each_one_is(caplog: pytest.LogCaptureFixture) -> None:
    guard = LoopGuard(SMALL, on_error="raise")
    for _ in range(3):
        with pytest.raises(TypeError):
            guard.before("read", {}, call_id="x", run_id=BROKEN)
    assert told(caplog) == []
