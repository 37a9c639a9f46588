"""The page as a part of the gateway."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from loopwarden.gateway.app import Part
from loopwarden.gateway.board import Board
from loopwarden.gateway.observers import speaker
from loopwarden.gateway.page.site import PUBLIC, Site
from loopwarden.gateway.stream import Stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from loopwarden.gateway.context import Gateway


class ShownPage:
    """The live page of a gateway.

    Args:
        gateway: Whose runs are shown; the page is told of its events from here on.

    Attributes:
        board: What is shown; a `Watcher` for the runner.
        part: What plugs in.
    """

    def __init__(self, gateway: Gateway) -> None:
        shows = gateway.runtime.gateway.show_arguments
        self.board = Board(gateway.decisions, show_arguments=shows)
        gateway.observers.add(self.board.observer(speaker))
        stream = Stream()
        self._site = Site(self.board, stream, token=gateway.token, settle=gateway.keeper.settle)
        gateway.decisions.heard = self.board.touch
        gateway.metrics.gauge(
            "page_readers", "Open event streams of the page.", lambda: float(stream.readers)
        )

        @asynccontextmanager
        async def running() -> AsyncIterator[None]:
            """The streams end when the gateway does: it waits for them."""

            async def end() -> None:
                await gateway.closing.wait()
                stream.close()

            ending = asyncio.create_task(end())
            try:
                yield
            finally:
                ending.cancel()
                with suppress(asyncio.CancelledError):
                    await ending

        self.part = Part(routes=self._site.routes(), public=PUBLIC, running=running)

    def runs_agents(self, cancel: Callable[[str], bool]) -> None:
        """There is a runner; `cancel` ends a run by its id and says whether there was one."""
        self._site.cancel = cancel
