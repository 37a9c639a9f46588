"""Agents of the OpenAI Agents SDK that do what a script says."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import TYPE_CHECKING, Any

from agents import (
    Agent,
    RunConfig,
    Runner,
    function_tool,
)
from agents.run_config import CallModelData, ModelInputData, ToolErrorFormatterArgs
from agents.testing import ScriptedModel, assistant_message, function_call

from loopwarden import LoopAborted
from loopwarden.adapters.openai_agents import ABILITIES, GuardedRunner
from tests.adapters.contract import Ask, Ran, Script, WritingGuard

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden import LoopGuard


GOES_ON = RunConfig(tool_not_found_behavior="return_error_to_model", tracing_disabled=True)
"""Unknown tools don't end the run, and nothing is sent anywhere."""


def steps(replies: list[list[Ask]]) -> ScriptedModel:
    """A model that asks for what is scripted and then says that it is done."""
    asked = [
        [function_call(ask.tool, {"query": ask.query}, call_id=ask.call_id) for ask in asks]
        for asks in replies
    ]
    return ScriptedModel([*asked, [assistant_message("done")]])


def shown(model: ScriptedModel) -> dict[str, list[str]]:
    """Every result that the model was shown, by call id."""
    answers: dict[str, list[str]] = {}
    for call in model.calls:
        for item in call.input if isinstance(call.input, list) else ():
            if item.get("type") == "function_call_output":
                output = item["output"]
                text = output if isinstance(output, str) else json.dumps(output)
                known = answers.setdefault(item["call_id"], [])
                if text not in known:
                    known.append(text)
    return answers


def compacting(before: int, *, marks: bool) -> Callable[[CallModelData[Any]], ModelInputData]:
    """A filter of the model's input that compacts before one request, with or without a mark."""
    requests = 0

    def compact(data: CallModelData[Any]) -> ModelInputData:
        nonlocal requests
        requests += 1
        items = data.model_data.input
        if requests > before:
            mark: list[Any] = (
                [{"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}] if marks else []
            )
            items = [*mark, *items[2 * before - 1 :]]
        return ModelInputData(input=items, instructions=data.model_data.instructions)

    return compact


class OpenAIAgents:
    abilities = ABILITIES
    errors_are_text = "error" not in {each.name for each in dataclasses.fields(ToolErrorFormatterArgs)}
    survives_errors = True
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        model = steps(script.replies)
        tools: list[Any] = [
            function_tool(function, name_override=name) for name, function in script.tools.items()
        ]
        agent = Agent(name="helper", model=model, tools=tools)
        runner: Any = Runner if guard is None else GuardedRunner(guard)
        config: Any = GOES_ON
        if script.compact_before is not None:
            compact = compacting(script.compact_before, marks=self.way == "async")
            config = {"tracing_disabled": True, "call_model_input_filter": compact}
        ran = Ran()
        try:
            ran.text = self._text(runner, agent, config)
        except LoopAborted as aborted:
            ran.raised = ran.aborted = aborted
        except Exception as error:  # noqa: BLE001 - whatever the run raised
            ran.raised = error
        ran.answers, ran.requests = shown(model), len(model.calls)
        return ran

    def _text(self, runner: Any, agent: Agent[Any], config: Any) -> str:
        options = {"run_config": config, "max_turns": 50}
        if self.way == "sync":
            return str(runner.run_sync(agent, "go", **options).final_output)
        return asyncio.run(self._awaited(runner, agent, options))

    async def _awaited(self, runner: Any, agent: Agent[Any], options: dict[str, Any]) -> str:
        if self.way == "async":
            return str((await runner.run(agent, "go", **options)).final_output)
        result = runner.run_streamed(agent, "go", **options)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)


def look(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}"


def agent_with(*tools: Any, replies: list[list[Ask]], **options: Any) -> tuple[Agent[Any], ScriptedModel]:
    model = steps(replies)
    return Agent(name="helper", model=model, tools=list(tools), **options), model


def run(guard: WritingGuard, agent: Agent[Any], given: Any = "go", **options: Any) -> Any:
    options.setdefault("run_config", GOES_ON)
    return GuardedRunner(guard).run_sync(agent, given, max_turns=50, **options)
