"""Processes that append to one file of lines at once."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from loopwarden.records import Entry, read
from loopwarden.records.places import open_record
from tests.records.scene import entries

if os.name == "posix":
    import fcntl

if TYPE_CHECKING:
    from pathlib import Path

POSIX = pytest.mark.skipif(os.name != "posix", reason="locks and children of POSIX")


def entry(number: int) -> Entry:
    return Entry(id=f"{number:012x}", kind="begun", time="2026-07-01T12:00:00.000Z")


TORN = entry(9).to_json()[:40]

STEADY = """
    import os, sys
    from pathlib import Path
    from loopwarden.records.entry import Entry
    from loopwarden.records.places import open_record
    record = open_record(Path({path!r}))
    entry = Entry(id="abcdef", kind="begun", time="2026-07-01T12:00:00.000Z", details={{"x": "y" * 10_000}})
    record.write([])
    children = [pid for _ in range({forks}) if (pid := os.fork())]
    record.after_fork()
    sys.stdin.readline()
    for _ in range(200):
        record.write([entry])
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("forks", [0, pytest.param(1, marks=POSIX)])
def test_a_line_that_is_being_written_is_not_taken_for_a_torn_one(tmp_path: Path, forks: int) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(TORN)
    code = textwrap.dedent(STEADY.format(path=str(path), forks=forks))
    writers = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for writer in writers:
        assert writer.stdin
        writer.stdin.write("go\n" * 2)
        writer.stdin.close()
    assert [writer.wait(100) for writer in writers] == [0] * 3
    torn, *lines = path.read_bytes().splitlines()
    assert torn == TORN
    assert lines.count(b"") == 0
    assert len(lines) == len(list(read(path))) == 600 * (1 + forks)


@POSIX
@pytest.mark.parametrize("end", [b"", TORN])
def test_a_process_that_keeps_its_turn_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("loopwarden.records.turns.PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr("loopwarden.records.turns.time.sleep", waits.append)
    path = tmp_path / "runs.jsonl"
    record = open_record(path)
    record.write([entry(1)])
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(end)
        other.flush()
        record.write([entry(2)])
        assert waits
        waits.clear()
        record.write([entry(3)])
        assert waits == []
    record.write([entry(4)])
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        record.write([entry(5)])
        assert waits
    record.close()
    assert entries(path) == [entry(number) for number in range(1, 6)]


@POSIX
def test_a_disk_without_locks_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("loopwarden.records.turns.fcntl.flock", none)
    record = open_record(tmp_path / "runs.jsonl")
    record.write([entry(1), entry(2)])
    record.close()
    assert entries(tmp_path / "runs.jsonl") == [entry(1), entry(2)]
