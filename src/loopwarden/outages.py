"""Patience with something outside that holds the runs: told once when it fails, once when it is back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from loopwarden.stores import Answer

_PAUSE: Final = 10.0
"""What failed is left alone for this many times as long as the failure took, so that an agent spends no more
than a tenth of its time waiting for what doesn't answer."""

LONGEST_PAUSE: Final = 30.0
"""Seconds that it is left alone at most, unless `Outages.longest` says otherwise."""


class Outages:
    """Asks a store or a gateway. Safe to share between threads.

    Args:
        name: What it is, for the log.
        clock: Seconds that don't go back.

    Attributes:
        longest: Seconds that it is left alone at most.
    """

    __slots__ = ("_clock", "_name", "_out", "_until", "longest")

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._out: dict[str, object] = {}  # one entry while it is out of order; set and taken atomically
        self._until = 0.0
        self.longest = LONGEST_PAUSE

    def ask(self, question: Callable[[], Answer], *, now: bool = False) -> Answer:
        """The answer to a question.

        Args:
            question: Asks it.
            now: Whether to ask also while it is left alone; an answer ends that.

        Raises:
            StoreError: What the question raises; or it is left alone at the moment, and was not asked.
        """
        began = self._begin(now=now)
        try:
            answer = question()
        except StoreError as error:
            self._failed(began, error)
            raise
        self._answered()
        return answer

    async def ask_awaited(self, question: Callable[[], Awaitable[Answer]]) -> Answer:
        """As `ask`, for a question whose answer is awaited."""
        began = self._begin()
        try:
            answer = await question()
        except StoreError as error:
            self._failed(began, error)
            raise
        self._answered()
        return answer

    def _begin(self, *, now: bool = False) -> float:
        began = self._clock()
        if began < self._until and not now:
            raise StoreError(f"the {self._name} failed just now and is left alone for a moment")
        return began

    def _failed(self, began: float, error: StoreError) -> None:
        failed = self._clock()
        self._until = failed + min(_PAUSE * (failed - began), self.longest)
        if self._out.setdefault("since", error) is error:
            log.logger.warning("%s: %s; calls are let through until it is back", self._name, error)

    def _answered(self) -> None:
        self._until = 0.0
        if self._out and self._out.pop("since", None) is not None:
            log.logger.warning("%s is back", self._name)
