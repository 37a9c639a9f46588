"""A damaged file is set aside, and the guard goes on; one that is only in use stays where it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from loopwarden.errors import StoreError
from loopwarden.hooks.answering import Answering
from loopwarden.hooks.damage import file_at, is_damage, set_aside
from loopwarden.hooks.faults import faults
from loopwarden.hooks.ledger import Ledger
from tests.hooks.agents import Agent, Heard

if TYPE_CHECKING:
    from pathlib import Path

FILES = ["sessions.db", "runs.db"]
GARBAGE = b"no database at all" * 2000


def loop(agent: Agent, count: int) -> list[str]:
    return [agent.call("Bash", {"command": "ls"}, "same").decision for _ in range(count)]


@pytest.mark.parametrize("file", FILES)
def test_no_database_is_set_aside_before_the_first_call(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_bytes(GARBAGE)
    for name in ("-wal", "-shm", ".damaged", ".damaged-wal"):
        (tmp_path / f"{file}{name}").write_bytes(name.encode())
    with closing(Answering(tmp_path)) as answering:
        assert loop(Agent("claude-code", answering.answer), 21) == ["allow"] * 20 + ["deny"]
    (line,) = faults(tmp_path)
    assert line.endswith(f" {file} was damaged and is now {file}.damaged; a new one was begun")
    assert (tmp_path / f"{file}.damaged").read_bytes() == GARBAGE
    assert not (tmp_path / f"{file}.damaged-wal").exists(), "it was that of the one before"


def test_what_sqlite_keeps_beside_it_goes_along(tmp_path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"runs.db{end}").write_text(end)
    assert set_aside(tmp_path / "runs.db", file_at(tmp_path / "runs.db"))
    for end in ("", "-wal", "-shm"):
        assert (tmp_path / f"runs.db.damaged{end}").read_text() == end
        assert not (tmp_path / f"runs.db{end}").exists()


@pytest.mark.parametrize("file", FILES)
def test_damage_under_way_costs_a_call_at_most(tmp_path: Path, file: str) -> None:
    """As with a disk that loses blocks, while the service has the file open."""
    with closing(Answering(tmp_path)) as answering:
        agent = Agent("claude-code", answering.answer)
        loop(agent, 5)
        with closing(sqlite3.connect(tmp_path / file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = (tmp_path / file).stat().st_size
        with (tmp_path / file).open("r+b") as stream:
            stream.seek(4096)
            stream.write(b"\xff" * (size - 4096))
        for _ in range(2):  # another process writes, so that nothing is taken from memory
            with closing(sqlite3.connect(tmp_path / file)) as connection:
                connection.execute("PRAGMA user_version = 1")
                connection.commit()
        assert loop(agent, 25)[-1] == "deny"
    lines = faults(tmp_path)
    assert [f"{file} was damaged" in line for line in lines].count(True) == 1
    assert len(lines) <= 2


@pytest.mark.parametrize("file", FILES)
def test_a_file_in_use_stays(tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwarden.hooks.answering._WAIT_SECONDS", 0.01)
    with closing(Answering(tmp_path)) as answering:
        answering._ledger = Ledger(tmp_path / "sessions.db", wait_seconds=0.01)
        agent = Agent("claude-code", answering.answer)
        loop(agent, 1)
        before = file_at(tmp_path / file)
        with closing(sqlite3.connect(tmp_path / file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert agent.before("Bash", {"command": "ls"}, "x") == Heard()
            other.execute("ROLLBACK")
        assert file_at(tmp_path / file) == before
    assert all("locked" in line or "left alone" in line for line in faults(tmp_path))
    assert not list(tmp_path.glob("*.damaged*"))


def test_a_file_of_a_later_version_stays(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.commit()
    with (
        closing(Ledger(tmp_path / "sessions.db")) as ledger,
        pytest.raises(StoreError, match="later version"),
    ):
        ledger.deeds(0)
    assert not list(tmp_path.glob("*.damaged*"))


def test_what_another_process_has_begun_stays(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    path.write_bytes(GARBAGE)
    damaged = file_at(path)
    path.rename(tmp_path / "aside")
    path.write_bytes(b"")
    assert set_aside(path, damaged)
    assert path.exists()
    assert faults(tmp_path) == []
    assert not set_aside(path, None)


def test_a_file_that_was_removed_is_made_again(tmp_path: Path) -> None:
    """Also while the service is running."""
    with closing(Answering(tmp_path)) as answering:
        agent = Agent("claude-code", answering.answer)
        loop(agent, 5)
        for path in tmp_path.iterdir():
            path.unlink()
        assert loop(agent, 21)[-1] == "deny"
        assert (tmp_path / "sessions.db").exists()
    assert faults(tmp_path) == []


@pytest.mark.parametrize(
    ("code", "damage"),
    [
        (sqlite3.SQLITE_CORRUPT, True),
        (sqlite3.SQLITE_CORRUPT_INDEX, True),
        (sqlite3.SQLITE_NOTADB, True),
        (sqlite3.SQLITE_BUSY, False),
        (sqlite3.SQLITE_IOERR, False),
        (sqlite3.SQLITE_CANTOPEN, False),
        (sqlite3.SQLITE_READONLY, False),
        (sqlite3.SQLITE_FULL, False),
    ],
)
def test_only_what_can_not_heal_is_damage(code: int, damage: bool) -> None:
    fault = sqlite3.DatabaseError("x")
    fault.sqlite_errorcode = code
    told = StoreError("x")
    told.__cause__ = fault
    assert (is_damage(fault), is_damage(told)) == (damage, damage)
    assert not is_damage(StoreError("x"))
    assert not is_damage(OSError("x"))
