"""Who keeps what people decided: on real stores, and stores that fail."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("starlette", reason="the extra gateway is not installed")

from loopwarden.gateway.decided import SECONDS, Decided, packed, unpacked
from loopwarden.gateway.decision_keeper import KEY, DecisionKeeper
from loopwarden.gateway.decisions import Decisions
from loopwarden.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RUN, OTHER, LOOP = "00000000000000a1", "00000000000000a2", "00000000000000b1"
PATIENCE = 60.0


class Keepers:
    """Makes them on one store, as several gateways would have them, and closes them."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.made: list[DecisionKeeper] = []

    def __call__(
        self, *, there: Callable[[], bool] = lambda: True, pause: float = 0.05
    ) -> tuple[Decisions, DecisionKeeper]:
        decisions = Decisions()
        keeper = DecisionKeeper(decisions, self.address, most=100, there=there, pause=pause)
        self.made.append(keeper)
        return decisions, keeper

    def stored(self) -> bytes | None:
        store = open_store(self.address)
        try:
            return store.read(KEY)
        finally:
            store.close()

    def put(self, data: bytes | None) -> None:
        store = open_store(self.address)
        try:
            store.update(KEY, lambda _: (data, None))
        finally:
            store.close()


@pytest.fixture
def keepers(tmp_path: Path) -> Iterator[Keepers]:
    found = Keepers(f"sqlite:{tmp_path / 'd.db'}")
    yield found
    for keeper in found.made:
        keeper.close()


