"""The two kinds of files: many writers at once, torn lines, faults, growth."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden import LoopGuard, StoreError
from loopwarden.records import Entry, RunRecorder, read, summaries
from loopwarden.records.entry import from_json
from loopwarden.records.jsonl import LONGEST, rotated
from loopwarden.records.places import default_path, open_record
from tests.records.scene import SMALL, agent, entries, kinds, recording

if TYPE_CHECKING:
    from pathlib import Path

FILES = ["runs.jsonl", "runs.db"]
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and modes of POSIX")


@pytest.fixture(params=FILES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def entry(number: int, **fields: Any) -> Entry:
    return Entry(id=f"{number:012x}", kind="begun", time="2026-07-01T12:00:00.000Z", **fields)


def put(path: Path, *given: Entry) -> None:
    record = open_record(path)
    try:
        record.write(given)
    finally:
        record.close()


# --- many writers


def test_threads_write_whole_entries(path: Path) -> None:
    guard = recording(path)
    start = threading.Barrier(8)
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            start.wait()
            agent(guard, "aaaaaaaaaa", run_id=f"r{number}")
            guard.forget(run_id=f"r{number}")
        except BaseException as fault:  # noqa: BLE001 - told below
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    runs = summaries(entries(path))
    assert sorted(str(run.run) for run in runs) == [f"r{number}" for number in range(8)]
    assert {(run.calls, run.warnings, run.refusals, run.end) for run in runs} == {(10, 2, 4, "aborted")}


WRITER = """
    import sys
    from loopwarden import LoopGuard
    guard = LoopGuard({config}, record={path!r}, on_error="raise")
    sys.stdin.readline()
    for run in range(5):
        name = f"{{sys.argv[1]}}-{{run}}"
        for number in range(10):
            if guard.before("t" * 150, {{}}, call_id=f"c{{number}}", run_id=name).action in ("allow", "warn"):
                guard.after(f"c{{number}}", result="same", run_id=name)
        guard.forget(run_id=name)
"""


def test_processes_write_whole_entries(path: Path) -> None:
    code = textwrap.dedent(WRITER.format(config=SMALL, path=str(path)))
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(number)], stdin=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    for writer in writers:
        assert writer.stdin
        writer.stdin.write("go\n")
        writer.stdin.close()
    assert [writer.wait(100) for writer in writers] == [0] * 4
    runs = summaries(entries(path))
    assert sorted(str(run.run) for run in runs) == [f"{one}-{run}" for one in range(4) for run in range(5)]
    assert {(run.calls, run.warnings, run.refusals, run.end) for run in runs} == {(10, 2, 4, "aborted")}
    if path.suffix == ".jsonl":
        assert all(from_json(line) for line in path.read_bytes().splitlines())


KILLED = """
    import sys
    from loopwarden.records.entry import Entry
    from loopwarden.records.places import open_record
    from pathlib import Path
    record = open_record(Path({path!r}))
    entry = Entry(id="abcdef", kind="begun", time="2026-07-01T12:00:00.000Z", details={{"x": "y" * 1000}})
    record.write([entry])
    print("ready", flush=True)
    while True:
        record.write([entry] * 50)
