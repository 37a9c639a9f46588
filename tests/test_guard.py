"""The door: runs apart, faults kept from the agent, threads, forks, logs and listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from loopwarden import (
    Compaction,
    ConfigError,
    LoopGuard,
    Outcome,
    Retraction,
    ToolCall,
    UserMessage,
    Verdict,
    load_config,
)
from loopwarden.events import ALLOW
from tests.guards import SMALL, actions, calls, strict

if TYPE_CHECKING:
    from pathlib import Path

    from loopwarden.events import Event
    from loopwarden.guard import Verbs


def test_runs_are_apart() -> None:
    guard = strict()
    doors: list[tuple[Verbs, str | None]] = [
        (guard, None),
        (guard, "r1"),
        (guard, "r2"),
        (guard.session("s1"), None),
        (guard.session("s1"), "r1"),
        (guard.session("s2"), "r1"),
    ]
    for door, run_id in doors:
        assert actions(calls(door, 4, run_id=run_id)) == ["allow"] * 3 + ["warn"]


def test_a_session_asked_for_again_is_the_same() -> None:
    guard = strict()
    calls(guard.session("s"), 3)
    assert calls(guard.session("s"), 1)[0].count == 3
    assert guard.session("s").session_id == "s"
    assert guard.session_id is None


def test_an_outcome_belongs_to_the_run_that_asked() -> None:
    guard = strict()
    for number in range(5):
        guard.before("read", {}, call_id=f"c{number}", run_id="r1")
        guard.after(f"c{number}", result="x", run_id="r2")
    assert guard.before("read", {}, call_id="c", run_id="r1").action == "warn"


def test_a_run_that_is_forgotten_starts_afresh() -> None:
    guard = strict()
    assert actions(calls(guard, 6)) == ["allow"] * 3 + ["warn"] * 2 + ["block"]
    guard.forget(run_id="other")
    assert actions(calls(guard, 1)) == ["block"]
    guard.forget(run_id="r")
    assert actions(calls(guard, 4)) == ["allow"] * 3 + ["warn"]


def test_the_run_that_was_quiet_for_longest_is_forgotten_first() -> None:
    guard = strict(max_runs=2)
    calls(guard, 3, run_id="r1")
    calls(guard, 3, run_id="r2")
    calls(guard, 1, run_id="r1")
    calls(guard, 3, run_id="r3")
    assert calls(guard, 1, run_id="r1")[0].count == 4
    assert calls(guard, 1, run_id="r2")[0].count == 0


def test_the_verbs_and_events_say_the_same() -> None:
    one, other = strict(), strict()
    for number in range(5):
        call = ToolCall(
            tool="read", arguments={"a": 1}, call_id=f"c{number}", run_id="r", turn_id=f"t{number}"
        )
        by_verb = one.before("read", {"a": 1}, call_id=f"c{number}", run_id="r", turn_id=f"t{number}")
        assert other.feed(call) == by_verb
        by_verb = one.after(f"c{number}", result="x", run_id="r")
        assert other.feed(Outcome(call_id=f"c{number}", result="x", run_id="r")) == by_verb
    assert one.retract(["c4"], run_id="r") == other.feed(Retraction(call_ids=("c4",), run_id="r"))
    assert one.compacted(run_id="q", continues="r") == other.feed(Compaction(run_id="q", continues="r"))
    assert one.user_message(run_id="q") == other.feed(UserMessage(run_id="q"))
    ends = [
        one.before("read", {"a": 1}, call_id="d", run_id="q"),
        other.feed(ToolCall(tool="read", arguments={"a": 1}, call_id="d", run_id="q")),
    ]
    assert ends[0] == ends[1]
    assert ends[0].count == 4


def test_a_continued_run_takes_its_evidence_along_and_is_gone_under_the_old_id() -> None:
    guard = strict()
    calls(guard, 4, run_id="old")
    guard.compacted(run_id="new", continues="old")
    assert calls(guard, 1, run_id="new")[0].count == 4
    assert calls(guard, 1, run_id="old")[0].count == 0
    guard.compacted(run_id="new", continues="new")
    guard.compacted(run_id="new", continues="never heard of")
    assert calls(guard, 1, path="b", run_id="new")[0].action == "allow"
    assert guard.before("read", {"path": "a"}, call_id="x", run_id="new").count >= 5


@pytest.mark.parametrize(
    ("error", "timed_out"),
    [(TimeoutError("late"), False), ("late", True), (ValueError("late"), True)],
)
def test_a_timeout_is_no_repeated_failure(error: Any, timed_out: bool) -> None:
    guard = strict({**SMALL, "detectors": {"genericRepeat": False}})
    for number in range(6):
        assert guard.before("fetch", {"n": number}, call_id="c").action == "allow"
        guard.after("c", error=error, timed_out=timed_out)


def test_an_exception_is_compared_by_type_and_text() -> None:
    guard = strict()
    errors = [ValueError("no"), ValueError("no"), KeyError("no"), ValueError("no"), ValueError("no")]
    for error in errors:
        guard.before("fetch", {}, call_id="c")
        guard.after("c", error=error)
    verdict = guard.before("fetch", {}, call_id="c")
    assert (verdict.level, verdict.count) == ("warning", 5)


CONFIGS = ("mapping", "file layout", "Config", "path", "text path", "settings")


@pytest.mark.parametrize("form", CONFIGS)
def test_what_a_configuration_may_be(form: str, tmp_path: Path) -> None:
    path = tmp_path / "guard.json5"
    path.write_text("{tools: {loopDetection: {enabled: true, warningThreshold: 3}}}")
    block = {"enabled": True, "warningThreshold": 3}
    config: Any = {
        "mapping": block,
        "file layout": {"tools": {"loopDetection": block}},
        "Config": load_config(block),
        "path": path,
        "text path": str(path),
        "settings": load_config(block).settings(),
    }[form]
    assert actions(calls(LoopGuard(config, on_error="raise"), 4)) == ["allow"] * 3 + ["warn"]


def test_without_a_configuration_the_file_that_is_found_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "guard.json5"
    path.write_text("{tools: {loopDetection: {enabled: true, warningThreshold: 2}}}")
    monkeypatch.setenv("LOOPWARDEN_CONFIG", str(path))
    assert actions(calls(LoopGuard(on_error="raise"), 3)) == ["allow", "allow", "warn"]


def test_an_agent_has_its_own_numbers() -> None:
    config = {
        "tools": {"loopDetection": SMALL},
        "agents": {"list": [{"id": "quick", "tools": {"loopDetection": {"warningThreshold": 1}}}]},
    }
    assert actions(calls(strict(config, agent_id="quick"), 2)) == ["allow", "warn"]
    assert actions(calls(strict(config, agent_id="other"), 2)) == ["allow", "allow"]


@pytest.mark.parametrize("options", [{"mode": "watch"}, {"on_error": "ignore"}])
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        LoopGuard({}, **options)


def test_a_wrong_configuration_is_refused() -> None:
    with pytest.raises(ConfigError):
        LoopGuard({"warningThreshold": 0})


def test_listeners_are_told_of_what_was_found_and_nothing_else() -> None:
    told: list[tuple[Verdict, Event]] = []
    also: list[str | None] = []
    guard = strict(
        on_verdict=[lambda *both: told.append(both), lambda verdict, _: also.append(verdict.detector)]
    )
    verdicts = calls(guard, 6)
    assert [verdict for verdict, _ in told] == verdicts[3:]
    assert also == ["generic_repeat"] * 3
    assert told[0][1] == ToolCall(tool="read", arguments={"path": "a"}, call_id="a3", run_id="r")


def test_listeners_get_the_event_that_ended_a_run() -> None:
    told: list[tuple[Verdict, Event]] = []
    guard = strict({}, on_verdict=[lambda *both: told.append(both)])
    guard.compacted(run_id="r")
    calls(guard, 3)
    (verdict, event), *others = told
    assert (verdict.action, verdict.error) == ("abort", "compaction_loop_persisted")
    assert event == Outcome(call_id="a2", result="same", run_id="r")
    assert others == []
    for _ in range(3):
        guard.compacted(run_id="idle")
    assert told[-1][1] == Compaction(run_id="idle")


def test_a_fault_of_a_listener_goes_no_further(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Verdict] = []

    def broken(_verdict: Verdict, _event: Event) -> None:
        raise RuntimeError("no room on the disk")

    guard = LoopGuard(SMALL, on_verdict=[broken, lambda verdict, _: told.append(verdict)])
    assert actions(calls(guard, 6)) == ["allow"] * 3 + ["warn"] * 2 + ["block"]
    assert len(told) == 3
    assert "fault in a listener" in caplog.text
    assert "no room on the disk" in caplog.text
    with pytest.raises(RuntimeError, match="no room"):
        calls(strict(on_verdict=[broken]), 6)


def test_a_fault_of_the_guard_lets_the_call_run(caplog: pytest.LogCaptureFixture) -> None:
    guard = LoopGuard(SMALL)
    calls(guard, 3)
    broken: Any = ["a name that can be no key"]
    assert guard.before(broken, {}, call_id="x", run_id="r") is ALLOW
    assert guard.before("read", {}, call_id="x", run_id=broken) is ALLOW
    assert guard.after("a9", result=1, run_id=broken) is ALLOW
    assert guard.feed(Compaction(run_id=broken)) is ALLOW
    assert guard.feed(UserMessage(run_id=broken)) is ALLOW
    assert {record.message for record in caplog.records} == {"fault in the guard: the call is let through"}
    assert calls(guard, 1)[0].count == 3


def test_faults_are_raised_where_that_is_wished() -> None:
    guard = strict()
    broken: Any = ["a name that can be no key"]
    with pytest.raises(TypeError):
        guard.before(broken, {}, call_id="x")
    with pytest.raises(TypeError):
        guard.after("x", result=1, run_id=broken)
    with pytest.raises(TypeError):
        guard.feed(UserMessage(run_id=broken))
    assert actions(calls(guard, 4)) == ["allow"] * 3 + ["warn"]
