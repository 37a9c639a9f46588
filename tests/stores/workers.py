"""What the processes of the tests do; a module of its own, so that spawned processes find it."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any

from loopwarden import LoopGuard
from loopwarden.store_contract import count
from loopwarden.stores import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Callable

MANY: dict[str, Any] = {
    "enabled": True,
    "historySize": 1000,
    "warningThreshold": 100,
    "criticalThreshold": 998,
    "globalCircuitBreakerThreshold": 999,
}
"""Counts far before it acts."""


def patient(address: str) -> Store:
    """The store at an address, for machines that are slow."""
    if address.startswith("sqlite:"):
        from loopwarden.stores.sqlite import SqliteStore

        return SqliteStore(address.removeprefix("sqlite:"), wait_seconds=100)
    if address.startswith("redis:"):
        from loopwarden.stores.redis import RedisStore

        return RedisStore(address, try_seconds=100)
    return open_store(address)


def hammer(address: str, number: int, updates: int, calls: int) -> None:
    """Count in one key, and call one tool in one run."""
    store = patient(address)
    for _ in range(updates):
        store.update("count", count)
    guard = LoopGuard(MANY, store=store, on_error="raise")
    for place in range(calls):
        guard.before("read", {"path": "a"}, call_id=f"{number}-{place}", run_id="r")
        guard.after(f"{number}-{place}", result="same", run_id="r")
    guard.close()


def in_processes(processes: int, work: Callable[..., None], *arguments: Any) -> None:
    """Do the work in so many processes at once; each is told its number after the first argument."""
    spawn = multiprocessing.get_context("spawn")
    first, *others = arguments
    started = [spawn.Process(target=work, args=(first, number, *others)) for number in range(processes)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * processes
