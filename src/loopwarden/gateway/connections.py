"""The connections of the gateway: so many at once, and so long until one has asked something.

uvicorn times a body and an idle connection, but not headers: half of them would stay for ever, and with all
descriptors taken nobody else is heard.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import MissingExtraError
from loopwarden.telemetry import log

try:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol
except ImportError as missing:
    raise MissingExtraError("uvicorn", "gateway") from missing

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER_SECONDS: Final = 30.0
"""How long the headers of a request may take to arrive."""

MOST: Final = 10_000
"""Connections at once, where the system gives descriptors for more."""

_DESCRIPTORS: Final = 1024
_QUIET_SECONDS: Final = 60.0
"""For so long the log does not say the same again."""

_NO_DESCRIPTOR: Final = "socket.accept() out of system resource"


def most_connections() -> int:
    """How many there may be: three quarters of the descriptors that this process may open, or `MOST`."""
    try:
        import resource
    except ImportError:  # not on Windows
        found = _DESCRIPTORS
    else:
        found = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if found == resource.RLIM_INFINITY:
            return MOST
    return min(MOST, max(1, found * 3 // 4))


class Connections:
    """All connections; as a function it makes one, as uvicorn asks for.

    Args:
        most: How many there may be at once; one more closes the one that was idle for longest.
        seconds: How long headers may take.
    """

    def __init__(self, most: int, seconds: float | None = None) -> None:
        self.seconds = HEADER_SECONDS if seconds is None else seconds
        self._most = most
        self._open: dict[Connection, None] = {}  # the one that said something last is the last one
        self._quiet_until: dict[str, float] = {}

    def __call__(self, **given: Any) -> asyncio.Protocol:
        """A connection."""
        inner: Any = AutoHTTPProtocol
        return Connection(inner(**given), self)

    def said(self, connection: Connection) -> None:
        """A connection is there, or has said something."""
        self._open.pop(connection, None)
        self._open[connection] = None
        if len(self._open) > self._most:
            self._close_one()

    def gone(self, connection: Connection) -> None:
        """A connection is over."""
        self._open.pop(connection, None)

    def faults(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The handler of faults of an event loop: without descriptors it has thousands in a second."""
        if context.get("message") == _NO_DESCRIPTOR:
            self._tell("no descriptor is left for another connection")
        else:
            log.logger.error("fault in the event loop", exc_info=context.get("exception"))

    def _close_one(self) -> None:
        self._tell(f"{self._most} connections are open; for each new one an idle one is closed")
        for connection in self._open:
            if connection.idle:  # the newest is, too
                del self._open[connection]
                connection.close()
                return

    def _tell(self, message: str) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._quiet_until.get(message, 0.0):
            self._quiet_until[message] = now + _QUIET_SECONDS
            log.logger.warning("%s", message)


class Connection(asyncio.Protocol):
    """One connection: uvicorn's, which is closed when headers are awaited for too long.

    Args:
        inner: What speaks HTTP on it.
        connections: All of them.
    """

    def __init__(self, inner: Any, connections: Connections) -> None:
        self._inner = inner
        self._all = connections
        self._timer: asyncio.TimerHandle | None = None
        self.close: Callable[[], None] = lambda: None

    @property
    def idle(self) -> bool:
        """Whether nothing was asked that is not answered."""
        cycle = self._inner.cycle
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self.close = transport.close
        self._inner.connection_made(transport)
        self._wait()
        self._all.said(self)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._inner.data_received(data)
        if not self.idle:
            self._stop()
        elif self._timer is None:
            self._wait()
        self._all.said(self)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._inner.resume_writing()

    def eof_received(self) -> bool | None:
        """See `asyncio.Protocol`."""
        found: bool | None = self._inner.eof_received()
        return found

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._stop()
        self._all.gone(self)
        self._inner.connection_lost(exc)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._all.seconds, self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self.idle:
            self.close()
