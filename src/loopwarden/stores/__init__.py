"""Where runs are kept when several programs share them: dumb, atomic, over bytes.

A store knows nothing of loops. It hands the bytes under a key to a change and keeps what comes back, with
nothing else in between. `open_store` takes the address of one; anything with the same methods will do, and
`loopwarden.store_contract` has the tests that it must pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from loopwarden.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")

Change: TypeAlias = "Callable[[bytes | None], tuple[bytes | None, Answer]]"
"""From what is stored (`None`: nothing) to what is to be stored (`None`: nothing any more), and an answer."""

IDLE_SECONDS: Final = 7 * 24 * 3600.0
"""What nobody changed for this long is forgotten, by default."""

MAX_RUNS: Final = 10_000
"""Keys that are kept by default; those that were idle for longest are forgotten first."""

_REDIS: Final = ("redis://", "rediss://", "unix://")

ADDRESSES: Final = "memory:, sqlite:PATH, redis://HOST:PORT/DB"
"""Kinds of addresses, for people."""


class Store(Protocol):
    """What a store can do. Safe to use from several threads, and by a child after a fork.

    What was idle for too long counts as not stored. A change or a move is what ends idleness.
    """

    def update(self, key: str, change: Change[Answer]) -> Answer:
        """Change what is stored under a key, atomically, and give the answer of the change.

        `change` may be called more than once, where another program was faster; only its last call
        counts, so it must have no effect besides its answer. What it raises comes out as it is, and
        nothing is changed then.

        Raises:
            StoreError: The store can't be reached or written. Nothing was changed; where the connection
                was lost on the way back, the change was made once.
        """

    def read(self, key: str) -> bytes | None:
        """What is stored under a key; `None` for nothing.

        Raises:
            StoreError: The store can't be reached or read.
        """

    def move(self, key: str, to: str) -> None:
        """Put what is stored under `key` under `to`, in place of what is there; nothing if there is none.

        Raises:
            StoreError: As for `update`.
        """

    def delete(self, key: str) -> None:
        """Forget a key.

        Raises:
            StoreError: As for `update`.
        """

    def close(self) -> None:
        """Give back what the store holds open; it is not used afterwards."""


def is_address(address: str) -> bool:
    """Whether it is one that `open_store` takes, as far as that can be seen."""
    return (
        address == "memory:"
        or (address.startswith("sqlite:") and len(address) > len("sqlite:"))
        or address.startswith(_REDIS)
    )


def open_store(address: str, *, idle_seconds: float = IDLE_SECONDS, max_runs: int = MAX_RUNS) -> Store:
    """The store at an address.

    Args:
        address: `memory:`, `sqlite:PATH`, or `redis://HOST:PORT/DB` (also `rediss://` and `unix://`).
        idle_seconds: What nobody changed for this long is forgotten; above 0.
        max_runs: Most keys that are kept; 1 or more.

    Raises:
        StoreError: The address is of no known kind, or nothing answers there.
        MissingExtraError: The package that the store needs is not installed.
        ValueError: `idle_seconds` or `max_runs` is out of range.
    """
    if not is_address(address):
        raise StoreError(f"{address!r} is no store; allowed: {ADDRESSES}")
    if address == "memory:":
        from loopwarden.stores.memory import MemoryStore

        return MemoryStore(idle_seconds=idle_seconds, max_runs=max_runs)
    if address.startswith("sqlite:"):
        from loopwarden.stores.sqlite import SqliteStore

        return SqliteStore(address.removeprefix("sqlite:"), idle_seconds=idle_seconds, max_runs=max_runs)
    from loopwarden.stores.redis import RedisStore

    return RedisStore(address, idle_seconds=idle_seconds, max_runs=max_runs)


def check_bounds(idle_seconds: float, max_runs: int) -> None:
    """Raise `ValueError` for bounds that make no sense."""
    if not idle_seconds > 0:
        raise ValueError(f"idle_seconds={idle_seconds}; allowed: above 0")
    if max_runs < 1:
        raise ValueError(f"max_runs={max_runs}; allowed: 1 or more")
