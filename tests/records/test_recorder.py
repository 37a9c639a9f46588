"""What a guard writes to its record."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden import LoopGuard
from loopwarden.records import RunRecorder, summaries
from loopwarden.stores.memory import MemoryStore
from tests.records.scene import SECRET, SMALL, agent, entries, kinds, one, recording

if TYPE_CHECKING:
    from pathlib import Path

FILES = ["runs.jsonl", "runs.db"]


@pytest.fixture(params=FILES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def test_a_run_from_its_first_call_to_its_end(path: Path) -> None:
    guard = recording(path)
    agent(guard, "aaaaaaaaaaaaa")
    guard.forget(run_id="r")
    assert kinds(path) == [
        "begun",
        *["detection"] * 2,
        *["refusal"] * 4,
        "abort",
        "ended",
    ]
    found = entries(path)
    assert len({entry.id for entry in found}) == 1
    assert {(entry.session, entry.run) for entry in found} == {(None, "r")}
    assert [entry.calls for entry in found] == [0, 4, 5, 6, 7, 8, 9, 10, 10]
    assert [entry.at for entry in found] == [0.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, None]
    assert [entry.time for entry in found[:2]] == ["2026-07-01T12:00:00.000Z", "2026-07-01T12:00:01.000Z"]
    warned = found[1].details
    facts = {name: warned[name] for name in ("level", "detector", "count", "threshold", "action", "would")}
    assert facts == {
        "level": "warning",
        "detector": "generic_repeat",
        "count": 3,
        "threshold": 3,
        "action": "warn",
        "would": None,
    }
    assert (warned["tool"], warned["call_id"], warned["announced"]) == ("read", "c3", True)
    aborted = found[-2].details
    assert (aborted["error"], aborted["action"]) == ("tool_loop_persisted", "abort")
    assert "read" in str(aborted["message"])
    assert found[-1].details == {
        "why": "forgotten",
        "outcomes": 5,
        "detections": 7,
        "warnings": 2,
        "refusals": 4,
        "announcements": 3,
        "compactions": 0,
        "after_abort": 3,
        "error": "tool_loop_persisted",
    }


def test_what_is_only_observed_says_what_would_have_been_done(path: Path) -> None:
    guard = recording(path, mode="observe")
    assert agent(guard, "a" * 10) == "l" * 10
    found = [entry for entry in entries(path) if entry.kind == "detection"]
    assert [entry.details["action"] for entry in found] == ["allow"] * 7
    assert [entry.details["would"] for entry in found] == ["warn"] * 2 + ["block"] * 5
    (run,) = summaries(entries(path))
    assert (run.mode, run.refusals, run.end) == ("observe", 0, "open")


@pytest.mark.parametrize(
    ("strip", "expected"),
    [
        ("abc|abcdefgh", (8, 3)),  # the window is full
        ("abc|abcdefghabc", (8, 3)),  # what comes after it is not looked at
        ("abc|ddd", (3, 0)),  # the calls after it are not from before
        ("abc|abac", (4, 4)),
        ("|abc", (3, 0)),
        ("abc|", (0, 0)),
    ],
)
def test_rereads_after_a_compaction(path: Path, strip: str, expected: tuple[int, int]) -> None:
    guard = recording(path, SMALL | {"postCompactionGuard": {"windowSize": 8}})
    agent(guard, strip)
    guard.forget(run_id="r")
    details = one(path, "rereads").details
    assert (details["next_calls"], details["repeats"], details["window"]) == (*expected, 8)


def test_the_next_compaction_ends_the_look_at_the_calls_after_the_last_one(path: Path) -> None:
    guard = recording(path)
    agent(guard, "ab|ac|cbd")
    guard.forget(run_id="r")
    found = [entry for entry in entries(path) if entry.kind in {"compaction", "rereads"}]
    assert [(entry.kind, entry.details["compaction"]) for entry in found] == [
        ("compaction", 1),
        ("rereads", 1),
        ("compaction", 2),
        ("rereads", 2),
    ]
    assert [entry.details["repeats"] for entry in found if entry.kind == "rereads"] == [1, 2]


def test_refused_and_repeated_ids_are_counted_as_asked_for(path: Path) -> None:
    guard = recording(path)
    for _ in range(3):
        guard.before("read", {}, call_id="same", run_id="r")
    guard.forget(run_id="r")
    assert one(path, "ended").calls == 1


def test_a_run_that_goes_on_under_a_new_id_is_one_run(path: Path) -> None:
    guard = recording(path)
    agent(guard, "abc", run_id="old")
    guard.compacted(run_id="new", continues="old")
    agent(guard, "abd", run_id="new", start=10)
    guard.forget(run_id="new")
    (run,) = summaries(entries(path))
    assert (run.run, run.calls, run.next_calls, run.rereads, run.end) == ("new", 6, 3, 2, "ended")
    assert one(path, "compaction").details["continues"] == "old"


def test_a_run_id_that_is_used_twice_names_two_runs(path: Path) -> None:
    guard = recording(path)
    for _ in range(2):
        agent(guard, "ab")
        guard.forget(run_id="r")
    assert [(run.run, run.calls) for run in summaries(entries(path))] == [("r", 2), ("r", 2)]


def test_sessions_are_apart(path: Path) -> None:
    guard = recording(path)
    agent(guard.session("s1"), "ab")
    agent(guard.session("s2"), "abc")
    assert [(run.session, run.run) for run in summaries(entries(path))] == [("s1", "r"), ("s2", "r")]


def test_what_comes_after_the_end_begins_no_run(path: Path) -> None:
    guard = recording(path)
    guard.before("read", {}, call_id="c", run_id="r")
    guard.forget(run_id="r")
    guard.after("c", result="late", run_id="r")
    guard.user_message(run_id="r")
    guard.retract(["c"], run_id="r")
    guard.forget(run_id="r")
    assert kinds(path) == ["begun", "ended"]


def test_a_person_in_an_unscoped_session_lets_an_aborted_agent_go_on(path: Path) -> None:
    guard = recording(path)
    agent(guard, "a" * 10, run_id=None)
    assert summaries(entries(path))[0].end == "aborted"
    guard.user_message()
    agent(guard, "b", run_id=None)
    (run,) = summaries(entries(path))
    assert (run.end, run.error, run.run) == ("open", "tool_loop_persisted", None)


def test_other_events_stand_in_the_record(path: Path) -> None:
    guard = recording(path)
    agent(guard, "ab")
    guard.user_message(run_id="r", at=7.0)
    guard.retract(["c0", "c1"], run_id="r")
    assert one(path, "user_message").at == 7.0
    assert one(path, "retraction").details["retracted"] == 2


def test_where_everything_is_off_nothing_is_recorded(path: Path) -> None:
    guard = recording(path, {"enabled": False})
    agent(guard, "aa|a")
    guard.forget(run_id="r")
    assert not path.exists()


def test_nothing_is_made_before_the_first_entry(path: Path) -> None:
    recording(path / "deep")
    assert not path.exists()


def test_only_the_owner_may_read(path: Path) -> None:
    below = path.parent / "new" / path.name
    agent(recording(below), "a")
    if os.name == "posix":
        assert below.stat().st_mode & 0o777 == 0o600
        assert below.parent.stat().st_mode & 0o777 == 0o700


def files(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())


def test_arguments_and_results_are_not_recorded(path: Path) -> None:
    guard = recording(path)
    agent(guard, "aaaaaaaaaa")
    agent(guard, "b|bbb", run_id="other")
    found = files(path.parent)
    assert b"compaction_loop_persisted" in found
    assert SECRET.encode() not in found
    assert b"password" not in found


def test_payloads_are_shortened_and_masked(path: Path) -> None:
    guard = recording(path, payloads=True)
    long = {"path": "x" * 5000, "password": SECRET, "header": "Authorization: Bearer abcdefgh12345678"}
    for number in range(4):
        guard.before("read", long, call_id=f"c{number}", run_id="loops")
    guard.compacted(run_id="r")
    for number in range(3):
        guard.before("read", long, call_id=f"c{number}", run_id="r")
        guard.after(f"c{number}", result={"token": SECRET, "text": "fine"}, run_id="r")
    shown = str(next(entry for entry in entries(path) if entry.kind == "detection").details["arguments"])
    assert shown.startswith('path: "xxx')
    assert "password: ***" in shown
    assert len(shown) <= 160
    assert one(path, "abort").details["result"] == 'token: ***, text: "fine"'
    assert SECRET.encode() not in files(path.parent)
    assert b"abcdefgh12345678" not in files(path.parent)


@pytest.mark.parametrize("name", ["\x1b[31m\u202eevil\n{}", "\ud800", "x" * 10_000, "", '","id":"', "\0"])
def test_hostile_names_stay_names(path: Path, name: str) -> None:
    guard = recording(path)
    session = guard.session(name)
    for number in range(4):
        session.before(name, {}, call_id=f"{name}{number}", run_id=name, turn_id=f"{name}{number}")
    found = entries(path)
    assert [entry.kind for entry in found] == ["begun", "detection"]
    texts = [found[1].session, found[1].run, *(found[1].details[n] for n in ("tool", "call_id", "turn_id"))]
    assert all(isinstance(text, str) and text.isprintable() and len(text) <= 200 for text in texts)


def test_ids_and_times_of_odd_types_are_taken(path: Path) -> None:
    guard: Any = recording(path)
    for number, at in enumerate([float("inf"), 10**400, "noon", float("nan")]):
        guard.before("read", {}, call_id=number, run_id=7, at=at)
    found = entries(path)[-1]
    assert (found.kind, found.run, found.details["call_id"], found.at) == ("detection", "7", "3", None)


def test_the_runs_that_are_open_end_with_the_recorder(path: Path) -> None:
    recorder = RunRecorder(path)
    guard = LoopGuard(SMALL, on_error="raise", record=recorder)
    agent(guard, "ab|c")
    recorder.close()
    assert kinds(path) == ["begun", "compaction", "rereads", "ended"]
    assert one(path, "ended").details["why"] == "closed"
    agent(guard, "ab")
    assert kinds(path)[-1] == "begun"


def test_the_runs_that_are_open_end_with_a_guard_that_is_dropped(path: Path) -> None:
    guard = LoopGuard(SMALL, on_error="raise", record=path)
    agent(guard, "ab")
    del guard
    gc.collect()
    assert kinds(path) == ["begun", "ended"]


def test_the_runs_that_are_open_end_with_the_program(path: Path) -> None:
    code = f"""
        from loopwarden import LoopGuard
        guard = LoopGuard({{"enabled": True}}, record={str(path)!r}, agent_id=None)
        guard.before("read", {{}}, call_id="c", run_id="r")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)
    assert kinds(path) == ["begun", "ended"]


