"""What every store must do, as tests: derive a class from `StoreContract` and let pytest collect it.

    from loopwarden.store_contract import StoreContract

    class TestMyStore(StoreContract):
        def open_store(self, *, idle_seconds=3600.0, max_runs=1000):
            return MyStore(idle_seconds, max_runs)

The stores of loopwarden pass the same tests. They need pytest or nothing: plain classes, plain asserts.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from unittest import SkipTest

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.stores import Store

KEYS = ("a", "", "run 1", '["s","r"]', "index", "a:b", "a\0b", "é\N{SNOWMAN}", "%s'\";--", "k" * 400)
"""Keys that have to stay apart."""

STATES = (b"", b"x", b"\0", b"\xff\xfe", b"a\r\nb", b"0" * 200_000)
"""States that have to come back as they are."""


def count(data: bytes | None) -> tuple[bytes, int]:
    """A change that counts how often it was made."""
    number = int(data or b"0") + 1
    return b"%d" % number, number


def put(data: bytes) -> Callable[[bytes | None], tuple[bytes | None, bytes | None]]:
    """A change that stores `data` and answers what was there."""
    return lambda found: (data, found)


class ChangeFaultError(Exception):
    """Raised by a change in these tests."""


class StoreContract:
    """The tests. Give `open_store`, and `pass_time` if time can be made to pass."""

    def open_store(self, *, idle_seconds: float = 3600.0, max_runs: int = 1000) -> Store:
        """A store with nothing in it."""
        raise NotImplementedError

    def pass_time(self, store: Store, seconds: float) -> None:  # noqa: ARG002 - for those that can
        """Make it as if so much time had passed since everything that was done with the store."""
        raise SkipTest("time can't be made to pass for this store")

    def test_what_was_put_is_there(self) -> None:
        """A state comes back byte by byte."""
        store = self.open_store()
        assert store.read("a") is None
        assert store.update("a", put(b"before")) is None
        for state in STATES:
            store.update("a", put(state))
            assert store.read("a") == state
            assert store.update("a", put(state)) == state

    def test_keys_are_apart(self) -> None:
        """No key reads, changes or deletes what is under another one."""
        store = self.open_store()
        for key in KEYS:
            assert store.update(key, put(key.encode())) is None
        assert [store.read(key) for key in KEYS] == [key.encode() for key in KEYS]
        store.delete(KEYS[0])
        assert [store.read(key) for key in KEYS] == [None, *(key.encode() for key in KEYS[1:])]

    def test_the_answer_is_that_of_the_change(self) -> None:
        """Whatever a change answers is given as it is."""
        store = self.open_store()
        answer = object()
        assert store.update("a", lambda _: (b"x", answer)) is answer
        assert store.update("a", lambda _: (None, answer)) is answer

    def test_a_change_to_nothing_deletes(self) -> None:
        """`None` from a change means that there is nothing any more."""
        store = self.open_store()
        store.update("a", put(b"x"))
        assert store.update("a", lambda found: (None, found)) == b"x"
        assert store.read("a") is None
        assert store.update("a", lambda found: (None, found)) is None
        assert store.read("a") is None

    def test_what_a_change_raises_comes_out_and_nothing_is_changed(self) -> None:
        """Also where it is of a kind that the store itself has to do with."""
        store = self.open_store()
        store.update("a", put(b"x"))

        for fault in (ChangeFaultError(), OSError(5, "disk"), ValueError("value"), KeyboardInterrupt()):

            def fail(_: bytes | None, fault: BaseException = fault) -> tuple[bytes, None]:
                raise fault

            try:
                store.update("a", fail)
            except BaseException as caught:  # noqa: BLE001 - compared below
                assert caught is fault
            else:
                raise AssertionError("the fault of the change was swallowed")
            assert store.read("a") == b"x"
        assert store.update("a", count_letters) == 1

    def test_a_key_moves(self) -> None:
        """A move takes the state along, over what was there, and leaves nothing behind."""
        store = self.open_store()
        store.update("a", put(b"x"))
        store.update("b", put(b"y"))
        store.move("a", "b")
        assert (store.read("a"), store.read("b")) == (None, b"x")
        store.move("a", "b")
        assert (store.read("a"), store.read("b")) == (None, b"x")
        store.move("b", "b")
        assert store.read("b") == b"x"
        store.move("b", "c")
        assert [store.read(key) for key in "abc"] == [None, None, b"x"]

    def test_deleting_twice_is_fine(self) -> None:
        """A key that is not there can be deleted."""
        store = self.open_store()
        store.update("a", put(b"x"))
        store.delete("a")
        store.delete("a")
        assert store.read("a") is None

    def test_threads_lose_no_change(self) -> None:
        """Eight threads on one key and on keys of their own."""
        store = self.open_store()
        faults: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for _ in range(25):
                    store.update("all", count)
                    store.update(f"own {number}", count)
            except BaseException as fault:  # noqa: BLE001 - told below
                faults.append(fault)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []
        assert store.read("all") == b"200"
        assert [store.read(f"own {number}") for number in range(8)] == [b"25"] * 8

    def test_what_is_idle_is_forgotten(self) -> None:
        """Each change starts the time afresh; reading doesn't."""
        store = self.open_store(idle_seconds=100)
        store.update("idle", put(b"x"))
        store.update("busy", put(b"x"))
        self.pass_time(store, 60)
        assert store.update("busy", count_letters) == 1
        assert store.read("idle") == b"x"
        self.pass_time(store, 60)
        assert (store.read("idle"), store.read("busy")) == (None, b"x")
        assert store.update("idle", put(b"new")) is None
        self.pass_time(store, 60)
        assert (store.read("idle"), store.read("busy")) == (b"new", None)

    def test_a_moved_key_is_not_idle(self) -> None:
        """A move starts the time afresh; what is idle does not move."""
        store = self.open_store(idle_seconds=100)
        store.update("a", put(b"x"))
        self.pass_time(store, 60)
        store.move("a", "b")
        self.pass_time(store, 60)
        assert store.read("b") == b"x"
        self.pass_time(store, 60)
        store.move("b", "c")
        assert (store.read("b"), store.read("c")) == (None, None)

    def test_no_more_keys_than_allowed_are_kept(self) -> None:
        """The ones that were idle for longest are forgotten first."""
        store = self.open_store(max_runs=3)
        for key in "abc":
            store.update(key, put(b"x"))
            self.pass_time(store, 1)
        store.update("a", put(b"y"))
        self.pass_time(store, 1)
        assert [store.read(key) for key in "abc"] == [b"y", b"x", b"x"]
        store.update("d", put(b"x"))
        self.pass_time(store, 1)
        assert [store.read(key) for key in "abcd"] == [b"y", None, b"x", b"x"]
        store.delete("a")
        store.update("e", put(b"x"))
        self.pass_time(store, 1)
        assert [store.read(key) for key in "abcde"] == [None, None, b"x", b"x", b"x"]
        store.move("c", "f")
        self.pass_time(store, 1)
        store.update("g", put(b"x"))
        assert [store.read(key) for key in "defg"] == [None, b"x", b"x", b"x"]


def count_letters(data: bytes | None) -> tuple[bytes, int]:
    """A change that answers how long the state is, and leaves it."""
    return data or b"", len(data or b"")
