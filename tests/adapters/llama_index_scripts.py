"""Agents of LlamaIndex that do what a script says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool

from loopwarden import LoopAborted
from loopwarden.adapters.llama_index import ABILITIES, guard_agent
from tests.adapters.contract import Ask, Ran, Script

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from loopwarden import LoopGuard
    from tests.adapters.writing_guard import WritingGuard

HISTORY = [
    ChatMessage(role=role, content="Remember this. " * 50) for _ in range(5) for role in ("user", "assistant")
]
"""Something that can be cut off."""


class Scripted:
    """What a model says: it follows a script and writes down what it is shown.

    Args:
        replies: What it asks for, reply by reply.
        cuts: Called before a reply, with its index.
    """

    def __init__(self, replies: list[list[Ask]], cuts: Callable[[int], None] | None = None) -> None:
        self.replies = replies
        self.cuts = cuts
        self.ran = Ran()
        self.llm = MockFunctionCallingLLM(response_generator=self.say)

    def say(self, messages: Sequence[ChatMessage], **options: Any) -> ChatMessage:
        for message in messages:
            if message.role == "tool":
                answers = self.ran.answers.setdefault(message.additional_kwargs["tool_call_id"], [])
                if (message.content or "") not in answers:
                    answers.append(message.content or "")
        index, self.ran.requests = self.ran.requests, self.ran.requests + 1
        if self.cuts is not None:
            self.cuts(index)
        asked = self.replies[index] if index < len(self.replies) else []
        if not asked:
            return ChatMessage(role="assistant", blocks=[TextBlock(text="done")])
        return ChatMessage(role="assistant", blocks=[call_of(ask) for ask in asked])


def call_of(ask: Ask | ToolCallBlock) -> ToolCallBlock:
    if isinstance(ask, ToolCallBlock):
        return ask
    return ToolCallBlock(tool_call_id=ask.call_id, tool_name=ask.tool, tool_kwargs={"query": ask.query})


class LlamaIndex:
    abilities = ABILITIES
    errors_are_text = False
    survives_errors = True
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        memory = ChatMemoryBuffer.from_defaults(token_limit=100_000)

        def cut(index: int) -> None:
            if script.compact_before == index + 1:
                memory.token_limit = 300

        model = Scripted(script.replies, cut)
        tools = [FunctionTool.from_defaults(tool) for tool in script.tools.values()]
        agent: Any = FunctionAgent(tools=tools, llm=model.llm, streaming=self.way != "plain")
        if self.way == "workflow":
            agent = AgentWorkflow(agents=[agent])
        if guard is not None:
            guard_agent(agent, guard)
        ran = model.ran
        try:
            ran.text = asyncio.run(answer(agent, chat_history=[*HISTORY], memory=memory))
        except LoopAborted as aborted:
            ran.raised = ran.aborted = aborted
        except Exception as error:  # noqa: BLE001 - whatever the run raised
            ran.raised = error
        return ran


async def answer(agent: Any, prompt: str = "go", **options: Any) -> str:
    """One run, its stream read."""
    handler = agent.run(prompt, **options)
    async for _ in handler.stream_events():
        pass
    return str(await handler)


def look(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}"


LADDER = [*["allow"] * 3, "warn", "warn", "block"]
"""What the guard says to six equal calls."""


def actions(guard: WritingGuard) -> list[str]:
    return [told.verdict.action for told in guard.of("before")]


def messages(guard: WritingGuard) -> tuple[str, str]:
    """The warning and the refusal of six equal calls."""
    warning, refusal = (guard.of("before")[index].verdict.message or "?" for index in (3, 5))
    return warning, refusal


def agent_of(model: Scripted, tools: list[Any], guard: WritingGuard | None, **options: Any) -> FunctionAgent:
    agent = FunctionAgent(tools=tools, llm=model.llm, **options)
    return agent if guard is None else guard_agent(agent, guard)


def go(agent: Any, **options: Any) -> str:
    return asyncio.run(answer(agent, **options))
