"""Listeners, log and record: told in order, once, and unable to break the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from loopwarden import Compaction, LoopGuard, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from loopwarden import Verdict
    from loopwarden.core.settings import Settings
    from loopwarden.events import Event

SMALL: dict[str, Any] = {"enabled": True, "warningThreshold": 3, "criticalThreshold": 5}


class Watching:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str | None, Event, Verdict, bytes | None, Settings]] = []
        self.over: list[tuple[str | None, str | None]] = []

    def saw(
        self,
        session_id: str | None,
        event: Event,
        verdict: Verdict,
        compared: bytes | None,
        settings: Settings,
    ) -> None:
        self.seen.append((session_id, event, verdict, compared, settings))

    def forgot(self, session_id: str | None, run_id: str | None) -> None:
        self.over.append((session_id, run_id))


def verbs(guard: LoopGuard) -> list[Verdict]:
    session = guard.session("s")
    said = [
        session.before("read", {"a": 1}, call_id="c1", run_id="r", turn_id="t", at=1.0),
        session.before("read", {"a": 1}, call_id="c1", run_id="r"),
        session.after("c1", result="x", run_id="r", at=2.0),
        session.after("c1", error=TimeoutError("late"), run_id="r"),
        session.compacted(run_id="r"),
        session.user_message(run_id="r"),
        session.retract(["c1"], run_id="r"),
    ]
    session.forget(run_id="r")
    return said


def test_an_observer_is_told_of_everything() -> None:
    watching = Watching()
    guard = LoopGuard(SMALL, on_error="raise", record=watching)
    said = verbs(guard)
    assert [type(event) for _, event, *_ in watching.seen] == [
        ToolCall,
        ToolCall,
        Outcome,
        Outcome,
        Compaction,
        UserMessage,
        Retraction,
    ]
    assert {session for session, *_ in watching.seen} == {"s"}
    assert [verdict for _, _, verdict, _, _ in watching.seen] == said
    assert all(settings is guard.settings for *_, settings in watching.seen)
    compared = [one[3] is not None for one in watching.seen]
    assert compared == [True, False, True, False, False, False, False]
    first = watching.seen[0][1]
    assert first == ToolCall(tool="read", arguments={"a": 1}, call_id="c1", run_id="r", turn_id="t", at=1.0)
    late = watching.seen[3][1]
    assert isinstance(late, Outcome)
    assert (late.error, late.timed_out) == ("TimeoutError: late", True)
    assert watching.over == [("s", "r")]


def test_a_guard_says_the_same_with_and_without_an_observer() -> None:
    def said(record: Watching | None) -> list[Verdict]:
        guard = LoopGuard(SMALL, on_error="raise", record=record)
        verdicts = verbs(guard)
        for number in range(30):
            verdicts.append(guard.before("read", {}, call_id=f"c{number}", run_id="q"))
            verdicts.append(guard.after(f"c{number}", result="x", run_id="q"))
        return verdicts

    assert said(Watching()) == said(None)


class Broken:
    """Raises whatever it is told."""

    def saw(self, *_: object) -> None:
        raise OSError("disk full")

    def forgot(self, *_: object) -> None:
        raise OSError("disk full")

    def __call__(self, *_: object) -> None:
        raise ValueError("no such pager")


def test_what_they_raise_is_logged_and_the_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Verdict] = []
    broken = Broken()
    guard = LoopGuard(SMALL, record=broken, on_verdict=[broken, lambda verdict, _: told.append(verdict)])
    said = [guard.before("read", {}, call_id=f"c{number}", run_id="r").action for number in range(5)]
    guard.forget(run_id="r")
    assert said == ["allow"] * 3 + ["warn"] * 2
    assert len(told) == 2
    faults = [record.message for record in caplog.records if record.exc_info]
    assert faults == ["fault in a listener"]  # the first of its kind
    line = "run record: disk full; entries are lost until it can be written (told once a minute)"
    assert [record.message for record in caplog.records].count(line) == 1


def test_other_faults_of_a_record_are_logged_with_where_they_were(caplog: pytest.LogCaptureFixture) -> None:
    class Wrong(Broken):
        def saw(self, *_: object) -> None:
            raise KeyError("x")

    guard = LoopGuard(SMALL, record=Wrong())
    for number in range(3):
        guard.before("read", {}, call_id=f"c{number}", run_id="r")
    faults = [record.message for record in caplog.records if record.exc_info]
    assert faults == ["fault in the run record"]


def test_in_tests_what_they_raise_is_raised() -> None:
    with pytest.raises(OSError, match="disk full"):
        LoopGuard(SMALL, on_error="raise", record=Broken()).before("read", {}, call_id="c")
    guard = LoopGuard(SMALL, on_error="raise", on_verdict=[Broken()])
    for number in range(3):
        guard.before("read", {}, call_id=f"c{number}")
    with pytest.raises(ValueError, match="no such pager"):
        guard.before("read", {}, call_id="c3")


def test_what_is_raised_in_tests_is_raised_once_all_were_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Verdict] = []

    def other(verdict: Verdict, _: Event) -> None:
        told.append(verdict)
        raise LookupError("a later one")

    def fails(*_: object) -> None:
        raise RuntimeError("no log")

    guard = LoopGuard(SMALL, on_error="raise", on_verdict=[Broken(), other])
    for number in range(3):
        guard.before("read", {}, call_id=f"c{number}")
    with pytest.raises(ValueError, match="no such pager"):
        guard.before("read", {}, call_id="c3")
    assert [verdict.action for verdict in told] == ["warn"]

    guard = LoopGuard(
        SMALL, on_error="raise", record=Broken(), on_verdict=[lambda verdict, _: told.append(verdict)]
    )
    for number in range(4):
        with pytest.raises(OSError, match="disk full"):
            guard.before("read", {}, call_id=f"c{number}")
    assert [verdict.action for verdict in told] == ["warn"] * 2

    monkeypatch.setattr(log, "found", fails)
    guard = LoopGuard(SMALL, on_error="raise", on_verdict=[lambda verdict, _: told.append(verdict)])
    for number in range(3):
        guard.before("read", {}, call_id=f"c{number}")
    with pytest.raises(RuntimeError, match="no log"):
        guard.before("read", {}, call_id="c3")
    assert [verdict.action for verdict in told] == ["warn"] * 3


def test_a_log_that_fails_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no name")

    monkeypatch.setattr(log.logger, "disabled", False)
    odd: Any = Odd()
    guard = LoopGuard(SMALL)
    said = [guard.before("read", {}, call_id=f"c{number}", run_id=odd).action for number in range(4)]
    assert said == ["allow"] * 3 + ["warn"]
