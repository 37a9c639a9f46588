"""`loopwarden mcp` between the official SDK's client and real servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("mcp.client.stdio", reason="needs mcp; see scripts/check-hosts")

import anyio
import httpx2
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from loopwarden.mcp_proxy.hints import RUN_ID
from tests.adapters.writing_guard import CONFIG

try:
    from mcp import Client, MCPError
except ImportError:  # before 2.0
    Client = None
    from mcp import McpError as MCPError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

BIN = Path(sys.executable).parent
TIME = [str(BIN / "mcp-server-time"), "--local-timezone", "UTC"]
GIT = [str(BIN / "mcp-server-git")]
NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
MODES = ["legacy"] if Client is None else ["legacy", "2026-07-28"]

pytestmark = pytest.mark.parametrize("mode", MODES)


@pytest.fixture
def guarded(tmp_path: Path) -> Callable[..., list[str]]:
    """The command of the proxy, for a server's command or the URL of one."""
    config = tmp_path / "loopwarden.json5"
    config.write_text(json.dumps(CONFIG))

    def command(server: list[str] | str, *options: str) -> list[str]:
        target = ["--url", server] if isinstance(server, str) else ["--", *server]
        words = ["mcp", "--config", str(config), "--record", str(tmp_path / "runs.jsonl"), *options, *target]
        return [str(BIN / "loopwarden"), *words]

    return command


@pytest.fixture
def repository(tmp_path: Path) -> str:
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", folder], check=True)
    return str(folder)


async def introduced(*_: Any) -> Any:
    """The user's answer to a question."""
    from mcp.types import ElicitResult

    return ElicitResult(action="accept", content={"name": "Ada"})


@asynccontextmanager
async def connected(command: list[str], mode: str) -> AsyncIterator[Any]:
    server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    if mode == "legacy":
        async with (
            stdio_client(server) as streams,
            ClientSession(*streams, elicitation_callback=introduced) as session,
        ):
            await session.initialize()
            yield session
    else:
        async with Client(server, mode=mode, elicitation_callback=introduced) as client:
            yield client


