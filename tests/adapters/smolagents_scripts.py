"""Agents of smolagents that do what a script says."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from smolagents import ChatMessage, CodeAgent, LogLevel, Model, Tool, ToolCallingAgent
from smolagents.memory import FinalAnswerStep
from smolagents.models import (
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    MessageRole,
)

from loopwarden import LoopAborted
from loopwarden.adapters.smolagents import ABILITIES, guard_agent
from tests.adapters.contract import Ask, Ran, Script
from tests.adapters.writing_guard import CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from loopwarden import LoopGuard
    from tests.adapters.writing_guard import WritingGuard

ABORTING = CONFIG | {"onCritical": "abort"}
LADDER = [*["allow"] * 3, "warn", "warn", "block"]
"""What is said to six equal calls with equal outcomes."""

SAYS = "Reply number "
"""With this the scripted model begins each reply, so that it finds the observations that answer it."""


class Asking(Model):
    """A model that asks for tools as a script says, and writes down what it is shown."""

    def __init__(self, replies: Sequence[list[Ask]]) -> None:
        super().__init__()
        self.replies = replies
        self.ran = Ran()

    def generate(self, messages: list[ChatMessage], *args: Any, **options: Any) -> ChatMessage:
        said = f"{SAYS}{self.ran.requests}"
        calls = [
            ChatMessageToolCall(ChatMessageToolCallFunction(arguments, name), call_id, "function")
            for name, arguments, call_id in self._next(messages)
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content=said, tool_calls=calls)

    def _next(self, messages: list[ChatMessage]) -> list[tuple[str, dict[str, Any], str]]:
        for index, observed in observations(messages).items():
            if index < len(self.replies):
                self._answered(self.replies[index], observed)
        index, self.ran.requests = self.ran.requests, self.ran.requests + 1
        if index >= len(self.replies):
            return [("final_answer", {"answer": "done"}, "last")]
        return [(ask.tool, {"query": ask.query}, ask.call_id) for ask in self.replies[index]]

    def _answered(self, asked: list[Ask], observed: str) -> None:
        """The host joins the results in the order of the calls' ids, each here is one line."""
        names = sorted(ask.call_id for ask in asked)
        texts = [observed] if len(names) == 1 else observed.splitlines()
        for name, text in zip(names, texts, strict=True):
            answers = self.ran.answers.setdefault(name, [])
            if text not in answers:
                answers.append(text)


class Streaming(Asking):
    """The same, in pieces."""

    def generate_stream(self, *args: Any, **options: Any) -> Iterator[ChatMessageStreamDelta]:
        message = self.generate(*args, **options)
        yield ChatMessageStreamDelta(content=message.content)
        for index, call in enumerate(message.tool_calls):
            call.function.arguments = json.dumps(call.function.arguments)
            yield ChatMessageStreamDelta(
                tool_calls=[ChatMessageToolCallStreamDelta(index, call.id, call.type, call.function)]
            )


class Coding(Model):
    """A model that writes the code of a script, and keeps what it is shown of each."""

    def __init__(self, codes: Sequence[str]) -> None:
        super().__init__()
        self.codes = codes
        self.requests = 0
        self.shown: dict[int, str] = {}

    def generate(self, messages: list[ChatMessage], *args: Any, **options: Any) -> ChatMessage:
        self.shown = observations(messages)
        index, self.requests = self.requests, self.requests + 1
        code = self.codes[index] if index < len(self.codes) else 'final_answer("done")'
        content = f"{SAYS}{index}\n<code>\n{code}\n</code>"
        return ChatMessage(role=MessageRole.ASSISTANT, content=content)


def observations(messages: list[ChatMessage]) -> dict[int, str]:
    """What the messages say in answer to each reply."""
    found: dict[int, str] = {}
    index = None
    for message in messages:
        text = "\n".join(part["text"] for part in message.content or [])
        if message.role == MessageRole.ASSISTANT and text.startswith(SAYS):
            index = int(text.removeprefix(SAYS).split("\n")[0])
        elif message.role == MessageRole.TOOL_RESPONSE and index is not None:
            text = text.removeprefix("Observation:\n")
            found[index] = f"{found[index]}\n{text}" if index in found else text
    return found


class Query(Tool):
    """A tool of a script."""

    skip_forward_signature_validation = True
    inputs = {"query": {"type": "string", "description": "What for."}}  # noqa: RUF012 - as the host wants it
    output_type = "any"

    def __init__(self, name: str, function: Callable[[str], Any]) -> None:
        self.name = name
        self.description = f"{name}."
        self.forward = function
        super().__init__()


class Smolagents:
    abilities = ABILITIES
    errors_are_text = False
    survives_errors = True
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        deltas = self.way == "deltas"
        model = (Streaming if deltas else Asking)(script.replies)
        agent = asking_agent(model, script.tools, guard, stream_outputs=deltas)
        try:
            model.ran.text = self._text(agent)
        except LoopAborted as aborted:
            model.ran.raised = model.ran.aborted = aborted
        except Exception as error:  # noqa: BLE001 - whatever the run raised
            model.ran.raised = error
        return model.ran

    def _text(self, agent: ToolCallingAgent) -> str:
        if self.way == "run":
            return str(agent.run("go"))
        if self.way == "thread":
            return str(asyncio.run(asyncio.to_thread(agent.run, "go")))
        *_, last = agent.run("go", stream=True)
        assert isinstance(last, FinalAnswerStep)
        return str(last.output)


def asking_agent(
    model: Model, tools: Mapping[str, Callable[..., Any]], guard: LoopGuard | None, **options: Any
) -> ToolCallingAgent:
    """A `ToolCallingAgent` that prints nothing."""
    made = [Query(name, function) for name, function in tools.items()]
    agent = ToolCallingAgent(made, model, max_steps=40, verbosity_level=LogLevel.OFF, **options)
    return agent if guard is None else guard_agent(agent, guard)


def coding_agent(
    model: Model, tools: Mapping[str, Callable[..., Any]], guard: LoopGuard | None, **options: Any
) -> CodeAgent:
    """A `CodeAgent` that prints nothing."""
    made = [Query(name, function) for name, function in tools.items()]
    agent = CodeAgent(made, model, max_steps=40, verbosity_level=LogLevel.OFF, **options)
    return agent if guard is None else guard_agent(agent, guard)


def actions(guard: WritingGuard, tool: str | None = None) -> list[str]:
    """What the guard said to the calls, of one tool or all."""
    return [told.verdict.action for told in guard.of("before") if tool in {None, told.tool}]
