"""The suite that every store passes, on each of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from loopwarden.store_contract import StoreContract
from loopwarden.stores.memory import MemoryStore
from loopwarden.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from loopwarden.stores import Store
    from tests.stores.servers import Server


class Clock:
    """A clock that stands still until it is told to move."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class WithClock(StoreContract):
    """For stores whose clock can be given."""

    @pytest.fixture(autouse=True)
    def new_clock(self) -> None:
        self.clock = Clock()

    def pass_time(self, store: Store, seconds: float) -> None:
        del store
        self.clock.now += seconds


class TestMemory(WithClock):
    def open_store(self, *, idle_seconds: float = 3600.0, max_runs: int = 1000) -> Store:
        return MemoryStore(idle_seconds=idle_seconds, max_runs=max_runs, clock=self.clock)


class TestSqlite(WithClock):
    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> Iterator[None]:
        self.path = tmp_path / "runs.db"
        self.stores: list[Store] = []
        yield
        for store in self.stores:
            store.close()

    def open_store(self, *, idle_seconds: float = 3600.0, max_runs: int = 1000) -> Store:
        store = SqliteStore(
            self.path, idle_seconds=idle_seconds, max_runs=max_runs, wait_seconds=60, clock=self.clock
        )
        self.stores.append(store)
        return store


class TestRedis(StoreContract):
    @pytest.fixture(autouse=True)
    def server(self, server: Server) -> Iterator[None]:
        self.url = server.url
        self.client = server.client()
        self.stores: list[Store] = []
        yield
        self.client.close()
        for store in self.stores:
            store.close()

    def open_store(self, *, idle_seconds: float = 3600.0, max_runs: int = 1000) -> Store:
        from loopwarden.stores.redis import RedisStore

        store = RedisStore(self.url, idle_seconds=idle_seconds, max_runs=max_runs, wait_seconds=60)
        self.stores.append(store)
        return store

    def pass_time(self, store: Store, seconds: float) -> None:
        """The server's clock can't be moved, so the ends of its keys are brought nearer."""
        from loopwarden.stores.redis import PREFIX

        del store
        index = PREFIX.removesuffix(":")
        for name, when in self.client.zrange(index, 0, -1, withscores=True):
            key = PREFIX.encode() + name
            self.client.zadd(index, {name: when - seconds * 1000})
            if self.client.exists(key):
                self.client.pexpire(key, self.client.pttl(key) - int(seconds * 1000))
