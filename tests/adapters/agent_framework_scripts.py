"""Agents of Microsoft Agent Framework that do what a script says."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    ResponseStream,
)

from loopwarden import LoopAborted
from loopwarden.adapters.agent_framework import ABILITIES, LoopGuardMiddleware
from tests.adapters.contract import Ask, Ran, Script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from loopwarden import LoopGuard


class Scripted(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """A client that follows a script and writes down what it is shown.

    Args:
        replies: The script.
        conversation_id: The service keeps the history under this id; it is sent only what is new.
        options: For the client.
    """

    def __init__(self, replies: list[list[Ask]], conversation_id: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.replies = replies
        self.conversation_id = conversation_id
        self.sent: list[int] = []  # messages in each request
        self.ran = Ran()
        self.function_invocation_configuration["max_consecutive_errors_per_request"] = 100

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Any, **kwargs: Any
    ) -> Any:
        contents = self._next(messages)
        if not stream:
            return self._awaited(contents)
        return ResponseStream(self._streamed(contents), finalizer=ChatResponse.from_updates)

    async def _awaited(self, contents: list[Content]) -> ChatResponse[Any]:
        return ChatResponse(messages=[Message("assistant", contents)], conversation_id=self.conversation_id)

    async def _streamed(self, contents: list[Content]) -> AsyncIterator[ChatResponseUpdate]:
        for content in contents:
            yield ChatResponseUpdate(
                contents=[content],
                role="assistant",
                message_id=f"m{self.ran.requests}",
                conversation_id=self.conversation_id,
            )

    def _next(self, messages: Sequence[Message]) -> list[Content]:
        self.sent.append(len(messages))
        for message in messages:
            for content in message.contents:
                if content.type == "function_result":
                    answers = self.ran.answers.setdefault(str(content.call_id), [])
                    if content.result not in answers:
                        answers.append(content.result)
        index, self.ran.requests = self.ran.requests, self.ran.requests + 1
        asked = self.replies[index] if index < len(self.replies) else []
        calls = [
            Content.from_function_call(ask.call_id, ask.tool, arguments=json.dumps({"query": ask.query}))
            for ask in asked
        ]
        return calls or [Content.from_text("done")]


def compacting(before: int) -> Any:
    """A strategy that compacts before one request."""
    requests = 0

    async def strategy(messages: list[Message]) -> bool:
        nonlocal requests
        requests += 1
        if requests != before + 1:
            return False
        del messages[:-2]
        return True

    return strategy


class AgentFramework:
    abilities = ABILITIES
    errors_are_text = False
    survives_errors = True
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        scripted = Scripted(script.replies)
        strategy = None if script.compact_before is None else compacting(script.compact_before)
        tools = [FunctionTool(name=name, func=function) for name, function in script.tools.items()]
        return asyncio.run(ran(scripted, guard, tools, self.way == "stream", compaction_strategy=strategy))


def look(function: Any, **options: Any) -> FunctionTool:
    """The tool that most scripts ask for."""
    return FunctionTool(name="look", func=function, **options)


async def ran(
    scripted: Scripted,
    guard: LoopGuard | None,
    tools: Sequence[FunctionTool],
    stream: bool = False,
    **options: Any,
) -> Ran:
    """One run of an agent with this client."""
    middleware = [] if guard is None else [LoopGuardMiddleware(guard)]
    agent = Agent(scripted, tools=list(tools), middleware=middleware, **options)
    found = scripted.ran
    try:
        if stream:
            found.text = (await agent.run("go", stream=True).get_final_response()).text
        else:
            found.text = (await agent.run("go")).text
    except LoopAborted as aborted:
        found.raised = found.aborted = aborted
    except Exception as error:  # noqa: BLE001 - whatever the run raised
        found.raised = error
    return found


def run(
    guard: LoopGuard | None, tool: Callable[..., Any], replies: list[list[Ask]], **options: Any
) -> Scripted:
    """One run with one tool, named `look`."""
    scripted = Scripted(replies)
    asyncio.run(ran(scripted, guard, [look(tool)], **options))
    return scripted
