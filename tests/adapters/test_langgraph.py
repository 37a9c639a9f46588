"""LangGraph's `ToolNode` against the contract, and what only it has."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langgraph.prebuilt", reason="needs langgraph")

from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from loopwarden import LoopAborted
from loopwarden.adapters.langgraph import GraphLoopAborted, GuardedToolCalls
from tests.adapters.contract import Contract, Script, ToolFailure, Tools, asking
from tests.adapters.langgraph_agents import HELLO, PAIR, THREAD, NodeHost, asks_a_person, model_of
from tests.adapters.writing_guard import CONFIG, WritingGuard


class TestLangGraph(Contract):
    @pytest.fixture(params=["sync", "async", "stream"])
    def host(self, request: pytest.FixtureRequest) -> NodeHost:
        return NodeHost(request.param)


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


def test_a_run_that_is_named_in_code(guard: WritingGuard) -> None:
    host = NodeHost("sync")
    agent = host.agent(guard, Script(replies=asking(2), tools=Tools()()), model_of(asking(2)))
    with guard.run("mine"):
        agent.invoke(HELLO)
    assert {told.run_id for told in guard.told} == {"mine"}


def test_siblings_that_a_tool_node_runs_again_count_once(guard: WritingGuard) -> None:
    """A node that is resumed runs all its calls again, with the same ids."""
    ran: list[str] = []
    host = NodeHost("sync")
    guarded = GuardedToolCalls(guard)
    tools = ToolNode(asks_a_person(ran), wrap_tool_call=guarded.wrap_tool_call)
    agent = host.graph(tools, model_of([PAIR]), None).compile(checkpointer=InMemorySaver())
    agent.invoke(HELLO, THREAD)
    assert agent.invoke(Command(resume="yes"), THREAD)["messages"][-1].text == "done"
    assert len(ran) == 2
    assert sorted(told.call_id or "" for told in guard.of("before")) == ["c1", "c2"]
    assert sorted(told.call_id or "" for told in guard.of("after")) == ["c1", "c2"]


def tool_failure(error: ToolFailure) -> str:
    return f"it said: {error}"


@pytest.mark.parametrize(
    "handling", [True, False, "please try again", tool_failure, (ValueError,), Exception]
)
@pytest.mark.parametrize("way", ["sync", "async"])
def test_an_abort_passes_whatever_the_node_handles(handling: Any, way: str) -> None:
    guarded = GuardedToolCalls(WritingGuard(CONFIG | {"onCritical": "abort"}))
    tools = ToolNode(
        [tool(Tools()()["look"])],
        wrap_tool_call=guarded.wrap_tool_call,
        awrap_tool_call=guarded.awrap_tool_call,
        handle_tool_errors=handling,
    )
    host = NodeHost(way)
    with pytest.raises(LoopAborted) as caught:
        host.invoke(host.graph(tools, model_of(asking(9)), None).compile())
    assert isinstance(caught.value, GraphLoopAborted | GraphBubbleUp)
    assert caught.value.verdict.error == "tool_loop_persisted"


def test_the_evidence_of_a_run_survives_a_summary_without_a_tag(guard: WritingGuard) -> None:
    script = Script(replies=asking(6), tools=Tools()(), compact_before=2)
    NodeHost("sync").run(guard, script)
    assert len({told.run_id for told in guard.told}) == 1
    assert [told.verdict.action for told in guard.of("before")][3] == "warn"
