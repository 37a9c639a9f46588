"""LangGraph's runs: which calls belong together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langgraph.prebuilt", reason="needs langgraph")

from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from loopwarden import LoopAborted
from loopwarden.adapters.langgraph import GuardedToolCalls
from tests.adapters.langgraph_agents import THREAD
from tests.adapters.langgraph_graphs import STATES, Bare, ask, graph, invoked, look, question
from tests.adapters.writing_guard import WritingGuard

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage


def good_or_bad(asked: str, number: int) -> AIMessage:
    return ask("a", number, 2 if asked == "good" else 99)


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard(on_error="raise")


# --- what a run is


@pytest.mark.parametrize("way", ["sync", "async", "stream"])
@pytest.mark.parametrize("sends", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_one_abort_ends_one_invocation(guard: WritingGuard, state: Any, sends: bool, way: str) -> None:
    agent = graph(guard, state, good_or_bad, sends=sends)
    runs = []
    for asked in ("good", "bad", "good", "bad", "good", "good", "good"):
        guard.told.clear()
        if asked == "good":
            assert invoked(agent, question(agent, asked), way=way) == "done"
            assert {told.verdict.action for told in guard.told} == {"allow"}
        else:
            with pytest.raises(LoopAborted):
                invoked(agent, question(agent, asked), way=way)
        (run_id,) = {told.run_id for told in guard.told}
        runs.append(run_id)
    assert None not in runs
    assert len(set(runs)) == len(runs)
    assert {told.turn_id is None for told in guard.of("before")} == {False}


@pytest.mark.parametrize("person", [True, False])
def test_replies_with_ids_and_a_person_without(guard: WritingGuard, person: bool) -> None:
    """Chat models give their replies ids; a reducer of one's own gives none to what a person says."""

    def reply(asked: str, number: int) -> AIMessage:
        made = good_or_bad(asked, number)
        made.id = f"run-{len(guard.told)}-{number}"
        return made

    agent = graph(guard, Bare, reply)
    for _ in range(4):
        start = question(agent, "good")
        start["messages"][0].id = f"q-{len(guard.told)}" if person else None
        assert invoked(agent, start) == "done"
    assert {told.verdict.action for told in guard.told} == {"allow"}
    assert len({told.run_id for told in guard.told}) == 4
    assert guard.of("compacted") == []


def test_invocations_at_the_same_time(guard: WritingGuard) -> None:
    agent = graph(guard, Bare, lambda _, number: ask("a", number, 4))

    async def all_of_them() -> None:
        await asyncio.gather(*(agent.ainvoke(question(agent, "good")) for _ in range(4)))

    asyncio.run(all_of_them())
    agent.batch([question(agent, "good")] * 3)
    runs: dict[str | None, list[str]] = {}
    for told in guard.of("before"):
        runs.setdefault(told.run_id, []).append(told.verdict.action)
    assert list(runs.values()) == [["allow", "allow", "allow", "warn"]] * 7


@pytest.mark.parametrize("state", [Bare, MessagesState])
def test_a_graph_inside_of_a_node_is_a_run_each_time(guard: WritingGuard, state: Any) -> None:
    inner = graph(guard, state, good_or_bad)

    def node(values: Any) -> dict[str, Any]:
        for asked in ("good", "bad", "good"):
            try:
                inner.invoke(question(inner, asked), {"recursion_limit": 200})
            except LoopAborted:
                assert asked == "bad"
        return {}

    outer = StateGraph(MessagesState)
    outer.add_node("node", node)
    outer.add_edge(START, "node")
    outer.compile().invoke({"messages": []})
    assert len({told.run_id for told in guard.told}) == 3


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_node_written_by_hand_that_uses_a_tool_node(guard: WritingGuard, way: str) -> None:
    guarded = GuardedToolCalls(guard)
    tools = ToolNode(
        [tool(look)], wrap_tool_call=guarded.wrap_tool_call, awrap_tool_call=guarded.awrap_tool_call
    )

    def model(state: Bare) -> dict[str, Any]:
        return {"messages": [good_or_bad(str(state["messages"][0].content), len(state["messages"]) // 2)]}

    def node(state: Bare) -> Any:
        return tools.invoke(state)

    async def anode(state: Bare) -> Any:
        return await tools.ainvoke(state)

    built = StateGraph(Bare)
    built.add_node("model", model)
    built.add_node("tools", node if way == "sync" else anode)
    built.add_edge(START, "model")
    built.add_conditional_edges("model", tools_condition)
    built.add_edge("tools", "model")
    agent: Any = built.compile()
    agent.key = "messages"
    for asked in ("good", "bad", "good", "good"):
        if asked == "good":
            assert invoked(agent, question(agent, asked), way=way) == "done"
        else:
            with pytest.raises(LoopAborted):
                invoked(agent, question(agent, asked), way=way)
    assert len({told.run_id for told in guard.told}) == 4


def test_one_control_for_many_invocations(guard: WritingGuard) -> None:
    """A server may drain all its runs by one object."""
    control = pytest.importorskip("langgraph.runtime").RunControl()
    agent = graph(guard, Bare, good_or_bad)
    with pytest.raises(LoopAborted):
        agent.invoke(question(agent, "bad"), {"recursion_limit": 200}, control=control)
    assert agent.invoke(question(agent, "good"), control=control)["messages"][-1].content == "done"
    assert len({told.run_id for told in guard.told}) == 2


def test_questions_that_are_no_messages(guard: WritingGuard) -> None:
    """The replies to earlier questions stand in the thread, with nothing between them."""

    class Asked(MessagesState):
        question: str

    def model(state: Asked) -> dict[str, Any]:
        answered = [at for at, message in enumerate(state["messages"]) if message.content == "done"]
        new = state["messages"][answered[-1] + 1 :] if answered else state["messages"]
        limit = 99 if state["question"] == "bad" else 2
        return {"messages": [ask("a", len(new) // 2, limit, call_id=f"c{len(state['messages'])}")]}

    guarded = GuardedToolCalls(guard)
    built = StateGraph(Asked)
    built.add_node("model", model)
    built.add_node("tools", ToolNode([tool(look)], wrap_tool_call=guarded.wrap_tool_call))
    built.add_edge(START, "model")
    built.add_conditional_edges("model", tools_condition)
    built.add_edge("tools", "model")
    agent = built.compile(checkpointer=InMemorySaver())
    for _ in range(4):
        agent.invoke({"question": "good"}, THREAD)  # type: ignore[call-overload]  # a part of the state
    assert {told.verdict.action for told in guard.told} == {"allow"}
    assert len({told.run_id for told in guard.told}) == 4
    with pytest.raises(LoopAborted):
        agent.invoke({"question": "bad"}, THREAD | {"recursion_limit": 200})  # type: ignore[call-overload]  # as above
    assert len({told.run_id for told in guard.told}) == 5


@pytest.mark.parametrize("state", [Bare, MessagesState])
def test_questions_in_one_thread(guard: WritingGuard, state: Any) -> None:
    agent = graph(guard, state, good_or_bad, checkpointer=InMemorySaver())
    for _ in range(4):
        assert invoked(agent, question(agent, "good"), THREAD) == "done"
    assert {told.verdict.action for told in guard.told} == {"allow"}
    assert len({told.run_id for told in guard.told}) == 4
    assert {told.session_id for told in guard.told} == {"t1"}
