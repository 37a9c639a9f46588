"""The scripted model for the Claude Agent SDK: its own command line tool against a server on loopback."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ResultMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

from loopwarden import LoopAborted
from loopwarden.adapters.claude_agent_sdk import ABILITIES, LoopGuardHooks
from tests.adapters.anthropic_server import AnthropicServer, Reply, calling
from tests.adapters.contract import Ran, Script
from tests.adapters.writing_guard import CONFIG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from claude_agent_sdk import Message

    from loopwarden import LoopGuard
    from tests.adapters.anthropic_server import Request
    from tests.adapters.contract import Ask
    from tests.adapters.writing_guard import WritingGuard

FULL: Final = 99_000
"""A request of that many tokens makes the host compact before the next one."""

LADDER: Final = [*["allow"] * 3, "warn", "warn", "block"]
"""What the guard says to six equal calls."""

ABORTING: Final = CONFIG | {"onCritical": "abort"}


class Claude:
    abilities = ABILITIES
    errors_are_text = False
    survives_errors = True
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        hooks = LoopGuardHooks(guard) if guard is not None else None
        ran = Ran()
        with AnthropicServer(replies_of(script)) as server, tempfile.TemporaryDirectory() as folder:
            options = options_of(server, Path(folder), script.tools.values())
            if hooks is not None:
                options = hooks.added_to(options)
            results: list[ResultMessage] = []
            try:
                asyncio.run(asyncio.wait_for(self._read(options, hooks, results), 60))
            except LoopAborted as aborted:
                ran.raised = ran.aborted = aborted
        (result,) = results
        ran.text = result.result if result.terminal_reason == "completed" else None
        answered = [request for request in server.requests if not request.asks_for_summary]
        ran.requests = len(answered)
        for request in answered:
            for call_id, text in request.answers.items():
                if text not in ran.answers.setdefault(call_id, []):
                    ran.answers[call_id].append(text)
        return ran

    async def _read(
        self, options: ClaudeAgentOptions, hooks: LoopGuardHooks | None, results: list[ResultMessage]
    ) -> None:
        if self.way == "query":
            await read(query(prompt="go", options=options), hooks, results)
            return
        async with ClaudeSDKClient(options) as client:
            await client.query("go")
            await read(client.receive_response(), hooks, results)


async def read(
    messages: AsyncIterator[Message], hooks: LoopGuardHooks | None, results: list[ResultMessage]
) -> None:
    """All messages; the last ones of runs are kept."""
    watched = messages if hooks is None else hooks.watch(messages)
    async for message in watched:
        results += [message] if isinstance(message, ResultMessage) else []


def replies_of(script: Script) -> list[Reply]:
    """The script as the server has it: what is compacted is a history that got too long."""
    return [
        Reply([asked(ask) for ask in reply], FULL if number + 1 == script.compact_before else 10)
        for number, reply in enumerate(script.replies)
    ]


def asked(ask: Ask) -> dict[str, Any]:
    return calling(ask.tool, {"query": ask.query}, ask.call_id)


def options_of(
    server: AnthropicServer, folder: Path, tools: Iterable[Callable[[str], str]] = (), **more: Any
) -> ClaudeAgentOptions:
    """Options for a session that knows nothing but the server and the tools, with their names as they are."""
    environment = server.environment(folder) | {"CLAUDE_AGENT_SDK_MCP_NO_PREFIX": "1"}
    own = create_sdk_mcp_server("own", tools=[tool_of(function) for function in tools])
    allowed = more.pop("allowed_tools", ["mcp__own__*"])
    return ClaudeAgentOptions(
        cwd=folder,
        env=environment,
        setting_sources=[],
        mcp_servers={"own": own},
        allowed_tools=allowed,
        **more,
    )


def tool_of(function: Callable[[str], str]) -> Any:
    """A function as a tool of the host."""

    async def handler(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": function(arguments["query"])}]}

    return tool(function.__name__, function.__doc__ or "", {"query": str})(handler)


# --- a client, turn by turn


@dataclass(slots=True)
class Talk:
    """What came of prompts to one client.

    Attributes:
        requests: What the model was asked, without summaries.
        results: The last message of each turn.
        aborted: The signal of each turn; `None` where it was not ended.
    """

    requests: list[Request] = field(default_factory=list)
    results: list[ResultMessage] = field(default_factory=list)
    aborted: list[LoopAborted | None] = field(default_factory=list)

    @property
    def answers(self) -> dict[str, str]:
        """What the model read last as the result of each call."""
        found: dict[str, str] = {}
        for request in self.requests:
            found |= request.answers
        return found


def talk(
    hooks: LoopGuardHooks,
    script: Any,
    /,
    *prompts: str,
    tools: Iterable[Callable[[str], str]] = (),
    folder: Path | None = None,
    **options: Any,
) -> Talk:
    """Say the prompts to a client, one after the other."""
    seen = Talk()

    async def turns(client: ClaudeSDKClient) -> None:
        for prompt in prompts or ("go",):
            await client.query(prompt)
            seen.aborted.append(await signal_of(read(client.receive_response(), hooks, seen.results)))

    with AnthropicServer(script) as server, tempfile.TemporaryDirectory() as made:
        own = options_of(server, folder or Path(made), tools, **options)
        asyncio.run(asyncio.wait_for(with_client(hooks.added_to(own), turns), 60))
        seen.requests = [request for request in server.requests if not request.asks_for_summary]
    return seen


async def with_client(
    options: ClaudeAgentOptions, function: Callable[[ClaudeSDKClient], Awaitable[None]]
) -> None:
    """Connect, do that, disconnect."""
    async with ClaudeSDKClient(options) as client:
        await function(client)


async def signal_of(reading: Awaitable[None]) -> LoopAborted | None:
    """What ended the run, if the guard did."""
    try:
        await reading
    except LoopAborted as aborted:
        return aborted
    return None


def look(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}"


def looks(count: int, first: int = 1) -> list[list[dict[str, Any]]]:
    """`count` replies, each asks once for the same."""
    return [[calling("look", {"query": "a"}, f"c{number}")] for number in range(first, first + count)]


def actions(guard: WritingGuard) -> list[str]:
    """What the guard said to the calls, in order."""
    return [told.verdict.action for told in guard.of("before")]
