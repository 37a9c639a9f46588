"""Watching live sessions, with time under the test's control."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from loopwarden.config import load_config
from loopwarden.scan.follow import Follower
from loopwarden.scan.replay import ScanOptions
from loopwarden.transcripts.discover import discover
from tests.scan.recordings import lines, write
from tests.scan.strips import SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from loopwarden.scan.follow import Notice


class Time:
    """A clock that goes on by a second with every look at it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 1.0
        return self.seconds


@pytest.fixture
def clock() -> Time:
    return Time()


def follow(folder: Path, clock: Time, *, now: float = 1e12) -> Follower:
    options = ScanOptions(config=load_config(SMALL))
    return Follower(lambda: discover([folder]), options, clock=clock, now=lambda: now)


def told(notices: list[Notice]) -> list[tuple[str, int]]:
    return [(notice.stage, notice.loop.last.number) for notice in notices]


def look(follower: Follower, clock: Time) -> list[tuple[str, int]]:
    clock.seconds += 1000
    return told(follower.look())


def test_a_loop_is_told_when_it_begins_and_when_it_grows(tmp_path: Path, clock: Time) -> None:
    path = write(tmp_path / "a.jsonl", "xy")
    follower = follow(tmp_path, clock)
    assert look(follower, clock) == []
    path.write_text(lines("xyaaaa"))
    assert look(follower, clock) == [("begins", 6)]
    assert look(follower, clock) == []
    path.write_text(lines("xyaaaaa"))
    assert look(follower, clock) == []
    path.write_text(lines("xyaaaaaa"))
    assert look(follower, clock) == [("would now be refused", 8)]
    path.write_text(lines("xy" + "a" * 10))
    assert look(follower, clock) == [("would now end the run", 12)]
    path.write_text(lines("xy" + "a" * 12))
    assert look(follower, clock) == []


def test_new_files_are_found(tmp_path: Path, clock: Time) -> None:
    follower = follow(tmp_path, clock)
    assert look(follower, clock) == []
    write(tmp_path / "new.jsonl", "aaaaaa")
    assert look(follower, clock) == [("would now be refused", 6)]
    assert follower.files == 1


def test_old_loops_of_old_files_are_not_told(tmp_path: Path, clock: Time) -> None:
    others = "bcdefghijklmnopqrstuvwxyz" * 2
    path = write(tmp_path / "a.jsonl", "aaaaaa" + others)
    follower = follow(tmp_path, clock)
    assert look(follower, clock) == []
    path.write_text(lines("aaaaaa" + others + "bcd"))
    assert look(follower, clock) == []


def test_a_session_that_is_in_a_loop_right_now_is_told(tmp_path: Path, clock: Time) -> None:
    path = write(tmp_path / "a.jsonl", "xaaaaa")
    follower = follow(tmp_path, clock, now=path.stat().st_mtime + 10)
    assert look(follower, clock) == [("begins", 6)]


def test_a_file_that_is_replaced_is_read_anew(tmp_path: Path, clock: Time) -> None:
    path = write(tmp_path / "a.jsonl", "bcdefgh")
    follower = follow(tmp_path, clock)
    look(follower, clock)
    path.write_text(lines("xyz"))
    assert look(follower, clock) == []
    path.unlink()
    assert look(follower, clock) == []
    write(path, "aaaa")
    assert look(follower, clock) == [("begins", 4)]


def test_a_file_that_takes_long_is_read_less_often(tmp_path: Path, clock: Time) -> None:
    path = write(tmp_path / "a.jsonl", "xy")
    follower = follow(tmp_path, clock)
    look(follower, clock)
    path.write_text(lines("xyz"))
    look(follower, clock)
    path.write_text(lines("xyaaaa"))
    assert told(follower.look()) == []
    clock.seconds += 100
    assert told(follower.look()) == [("begins", 6)]
