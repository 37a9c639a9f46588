"""What a store can do that keeps journals: bytes that grow at their end, for many keys in one round trip.

A program that has seen a journal up to some place is told only what came after it. It need not read before it
writes, and two that write at once need not try again: both entries stand there, in an order that all see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from loopwarden.stores import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loopwarden.errors import StoreError


class Place(NamedTuple):
    """Up to where a journal was seen.

    Attributes:
        token: Names the journal as it was when it began or was written anew.
        end: Bytes, as the store counts them.
    """

    token: bytes
    end: int


class Entry(NamedTuple):
    """What is to be put at the end of a journal.

    Attributes:
        key: Whose journal.
        seen: Up to where it was seen; `None`: nothing of it.
        data: What is to be put there; nothing: only look; `None`: the journal is
            over, and what it holds goes.
        alone: Whether it counts only if nothing else came after `seen`.
    """

    key: str
    seen: Place | None
    data: bytes | None
    alone: bool


class Found(NamedTuple):
    """What became of an entry.

    Attributes:
        done: Whether it was put there; so is the end of a journal that is over, and of one that never was.
        place: Where the journal ends now, the entry included; `None`: there is none.
        afresh: Whether `news` is all of the journal, since what was seen of it is no more.
        news: What stands between what was seen and the entry.
    """

    done: bool
    place: Place | None
    afresh: bool
    news: bytes


@runtime_checkable
class JournalStore(Store, Protocol):
    """A store that keeps journals, too. To `read`, `move` and `delete` a journal is what stands in it."""

    def append(self, entries: Sequence[Entry]) -> list[Found | StoreError]:
        """Put entries at the end of journals, of different keys, each atomically.

        Returns:
            What became of each; an error for one that the store refused.

        Raises:
            StoreError: The store can't be reached or written; each entry was put there once or not at all.
        """

    def rewrite(self, key: str, seen: Place, data: bytes) -> Place | None:
        """Put something in place of a journal, if nothing came after `seen`.

        Returns:
            Where it ends now; `None`: something came.

        Raises:
            StoreError: As for `append`.
        """


class AwaitedJournals(Protocol):
    """Journals as an event loop asks for them. For the loop that it was made on."""

    async def append(self, entries: Sequence[Entry]) -> list[Found | StoreError]:
        """As `JournalStore.append`."""

    async def rewrite(self, key: str, seen: Place, data: bytes) -> Place | None:
        """As `JournalStore.rewrite`."""

    async def close(self) -> None:
        """Give back what is held open for this loop; asked again it opens it anew."""


@runtime_checkable
class AwaitableStore(JournalStore, Protocol):
    """A store of journals that can be awaited, too. One that can't is asked in a thread."""

    def awaited(self) -> AwaitedJournals:
        """The same journals for the event loop that is running; to be closed on it, before the store."""
