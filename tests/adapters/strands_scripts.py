"""Agents of Strands that do what a script says."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from strands import Agent, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.hooks import BeforeModelCallEvent, HookProvider
from strands.models import Model
from strands.types.exceptions import ContextWindowOverflowException

from loopwarden import LoopAborted
from loopwarden.adapters.strands import ABILITIES, LoopGuardHooks
from tests.adapters.contract import Ask, Ran, Script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from strands.hooks import HookRegistry

    from loopwarden import LoopGuard


class Scripted(Model):
    """A model that follows a script and writes down what it is shown; one request may be too long."""

    def __init__(self, replies: list[list[Ask]], *, overflows_at: int | None = None) -> None:
        self.replies = replies
        self.overflows_at = overflows_at
        self.ran = Ran()

    def update_config(self, **model_config: Any) -> None:
        """There is nothing to configure."""

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        if self.overflows_at == self.ran.requests:
            self.overflows_at = None
            raise ContextWindowOverflowException("too long")
        asked = self._next(messages)
        yield {"messageStart": {"role": "assistant"}}
        for ask in asked:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": ask.tool, "toolUseId": ask.call_id}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"query": ask.query})}}}}
            yield {"contentBlockStop": {}}
        if not asked:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if asked else "end_turn"}}

    def _next(self, messages: Any) -> list[Ask]:
        for message in messages:
            for block in message["content"]:
                if "toolResult" in block:
                    result = block["toolResult"]
                    text = "\n".join(part.get("text", repr(part)) for part in result["content"])
                    answers = self.ran.answers.setdefault(result["toolUseId"], [])
                    if text not in answers:
                        answers.append(text)
        index, self.ran.requests = self.ran.requests, self.ran.requests + 1
        return self.replies[index] if index < len(self.replies) else []


class Compacting(HookProvider):
    """Compacts before one request: as the conversation manager does, or with no trace but what is missing."""

    def __init__(self, before: int, *, traceless: bool) -> None:
        self.left = before
        self.traceless = traceless

    def register_hooks(self, registry: HookRegistry, **options: Any) -> None:
        registry.add_callback(BeforeModelCallEvent, self._compact)

    def _compact(self, event: BeforeModelCallEvent) -> None:
        self.left -= 1
        if self.left != -1:
            return
        if self.traceless:
            del event.agent.messages[1:3]
        else:
            event.agent.conversation_manager.reduce_context(event.agent)


class Strands:
    abilities = ABILITIES
    errors_are_text = False
    survives_errors = True
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        before = script.compact_before
        model = Scripted(script.replies, overflows_at=before if self.way == "async" else None)
        hooks: list[HookProvider] = []
        if guard is not None:
            hooks.append(LoopGuardHooks(guard))
        if before is not None and self.way != "async":
            hooks.append(Compacting(before, traceless=self.way == "stream"))
        agent = agent_of(model, list(script.tools.values()), hooks, conversation_manager=window())
        ran = model.ran
        try:
            ran.text = self._text(agent)
        except LoopAborted as aborted:
            ran.raised = ran.aborted = aborted
        except Exception as error:  # noqa: BLE001 - whatever the run raised
            ran.raised = error
        return ran

    def _text(self, agent: Agent) -> str:
        if self.way == "sync":
            return str(agent("go")).strip()
        return asyncio.run(self._awaited(agent))

    async def _awaited(self, agent: Agent) -> str:
        if self.way == "async":
            return str(await agent.invoke_async("go")).strip()
        events = [event async for event in agent.stream_async("go")]
        return str(events[-1]["result"]).strip()


def window() -> SlidingWindowConversationManager:
    """It cuts only when it is told to, and then leaves the newest call with its result."""
    return SlidingWindowConversationManager(window_size=1000)


def agent_of(
    model: Model, tools: list[Callable[..., Any]], hooks: list[HookProvider], **options: Any
) -> Agent:
    """An agent that prints nothing."""
    return Agent(
        model, tools=[tool(function) for function in tools], hooks=hooks, callback_handler=None, **options
    )


def run(model: Scripted, agent: Agent, prompt: Any = "go") -> Any:
    """One invocation; its result, `None` if it was aborted."""
    try:
        return agent(prompt)
    except LoopAborted as aborted:
        model.ran.raised = model.ran.aborted = aborted
        return None


class Hook(HookProvider):
    """One function as a hook."""

    def __init__(self, event_type: type, function: Any) -> None:
        self.event_type = event_type
        self.function = function

    def register_hooks(self, registry: Any, **options: Any) -> None:
        registry.add_callback(self.event_type, self.function)


def look(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}"


def both_ways(hook: HookProvider, guard: LoopGuard) -> list[list[HookProvider]]:
    """The order of the list makes no difference."""
    return [[LoopGuardHooks(guard), hook], [hook, LoopGuardHooks(guard)]]