def talk(command: list[str], mode: str, conversation: Callable[[Any], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        with anyio.fail_after(60):
            async with connected(command, mode) as session:
                return await conversation(session)

    return anyio.run(main)


def plain(answer: Any) -> Any:
    """An answer without what differs from process to process."""
    return answer.model_dump(mode="json", by_alias=True)


async def told(session: Any, tool: str, arguments: dict[str, Any], **more: Any) -> tuple[list[str], bool]:
    """Texts of a result, and whether it is an error; the message of a protocol error."""
    try:
        found = plain(await session.call_tool(tool, arguments, **more))
    except MCPError as fault:
        return [str(fault)], True
    return [block.get("text", "") for block in found["content"]], found["isError"]


async def good_use(session: Any) -> list[Any]:
    found = [plain(await session.list_tools())]
    for hour in range(10):
        there = await session.call_tool("convert_time", NOON | {"time": f"{hour:02}:00"})
        found += [plain(there)]
    found.append(await told(session, "convert_time", NOON | {"target_timezone": "Mars/Base"}))
    found.append(await told(session, "no_such_tool", {}))
    return found


def test_good_use_is_untouched(mode: str, guarded: Callable[..., list[str]]) -> None:
    assert talk(guarded(TIME), mode, good_use) == talk(TIME, mode, good_use)


async def loop(
    session: Any, tool: str, arguments: dict[str, Any], times: int = 12
) -> list[tuple[list[str], bool]]:
    return [await told(session, tool, arguments) for _ in range(times)]


def check_loop(found: list[tuple[list[str], bool]]) -> None:
    """The 4th is warned of, the 6th refused, and from the 10th on there is no more."""
    plain, failed = found[0]
    assert [(texts == plain, error) for texts, error in found[:3]] == [(True, failed)] * 3
    assert found[3][0][:-1] == plain
    assert "3 times" in found[3][0][-1]
    assert found[4] == found[0]
    for texts, error in found[5:9]:
        assert error
        assert "was refused" in texts[0]
    for texts, error in found[9:]:
        assert error
        assert "every call of a tool of this server will be refused" in texts[0]


def test_a_loop_with_the_time_server(mode: str, guarded: Callable[..., list[str]]) -> None:
    check_loop(talk(guarded(TIME), mode, lambda session: loop(session, "convert_time", NOON)))


def test_a_loop_with_the_git_server(mode: str, guarded: Callable[..., list[str]], repository: str) -> None:
    async def conversation(session: Any) -> None:
        check_loop(await loop(session, "git_status", {"repo_path": repository}))
        texts, failed = await told(session, "git_branch", {"repo_path": repository, "branch_type": "local"})
        assert failed
        assert "was ended" in texts[0]

    talk(guarded(GIT), mode, conversation)


def test_a_tool_that_fails_and_one_that_is_missing(mode: str, guarded: Callable[..., list[str]]) -> None:
    async def conversation(session: Any) -> None:
        wrong = NOON | {"target_timezone": "Mars/Base"}
        failing = await loop(session, "convert_time", wrong, 4)
        assert all(failed for _, failed in failing)
        assert "3 times" in " ".join(failing[3][0])
        missing = await loop(session, "no_such_tool", {}, 5)
        assert all(failed for _, failed in missing)
        assert "refused" in missing[-1][0][0]

    talk(guarded(TIME), mode, conversation)


def test_runs_that_the_client_names_are_apart(mode: str, guarded: Callable[..., list[str]]) -> None:
    async def conversation(session: Any) -> None:
        for run in ("one", "two", "three"):
            for _ in range(3):
                try:
                    found = await told(session, "convert_time", NOON, meta={RUN_ID: run})
                except TypeError:
                    pytest.skip("this client sends no _meta")
                assert len(found[0]) == 1

    talk(guarded(TIME), mode, conversation)


def test_parallel_calls(mode: str, guarded: Callable[..., list[str]]) -> None:
    async def conversation(session: Any) -> None:
        found: dict[int, Any] = {}

        async def one(hour: int) -> None:
            found[hour] = await told(session, "convert_time", NOON | {"time": f"{hour:02}:00"})

        async with anyio.create_task_group() as group:
            for hour in range(24):
                group.start_soon(one, hour)
        assert all(f"T{hour:02}:00" in texts[0] and not failed for hour, (texts, failed) in found.items())

    talk(guarded(TIME), mode, conversation)


@contextmanager
def serving(*options: str) -> Iterator[str]:
    script = Path(__file__).parent / "mcp_http_server.py"
    with subprocess.Popen([sys.executable, script, *options], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"
        finally:
            server.kill()


@pytest.mark.parametrize("answers", ["events", "json", "kept"])
def test_a_loop_over_http(mode: str, answers: str, guarded: Callable[..., list[str]]) -> None:
    with serving(answers) as url:
        check_loop(talk(guarded(url), mode, lambda session: loop(session, "look", {"path": "a"})))


def test_progress_over_http(mode: str, guarded: Callable[..., list[str]]) -> None:
    async def conversation(session: Any) -> None:
        seen = []

        async def progress(now: float, total: float | None, _: str | None) -> None:
            seen.append((now, total))

        assert await told(session, "steps", {}, progress_callback=progress) == (["done"], False)
        if Client is not None:  # before 2.0 the server says it on another stream, sooner or later
            assert seen == [(0, 3), (1, 3), (2, 3)]

    with serving() as url:
        talk(guarded(url), mode, conversation)


def test_a_session_over_http(mode: str, guarded: Callable[..., list[str]]) -> None:
    """The same for all requests, none in the modern generation; that it is over is told."""

    async def conversation(session: Any) -> None:
        (first,), (second,) = [(await told(session, "session", {}))[0] for _ in range(2)]
        assert first == second
        assert (first == "None") is (mode != "legacy")
        if mode != "legacy":
            return
        async with httpx2.AsyncClient() as http:
            await http.delete(url, headers={"Mcp-Session-Id": first})
        texts, failed = await told(session, "look", {"path": "a"})
        assert failed
        assert "the session is over (HTTP 404)" in texts[0]

    with serving() as url:
        talk(guarded(url), mode, conversation)


def test_a_tool_that_asks_the_user_counts_once(mode: str, guarded: Callable[..., list[str]]) -> None:
    """In one generation by a request of the server, in the other by calling once more with the answer."""
    if Client is None:
        pytest.skip("from 2.0 on")
    with serving() as url:
        found = talk(guarded(url), mode, lambda session: loop(session, "greet", {}))
    assert found[0] == (["hello Ada"], False)
    check_loop(found)


def test_a_stream_that_breaks_off_goes_on(mode: str, guarded: Callable[..., list[str]]) -> None:
    if Client is None or mode != "legacy":
        pytest.skip("streams that go on are of the later versions with sessions")
    with serving("kept") as url:
        assert talk(guarded(url), mode, lambda session: told(session, "breaks", {})) == (["went on"], False)
