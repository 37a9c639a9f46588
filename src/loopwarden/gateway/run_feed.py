"""What happens in the runs of agents, handed to whoever reads along."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.runner.happenings import Happening

BEHIND: Final = 2_000
"""Happenings that wait for a reader; one that is further behind has to resume."""

MOST_READERS: Final = 200
"""Readers at once."""


class Reader:
    """One reader of one run.

    Attributes:
        run: Id of the run.
        lost: Whether it was too far behind, so that something is missing.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self.lost = False
        self._waiting: asyncio.Queue[Happening | None] = asyncio.Queue()

    def put(self, happening: Happening | None) -> None:
        """Something happened; `None`: nothing more will."""
        if self._waiting.qsize() >= BEHIND:
            self.lost = True
        elif not self.lost:
            self._waiting.put_nowait(happening)

    async def next(self, seconds: float) -> Happening | None:
        """What happens next.

        Raises:
            TimeoutError: Nothing, for so long.
        """
        async with asyncio.timeout(seconds):
            return await self._waiting.get()


class Feed:
    """A watcher that hands on what happens. Belongs to one event loop."""

    def __init__(self) -> None:
        self._readers: dict[str, list[Reader]] = {}
        self.readers = 0
        self._closed = False

    def __call__(self, happening: Happening) -> None:
        """Something happened."""
        for reader in self._readers.get(happening.run, ()):
            reader.put(happening)

    @contextmanager
    def reading(self, run: str) -> Iterator[Reader]:
        """Read along while inside."""
        reader = Reader(run)
        self._readers.setdefault(run, []).append(reader)
        self.readers += 1
        if self._closed:
            reader.put(None)
        try:
            yield reader
        finally:
            self.readers -= 1
            left = [other for other in self._readers[run] if other is not reader]
            if left:
                self._readers[run] = left
            else:
                del self._readers[run]

    def close(self) -> None:
        """Nothing more will happen; readers end."""
        self._closed = True
        for readers in self._readers.values():
            for reader in readers:
                reader.put(None)
