"""Agents of AG2 that do what a script says."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from ag2 import Agent, KnowledgeConfig
from ag2.compact import CompactTrigger, TailWindowCompact
from ag2.config import LLMClient, ModelConfig
from ag2.events import (
    ModelMessage,
    ModelMessageChunk,
    ModelResponse,
    TextInput,
    ToolCallEvent,
    ToolCallsEvent,
    ToolResultsEvent,
)
from ag2.knowledge import MemoryKnowledgeStore
from ag2.stream import MemoryStream

from loopwarden import LoopAborted
from loopwarden.adapters.ag2 import ABILITIES, LoopGuardMiddleware
from tests.adapters.contract import Ask, Ran, Script
from tests.adapters.writing_guard import CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ag2.events import BaseEvent

    from loopwarden import LoopGuard
    from tests.adapters.writing_guard import WritingGuard


ABORTING = CONFIG | {"onCritical": "abort"}
LADDER = [*["allow"] * 3, "warn", "warn", "block"]
"""What is said to six equal calls with equal outcomes."""


def look(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}"


def actions(guard: WritingGuard) -> list[str]:
    return [told.verdict.action for told in guard.of("before")]


class Scripted(ModelConfig, LLMClient):
    """A model that follows a script and writes down what it is shown."""

    def __init__(self, replies: Sequence[list[Ask] | str]) -> None:
        self.replies = replies
        self.ran = Ran()

    provider = model = None

    def copy(self) -> Scripted:
        return self

    def create(self) -> Scripted:
        return self

    def create_files_client(self) -> Any:
        raise NotImplementedError

    async def __call__(self, messages: Sequence[BaseEvent], context: Any, **options: Any) -> ModelResponse:
        for event in messages:
            for result in event.results if isinstance(event, ToolResultsEvent) else ():
                text = "\n".join(shown(part) for part in result.result.parts)
                answers = self.ran.answers.setdefault(result.parent_id, [])
                if text not in answers:
                    answers.append(text)
        index, self.ran.requests = self.ran.requests, self.ran.requests + 1
        reply = self.replies[index] if index < len(self.replies) else "done"
        if isinstance(reply, str):
            await context.send(ModelMessageChunk(reply))
            return ModelResponse(ModelMessage(reply))
        return ModelResponse(tool_calls=ToolCallsEvent([call_of(ask) for ask in reply]))


def shown(part: Any) -> str:
    """A part of a result as a model reads it."""
    return part.content if isinstance(part, TextInput) else str(getattr(part, "data", part))


def call_of(ask: Ask) -> ToolCallEvent:
    return ToolCallEvent(ask.tool, id=ask.call_id, arguments=json.dumps({"query": ask.query}))


class Ag2:
    abilities = ABILITIES
    errors_are_text = False
    survives_errors = True
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        replies: list[list[Ask] | str] = [*script.replies]
        if script.compact_before is not None:
            replies.insert(script.compact_before, "and on")
        model = Scripted(replies)
        agent = agent_of(
            model,
            script.tools.values(),
            [] if guard is None else [LoopGuardMiddleware(guard)],
            knowledge=compacting() if script.compact_before is not None else None,
        )
        return asyncio.run(self._ran(agent, model, 1 if script.compact_before is None else 2))

    async def _ran(self, agent: Agent, model: Scripted, turns: int) -> Ran:
        stream = MemoryStream()
        try:
            for _ in range(turns):
                model.ran.text = None
                model.ran.text = await self._text(agent, stream)
        except LoopAborted as aborted:
            model.ran.raised = model.ran.aborted = aborted
        except Exception as error:  # noqa: BLE001 - whatever the run raised
            model.ran.raised = error
        return model.ran

    async def _text(self, agent: Agent, stream: MemoryStream) -> str | None:
        if self.way == "ask":
            return (await agent.ask("go", stream=stream)).body
        async with agent.run("go", stream=stream) as run:
            if self.way == "run":
                return (await run.result()).body
            with run.stream.where(ModelMessageChunk).join(max_events=1) as chunks:
                run.start()
                last = asyncio.ensure_future(anext(chunks))
                reply = await run.result()
                assert (await last).content == reply.body
                return reply.body


def compacting() -> KnowledgeConfig:
    """The history is compacted when a turn is over."""
    return KnowledgeConfig(
        store=MemoryKnowledgeStore(),
        compact=TailWindowCompact(3),
        compact_trigger=CompactTrigger(max_events=4),
        bootstrap=None,
    )


def agent_of(
    model: Scripted, tools: Iterable[Callable[..., Any]], middleware: list[Any], **options: Any
) -> Agent:
    return Agent("scripted", config=model, tools=[*tools], middleware=middleware, **options)


def run(model: Scripted, agent: Agent, **options: Any) -> Any:
    """One turn; its reply, `None` if it was aborted."""

    async def turn() -> Any:
        return await agent.ask("go", **options)

    try:
        return asyncio.run(turn())
    except LoopAborted as aborted:
        model.ran.raised = model.ran.aborted = aborted
        return None
