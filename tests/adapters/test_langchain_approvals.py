"""LangChain's agents whose calls a person decides on."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langchain", reason="needs langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolCallLimitMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from loopwarden import LoopAborted
from loopwarden.adapters.langchain import LoopGuardMiddleware
from tests.adapters.contract import Ask, Ran, Tools, asking
from tests.adapters.langchain_agents import AgentHost
from tests.adapters.langgraph_agents import HELLO, THREAD, model_of
from tests.adapters.writing_guard import WritingGuard

if TYPE_CHECKING:
    from collections.abc import Iterable

NO: dict[str, Any] = {"type": "reject", "message": "no"}
YES: dict[str, Any] = {"type": "approve"}
OPTIONS = signature(HumanInTheLoopMiddleware).parameters


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


def agent_of(guard: WritingGuard, model: Any, tools: Tools, *, first: bool = True, saver: Any = None) -> Any:
    """An agent whose calls of `look` a person decides on; the guard stands before or after that."""
    allowed = {"allowed_decisions": ["approve", "edit", "reject", "respond"]}
    middleware: list[Any] = [LoopGuardMiddleware(guard), HumanInTheLoopMiddleware({"look": allowed})]
    made = tools()
    return create_agent(
        model,
        [tool(made[name]) for name in ("look", "fails")],
        middleware=middleware if first else middleware[::-1],
        checkpointer=saver or InMemorySaver(),
    )


def decide(agent: Any, decisions: Iterable[list[dict[str, Any]]], way: str = "sync") -> None:
    """Ask, and decide on the calls of one reply after the other."""
    host = AgentHost(way)
    host.invoke(agent, HELLO, THREAD)
    for decision in decisions:
        host.invoke(agent, Command(resume={"decisions": decision}), THREAD)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_call_that_is_rejected_again_and_again_ends_the_run(
    guard: WritingGuard, way: str, first: bool
) -> None:
    tools, ran = Tools(), Ran()
    agent = agent_of(guard, model_of(asking(20), ran), tools, first=first)
    with pytest.raises(LoopAborted):
        decide(agent, [[NO]] * 20, way)
    assert tools.ran == []
    before = guard.of("before")
    assert [told.verdict.action for told in before] == [
        *["allow"] * 3,
        *["warn"] * 2,
        *["block"] * 4,
        "abort",
    ]
    assert [told.call_id for told in before] == [f"c{number}" for number in range(1, 11)]
    assert len({told.turn_id for told in before}) == 10
    assert len({told.run_id for told in before}) == 1
    assert {told.error for told in guard.of("after")} == {ran.answers["c1"][0]}
    assert ran.answers["c4"][0].startswith(ran.answers["c1"][0])
    assert ran.answers["c4"][0].endswith(before[3].verdict.message or "-")
    assert before[5].verdict.message in ran.answers["c6"]


@pytest.mark.parametrize("first", [True, False])
def test_a_rejection_that_is_followed_by_other_calls_is_work(guard: WritingGuard, first: bool) -> None:
    tools, ran = Tools(), Ran()
    replies = [[Ask(tool="look", query=f"q{number}", call_id=f"c{number}")] for number in range(12)]
    agent = agent_of(guard, model_of(replies, ran), tools, first=first)
    decide(agent, [[NO], [YES]] * 6)
    assert [told.verdict.action for told in guard.of("before")] == ["allow"] * 12
    assert [told.error is None for told in guard.of("after")] == [False, True] * 6
    assert len(tools.ran) == 6


@pytest.mark.parametrize("first", [True, False])
def test_calls_of_one_reply_that_are_decided_apart_count_once_each(guard: WritingGuard, first: bool) -> None:
    tools = Tools()
    pair = [Ask(tool="look", query=query, call_id=query) for query in ("a", "b", "c")]
    agent = agent_of(guard, model_of([pair, *asking(1)]), tools, first=first)
    decide(agent, [[NO, YES, {"type": "respond", "message": "I know: c"}], [YES]])
    assert tools.ran == [("look", "b"), ("look", "a")]
    asked = {told.call_id: told.turn_id for told in guard.of("before")}
    assert len(asked) == len(guard.of("before")) == len(guard.of("after")) == 4
    assert asked["a"] == asked["b"] == asked["c"] != asked["c1"]
    ended = {told.call_id: told for told in guard.of("after")}
    assert "no" in str(ended["a"].error)
    assert ended["b"].result == "nothing about b"
    assert ended["c"].result == "I know: c"


@pytest.mark.parametrize("first", [True, False])
def test_an_edited_call_counts_as_what_ran(guard: WritingGuard, first: bool) -> None:
    tools = Tools()
    agent = agent_of(guard, model_of(asking(5)), tools, first=first)
    edits = [{"name": "look", "args": {"query": f"better {number}"}} for number in range(5)]
    decide(agent, [[{"type": "edit", "edited_action": edit}] for edit in edits])
    assert tools.ran == [("look", edit["args"]["query"]) for edit in edits]
    assert [told.arguments for told in guard.of("before")] == [edit["args"] for edit in edits]
    assert {told.verdict.action for told in guard.of("before")} == {"allow"}


def test_calls_that_are_edited_to_the_same_are_a_loop(guard: WritingGuard) -> None:
    tools = Tools()
    replies = [[Ask(tool="look", query=f"q{number}", call_id=f"c{number}")] for number in range(20)]
    agent = agent_of(guard, model_of(replies), tools)
    same = {"name": "look", "args": {"query": "a"}}
    with pytest.raises(LoopAborted):
        decide(agent, [[{"type": "edit", "edited_action": same}]] * 20)
    assert tools.ran == [("look", "a")] * 5


def test_rejections_in_other_processes_count_once(guard: WritingGuard) -> None:
    """Each decision is taken by a new agent; what an earlier one has told is not told again."""
    saver = InMemorySaver()
    model = model_of(asking(3))
    for value in (HELLO, *[Command(resume={"decisions": [NO]})] * 3):
        agent_of(guard, model, Tools(), saver=saver).invoke(value, THREAD)
    assert [told.verb for told in guard.told] == ["retract", "before", "after"] * 3  # nothing is taken back
    assert [told.call_id for told in guard.of("before")] == ["c1", "c2", "c3"]
    assert len({told.run_id for told in guard.told}) == 1


@pytest.mark.parametrize("decision", [NO, YES])
def test_a_run_that_is_wound_back_tells_nothing_again(guard: WritingGuard, decision: dict[str, Any]) -> None:
    agent = agent_of(guard, model_of([*asking(2), []]), Tools())
    decide(agent, [[decision]] * 2)
    told = len(guard.told)
    assert told == 4
    early = [
        state
        for state in agent.get_state_history(THREAD)
        if len(state.values["messages"]) == 3 and state.next == ("model",)
    ]
    agent.invoke(None, early[0].config)
    assert len(guard.told) == told


def test_rejections_of_an_earlier_run_are_not_of_this_one(guard: WritingGuard) -> None:
    asks = {"name": "look", "args": {"query": "a"}, "id": "c1"}
    answer = ToolMessage("User rejected the tool call", tool_call_id="c1", status="error")
    agent = agent_of(guard, model_of([]), Tools())
    for history in ([AIMessage("", tool_calls=[asks]), answer], [answer]):
        agent.invoke({"messages": [HumanMessage("hello"), *history]}, THREAD)
    assert guard.told == []


@pytest.mark.skipif("interrupt_mode" not in OPTIONS, reason="this version asks for a whole reply at once")
@pytest.mark.parametrize("first", [True, False])
def test_calls_that_are_decided_on_one_by_one_count_once(guard: WritingGuard, first: bool) -> None:
    tools = Tools()
    one_by_one: dict[str, Any] = {"interrupt_mode": "per_call"}
    middleware = [LoopGuardMiddleware(guard), HumanInTheLoopMiddleware({"look": True}, **one_by_one)]
    agent = create_agent(
        model_of(asking(20)),
        [tool(tools()["look"])],
        middleware=middleware if first else middleware[::-1],
        checkpointer=InMemorySaver(),
    )

    def rejected() -> None:
        last = agent.invoke(HELLO, THREAD)
        for _ in range(20):
            last = agent.invoke(Command(resume={last["__interrupt__"][0].id: NO}), THREAD)

    with pytest.raises(LoopAborted):
        rejected()
    assert tools.ran == []
    assert [told.call_id for told in guard.of("before")] == [f"c{number}" for number in range(1, 11)]
    assert len(guard.of("after")) == 5


def test_calls_past_a_limit_count(guard: WritingGuard) -> None:
    tools = Tools()
    limit = ToolCallLimitMiddleware(run_limit=2, exit_behavior="continue")
    agent = create_agent(
        model_of(asking(30)), [tool(tools()["look"])], middleware=[LoopGuardMiddleware(guard), limit]
    )
    with pytest.raises(LoopAborted):
        agent.invoke(HELLO, {"recursion_limit": 200})
    assert tools.ran == [("look", "a")] * 2


def test_the_form_of_the_last_answer_is_no_call(guard: WritingGuard) -> None:
    class Form(BaseModel):
        number: int

    replies = [[Ask(tool="Form", query="a", call_id=f"c{number}")] for number in range(3)]
    agent = create_agent(
        model_of(replies),
        [tool(Tools()()["look"])],
        middleware=[LoopGuardMiddleware(guard)],
        response_format=ToolStrategy(Form),
    )
    assert agent.invoke(HELLO)["messages"][-1].text == "done"
    assert guard.told == []
