"""Clients that ask a FastMCP server for what a script says."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any

import uvicorn
from fastmcp import Client, FastMCP

from loopwarden.adapters.fastmcp import ABILITIES, LoopGuardMiddleware
from tests.adapters.contract import Ran, Script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from loopwarden import LoopGuard


class FastMcp:
    """An agent that has one client, in memory or over HTTP; `legacy`: with a handshake and a session."""

    abilities = ABILITIES
    errors_are_text = False
    survives_errors = True
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        ran = Ran()
        server = server_of(guard, *script.tools.values())
        asyncio.run(self._play(server, script, ran))
        return ran

    async def _play(self, server: FastMCP, script: Script, ran: Ran) -> None:
        options = {"mode": "legacy"} if "legacy" in self.way else {}
        where = served if "http" in self.way else in_memory
        async with where(server) as target, Client(target, **options) as client:
            for asks in script.replies:
                ran.requests += 1
                for ask in asks:
                    said = await call(client, ask.tool, query=ask.query)
                    answers = ran.answers.setdefault(ask.call_id, [])
                    if said not in answers:
                        answers.append(said)
        ran.requests += 1
        ran.text = "done"


def server_of(guard: LoopGuard | None, *functions: Callable[..., Any], **options: Any) -> FastMCP:
    server: FastMCP = FastMCP("looking", **options)
    if guard is not None:
        server.add_middleware(LoopGuardMiddleware(guard))
    for function in functions:
        server.tool(function)
    return server


@contextlib.asynccontextmanager
async def in_memory(server: FastMCP) -> AsyncIterator[FastMCP]:
    yield server


@contextlib.asynccontextmanager
async def served(server: FastMCP, **options: Any) -> AsyncIterator[str]:
    """The server on the loopback, at a port that is free; connections wait until it is ready."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        config = uvicorn.Config(
            server.http_app(**options), log_level="error", timeout_graceful_shutdown=1, lifespan="on"
        )
        http = uvicorn.Server(config)
        serving = asyncio.create_task(http.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            http.should_exit = True
            await serving


async def call(client: Client[Any], tool: str, meta: dict[str, Any] | None = None, **arguments: Any) -> str:
    """What the agent reads of the result."""
    result = await client.call_tool(tool, arguments, raise_on_error=False, meta=meta)
    return "\n".join(getattr(block, "text", block.type) for block in result.content)


def look(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}"


def talk(
    target: Any, *said: str, meta: dict[str, Any] | None = None, tool: str = "look", **options: Any
) -> list[str]:
    """What a client of its own reads, one call after the other."""

    async def talked() -> list[str]:
        async with Client(target, **options) as client:
            return [await call(client, tool, meta, query=query) for query in said]

    return asyncio.run(talked())
