"""FastMCP: whose calls belong together, and what counts once."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastmcp.server.middleware", reason="needs fastmcp; see scripts/check-hosts")

import mcp_types as mcp
from fastmcp import Client, Context, FastMCP
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError
from fastmcp.server import create_proxy
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.error_handling import RetryMiddleware

from loopwarden.adapters.fastmcp import AGENT_HINT, RUN_HINT, LoopGuardMiddleware
from tests.adapters.contract import Tools
from tests.adapters.fastmcp_scripts import call, look, served, server_of, talk
from tests.adapters.writing_guard import CONFIG, WritingGuard

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


def runs(guard: WritingGuard) -> list[tuple[str | None, str | None]]:
    """Session and run of each call, each once."""
    return list(dict.fromkeys((told.session_id, told.run_id) for told in guard.of("before")))


# --- whose calls they are


def test_requests_without_a_session_are_one_run_of_the_process(guard: WritingGuard) -> None:
    server = server_of(guard, look)
    talk(server, "a", "b")
    talk(server, "a")
    assert len(runs(guard)) == 1


def test_sessions_are_apart(guard: WritingGuard) -> None:
    server = server_of(guard, look)
    for _ in range(2):
        talk(server, "a", "b", mode="legacy")
    assert len(runs(guard)) == 2


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_sessions_over_http_are_apart(guard: WritingGuard, transport: str) -> None:
    async def two() -> None:
        path = "/mcp/sse" if transport == "sse" else "/mcp"
        async with served(server_of(guard, look), transport=transport, path=path) as base:
            url = base.removesuffix("/mcp") + path
            async with Client(url, mode="legacy") as one, Client(url, mode="legacy") as other:
                for client in (one, other, one, other):
                    await call(client, "look", query="a")

    asyncio.run(two())
    assert len(guard.of("before")) == 4
    assert len(runs(guard)) == 2


@pytest.mark.parametrize("options", [{}, {"stateless_http": True}])
def test_over_http_without_sessions_clients_are_known_by_their_names(
    guard: WritingGuard, options: dict[str, Any]
) -> None:
    mode = {"mode": "legacy"} if options else {}

    async def three() -> None:
        async with served(server_of(guard, look), **options) as url:
            for name in ("one", "other", "one"):
                info = mcp.Implementation(name=name, version="1")
                async with Client(url, client_info=info, **mode) as client:
                    await call(client, "look", query="a")
                    await call(client, "look", query="a")

    asyncio.run(three())
    # Without a handshake that the server remembers, older clients are known by their address only.
    assert len(runs(guard)) == (1 if options else 2)


def test_users_are_apart(guard: WritingGuard) -> None:
    tokens = {f"token of {user}": {"client_id": "app", "sub": user, "scopes": []} for user in ("ann", "bob")}

    async def two() -> None:
        async with served(server_of(guard, look, auth=StaticTokenVerifier(tokens))) as url:
            for token in [*tokens, *tokens]:
                async with Client(StreamableHttpTransport(url, auth=token)) as client:
                    await call(client, "look", query="a")

    asyncio.run(two())
    assert len(guard.of("before")) == 4
    assert len(runs(guard)) == 2
    assert not any(user in str(told.session_id) for told in guard.told for user in ("ann", "bob"))


def test_a_client_can_name_its_run_and_the_agent(guard: WritingGuard) -> None:
    server = server_of(guard, look)
    named = {RUN_HINT: "r1"}
    for meta in (named, {RUN_HINT: "r2"}, named, named | {AGENT_HINT: "inner"}, {AGENT_HINT: "inner"}, {}):
        talk(server, "a", meta=meta)
    found = [told.run_id for told in guard.of("before")]
    assert found[:4] == ["r1", "r2", "r1", "r1/inner"]
    assert len(set(found)) == 5


@pytest.mark.parametrize("hint", ["", "x" * 201, "a\nb", 7, None, ["r"], {"r": 1}])
def test_what_can_be_no_id_is_ignored(guard: WritingGuard, hint: object) -> None:
    server = server_of(guard, look)
    talk(server, "a", meta={RUN_HINT: hint, AGENT_HINT: hint})
    talk(server, "a")
    assert len(runs(guard)) == 1


def test_after_a_long_pause_a_new_run_begins() -> None:
    guard = WritingGuard()
    server: FastMCP = FastMCP("looking")
    server.add_middleware(LoopGuardMiddleware(guard, idle_seconds=0.0))
    server.tool(look)
    talk(server, *"aaa")
    assert len(runs(guard)) == 3
    assert len(guard._runs) == 1


SERVER = """
import sys
from fastmcp import FastMCP
from loopwarden import LoopGuard
from loopwarden.adapters.fastmcp import LoopGuardMiddleware

server = FastMCP("looking")
server.add_middleware(LoopGuardMiddleware(LoopGuard({config!r})))

@server.tool
def look(query: str) -> str:
    with open({log!r}, "a") as log:
        log.write(query)
    return f"nothing about {{query}}"

