"""A server of the official SDK that speaks streamable HTTP, run as a script; it prints its port."""

import socket
import sys
from contextlib import suppress
from typing import Annotated, Any

import uvicorn
from mcp.server.streamable_http import EventMessage, EventStore
from pydantic import BaseModel

try:
    from mcp.server.mcpserver import Context, MCPServer
except ImportError:  # before 2.0
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as MCPServer


class Kept(EventStore):
    """Events of all streams, in memory."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        start = int(last_event_id)
        stream = self.events[start - 1][0]
        for number, (stream_id, message) in enumerate(self.events[start:], start + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def look(path: str) -> str:
    """Look at a place."""
    return f"nothing at {path}"


async def steps(ctx: Context) -> str:
    """Say how far it got."""
    for step in range(3):
        await ctx.report_progress(step, 3)
    return "done"


async def session(ctx: Context) -> str:
    """The id of the session."""
    return str(ctx.request_context.request.headers.get("mcp-session-id"))


async def breaks(ctx: Context) -> str:
    """Break off the stream of its own answer, and give it on another one."""
    await ctx.close_sse_stream()
    return "went on"


server = MCPServer("things")
with suppress(ImportError):  # before 2.0
    from mcp.server.mcpserver import Elicit, Resolve

    class Name(BaseModel):
        """What is asked for."""

        name: str

    def ask() -> Elicit[Name]:
        """Ask the user."""
        return Elicit("Who are you?", Name)

    @server.tool()
    def greet(who: Annotated[Name, Resolve(ask)]) -> str:
        """Greet whoever the user says they are."""
        return f"hello {who.name}"


for function in (look, steps, session, breaks):
    server.tool()(function)
options: dict[str, Any] = {"json_response": "json" in sys.argv}
if "kept" in sys.argv:
    options |= {"event_store": Kept(), "retry_interval": 10}
try:
    app = server.streamable_http_app(**options)
except TypeError:  # before 2.0
    server.settings.json_response = options["json_response"]
    app = server.streamable_http_app()
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
sys.stdout.write(f"{listening.getsockname()[1]}\n")
sys.stdout.flush()
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])
