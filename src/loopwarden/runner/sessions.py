"""The sessions: one run at a time in each, and their message histories."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from loopwarden.runner.history import from_json, to_json, usable
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pydantic_ai.messages import ModelMessage

    from loopwarden.runner.live import Live
    from loopwarden.runner.seams import Journal

MOST: Final = 1_000
MOST_BYTES: Final = 256_000_000
"""Sessions kept in memory where there is no journal; the longest idle ones go first."""


class Sessions:
    """Message histories, in the journal or in memory.

    Args:
        journal: `None`: in memory. Its faults are logged: a history that can't be read is empty.
    """

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        self._kept: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._bytes = 0
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def turn(self, session: str) -> AsyncIterator[None]:
        """Wait for the run that goes on in a session, and keep others waiting."""
        lock, waiting = self._locks.get(session, (asyncio.Lock(), 0))
        self._locks[session] = lock, waiting + 1
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._locks[session]
            if waiting == 1:
                del self._locks[session]
            else:
                self._locks[session] = lock, waiting - 1

    def history(self, session: str) -> list[ModelMessage]:
        """The messages of a session."""
        try:
            if self._journal is None:
                data = self._kept[session][1] if session in self._kept else None
            else:
                data = self._journal.history(session)
            return [] if data is None else usable(from_json(data))
        except Exception:  # noqa: BLE001 - a journal's fault never breaks a run
            log.logger.exception("the history of a session can't be read; it begins anew")
            return []

    def agent_of(self, session: str) -> str | None:
        """Whose session it is; `None`: it is not known."""
        if self._journal is None:
            return self._kept[session][0] if session in self._kept else None
        try:
            known = self._journal.session(session)
        except Exception:  # noqa: BLE001 - a journal's fault never breaks a run
            log.logger.exception("a session can't be looked up")
            return None
        return None if known is None else known.agent

    def keep(self, live: Live, messages: Sequence[ModelMessage]) -> None:
        """Keep the messages of a run's session, and what the guard knows of the run."""
        if self._journal is None and not live.over:
            return
        try:
            data = to_json(messages)
            if self._journal is None:
                self._remember(live, data)
                return
            self._journal.save_history(live.session, live.agent.id, data)
            evidence = None if live.over else live.verbs.save(run_id=live.run)
            if evidence is not None:
                self._journal.put_evidence(live.run, evidence)
        except Exception:  # noqa: BLE001 - a journal's fault never breaks a run
            log.logger.exception("the history of a session can't be kept")

    def _remember(self, live: Live, data: bytes) -> None:
        _, before = self._kept.pop(live.session, ("", b""))
        self._kept[live.session] = live.agent.id, data
        self._bytes += len(data) - len(before)
        while len(self._kept) > 1 and (len(self._kept) > MOST or self._bytes > MOST_BYTES):
            _, (_, gone) = self._kept.popitem(last=False)
            self._bytes -= len(gone)