def wait_until(found: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def faults(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in log.records if record.levelno >= logging.WARNING]


def test_what_was_decided_is_there_for_the_next_one(keepers: Keepers) -> None:
    decisions, keeper = keepers()
    decisions.pause(RUN)
    decisions.release(OTHER, LOOP)
    assert keeper.settle(PATIENCE)
    after, _ = keepers()  # without the first one's end, as after a kill
    assert after.is_paused(RUN)
    assert not after.is_paused(OTHER)
    assert after.is_released(OTHER, LOOP)
    assert not after.is_released(RUN, LOOP)


def test_the_end_writes_what_is_left(keepers: Keepers) -> None:
    decisions, keeper = keepers(pause=PATIENCE)
    decisions.pause(RUN)
    keeper.close()
    assert keepers()[0].is_paused(RUN)


def test_two_hear_of_each_other_and_their_changes_both_hold(keepers: Keepers) -> None:
    (one, _), (two, _) = keepers(), keepers()
    heard: list[str] = []
    two.heard = heard.append
    one.pause(RUN)
    two.release(RUN, LOOP)
    for decisions in (one, two):
        wait_until(lambda decisions=decisions: decisions.is_paused(RUN) and decisions.is_released(RUN, LOOP))
    assert heard == [RUN]
    two.resume(RUN)
    one.hold(RUN, LOOP)
    for decisions in (one, two):
        wait_until(lambda decisions=decisions: not decisions)


def test_many_changes_at_once_are_all_kept(keepers: Keepers) -> None:
    both = [keepers(), keepers()]

    def decide(place: int) -> None:
        for number in range(50):
            both[place][0].pause(f"{place:08x}{number:08x}")

    threads = [threading.Thread(target=decide, args=(place,)) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert all(keeper.settle(PATIENCE) for _, keeper in both)
    assert len(keepers()[0].cells()) == 100


def test_what_was_lost_is_put_back_by_all_who_know_of_it(keepers: Keepers) -> None:
    """As by a Redis that keeps nothing over a restart: one writes first, the others add what they know."""
    (one, keeper), (two, other) = keepers(), keepers()
    one.pause(RUN)
    wait_until(lambda: two.is_paused(RUN))
    keepers.put(None)
    wait_until(lambda: keepers.stored() is not None)
    assert keepers()[0].is_paused(RUN)
    anew = packed(Decided("00000000000000ff", {(OTHER, ""): time.time()}))
    keepers.put(anew)
    for decisions in (one, two):
        wait_until(lambda decisions=decisions: decisions.is_paused(OTHER))
        assert decisions.is_paused(RUN)
    one.resume(RUN)
    two.resume(OTHER)
    assert keeper.settle(PATIENCE)
    assert other.settle(PATIENCE)
    wait_until(lambda: not one)
    wait_until(lambda: not two)


def test_what_was_taken_back_everywhere_does_not_come_back(keepers: Keepers) -> None:
    decisions, keeper = keepers()
    decisions.pause(RUN)
    assert keeper.settle(PATIENCE)
    decisions.resume(RUN)
    assert keeper.settle(PATIENCE)
    assert not keepers()[0]
    data = keepers.stored()
    assert data is not None
    assert unpacked(data).cells == {}


@pytest.mark.parametrize("damage", [b"nonsense", b"[]", b"\x00" * 100])
def test_damage_is_said_once_and_all_begins_afresh(
    keepers: Keepers, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    keepers.put(damage)
    decisions, keeper = keepers(pause=0.01)
    assert not decisions
    assert keepers.stored() == damage
    decisions.pause(RUN)  # with this it is looked at again
    assert keeper.settle(PATIENCE)
    assert len(faults(caplog)) == 1
    assert "damaged" in faults(caplog)[0]
    assert keepers()[0].is_paused(RUN)
    keepers.put(damage)  # and once more, while something is decided: it is put back
    wait_until(lambda: keepers.stored() != damage)
    assert keepers()[0].is_paused(RUN)
    assert decisions.is_paused(RUN)


def test_a_store_that_fails_is_said_once_and_written_when_it_is_back(
    keepers: Keepers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "d.db"
    path.write_bytes(b"no database at all " * 100)
    decisions, keeper = keepers(pause=0.01)
    decisions.pause(RUN)
    assert not keeper.settle(PATIENCE)  # does not wait for what does not come
    assert decisions.is_paused(RUN)
    assert len([text for text in faults(caplog) if "can't be kept" in text]) == 1
    path.unlink()
    wait_until(lambda: not decisions.changes())
    assert keepers()[0].is_paused(RUN)
    wait_until(lambda: "what people decide is kept again" in faults(caplog))
    assert len(faults(caplog)) == 2


def test_who_looks_does_not_wait_for_a_store_that_is_held(keepers: Keepers, tmp_path: Path) -> None:
    decisions, keeper = keepers(pause=0.01)
    decisions.pause(OTHER)
    assert keeper.settle(PATIENCE)
    holder = sqlite3.connect(tmp_path / "d.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        decisions.pause(RUN)
        assert not keeper.settle(0.0)  # it is being written, and waits
        assert decisions.is_paused(RUN)
        decisions.move(RUN, "00000000000000a3")
        assert decisions.is_paused("00000000000000a3")
        assert decisions.changes()
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    assert keeper.settle(PATIENCE)
    after, _ = keepers()
    assert after.is_paused("00000000000000a3")
    assert not after.is_paused(RUN)


def test_a_store_that_can_only_be_read_still_tells_of_others(
    keepers: Keepers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    decisions, keeper = keepers()
    decisions.pause(OTHER)
    assert keeper.settle(PATIENCE)
    refuse = "CREATE TRIGGER full BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    execute(tmp_path / "d.db", refuse)
    decisions.pause(RUN)
    wait_until(lambda: any("the disk is full" in text for text in faults(caplog)))
    known = packed(Decided(kept_name(keepers), {(OTHER, LOOP): time.time()}))
    execute(tmp_path / "d.db", "DROP TRIGGER full", "UPDATE runs SET state = ?", known, refuse)
    wait_until(lambda: decisions.is_released(OTHER, LOOP))
    assert not decisions.is_paused(OTHER)
    assert decisions.is_paused(RUN)
    execute(tmp_path / "d.db", "DROP TRIGGER full")
    wait_until(lambda: not decisions.changes())
    assert keepers()[0].cells().keys() == {(RUN, ""), (OTHER, LOOP)}


def execute(path: Path, *steps: str | bytes) -> None:
    """Statements, all in one transaction; bytes are the values of the one before."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=PATIENCE)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for number, step in enumerate(steps):
            if isinstance(step, str):
                values = [value for value in steps[number + 1 : number + 2] if isinstance(value, bytes)]
                connection.execute(step, values)
        connection.execute("COMMIT")


def kept_name(keepers: Keepers) -> str:
    data = keepers.stored()
    assert data is not None
    return unpacked(data).name


def test_no_store_is_made_before_something_is_decided(keepers: Keepers, tmp_path: Path) -> None:
    path = tmp_path / "d.db"
    decisions, keeper = keepers(there=path.exists, pause=0.01)
    keeper.close()
    assert not path.exists()
    decisions, keeper = keepers(there=path.exists, pause=PATIENCE)
    decisions.pause(RUN)
    assert keeper.settle(PATIENCE)
    assert path.exists()
    assert path.stat().st_mode & 0o077 == 0


def test_decisions_that_are_too_old_count_no_more(keepers: Keepers) -> None:
    old, new = time.time() - SECONDS - 60, time.time()
    keepers.put(packed(Decided("00000000000000ff", {(RUN, ""): old, (OTHER, ""): new})))
    decisions, _ = keepers()
    assert decisions.cells().keys() == {(OTHER, "")}


def test_only_names_and_times_are_kept(keepers: Keepers) -> None:
    decisions, keeper = keepers()
    decisions.release(RUN, LOOP)
    assert keeper.settle(PATIENCE)
    data = keepers.stored()
    assert data is not None
    assert set(unpacked(data).cells) == {(RUN, LOOP)}
    assert len(data) < 200
