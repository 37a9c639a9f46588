"""Agents of Google ADK that do what a script says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from pydantic import PrivateAttr

from loopwarden.adapters.adk import ABILITIES, GuardPlugin, loop_aborted, unwrapped
from tests.adapters.contract import Ask, Ran, Script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from loopwarden import LoopGuard

USER = "someone"


def text_of(response: dict[str, Any]) -> str:
    """What the model reads of a function's response."""
    return "\n".join(str(value) for value in response.values())


class Scripted(BaseLlm):
    """A model that follows a script and writes down what it is shown."""

    model: str = "scripted"
    replies: list[list[Ask]]
    _ran: Ran = PrivateAttr(default_factory=Ran)
    _responses: dict[str, dict[str, Any]] = PrivateAttr(default_factory=dict)

    @property
    def ran(self) -> Ran:
        return self._ran

    @property
    def responses(self) -> dict[str, dict[str, Any]]:
        """The last response of each call, as it is."""
        return self._responses

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        for content in llm_request.contents:
            for part in content.parts or []:
                found = part.function_response
                if found is not None:
                    self._responses[found.id] = found.response
                    answers = self._ran.answers.setdefault(found.id, [])
                    if text_of(found.response) not in answers:
                        answers.append(text_of(found.response))
        index, self._ran.requests = self._ran.requests, self._ran.requests + 1
        asked = self.replies[index] if index < len(self.replies) else []
        calls = [
            types.Part(
                function_call=types.FunctionCall(id=ask.call_id, name=ask.tool, args={"query": ask.query})
            )
            for ask in asked
        ]
        parts = calls or [types.Part(text="done")]
        if stream:
            partial = types.Content(role="model", parts=[types.Part(text="hm")])
            yield LlmResponse(content=partial, partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=parts))


class Compacting(BaseEventsSummarizer):
    """Compacts before one request."""

    def __init__(self, model: Scripted, before: int) -> None:
        self.model = model
        self.before = before

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
        if self.model.ran.requests != self.before:
            return None
        summary = EventCompaction(
            start_timestamp=events[0].timestamp,
            end_timestamp=events[-1].timestamp,
            compacted_content=types.Content(role="model", parts=[types.Part(text="so far")]),
        )
        actions = EventActions(compaction=summary)
        return Event(author="user", invocation_id=Event.new_id(), actions=actions)


def agent_of(name: str, replies: list[list[Ask]], *tools: Any, **options: Any) -> LlmAgent:
    """An agent with a model that follows a script."""
    return LlmAgent(name=name, model=Scripted(replies=replies), tools=list(tools), **options)


def runner_of(agent: Any, *plugins: Any, **options: Any) -> InMemoryRunner:
    """A runner of an app with one agent."""
    return InMemoryRunner(app=App(name="scripts", root_agent=agent, plugins=list(plugins), **options))


async def session_of(runner: InMemoryRunner) -> str:
    """A fresh session."""
    session = await runner.session_service.create_session(app_name=runner.app_name, user_id=USER)
    return str(session.id)


def said(*parts: Any) -> types.Content:
    """What a person says; by default, that it shall begin."""
    return types.Content(role="user", parts=list(parts) or [types.Part(text="go")])


async def events_of(
    runner: InMemoryRunner, session_id: str, message: Any = None, **options: Any
) -> list[Event]:
    """One run, to its end."""
    run = runner.run_async(
        user_id=USER, session_id=session_id, new_message=message if message is not None else said(), **options
    )
    return [event async for event in run]


def run(runner: InMemoryRunner) -> list[Event]:
    """One run in a fresh session; an aborted one raises `LoopAborted`."""

    async def awaited() -> list[Event]:
        return await events_of(runner, await session_of(runner))

    with unwrapped():
        return asyncio.run(awaited())


def spoken(events: list[Event]) -> str | None:
    """The last text that is no part of one."""
    texts = [
        part.text
        for event in events
        if not event.partial and event.content is not None
        for part in event.content.parts or []
        if part.text
    ]
    return texts[-1] if texts else None


class Adk:
    abilities = ABILITIES
    errors_are_text = False
    survives_errors = False
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        model = Scripted(replies=script.replies)
        agent = LlmAgent(name="finder", model=model, tools=list(script.tools.values()))
        options: dict[str, Any] = {}
        if script.compact_before is not None:
            options["events_compaction_config"] = EventsCompactionConfig(
                summarizer=Compacting(model, script.compact_before), token_threshold=1, event_retention_size=2
            )
        runner = runner_of(agent, *([] if guard is None else [GuardPlugin(guard)]), **options)
        ran = model.ran
        try:
            ran.text = spoken(self._events(runner))
        except Exception as error:  # noqa: BLE001 - whatever the run raised
            ran.raised = error
            ran.aborted = loop_aborted(error)
        return ran

    def _events(self, runner: InMemoryRunner) -> list[Event]:
        if self.way == "sync":
            session_id = asyncio.run(session_of(runner))
            return list(runner.run(user_id=USER, session_id=session_id, new_message=said()))
        mode = StreamingMode.SSE if self.way == "stream" else StreamingMode.NONE
        return asyncio.run(self._awaited(runner, RunConfig(streaming_mode=mode)))

    async def _awaited(self, runner: InMemoryRunner, config: RunConfig) -> list[Event]:
        return await events_of(runner, await session_of(runner), run_config=config)
