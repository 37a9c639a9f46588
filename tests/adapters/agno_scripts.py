"""Agents of Agno that do what a script says."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agno.agent import Agent
from agno.compaction import Compaction
from agno.exceptions import ContextWindowExceededError
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.run import RunStatus

from loopwarden import LoopAborted
from loopwarden.adapters.agno import ABILITIES, guard_agent, raise_if_aborted
from tests.adapters.contract import Ask, Ran, Script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from loopwarden import LoopGuard
    from tests.adapters.writing_guard import WritingGuard

PROMPT = [
    Message(role="user", content="Remember this. " * 500),
    Message(role="assistant", content="I do."),
    Message(role="user", content="go"),
]
"""With something that can be compacted."""


@dataclass
class Scripted(Model):
    """A model that follows a script and writes down what it is shown; one request may be too long."""

    id: str = "scripted"
    replies: list[list[Any]] = field(default_factory=list)
    overflows_at: int | None = None
    ran: Ran = field(default_factory=Ran)

    def __deepcopy__(self, memo: dict[int, Any]) -> Scripted:
        return self

    def invoke(self, messages: Any, *arguments: Any, **options: Any) -> ModelResponse:
        if self.overflows_at == self.ran.requests:
            self.overflows_at = None
            raise ContextWindowExceededError("too long")
        for message in messages:
            if message.role == "tool":
                answers = self.ran.answers.setdefault(message.tool_call_id, [])
                if message.content not in answers:
                    answers.append(message.content)
        index = self.ran.requests
        self.ran.requests += 1
        asked = self.replies[index] if index < len(self.replies) else []
        if not asked:
            return ModelResponse(role="assistant", content="done")
        return ModelResponse(role="assistant", tool_calls=[call_of(ask) for ask in asked])

    async def ainvoke(self, *arguments: Any, **options: Any) -> ModelResponse:
        return self.invoke(*arguments, **options)

    def invoke_stream(self, *arguments: Any, **options: Any) -> Iterator[ModelResponse]:
        yield self.invoke(*arguments, **options)

    async def ainvoke_stream(self, *arguments: Any, **options: Any) -> AsyncIterator[ModelResponse]:
        yield self.invoke(*arguments, **options)

    def _parse_provider_response(self, response: Any, **options: Any) -> Any:
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:
        return response


def call_of(ask: Ask | dict[str, Any]) -> dict[str, Any]:
    """The call as a provider writes it."""
    if isinstance(ask, dict):
        return ask
    return raw(ask.tool, ask.call_id, json.dumps({"query": ask.query}))


def raw(tool: str, call_id: str | None, arguments: str) -> dict[str, Any]:
    """A call with arguments of any shape."""
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}


def look(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}"


class Agno:
    abilities = ABILITIES
    errors_are_text = False
    survives_errors = True
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        model = Scripted(replies=script.replies, overflows_at=script.compact_before)
        agent = Agent(model=model, tools=list(script.tools.values()), telemetry=False)
        if script.compact_before is not None:
            agent.compaction = Compaction(model=Scripted(), on_context_overflow=True)
        if guard is not None:
            guard_agent(agent, guard)
        status, model.ran.text, run = self._ended(agent)
        assert status == (RunStatus.completed if model.ran.text is not None else RunStatus.cancelled)
        try:
            raise_if_aborted(run)
        except LoopAborted as aborted:
            model.ran.aborted = aborted
        return model.ran

    def _ended(self, agent: Agent) -> Any:
        """Status, answer, and what the run gave."""
        if self.way == "sync":
            return ended(agent.run(PROMPT))
        if self.way == "stream":
            return ended(list(agent.run(PROMPT, stream=True, stream_events=True, yield_run_output=True))[-1])
        return asyncio.run(self._awaited(agent))

    async def _awaited(self, agent: Agent) -> Any:
        if self.way == "async":
            return ended(await agent.arun(PROMPT))
        events = agent.arun(PROMPT, stream=True, stream_events=True, yield_run_output=True)
        return ended([event async for event in events][-1])


def ended(run: Any) -> tuple[Any, str | None, Any]:
    return run.status, run.content if run.status == RunStatus.completed else None, run


LADDER = [*["allow"] * 3, "warn", "warn", "block"]
"""What the guard says to six equal calls."""


def actions(guard: WritingGuard) -> list[str]:
    return [told.verdict.action for told in guard.of("before")]


def messages(guard: WritingGuard) -> tuple[str, str]:
    """The warning and the refusal of six equal calls."""
    warning, refusal = (guard.of("before")[index].verdict.message or "?" for index in (3, 5))
    return warning, refusal