"""


@POSIX
def test_a_writer_that_is_killed_leaves_a_record_that_can_be_read_and_gone_on_with(path: Path) -> None:
    code = textwrap.dedent(KILLED.format(path=str(path)))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == "ready\n"
        size = 0
        while size < 200_000 and writer.poll() is None:  # it is in the middle of its writing
            size = sum(file.stat().st_size for file in path.parent.iterdir())
        writer.send_signal(signal.SIGKILL)
    before = entries(path)
    assert {one.id for one in before} == {"abcdef"}
    put(path, entry(1))
    assert entries(path) == [*before, entry(1)]


# --- lines that are none


TORN = entry(3).to_json()[:40]


@pytest.mark.parametrize(
    "between",
    [
        TORN,
        b"\n" + TORN,
        b"\n\n",
        b"null\n",
        b"[1]\n{}\n",
        b'{"id": "x"}\n',
        b"\xff\xfe\x00\n",
        b"x" * (LONGEST + 10) + b"\n",
        b'"' + b"y" * (2 * LONGEST) + TORN,
        b"[" * 100_000,
    ],
    ids=range(10),
)
def test_what_is_no_entry_is_skipped(tmp_path: Path, between: bytes) -> None:
    path = tmp_path / "runs.jsonl"
    put(path, entry(1))
    with path.open("ab") as stream:
        stream.write(between)
    assert entries(path) == [entry(1)]
    put(path, entry(2))
    assert entries(path) == [entry(1), entry(2)]


@pytest.mark.parametrize(
    "change",
    [
        {"id": 7},
        {"id": "../../x"},
        {"kind": "other"},
        {"kind": None},
        {"time": "yesterday"},
        {"time": 5},
        {"session": 5},
        {"run": {}},
        {"at": "now"},
        {"at": True},
        {"at": 1e400},
        {"calls": "many"},
        {"calls": True},
    ],
)
def test_an_entry_is_what_it_says_or_none(change: dict[str, Any]) -> None:
    assert from_json(json.dumps(entry(1).as_dict())) == entry(1)
    assert from_json(json.dumps(entry(1).as_dict() | change)) is None


@given(
    st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda below: st.lists(below) | st.dictionaries(st.text(), below),
        max_leaves=10,
    ).map(lambda value: json.dumps(entry(1).as_dict() | {"at": value, "more": value, "run": value}).encode())
)
def test_any_line_is_an_entry_that_can_be_written_again_or_none(line: bytes) -> None:
    found = from_json(line)
    if found is not None:
        assert from_json(found.to_json()) == found
        json.dumps(found.as_dict(), allow_nan=False)


def test_entries_from_elsewhere_are_cleaned() -> None:
    hostile = {"x\x1b": "\x1b[31m", "list": ["\x07", 5], "deep": {"a": 1}, "n": 1.5, "none": None}
    found = from_json(json.dumps(entry(1, session="s\n").as_dict() | hostile))
    assert found is not None
    assert found.session == "s\\n"
    assert found.details == {
        "x\\u{1b}": "\\u{1b}[31m",
        "list": ("\\u{7}",),
        "deep": "(unknown)",
        "n": 1.5,
        "none": None,
    }


def test_a_file_of_something_else_is_no_record(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("one\ntwo\n")
    with pytest.raises(StoreError, match="none of its 2 lines"):
        entries(other)
    database = tmp_path / "other.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE mine (x)")
    with pytest.raises(StoreError, match="but no run record"):
        entries(database)
    with pytest.raises(StoreError, match="but no run record"):
        put(database, entry(1))
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(StoreError, match=r"broken\.db: "):
        entries(broken)


def test_a_record_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    put(path, entry(1))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(StoreError, match="version 9; this loopwarden knows 1"):
        entries(path)
    with pytest.raises(StoreError, match="version 9"):
        put(path, entry(2))


def test_an_empty_file_is_an_empty_record(path: Path) -> None:
    path.touch()
    assert entries(path) == []
    put(path, entry(1))
    assert entries(path) == [entry(1)]


def test_a_file_that_is_not_there_is_said(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        entries(path)


def test_a_database_is_told_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    put(path, entry(1))
    moved = path.rename(tmp_path / "copy.bin")
    assert entries(moved) == [entry(1)]


# --- faults


def faulty(path: Path, **options: Any) -> LoopGuard:
    return LoopGuard(SMALL, record=RunRecorder(path, **options))


def test_a_record_that_cannot_be_written_breaks_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (path.parent / "file").touch()
    guard = faulty(path.parent / "file" / path.name)
    assert agent(guard, "aaaaaa") == "lllaal"
    guard.forget(run_id="r")
    assert f"run record: {path.parent / 'file'}" in caplog.text
    assert "Traceback" not in caplog.text
    raising = LoopGuard(SMALL, on_error="raise", record=path.parent / "file" / path.name)
    with pytest.raises(OSError, match="file"):
        agent(raising, "a")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")  # noqa: PTH110 - a device
def test_a_full_disk_breaks_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "runs.jsonl"
    path.symlink_to("/dev/full")
    guard = faulty(path)
    assert agent(guard, "aaaaaa") == "lllaal"
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    lost = "entries are lost until it can be written (told once a minute)"
    assert told == [f"run record: {path}: No space left on device; {lost}"]
    path.unlink()
    agent(guard, "b", run_id="later")
    assert [one.run for one in entries(path)] == ["later"]


def test_a_descriptor_that_was_closed_is_opened_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "runs.jsonl"
    recorder = RunRecorder(path)
    guard = LoopGuard(SMALL, record=recorder)
    agent(guard, "a")
    os.close(recorder._record._descriptor)  # type: ignore[attr-defined]
    agent(guard, "b", run_id="lost")
    agent(guard, "c", run_id="kept")
    assert "run record: " in caplog.text
    assert [one.run for one in entries(path)] == ["r", "kept"]


def test_a_locked_database_breaks_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopwarden.records.sqlite._PATIENCE_SECONDS", 0.01)
    path = tmp_path / "runs.db"
    guard = faulty(path)
    agent(guard, "a")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        agent(guard, "a", run_id="lost")
        other.execute("ROLLBACK")
    assert "database is locked" in caplog.text
    agent(guard, "a", run_id="kept")
    assert [one.run for one in entries(path)] == ["r", "kept"]


def test_a_file_that_was_removed_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    guard = recording(path)
    agent(guard, "a")
    path.unlink()
    agent(guard, "a", run_id="next")
    assert [one.run for one in entries(path)] == ["next"]


# --- growth and places


def test_a_file_that_has_grown_is_renamed_and_read_along(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    (tmp_path / "runs.jsonl.bak").write_text("not ours")
    guard = recording(path, rotate_bytes=1500)
    for number in range(20):
        agent(guard, "aaaa", run_id=f"r{number}")
        guard.forget(run_id=f"r{number}")
    parts = rotated(path)
    assert len(parts) > 3
    assert all(1500 <= part.stat().st_size < 4000 for part in parts)
    assert path.stat().st_size < 4000
    runs = summaries(read(path))
    assert [run.run for run in runs] == [f"r{number}" for number in range(20)]
    assert {run.end for run in runs} == {"ended"}


def test_writers_that_rotate_the_same_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    records = [open_record(path, rotate_bytes=500) for _ in range(3)]
    for number in range(60):
        records[number % 3].write([entry(number)])
    for record in records:
        record.close()
    assert sorted(one.id for one in read(path)) == [entry(number).id for number in range(60)]
    assert len(rotated(path)) > 5


def test_a_size_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rotate_bytes=0"):
        RunRecorder(tmp_path / "runs.jsonl", rotate_bytes=0)
    with pytest.raises(ValueError, match="does not rotate"):
        RunRecorder(tmp_path / "runs.db", rotate_bytes=100)


def test_the_place_of_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOOPWARDEN_RECORD", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    if os.name == "posix":
        assert default_path() == tmp_path / ".local" / "state" / "loopwarden" / "runs.jsonl"
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        assert default_path() == tmp_path / "state" / "loopwarden" / "runs.jsonl"
    monkeypatch.setenv("LOOPWARDEN_RECORD", str(tmp_path / "mine.db"))
    assert default_path() == tmp_path / "mine.db"
    agent(LoopGuard(SMALL, on_error="raise", record=True), "a")
    assert kinds(tmp_path / "mine.db") == ["begun"]


def test_without_a_record_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWARDEN_RECORD", str(tmp_path / "mine.jsonl"))
    for record in (None, False):
        agent(LoopGuard(SMALL, on_error="raise", record=record), "aaaaaa")
    assert list(tmp_path.iterdir()) == []
