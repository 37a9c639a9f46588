"""One gateway: everything that its endpoints share, opened and closed in order."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loopwarden.config.runtime import runtime_of
from loopwarden.gateway.decision_keeper import FETCH_SECONDS, DecisionKeeper
from loopwarden.gateway.decisions import Decisions
from loopwarden.gateway.desk import Desk
from loopwarden.gateway.guards import Guards
from loopwarden.gateway.keeping import Keeping
from loopwarden.gateway.lock import FolderLock
from loopwarden.gateway.metrics import Metrics
from loopwarden.gateway.observers import Observers
from loopwarden.gateway.places import DATABASE_FILE, DECISIONS_FILE, RECORD_FILE, made
from loopwarden.gateway.record import AgentRecords
from loopwarden.gateway.token import token_in
from loopwarden.stores import is_address

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator

    from loopwarden.config import Config
    from loopwarden.config.runtime import Runtime

IN_FOLDER: Final = "sqlite:"
"""Address of the default store: the database in the gateway's folder."""

_ALONE_SECONDS: Final = 60.0
"""Between two looks at decisions that no other gateway changes."""


class Gateway:
    """Opens everything; `close` gives it back. To be made on the event loop that it is used on.

    Args:
        config: All settings.
        folder: Where it keeps what outlives it.
        store: `sqlite:` for the folder's database, or the address of a store that gateways share.
        record: File of the run record; `True` for the folder's, `False` for none.

    Attributes:
        config: As given.
        runtime: Agents and service of the configuration.
        folder: As given, made.
        token: Who may speak to it.
        observers: Told of every event; parts add their own before the start.
        decisions: What people decided about runs and loops.
        keeper: Keeps the decisions over a restart, and shares them where gateways share a store.
        guards: Guards by agent; as a function what the runner takes.
        desk: Answers events of clients.
        metrics: What is counted.
        closing: Set when the gateway begins to end; streams end then.

    Raises:
        ConfigError: The agents or the service are wrong in the configuration.
        StoreError: The folder is in use, or something in it can't be used.
        MissingExtraError: The store's package is not installed.
        ValueError: The store's address makes no sense.
    """

    def __init__(
        self,
        config: Config,
        *,
        folder: Path,
        store: str = IN_FOLDER,
        record: str | os.PathLike[str] | bool = True,
    ) -> None:
        if store != IN_FOLDER and not is_address(store):
            allowed = "redis://HOST:PORT/DB, or sqlite:PATH; without one the runs are in the state folder"
            raise ValueError(f"{store!r} is no store of a gateway; allowed: {allowed}")
        self.config = config
        self.runtime: Runtime = runtime_of(config)
        self.folder = made(folder)
        limits = self.runtime.gateway.limits
        with ExitStack() as opened:
            opened.callback(FolderLock(folder).release)
            self.token = token_in(folder)
            self.closing = asyncio.Event()
            self.metrics = Metrics()
            self.observers = Observers()
            self.decisions = Decisions()
            if record is not False:
                records = AgentRecords(folder / RECORD_FILE if record is True else Path(record))
                opened.callback(records.close)
                self.observers.add(records)
            self.guards = Guards(
                config,
                self.observers,
                [self.metrics.listener],
                decisions=self.decisions,
                store="memory:" if store == IN_FOLDER else store,
                most=2 * limits.runs,  # those of this process, too
            )
            opened.callback(self.guards.close)
            self.keeper = self._keeper(None if store == IN_FOLDER else store, most=2 * limits.runs)
            opened.callback(self.keeper.close)
            keeping = None if self.guards.shared else Keeping(folder / DATABASE_FILE)
            if keeping is not None:
                opened.callback(keeping.close)
            self.desk = Desk(self.guards, keeping, most=limits.runs, batch=limits.batch_events)
            self.metrics.gauge("runs", "Runs of clients that are known.", lambda: float(self.desk.runs))
            self._opened = opened.pop_all()

    def _keeper(self, shared: str | None, *, most: int) -> DecisionKeeper:
        own = self.folder / DECISIONS_FILE
        return DecisionKeeper(
            self.decisions,
            f"sqlite:{own}" if shared is None else shared,
            most=most,
            there=lambda: shared is not None or own.exists(),
            pause=_ALONE_SECONDS if shared is None else FETCH_SECONDS,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While it serves: what changes is written behind, and everything at the end."""
        keep = asyncio.create_task(self.desk.keep())
        try:
            yield
        finally:
            keep.cancel()
            with suppress(asyncio.CancelledError):
                await keep
            await self.desk.close()

    def close(self) -> None:
        """Give back what is held open."""
        self._opened.close()
