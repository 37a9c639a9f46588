"""Agents of Pydantic AI that do what a script says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability, ProcessHistory
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tools import Tool

from loopwarden import LoopAborted
from loopwarden.adapters.pydantic_ai import ABILITIES, GuardCapability
from tests.adapters.contract import Ask, Ran, Script, WritingGuard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from loopwarden import LoopGuard


class Scripted:
    """A model that follows a script and writes down what it is shown."""

    def __init__(self, replies: list[list[Ask]]) -> None:
        self.replies = replies
        self.ran = Ran()
        self.history: list[ModelMessage] = []

    def next(self, messages: list[ModelMessage]) -> list[Ask]:
        self.history = list(messages)
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    answers = self.ran.answers.setdefault(part.tool_call_id, [])
                    text = part.model_response_str()
                    if text not in answers:
                        answers.append(text)
        index, self.ran.requests = self.ran.requests, self.ran.requests + 1
        return self.replies[index] if index < len(self.replies) else []

    def reply(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        calls = [ToolCallPart(ask.tool, {"query": ask.query}, ask.call_id) for ask in self.next(messages)]
        return ModelResponse(parts=calls or [TextPart("done")])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        asked = self.next(messages)
        for index, ask in enumerate(asked):
            arguments = f'{{"query": "{ask.query}"}}'
            yield {index: DeltaToolCall(name=ask.tool, json_args=arguments, tool_call_id=ask.call_id)}
        if not asked:
            yield "done"

    def model(self) -> FunctionModel:
        return FunctionModel(self.reply, stream_function=self.stream)


class Compacting:
    """A history processor that compacts before one request, with or without a mark."""

    def __init__(self, before: int, *, marks: bool) -> None:
        self.before = before
        self.marks = marks
        self.requests = 0

    def __call__(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        self.requests += 1
        if self.requests != self.before + 1:
            return messages
        summary: list[ModelMessage] = [ModelRequest(parts=[CompactionPart("so far")])] if self.marks else []
        return [*summary, *messages[-2:]]


class PydanticAI:
    abilities = ABILITIES
    errors_are_text = False
    survives_errors = False
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        scripted = Scripted(script.replies)
        capabilities: list[AbstractCapability[Any]] = []
        if script.compact_before is not None:
            capabilities.append(ProcessHistory(Compacting(script.compact_before, marks=self.way == "async")))
        if guard is not None:
            capabilities.append(GuardCapability(guard))
        tools = [Tool(function, name=name) for name, function in script.tools.items()]
        agent = Agent(scripted.model(), tools=tools, capabilities=capabilities, retries=20)
        ran = scripted.ran
        try:
            ran.text = self._text(agent)
        except LoopAborted as aborted:
            ran.raised = ran.aborted = aborted
        except Exception as error:  # noqa: BLE001 - whatever the run raised
            ran.raised = error
        return ran

    def _text(self, agent: Agent) -> str:
        if self.way == "sync":
            return agent.run_sync("go").output
        return asyncio.run(self._awaited(agent))

    async def _awaited(self, agent: Agent) -> str:
        if self.way == "async":
            return (await agent.run("go")).output
        async with agent.run_stream("go") as result:
            return await result.get_output()


def run(guard: WritingGuard, tool: Callable[..., Any], replies: list[list[Ask]], **options: Any) -> Scripted:
    """One run with one tool, named `look`."""
    scripted = Scripted(replies)
    options.setdefault("capabilities", [GuardCapability(guard)])
    agent = Agent(scripted.model(), tools=[Tool(tool, name="look")], retries=20, **options)
    try:
        scripted.ran.text = agent.run_sync("go").output
    except LoopAborted as aborted:
        scripted.ran.aborted = aborted
    return scripted


def notes(scripted: Scripted) -> list[str]:
    """What the model was told beside the results."""
    prompts = [
        part for message in scripted.history for part in message.parts if isinstance(part, UserPromptPart)
    ]
    return [str(prompt.content) for prompt in prompts[1:]]
