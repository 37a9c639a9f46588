"""What a tool raised, as the guard takes it: a text to compare, and whether it tells of the tool at all.

Exceptions are the tool's own and may be broken, of any size and nested to any depth: nothing here raises.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEPEST: Final = 8
"""Groups of exceptions in each other that are looked into."""

_MOST: Final = 64
"""Exceptions of a group, at any depth, that are looked at; of a larger one those that stand first."""

_LONGEST: Final = 500
"""Characters of an exception in a group that count."""

_STOPS: Final = (GeneratorExit, KeyboardInterrupt, SystemExit)

_CANCELLED: Final = frozenset({"Cancelled", "CancelledError"})
"""Names of what cancels a task: of trio and of asyncio, which are not imported for it."""


def said(error: BaseException) -> str:
    """An exception as text: its type and message, and of a group those of its exceptions, sorted.

    Their order is mostly that in which tasks ended, which says nothing.
    """
    return _said(error, _DEEPEST, iter(range(_MOST)))


def is_out_of_time(error: BaseException) -> bool:
    """Whether a call ended by a time limit: its own, or one around it, which cancels it.

    A task that was cancelled does not know why. A person's stop ends the run too, so that nothing comes of
    counting its last call.
    """
    leaves = list(_leaves(error, _DEEPEST, iter(range(_MOST))))
    return bool(leaves) and all(isinstance(leaf, TimeoutError) or _cancels(leaf) for leaf in leaves)


def is_stop(error: BaseException) -> bool:
    """Whether a person or the program stopped the call: it tells nothing of the tool."""
    return any(isinstance(leaf, _STOPS) for leaf in _leaves(error, _DEEPEST, iter(range(_MOST))))


def _said(error: BaseException, depth: int, places: Iterator[int]) -> str:
    text = type(error).__name__
    if not _cancels(error):  # whose message names an object of the host
        with suppress(Exception):  # the tool's own exception may be broken too
            text = f"{text}: {error}"
    within = [_said(one, depth - 1, places)[:_LONGEST] for one in _within(error, depth, places)]
    return f"{text} [{'; '.join(sorted(within))}]" if within else text


def _leaves(error: BaseException, depth: int, places: Iterator[int]) -> Iterator[BaseException]:
    within = list(_within(error, depth, places))
    for one in within:
        yield from _leaves(one, depth - 1, places)
    if not within:
        yield error


def _within(error: BaseException, depth: int, places: Iterator[int]) -> list[BaseException]:
    """The exceptions of a group, as far as there are places."""
    if depth <= 0 or not isinstance(error, BaseExceptionGroup):
        return []
    try:
        return [one for one, _ in zip(error.exceptions, places, strict=False)]
    except Exception:  # noqa: BLE001 - a group of the tool's own class may be broken too
        return []


def _cancels(error: BaseException) -> bool:
    return not isinstance(error, Exception) and type(error).__name__ in _CANCELLED
