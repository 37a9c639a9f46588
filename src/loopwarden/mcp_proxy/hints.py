"""Which run a call belongs to: what the client says in `_meta`, else the calls between two quiet times."""

from __future__ import annotations

import time
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.guard import Verbs

RUN_ID: Final = "loopwarden/run-id"
AGENT_ID: Final = "loopwarden/agent-id"
"""Keys of `_meta` in the parameters of `tools/call`: texts; others, and longer ones, are ignored."""

LONGEST: Final = 200
"""Characters of a hint."""

RUN_GAP: Final = 600.0
"""Seconds without a call and without a result after which the next call begins a run."""

_AGENTS: Final = 256
"""Agents of one run whose state is dropped with it."""


def hint(meta: object, key: str) -> str | None:
    """A hint of the client, if it gave one that counts."""
    found = meta.get(key) if isinstance(meta, dict) else None
    return found if isinstance(found, str) and 0 < len(found) <= LONGEST else None


class Naming:
    """Gives calls their run.

    Args:
        verbs: Told when a run that was made up here is over.
        gap: As `RUN_GAP`; 0: never.
        clock: Seconds that don't go back.
    """

    def __init__(
        self, verbs: Verbs, gap: float = RUN_GAP, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._verbs = verbs
        self._gap = gap
        self._clock = clock
        self._token = token_hex(4)  # in a shared store nobody else may have the same
        self._number = 1
        self._busy_at = clock()
        self._used: dict[str, None] = {}

    def run_of(self, meta: Any) -> str:
        """The run of a call that is asked for now."""
        agent = hint(meta, AGENT_ID)
        named = hint(meta, RUN_ID)
        if named is None:
            if self._gap and self._clock() - self._busy_at > self._gap:
                self._begin()
            self.busy()
        run = named or f"{self._token}-{self._number}"
        if agent is not None:
            run = f"{run}/{agent}"
        if named is None and len(self._used) < _AGENTS:
            self._used[run] = None
        return run

    def busy(self) -> None:
        """A call or its result came through."""
        self._busy_at = self._clock()

    def _begin(self) -> None:
        for run in self._used:
            self._verbs.forget(run_id=run)
        self._used.clear()
        self._number += 1
