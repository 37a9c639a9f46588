"""A person's word over the guard's: paused runs, loops that are let through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.gateway.attended import AttendedGuard
from loopwarden.gateway.decisions import Decisions
from loopwarden.gateway.names import loop_name, run_name
from loopwarden.gateway.observers import Place, Speaker

if TYPE_CHECKING:
    from loopwarden.events import Event, Verdict


class Heard:
    """Remembers what it was told."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.events: list[tuple[str, str]] = []
        self.breaks = breaks

    def saw(self, _: str | None, event: Event, verdict: Verdict, *__: object) -> None:
        self.events.append((type(event).__name__, verdict.action))
        if self.breaks:
            raise RuntimeError("broken")

    def forgot(self, *_: object) -> None:
        self.events.append(("forgot", ""))


RUN = run_name(None, "enforce", "s", "r")


def guarded(heard: Heard | None = None, **settings: Any) -> tuple[AttendedGuard, Decisions]:
    decisions = Decisions()
    config = {"enabled": True, "warningThreshold": 3, "criticalThreshold": 5, **settings}
    return AttendedGuard(config, decisions=decisions, record=heard or Heard()), decisions


def strip(guard: AttendedGuard, count: int, start: int = 0, *, run: str = "r") -> str:
    """Identical calls; the letters of the answers."""
    verbs, letters = guard.session("s"), ""
    for number in range(start, start + count):
        verdict = verbs.before("read", {"path": "a"}, call_id=f"c{number}", run_id=run)
        letters += {"allow": ".", "warn": "w", "block": "B", "abort": "X"}[verdict.action]
        if verdict.action in {"allow", "warn"}:
            verbs.after(f"c{number}", result="same", run_id=run)
    return letters


def test_without_a_decision_it_is_the_guard() -> None:
    guard, _ = guarded()
    assert strip(guard, 8) == "...wwBBB"


def test_a_paused_guard_neither_refuses_nor_counts() -> None:
    heard = Heard()
    guard, decisions = guarded(heard)
    assert strip(guard, 4) == "...w"
    decisions.pause(RUN)
    assert strip(guard, 40, 100) == "." * 40
    assert heard.events[-2:] == [("ToolCall", "allow"), ("Outcome", "allow")]
    decisions.resume(RUN)
    assert strip(guard, 3, 200) == "wBB"


def test_a_pause_is_for_one_run() -> None:
    guard, decisions = guarded()
    decisions.pause(RUN)
    assert strip(guard, 6) == "......"
    assert strip(guard, 6, run="other") == "...wwB"


def test_an_ended_run_stays_ended_after_a_pause() -> None:
    guard, decisions = guarded(onCritical="abort")
    assert strip(guard, 6) == "...wwX"
    decisions.pause(RUN)
    assert strip(guard, 2, 10) == ".."
    decisions.resume(RUN)
    assert strip(guard, 1, 20) == "X"


def test_an_outcome_of_a_call_begun_while_paused_counts_for_nothing() -> None:
    guard, decisions = guarded()
    verbs = guard.session("s")
    decisions.pause(RUN)
    verbs.before("read", {"path": "a"}, call_id="c0", run_id="r")
    decisions.resume(RUN)
    assert verbs.after("c0", result="same", run_id="r").action == "allow"
    assert strip(guard, 6, 10) == "...wwB"


def test_an_observer_that_breaks_does_not_break_a_paused_run() -> None:
    guard, decisions = guarded(Heard(breaks=True))
    decisions.pause(RUN)
    assert strip(guard, 3) == "..."


def test_a_loop_that_is_let_through_runs_and_its_count_begins_again() -> None:
    guard, decisions = guarded()
    assert strip(guard, 6) == "...wwB"
    key = guard.session("s").before("read", {"path": "a"}, call_id="x", run_id="r").key
    assert key is not None
    decisions.release(RUN, loop_name(key))
    assert strip(guard, 12, 20) == "...ww...ww.."
    decisions.hold(RUN, loop_name(key))
    assert strip(guard, 6, 50) == ".wwBBB"


def test_letting_one_loop_through_leaves_others_refused() -> None:
    guard, decisions = guarded()
    decisions.release(RUN, loop_name("generic_repeat:another"))
    assert strip(guard, 7) == "...wwBB"


def test_a_run_that_was_ended_goes_on_when_its_loop_is_let_through() -> None:
    guard, decisions = guarded(onCritical="abort")
    assert strip(guard, 6) == "...wwX"
    key = guard.session("s").before("read", {"path": "a"}, call_id="x", run_id="r").key
    assert key is not None
    decisions.release(RUN, loop_name(key))
    assert strip(guard, 3, 20) == "..."


def test_places_of_http_clients_are_told_apart_by_agent() -> None:
    guard, decisions = guarded()
    place = Place('["coder","enforce","s"]')
    place.speaker, place.session = Speaker("coder", "enforce"), "s"
    decisions.pause(run_name("coder", "enforce", "s", "r"))
    answers = [
        guard.session(place).before("read", {}, call_id=f"c{number}", run_id="r").action
        for number in range(9)
    ]
    assert set(answers) == {"allow"}
    assert strip(guard, 6) == "...wwB"


def test_the_unscoped_session_can_be_paused_too() -> None:
    guard, decisions = guarded()
    decisions.pause(run_name(None, "enforce", None, None))
    for number in range(9):
        assert guard.before("read", {}, call_id=f"c{number}").action == "allow"
        guard.after(f"c{number}", result="same")


def test_decisions_go_along_where_a_run_goes_on_under_another_id() -> None:
    guard, decisions = guarded()
    strip(guard, 6)
    key = guard.session("s").before("read", {"path": "a"}, call_id="x", run_id="r").key
    assert key is not None
    decisions.release(RUN, loop_name(key))
    guard.session("s").compacted(run_id="r2", continues="r")
    assert strip(guard, 1, 20, run="r2") == "."
    decisions.pause(run_name(None, "enforce", "s", "r2"))
    guard.session("s").compacted(run_id="r3", continues="r2")
    assert strip(guard, 9, 30, run="r3") == "." * 9
    assert strip(guard, 6, 50, run="r2") == "..wwBB"


def test_decisions_are_bounded() -> None:
    decisions = Decisions()
    for number in range(10_050):
        decisions.pause(f"{number}")
    assert not decisions.is_paused("0")
    assert decisions.is_paused("10049")
    for number in range(70):
        decisions.release("run", f"{number}")
    assert not decisions.is_released("run", "0")
    assert decisions.is_released("run", "69")


def test_names_are_apart() -> None:
    names = [
        run_name(agent, mode, session, run)
        for agent in (None, "a", "-")
        for mode in ("enforce", "observe")
        for session in (None, "", "s", "half \ud83d")
        for run in (None, "", "s", "1:a")
    ]
    assert len(set(names)) == len(names)
    assert {len(name) for name in names} == {16}
