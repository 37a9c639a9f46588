"""The gateway on a socket, and its orderly end."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import AsyncExitStack, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from loopwarden.errors import LoopwardenError, MissingExtraError

try:
    import uvicorn
except ImportError as missing:
    raise MissingExtraError("uvicorn", "gateway") from missing

from loopwarden.gateway.app import Part, create_app
from loopwarden.gateway.connections import Connections, most_connections
from loopwarden.gateway.front import LOCAL_HOSTS
from loopwarden.loopback import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from loopwarden.gateway.context import Gateway

GRACE_SECONDS: Final = 10
"""How long requests may take to end once the gateway is told to."""

_BACKLOG: Final = 1024
_ACCEPTED: Final = 8
"""Connections that are taken before those taken earlier get their turn, so that surplus ones close."""


class _Server(uvicorn.Server):
    """Says when it takes connections, and tells the streams when it ends, so that they do."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._closing = closing
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_BACKLOG)  # asyncio takes one number for both
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing.set()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        LoopwardenError: It can't be had; the text says why.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise LoopwardenError(f"can't listen on {host}: {error.strerror or error}") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        raise LoopwardenError(
            f"can't listen on {host} port {port}: {error.strerror or error}; name another one with --port"
        ) from None
    return found


def run(serving: Coroutine[Any, Any, None]) -> None:
    """Run it to its end, on the event loop of uvloop where that is installed."""
    try:
        factory = import_module("uvloop").new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serving)


async def serve(
    gateway: Gateway,
    listening: socket.socket,
    parts: Sequence[Part] = (),
    *,
    host: str,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT: then no new connections, requests end, everything is written.

    Args:
        gateway: What is served.
        listening: Where; closed at the end.
        parts: What plugs in.
        host: The address that was asked for.
        ready: Called when connections are taken.
    """
    hosts = LOCAL_HOSTS | {host.lower()} if is_loopback(host) else None
    connections = Connections(most_connections())
    asyncio.get_running_loop().set_exception_handler(connections.faults)
    config = uvicorn.Config(
        create_app(gateway, parts, hosts=hosts),
        http=cast("type[asyncio.Protocol]", connections),
        backlog=_ACCEPTED,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=75,
    )
    server = _Server(config, gateway.closing, ready)
    _end_with_signals(server)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(gateway.running())
        for part in parts:
            if part.running is not None:
                await stack.enter_async_context(part.running())
        await server.serve([listening])


def _end_with_signals(server: uvicorn.Server) -> None:
    """Also with those that come before the server looks for them; it raises them once more at its end."""

    def end(*_: object) -> None:
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError):  # not in the main thread
            signal.signal(number, end)
