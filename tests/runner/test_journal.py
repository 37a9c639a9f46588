"""The journal: what is written down, who may, and what is left after a crash."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loopwarden import LoopGuard
from loopwarden.errors import StoreError
from loopwarden.runner import journal_writes
from loopwarden.runner.journal import Journal
from loopwarden.runner.owned_file import lock_beside
from tests.runner.telling import Told

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "state" / "journal.db", pause=0.0) as opened:
        yield opened


def add(journal: Journal, told: Told, calls: int = 2) -> None:
    for happening in told.whole(calls):
        journal.add(happening)


def test_a_run_is_kept_whole(journal: Journal) -> None:
    told = Told("r1")
    wanted = list(told.whole())
    for happening in wanted:
        journal.add(happening)
    assert journal.happenings("r1") == wanted
    assert [one.number for one in journal.happenings("r1", after=4, limit=2)] == [5, 6]
    run = journal.run("r1")
    assert run is not None
    assert (run.state, run.answer, run.task, run.trigger) == (
        "done",
        "There are three.",
        "count the files",
        "user",
    )
    assert (run.requests, run.input_tokens, run.output_tokens, run.kept) == (3, 70, 9, len(wanted))
    assert (run.began, run.ended) == (1001.0, 1007.0)
    session = journal.session("s1")
    assert session is not None
    assert (session.agent, session.runs, session.touched) == ("a1", 1, 1007.0)


def test_a_run_that_is_open_says_so(journal: Journal) -> None:
    journal.add(Told("r1")("began", trigger="heartbeat", task="t", parent=None))
    run = journal.run("r1")
    assert run is not None
    assert (run.state, run.ended, run.trigger) == ("open", None, "heartbeat")
    assert journal.run("r2") is None
    assert journal.session("s2") is None
    assert journal.happenings("r2") == []


def test_runs_are_found_by_what_they_are(journal: Journal) -> None:
    add(journal, Told("r1", "s1", "a1"))
    add(journal, Told("r2", "s2", "a2"))
    journal.add(Told("r3", "s1", "a1")("began", trigger="user", task="t", parent=None))

    def ids(**only: str) -> list[str]:
        return [run.id for run in journal.runs(**only)]

    assert ids() == ["r3", "r2", "r1"]
    assert ids(session="s1") == ["r3", "r1"]
    assert ids(agent="a2") == ["r2"]
    assert ids(state="open") == ["r3"]
    assert ids(session="s1", state="done") == ["r1"]
    assert [run.id for run in journal.runs(limit=1)] == ["r3"]


def test_the_messages_of_a_session_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal(path) as journal:
        assert journal.history("s1") is None
        journal.open_session("s1", "a1")
        assert journal.history("s1") is None
        journal.save_history("s1", "a1", b"[1]")
        journal.save_history("s1", "a1", b"[1,2]")
    with Journal(path) as journal:
        assert journal.history("s1") == b"[1,2]"
        assert [one.id for one in journal.sessions()] == ["s1"]


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "state" / "journal.db"
    with Journal(path) as journal:
        add(journal, Told("r1"))
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert modes.keys() == {"journal.db", "journal.db-wal", "journal.db-shm", "journal.db.lock"}
    assert set(modes.values()) == {0o600}
    path.chmod(0o644)
    Journal(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_has_one_owner(journal: Journal) -> None:
    with pytest.raises(StoreError) as caught:
        Journal(journal.path)
    said = str(caught.value)
    assert str(journal.path) in said
    assert f"process {os.getpid()}" in said
    journal.close()
    Journal(journal.path).close()


def test_a_lock_that_was_removed_is_no_lock(journal: Journal) -> None:
    lock_beside(journal.path).write_text("nonsense")
    with pytest.raises(StoreError, match="in use by another process"):
        Journal(journal.path)


def test_a_killed_owner_leaves_an_interrupted_run_with_its_evidence(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    owner = subprocess.Popen(
        [sys.executable, "-m", "tests.runner.journal_owner", str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        with pytest.raises(StoreError, match=f"process {owner.pid}"):
            Journal(path)
        owner.kill()
    with Journal(path) as journal:
        run = journal.run("r1")
        assert run is not None
        assert (run.state, run.message) == ("interrupted", "the process ended in the middle of the run")
        assert run.ended == 1000.0 + 25
        last = journal.happenings("r1")[-1]
        assert (last.kind, last.number, last.data["reason"]) == ("ended", 26, "interrupted")
        assert [one.id for one in journal.interrupted()] == ["r1"]
        assert journal.newly_interrupted == {"r1"}
        assert journal.history("s1") == b"[]"
    with Journal(path) as journal:  # opened once more, nothing is told twice
        assert len(journal.happenings("r1")) == 26
        assert [one.id for one in journal.interrupted()] == ["r1"]
        assert journal.newly_interrupted == set()
        evidence = journal.evidence("r1")
        assert evidence is not None
        guard = LoopGuard({"enabled": True}).session("s1")
        guard.restore(evidence, run_id="r2")
        warned = guard.before("read", {"path": "a"}, call_id="n", run_id="r2")
        assert (warned.action, warned.count) == ("warn", 12)
        told = Told("r2")
        journal.add(told("began", trigger="user", task="go on", parent=None))
        assert [one.id for one in journal.interrupted()] == ["r1"]
        journal.put_evidence("r2", b"new")
        assert journal.interrupted() == []
        assert (journal.evidence("r1"), journal.evidence("r2")) == (None, b"new")
        journal.add(told("ended", reason="done"))
        assert journal.evidence("r2") is None


def test_a_run_that_ends_takes_over_its_session_only(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal(path) as journal:
        for number in (1, 2):
            told = Told(f"r{number}", f"s{number}")
            journal.add(told("began", trigger="user", task="t", parent=None))
    with Journal(path) as journal:
        assert [one.id for one in journal.interrupted()] == ["r2", "r1"]
        add(journal, Told("r3", "s1"))
        assert [one.id for one in journal.interrupted()] == ["r2"]


def test_a_locked_file_delays_and_loses_nothing(journal: Journal) -> None:
    told = list(Told("r1").whole())
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for happening in told:
            journal.add(happening)
        assert journal.happenings("r1") == []
        other.execute("ROLLBACK")
    assert journal.happenings("r1") == told
    assert journal.run("r1") is not None


@pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")
def test_a_full_disk_delays_and_loses_nothing(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.runner.full_disk", str(tmp_path / "journal.db")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    few, all_of_them = map(int, ended.stdout.split())
    assert few < 100
    assert all_of_them == 102
    assert ended.stderr.count("kept for later") <= 2


def test_pieces_of_text_are_no_work_for_the_journal(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("loopwarden.runner.journal.MOST_WAITING", 3)
    told = Told("r1")
    journal.add(told("began", trigger="user", task="t", parent=None))
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(100):
            journal.add(told("text", text="word ", partial=True))
        assert not caplog.records, "nothing was to be written"
        journal.add(told("text", text="word " * 100, partial=False))
        assert "kept for later" in caplog.text
        for _ in range(100):  # take the place of nothing that waits
            journal.add(told("text", text="word ", partial=True))
        other.execute("ROLLBACK")
    assert [happening.kind for happening in journal.happenings("r1")] == ["began", "text"]


def test_what_waits_is_bounded(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwarden.runner.journal.MOST_WAITING", 3)
    told = list(Told("r1").whole(10))
    journal.add(told[0])
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for happening in told[1:]:
            journal.add(happening)
        other.execute("ROLLBACK")
    assert [one.number for one in journal.happenings("r1")] == [1, 21, 22, 23]


def test_what_waits_is_bounded_in_bytes_too(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwarden.runner.journal.MOST_WAITING_BYTES", 25_000)
    told = Told("r1")
    journal.add(told("began", trigger="user", task="t", parent=None))
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(10):
            journal.add(told("text", text="x" * 10_000))
        other.execute("ROLLBACK")
    assert [one.number for one in journal.happenings("r1")] == [1, 10, 11]


def test_of_histories_and_evidence_that_wait_the_newest_is_kept(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopwarden.runner.journal.MOST_WAITING_BYTES", 100_000)
    told = Told("r1")
    for _ in range(2):  # what was written does not stand in the way of what comes
        with closing(sqlite3.connect(journal.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            journal.add(told("began", trigger="user", task="t", parent=None))
            for number in range(50):
                journal.save_history("s1", "a1", b"%d" % number + b" " * 20_000)
                journal.put_evidence("r1", b"%d" % number + b" " * 20_000)
                journal.save_history("s2", "a1", b"other")
            other.execute("ROLLBACK")
        assert (journal.history("s1") or b"").split() == [b"49"]
        assert (journal.evidence("r1") or b"").split() == [b"49"]
        assert journal.history("s2") == b"other"
        run = journal.run("r1")
        assert run is not None, "nothing had to be lost"


def test_old_happenings_go_before_old_runs(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_writes, "MAX_HAPPENINGS", 20)
    monkeypatch.setattr(journal_writes, "MAX_RUNS", 4)
    opened = Told("open", "s0")
    journal.add(opened("began", trigger="user", task="t", parent=None))
    for number in range(6):
        add(journal, Told(f"r{number}", f"s{number}"))
    journal._write(list(journal_writes.trimmed()))
    kept = {run.id: (run.kept, len(journal.happenings(run.id))) for run in journal.runs()}
    assert kept == {"r5": (7, 7), "r4": (7, 7), "r3": (0, 0), "r2": (0, 0), "open": (1, 1)}


def test_idle_sessions_go_and_those_in_use_stay(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_writes, "MAX_SESSIONS", 2)
    journal.add(Told("r0", "in use")("began", trigger="user", task="t", parent=None))
    for number in range(4):
        journal.add(Told(f"r{number}", f"s{number}")("text", text=""))
        journal.open_session(f"s{number}", "a1")
    journal._write(list(journal_writes.trimmed()))
    assert len(journal.sessions()) == 3
    assert journal.session("in use") is not None


def test_one_run_can_not_fill_it(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_writes, "MOST_OF_A_RUN", 5)
    add(journal, Told("r1"), calls=40)
    assert [one.kind for one in journal.happenings("r1")] == [
        "began", "call", "outcome", "call", "outcome", "ended",
    ]  # fmt: skip
    run = journal.run("r1")
    assert run is not None
    assert run.state == "done"


def test_hostile_values_are_kept_as_far_as_they_can_be(journal: Journal) -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    told = Told("r\ud800", "s\udfff")
    journal.add(told("began", trigger="user", task="\ud800", parent=None))
    for value in (deep, float("nan"), 10**9999, "\ud800", object(), {1: 2}, ["x"] * 10**5, "y" * 10**7):
        journal.add(told("call", tool="read", arguments=value, call_id="c"))
    journal.add(told("ended", reason="done", input_tokens=10**30, requests="many"))
    kept = journal.happenings("r\ud800")
    assert len(kept) == 10
    assert [one.data["arguments"] for one in kept[2:3]] == ["nan"]
    run = journal.run("r\ud800")
    assert run is not None
    assert (run.state, run.input_tokens, run.requests) == ("done", 2**53, 0)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("PRAGMA user_version = 99", "has layout 99"),
        ("PRAGMA application_id = 7", "database of another program"),
    ],
)
def test_a_file_of_another_kind_is_left_alone(tmp_path: Path, statement: str, said: str) -> None:
    path = tmp_path / "journal.db"
    Journal(path).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute(statement)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=said):
        Journal(path)
    assert path.read_bytes() == before
    text = tmp_path / "text.db"
    text.write_text("no database " * 100)
    with pytest.raises(StoreError, match="not a database"):
        Journal(text)


def test_a_closed_journal_takes_no_more(journal: Journal) -> None:
    journal.close()
    journal.close()
    add(journal, Told("r1"))
    with pytest.raises(StoreError, match="closed"):
        journal.runs()