class ForEachEvent:
    """As programs that are started for one event each: nothing stays but the file and the store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = MemoryStore()

    def saw(self, *event: Any) -> None:
        RunRecorder(self.path, store=self.store).saw(*event)

    def forgot(self, *run: Any) -> None:
        RunRecorder(self.path, store=self.store).forgot(*run)


def test_programs_that_share_a_store_count_on(path: Path) -> None:
    guard = LoopGuard(SMALL, on_error="raise", record=ForEachEvent(path))
    agent(guard, "abc|ad", run_id="old")
    guard.compacted(run_id="r", continues="old")
    agent(guard, "bce", start=10)
    guard.forget(run_id="r")
    assert kinds(path) == ["begun", *["compaction", "rereads"] * 2, "ended"]
    (run,) = summaries(entries(path))
    assert (run.calls, run.next_calls, run.rereads) == (8, 5, 3)


def test_guards_that_share_a_store_record_one_run(path: Path) -> None:
    store = f"sqlite:{path.parent / 'state.db'}"
    for number, letter in enumerate("abc|aeb"):
        guard = LoopGuard(SMALL, on_error="raise", store=store, record=path)
        agent(guard, letter, start=number)
        guard.close()
    guard = LoopGuard(SMALL, on_error="raise", store=store, record=path)
    guard.forget(run_id="r")
    guard.close()
    assert kinds(path) == ["begun", "compaction", "rereads", "ended"]
    (run,) = summaries(entries(path))
    assert (run.calls, run.next_calls, run.rereads) == (6, 3, 2)
    assert SECRET.encode() not in files(path.parent)


@pytest.mark.parametrize("damaged", [b"", b"{}", b"[]", b'{"version": 2}', b"null"])
def test_damaged_sums_are_a_fault_that_is_told(path: Path, damaged: bytes) -> None:
    store = MemoryStore()
    store.update('record:[null,"r"]', lambda _: (damaged, None))
    guard = LoopGuard(SMALL, record=RunRecorder(path, store=store))
    assert guard.before("read", {}, call_id="c", run_id="r").action == "allow"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_process_has_runs_of_its_own(path: Path) -> None:
    code = f"""
        import os
        from loopwarden import LoopGuard
        guard = LoopGuard({{"enabled": True}}, record={str(path)!r}, on_error="raise")
        guard.before("read", {{}}, call_id="c", run_id="r")
        if os.fork() == 0:
            guard.before("read", {{}}, call_id="d", run_id="r")
            guard.forget(run_id="r")
            os._exit(0)
        os.wait()
        guard.forget(run_id="r")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)
    assert kinds(path) == ["begun", "begun", "ended", "ended"]
    assert len({entry.id for entry in entries(path)}) == 2
