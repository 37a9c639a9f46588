"""One way of working with journals, for those who wait for the store and for those who await it.

What is done with a journal is written once, as a coroutine that awaits `AwaitedJournals`. With `Waited` in
their place nothing is ever awaited, so the coroutine runs through like a plain function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from loopwarden.errors import StoreError
    from loopwarden.stores.journal import Entry, Found, JournalStore, Place

Result = TypeVar("Result")


class Waited:
    """`AwaitedJournals` of a store whose answers are waited for.

    Args:
        store: The store.
    """

    def __init__(self, store: JournalStore) -> None:
        self._store = store

    async def append(self, entries: Sequence[Entry]) -> list[Found | StoreError]:
        """As `JournalStore.append`."""
        return self._store.append(entries)

    async def rewrite(self, key: str, seen: Place, data: bytes) -> Place | None:
        """As `JournalStore.rewrite`."""
        return self._store.rewrite(key, seen, data)

    async def close(self) -> None:
        """Nothing is open."""


def finished(coroutine: Coroutine[object, None, Result]) -> Result:
    """What a coroutine gives that awaits nothing but `Waited`.

    Raises:
        RuntimeError: It did.
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine that is waited for must not give way")
