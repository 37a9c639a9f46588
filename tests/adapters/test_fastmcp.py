"""The guard as a middleware of FastMCP: the contract, and what results look like."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastmcp.server.middleware", reason="needs fastmcp; see scripts/check-hosts")

import mcp_types as mcp
from fastmcp import Client
from fastmcp.server.middleware import Middleware
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from fastmcp.utilities.types import Image

from tests.adapters.contract import Contract, Tools
from tests.adapters.fastmcp_scripts import FastMcp, call, look, server_of, talk
from tests.adapters.writing_guard import WritingGuard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class TestFastMcp(Contract):
    @pytest.fixture(params=["memory", "memory legacy", "http", "http legacy"])
    def host(self, request: pytest.FixtureRequest) -> FastMcp:
        return FastMcp(request.param)


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


# --- what results look like


def test_structured_results_stay_as_they_are(guard: WritingGuard) -> None:
    def counts(query: str) -> dict[str, int]:
        return {query: 1}

    async def asked() -> list[Any]:
        async with Client(server_of(guard, counts)) as client:
            await client.list_tools()  # the client checks results by what it is told here
            return [await client.call_tool("counts", {"query": "a"}, raise_on_error=False) for _ in range(6)]

    results = asyncio.run(asked())
    assert [result.structured_content for result in results] == [{"a": 1}] * 5 + [None]
    assert [len(result.content) for result in results] == [1, 1, 1, 2, 1, 1]
    assert [result.is_error for result in results] == [False] * 5 + [True]
    assert [told.result for told in guard.of("after")] == [{"a": 1}] * 5


RESULTS: dict[str, tuple[Callable[[], Any], Any]] = {
    "text": (lambda: "found", "found"),
    "number": (lambda: 7, "7"),
    "nothing": (lambda: None, ""),
    "both": (
        lambda: ToolResult(content="page 1", structured_content={"found": 2}),
        ["page 1", {"found": 2}],
    ),
    "list": (lambda: [1, 2], "[1,2]"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_what_the_guard_is_told(guard: WritingGuard, name: str) -> None:
    make, told = RESULTS[name]

    def gives(query: str) -> Any:
        return make()

    talk(server_of(guard, gives), "a", tool="gives")
    assert [after.result for after in guard.of("after")] == [told]


def test_pictures(guard: WritingGuard) -> None:
    def draws(query: str) -> Any:
        return Image(data=query.encode(), format="png")

    said = talk(server_of(guard, draws), *"aaaaaab", tool="draws")
    assert said[:3] == ["image"] * 3
    assert said[3].startswith("image\n")
    assert "was refused" in said[5]
    assert said[6] == "image"


def test_a_warning_stands_with_the_error(guard: WritingGuard) -> None:
    tools = Tools()
    said = talk(server_of(guard, tools()["fails"]), *"aaaaaa", tool="fails")
    plain = "Error calling tool 'fails': no a here"
    message = guard.of("before")[3].verdict.message
    assert said[:5] == [plain, plain, plain, f"{plain}\n{message}", plain]
    assert len(tools.ran) == 5


def test_errors_that_are_masked_are_told_as_they_were(guard: WritingGuard) -> None:
    server = server_of(guard, Tools()()["fails"], mask_error_details=True)
    assert talk(server, "a", tool="fails") == ["Error calling tool 'fails'"]
    assert "no a here" in str(guard.of("after")[0].error)


def test_a_tool_out_of_time(guard: WritingGuard) -> None:
    server = server_of(guard)

    @server.tool(timeout=0.01)
    async def waits(query: str) -> str:
        await asyncio.Event().wait()
        return query

    talk(server, "a", tool="waits")
    assert "timed out" in str(guard.of("after")[0].error)


def test_wrong_arguments_are_failures(guard: WritingGuard) -> None:
    async def wrong() -> list[str]:
        async with Client(server_of(guard, look)) as client:
            return [await call(client, "look", wrong=1) for _ in range(6)]

    said = asyncio.run(wrong())
    assert "query" in said[0]
    assert len(guard.of("after")) == 5
    assert all(told.error for told in guard.of("after"))
    assert "was refused" in said[5]


def test_a_refused_unknown_tool_is_told_so(guard: WritingGuard) -> None:
    said = talk(server_of(guard, look), *"aaaa", tool="nope")
    assert said[0] == "Unknown tool: 'nope'"
    assert [told.unknown_tool for told in guard.of("after")] == ["nope"] * len(guard.of("after"))
    assert said[-1] == guard.of("before")[-1].verdict.message


def test_arguments_that_nothing_can_be_made_of_break_nothing(guard: WritingGuard) -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}

    class Takes(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            return InputRequiredToolResult(mcp.InputRequiredResult(request_state="asked"))

    server = server_of(guard)
    server.add_middleware(Takes())
    for arguments in (deep, {"query": {1: 1, "1": 1}}, {"query": {1, 2}}):
        result = asyncio.run(server.call_tool("takes", arguments))
        assert isinstance(result, InputRequiredToolResult)
    assert [told.verb for told in guard.told] == ["before"] * 3


def test_calls_at_the_same_time(guard: WritingGuard) -> None:
    async def many() -> list[str]:
        async with Client(server_of(guard, look)) as client:
            calls: list[Awaitable[str]] = [call(client, "look", query=query) for query in "abcdefgh"]
            return await asyncio.gather(*calls)

    assert asyncio.run(many()) == [f"nothing about {query}" for query in "abcdefgh"]
    assert len(guard.of("after")) == 8
    assert len({told.run_id for told in guard.told}) == 1
