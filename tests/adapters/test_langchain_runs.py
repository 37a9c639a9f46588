"""LangChain's runs, and calls that are run again."""

from __future__ import annotations

import operator
from typing import Annotated

import pytest

pytest.importorskip("langchain", reason="needs langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwarden import LoopAborted
from loopwarden.adapters.langchain import LoopGuardMiddleware, LoopGuardState
from tests.adapters.contract import ToolFailure, Tools, asking
from tests.adapters.langgraph_agents import HELLO, PAIR, THREAD, asks_a_person, model_of
from tests.adapters.writing_guard import WritingGuard


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


class Bare(LoopGuardState):
    """A history whose messages get no ids."""

    messages: Annotated[list[AnyMessage], operator.add]  # type: ignore[misc]  # another reducer


def test_messages_without_ids(guard: WritingGuard) -> None:
    """The run stands in the state, so that no abort of one ends another."""
    tools = Tools()
    shared = LoopGuardMiddleware(guard)
    for count in (2, 99, 2, 2):
        agent = create_agent(
            model_of(asking(count)), [tool(tools()["look"])], middleware=[shared], state_schema=Bare
        )
        if count == 2:
            messages = agent.invoke({"messages": [HumanMessage("hello")]})["messages"]
            assert messages[0].id is None
            assert messages[-1].text == "done"
        else:
            with pytest.raises(LoopAborted):
                agent.invoke({"messages": [HumanMessage("hello")]}, {"recursion_limit": 200})
    assert len({told.run_id for told in guard.told}) == 4


def test_an_agent_that_is_made_for_each_request_counts_once(guard: WritingGuard) -> None:
    ran: list[str] = []
    saver = InMemorySaver()
    for value in (HELLO, Command(resume="yes")):
        agent = create_agent(
            model_of([PAIR] if value is HELLO else []),
            asks_a_person(ran),
            middleware=[LoopGuardMiddleware(guard)],
            checkpointer=saver,
        )
        last = agent.invoke(value, THREAD)
    assert last["messages"][-1].text == "done"
    assert len({told.call_id for told in guard.of("before")}) == 2
    assert len(guard.of("before")) - len(guard.of("retract")) <= 2
    assert len({told.run_id for told in guard.told}) == 1


def test_a_retry_outside_of_the_guard_that_succeeds_is_a_success(guard: WritingGuard) -> None:
    tried: list[str] = []

    @tool
    def look(query: str) -> str:
        """Look something up."""
        tried.append(query)
        if len(tried) % 3:
            raise ToolFailure("connection reset")
        return f"about {query}"

    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0.0, backoff_factor=0.0, jitter=False)
    agent = create_agent(model_of(asking(2)), [look], middleware=[retry, LoopGuardMiddleware(guard)])
    agent.invoke(HELLO)
    assert [told.verb for told in guard.told] == ["before", "after", "retract", "before", "after"] * 2
    assert [told.result for told in guard.of("after")][1::2] == ["about a"] * 2
