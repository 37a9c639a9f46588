"""Crews of CrewAI that do what a script says, and tell nobody about it."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile

# The host reads these when it is imported.
os.environ["OTEL_SDK_DISABLED"] = "true"
os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["CREWAI_DISABLE_VERSION_CHECK"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any
from unittest import mock

import crewai.utilities.agent_utils
from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool
from crewai.utilities.exceptions.context_window_exceeding_exception import LLMContextLengthExceededError
from pydantic import PrivateAttr

from loopwarden import LoopAborted
from loopwarden.adapters.crewai import ABILITIES, guarded
from tests.adapters.contract import Ask, Ran, Script

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden import LoopGuard

STORAGE = tempfile.TemporaryDirectory(prefix="loopwarden-crewai-", ignore_cleanup_errors=True)
os.environ["CREWAI_STORAGE_DIR"] = STORAGE.name


class Scripted(BaseLLM):
    """A model that follows a script and writes down what it is shown.

    Args:
        replies: What it asks for, reply by reply.
        compact_before: The request before which it says that the history has become too long.
        overflows_at: The request that it says was too long.
        native: Whether it calls tools by structure; else by text.
        hooked: Whether it calls the host's hooks by itself, as the models that come with the host do.
    """

    _replies: list[list[Ask]] = PrivateAttr()
    _compact_before: int | None = PrivateAttr()
    _overflows_at: int | None = PrivateAttr()
    _native: bool = PrivateAttr()
    _hooked: bool = PrivateAttr()
    _ran: Ran = PrivateAttr(default_factory=Ran)

    def __init__(
        self,
        replies: list[list[Ask]],
        *,
        compact_before: int | None = None,
        overflows_at: int | None = None,
        native: bool = True,
        hooked: bool = False,
    ) -> None:
        super().__init__(model="scripted")
        self._replies = replies
        self._compact_before = compact_before
        self._overflows_at = overflows_at
        self._native = native
        self._hooked = hooked

    @property
    def ran(self) -> Ran:
        return self._ran

    def supports_function_calling(self) -> bool:
        return self._native

    def get_context_window_size(self) -> int:
        return 1_000_000

    def get_input_tokens_count(self, messages: Any, *args: Any, **options: Any) -> int:
        if isinstance(messages, list) and self._compact_before == self._ran.requests:  # no single result
            self._compact_before = None
            return 2_000_000
        return 1

    def call(self, messages: Any, *args: Any, **options: Any) -> Any:
        if options.get("from_agent") is None:  # a request for a summary
            return "<summary>much was looked up</summary>"
        if self._hooked:
            self._invoke_before_llm_call_hooks(messages, options["from_agent"])
        if self._overflows_at == self._ran.requests:
            self._overflows_at = None
            raise LLMContextLengthExceededError("context length exceeded")
        asked = self._next(messages)
        if not asked:
            return "done" if self._native else "Thought: enough\nFinal Answer: done"
        if not self._native:
            (ask,) = asked
            return f'Thought: hm\nAction: {ask.tool}\nAction Input: {{"query": "{ask.query}"}}'
        return [call_of(ask.call_id, ask.tool, query=ask.query) for ask in asked]

    async def acall(self, *args: Any, **options: Any) -> Any:
        return self.call(*args, **options)

    def _next(self, messages: Any) -> list[Ask]:
        index = self._ran.requests
        self._ran.requests = index + 1
        for message in messages:
            if message["role"] == "tool":
                self._heard(message["tool_call_id"], message["content"])
        if not self._native and 0 < index <= len(self._replies):
            self._heard(self._replies[index - 1][0].call_id, _observed(messages))
        return self._replies[index] if index < len(self._replies) else []

    def _heard(self, call_id: str, text: str) -> None:
        answers = self._ran.answers.setdefault(call_id, [])
        if text not in answers:
            answers.append(text)


def call_of(call_id: str, name: str, **arguments: str) -> dict[str, Any]:
    """A call as a model's reply holds it."""
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


def _observed(messages: Any) -> str:
    """What a model that is told in text reads last of a tool."""
    texts = [message["content"] for message in messages if message["role"] == "assistant"]
    return str(texts[-1]).rpartition("Observation: ")[2] if texts else ""


class CrewAI:
    abilities = ABILITIES
    errors_are_text = False
    survives_errors = True
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        model = Scripted(script.replies, compact_before=script.compact_before)
        crew = crew_of(model, list(script.tools.values()), stream=self.way == "stream")
        watched: AbstractContextManager[None] = guarded(guard) if guard is not None else nullcontext()
        ran = model.ran
        with mock.patch.object(crewai.utilities.agent_utils, "MAX_REPEATED_TOOL_CALLS", 100), watched:
            try:
                ran.text = self._text(crew)
            except LoopAborted as aborted:
                ran.raised = ran.aborted = aborted
            except Exception as error:  # noqa: BLE001 - whatever the run raised
                ran.raised = error
        return ran

    def _text(self, crew: Crew) -> str:
        if self.way == "sync":
            return str(crew.kickoff())
        if self.way == "thread":
            return str(asyncio.run(_awaited(crew.kickoff_async())))
        if self.way == "async":
            return str(asyncio.run(_awaited(crew.akickoff())))
        output = crew.kickoff()
        for _ in output:
            pass
        return str(output.result)


async def _awaited(kickoff: Any) -> Any:
    return await kickoff


def tools_of(functions: list[Callable[..., Any]]) -> list[Any]:
    return [tool(function.__name__)(function) for function in functions]


def look(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}"


def attempt(guard: LoopGuard, kickoff: Callable[[], Any]) -> Any:
    """What comes of it under the guard: a result, or the signal."""
    try:
        with guarded(guard):
            return kickoff()
    except LoopAborted as aborted:
        return aborted


def agent_of(
    model: BaseLLM, functions: list[Callable[..., Any]], role: str = "Finder", **options: Any
) -> Agent:
    """An agent that keeps no results, so that equal calls are run."""
    return Agent(
        role=role,
        goal="find it",
        backstory="a finder",
        llm=model,
        tools=tools_of(functions),
        **{"cache": False, "verbose": False, "max_iter": 50} | options,
    )


def task_of(agent: Agent | None, **options: Any) -> Task:
    return Task(description="Find it.", expected_output="it", agent=agent, **options)


def crew_with(*tasks: Task, **options: Any) -> Crew:
    """A crew of the agents of the tasks."""
    agents = [task.agent for task in tasks]
    return Crew(agents=agents, tasks=list(tasks), **{"cache": False, "verbose": False} | options)


def crew_of(model: BaseLLM, functions: list[Callable[..., Any]], **options: Any) -> Crew:
    """A crew of one agent with one task."""
    return crew_with(task_of(agent_of(model, functions)), **options)
