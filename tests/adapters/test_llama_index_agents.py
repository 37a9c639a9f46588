"""LlamaIndex: agents below and beside others, and what a guarded agent stays."""

from __future__ import annotations

import copy
from typing import Any

import pytest

pytest.importorskip(
    "llama_index.core.agent.workflow", reason="needs llama-index-core; see scripts/check-hosts"
)

from llama_index.core.agent.workflow import AgentWorkflow, CodeActAgent, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM

from loopwarden import LoopAborted
from loopwarden.adapters.llama_index import guard_agent
from tests.adapters.contract import Ask, asking
from tests.adapters.llama_index_scripts import LADDER, Scripted, actions, agent_of, answer, go, look
from tests.adapters.writing_guard import CONFIG, WritingGuard


def test_a_sub_agent_is_a_run_of_its_own() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    inner = agent_of(Scripted(asking(9)), [look], guard)

    async def ask(query: str) -> str:
        """Ask the other one."""
        return await answer(inner, query)

    assert go(agent_of(Scripted([[Ask(tool="ask", call_id="p1")]]), [ask], guard)) == "done"
    runs = {told.run_id: told.tool for told in guard.of("before")}
    assert sorted(runs.values()) == ["ask", "look"]
    (outcome,) = (told for told in guard.of("after") if told.call_id == "p1")
    assert isinstance(outcome.error, LoopAborted)


def test_guarded_agents_of_a_guarded_workflow_are_seen_once() -> None:
    guard = WritingGuard()
    agent = agent_of(Scripted(asking(3)), [look], guard)
    go(guard_agent(AgentWorkflow(agents=[agent]), guard))
    assert len(guard.of("before")) == 3


def test_an_agent_that_is_guarded_again_has_the_new_guard_only() -> None:
    first, second = WritingGuard(), WritingGuard()
    agent = agent_of(Scripted(asking(6)), [look], first)
    go(guard_agent(agent, second))
    assert first.told == []
    assert actions(second) == LADDER


def test_other_agents_are_left_alone() -> None:
    guard = WritingGuard()
    agent_of(Scripted([]), [look], guard)
    go(agent_of(Scripted(asking(6)), [look], None))
    assert guard.told == []


def test_a_guarded_agent_stays_what_it_was() -> None:
    plain = FunctionAgent(tools=[look], llm=Scripted([]).llm)
    guarded = copy.copy(plain)
    guard_agent(guarded, WritingGuard())
    assert isinstance(guarded, FunctionAgent)
    assert type(guarded).__name__ == "FunctionAgent"
    assert guarded.workflow_name == plain.workflow_name
    assert guarded.model_dump().keys() == plain.model_dump().keys()


class Louder(FunctionAgent):
    """With a step that does more."""

    async def call_tool(self, ctx: Any, ev: Any) -> Any:
        result = await super().call_tool(ctx, ev)
        result.tool_output.content = result.tool_output.content.upper()
        return result


Louder.call_tool._step_config = FunctionAgent.call_tool._step_config  # type: ignore[attr-defined]  # as `step` does


def test_the_steps_of_a_class_of_ones_own_are_kept() -> None:
    guard = WritingGuard()
    model = Scripted(asking(6))
    go(guard_agent(Louder(tools=[look], llm=model.llm), guard))
    assert actions(guard) == LADDER
    assert model.ran.answers["c1"] == ["NOTHING ABOUT A"]
    assert {told.result for told in guard.of("after")} == {"NOTHING ABOUT A"}


def test_a_copy_of_a_guarded_agent_is_guarded() -> None:
    guard = WritingGuard()
    go(copy.copy(agent_of(Scripted(asking(6)), [look], guard)))
    assert actions(guard) == LADDER


def test_the_code_of_an_agent_that_writes_code_is_a_call() -> None:
    def run_code(code: str) -> str:
        """Run it."""
        return "NameError"

    replies = iter(["<execute>look()</execute>"] * 6)

    def say(asked: Any, **options: Any) -> ChatMessage:
        return ChatMessage(role="assistant", content=next(replies, "done"))

    guard = WritingGuard()
    llm = MockFunctionCallingLLM(response_generator=say)
    assert go(guard_agent(CodeActAgent(code_execute_fn=run_code, llm=llm), guard)) == "done"
    assert actions(guard) == LADDER
    assert guard.of("compacted") == []


def test_what_is_no_agent_is_an_error() -> None:
    with pytest.raises(TypeError, match="not a str"):
        guard_agent("agent", WritingGuard())