server.run(show_banner=False)
"""


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_with_stdio_the_process_is_the_session(tmp_path: Path, mode: str) -> None:
    log = tmp_path / "ran"
    script = tmp_path / "server.py"
    script.write_text(SERVER.format(config=CONFIG, log=str(log)), encoding="utf-8")
    said = talk(StdioTransport(sys.executable, [str(script)]), *"aaaaaaaaaaab", mode=mode)
    assert log.read_text(encoding="utf-8") == "aaaaa"
    assert [said.count(text) for text in set(said[:5])] in ([4, 1], [1, 4])
    assert "was refused" in said[5]
    assert "Every further call of a tool is refused as well" in said[9]
    assert "Every further call of a tool is refused as well" in said[11]


# --- what counts once


def test_servers_that_are_mounted_count_a_call_once(guard: WritingGuard) -> None:
    child, server = server_of(guard, look), server_of(guard)
    server.mount(child, namespace="inner")
    talk(server, *"aaaaaa", tool="inner_look")
    assert [told.tool for told in guard.of("before")] == ["inner_look"] * 6
    assert len(guard.of("after")) == 5


def test_a_guard_of_the_mounted_server_alone(guard: WritingGuard) -> None:
    server = server_of(None)
    server.mount(server_of(guard, look), namespace="inner")
    said = talk(server, *"aaaaaa", tool="inner_look")
    assert [told.tool for told in guard.of("before")] == ["look"] * 6
    assert "was refused" in said[5]


@pytest.mark.parametrize("both", [True, False])
def test_a_proxy(guard: WritingGuard, both: bool) -> None:
    tools = Tools()
    proxy = create_proxy(server_of(guard if both else None, tools()["look"]))
    proxy.add_middleware(LoopGuardMiddleware(guard))
    said = talk(proxy, *"aaaaaa")
    assert len(tools.ran) == len(guard.of("after")) == 5
    assert [told.verdict.action for told in guard.of("before")] == [*["allow"] * 3, "warn", "warn", "block"]
    assert guard.of("before")[3].verdict.message in said[3]
    assert guard.of("before")[5].verdict.message == said[5]


def test_what_a_tool_calls_is_no_call_of_the_agent(guard: WritingGuard) -> None:
    server = server_of(guard, look)

    @server.tool
    async def looks_twice(query: str, ctx: Context) -> str:
        for _ in range(2):
            await ctx.fastmcp.call_tool("look", {"query": query})
        return "looked"

    talk(server, "a", tool="looks_twice")
    assert [told.tool for told in guard.of("before")] == ["looks_twice"]


def test_what_a_middleware_tries_again_counts_once(guard: WritingGuard) -> None:
    attempts: list[str] = []

    def flaky(query: str) -> str:
        attempts.append(query)
        if len(attempts) < 3:
            raise ConnectionError("not yet")
        return "there"

    server = server_of(guard, flaky)
    server.add_middleware(RetryMiddleware(base_delay=0.0, retry_exceptions=(ConnectionError, ToolError)))
    assert talk(server, "a", tool="flaky") == ["there"]
    assert len(attempts) == 3
    assert [told.verb for told in guard.told] == ["before", "after"]


def test_a_call_that_asks_a_person_counts_once(guard: WritingGuard) -> None:
    async def agrees(*_: object) -> dict[str, Any]:
        return {"value": "yes"}

    async def buy(query: str, ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        answer: Any = await ctx.elicit("Really?", response_type=str)
        return f"{query}: {answer.data}"

    server = server_of(guard, buy)
    assert talk(server, "a", tool="buy", mode="legacy", elicitation_handler=agrees) == ["a: yes"]
    assert [told.verb for told in guard.told] == ["before", "after"]


def test_a_call_that_is_made_again_with_input_counts_once(guard: WritingGuard) -> None:
    async def agrees(*_: object) -> dict[str, Any]:
        return {"value": "yes"}

    async def buy(query: str, ctx: Context) -> Any:
        if ctx.input_responses is None:
            schema = {"type": "object", "properties": {"value": {"type": "string"}}}
            asked = mcp.ElicitRequestFormParams(message="Really?", requested_schema=schema)
            request = mcp.ElicitRequest(params=asked)
            return mcp.InputRequiredResult(input_requests={"sure": request}, request_state="asked")
        return f"{query}: bought"

    server = server_of(guard, buy)
    said = talk(server, *"aaaaaa", tool="buy", elicitation_handler=agrees)
    assert said[:3] == ["a: bought"] * 3
    assert guard.of("before")[3].verdict.message in said[3]
    assert "was refused" in said[5]
    assert (len(guard.of("before")), len(guard.of("after"))) == (6, 5)
    assert len({told.call_id for told in guard.of("before")}) == 6


def test_a_call_that_clients_give_up_is_refused_in_the_end(guard: WritingGuard) -> None:
    async def waits(query: str) -> str:
        started.set()
        await asyncio.Event().wait()
        return query

    async def given_up(query: str) -> bool:
        started.clear()
        calling = asyncio.create_task(server.call_tool("waits", {"query": query}))
        hangs = asyncio.create_task(started.wait())
        await asyncio.wait([calling, hangs], return_when=asyncio.FIRST_COMPLETED)
        calling.cancel()
        hangs.cancel()
        (answer,) = await asyncio.gather(calling, return_exceptions=True)
        return isinstance(answer, asyncio.CancelledError)

    async def all_of_them() -> list[bool]:
        return [await given_up(query) for query in "abcdefaaaaa"]

    started = asyncio.Event()
    server = server_of(guard, waits)
    assert asyncio.run(all_of_them()) == [True] * 10 + [False]
    assert [told.verb for told in guard.told] == ["before", "after"] * 10 + ["before"]
    assert guard.told[-1].verdict.action == "block"


def test_calls_that_go_on_in_the_background_are_not_refused(guard: WritingGuard) -> None:
    class Later(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            return mcp.CallToolResult(content=[mcp.TextContent(type="text", text="task 7")])

    server = server_of(guard)
    server.tool(look, output_schema=None)
    server.add_middleware(Later())
    assert talk(server, *"aaaaaaa") == ["task 7"] * 7
    assert [told.verb for told in guard.told] == ["before"] * 7
