"""LangChain's runs, and calls that are run again or cancelled."""

from __future__ import annotations

import asyncio
import operator
from typing import TYPE_CHECKING, Annotated, Any

import pytest

pytest.importorskip("langchain", reason="needs langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwarden import LoopAborted
from loopwarden.adapters.langchain import LoopGuardMiddleware, LoopGuardState
from tests.adapters.contract import ToolFailure, Tools, asking
from tests.adapters.langgraph_agents import HELLO, PAIR, THREAD, asks_a_person, model_of
from tests.adapters.writing_guard import WritingGuard

if TYPE_CHECKING:
    from collections.abc import Callable


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


class GivesUp(AgentMiddleware[Any, Any]):
    """Ends a call as soon as it hangs, from outside of the guard."""

    def __init__(self, hangs: asyncio.Event) -> None:
        super().__init__()
        self._hangs = hangs

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self._hangs.clear()
        call = asyncio.ensure_future(handler(request))
        hangs = asyncio.ensure_future(self._hangs.wait())
        await asyncio.wait([call, hangs], return_when=asyncio.FIRST_COMPLETED)
        call.cancel()
        hangs.cancel()
        (answer,) = await asyncio.gather(call, return_exceptions=True)
        if isinstance(answer, asyncio.CancelledError):
            return ToolMessage("out of time", tool_call_id=request.tool_call["id"], status="error")
        return answer


def test_a_call_that_is_cancelled_by_a_time_limit_around_it_is_refused_in_the_end(
    guard: WritingGuard,
) -> None:
    async def agent() -> list[str]:
        hangs = asyncio.Event()

        @tool
        async def fetch(query: str) -> str:
            """Hang for ever."""
            hangs.set()
            await asyncio.Event().wait()
            return query

        middleware = [GivesUp(hangs), LoopGuardMiddleware(guard)]
        ended = await create_agent(model_of(asking(7, "fetch")), [fetch], middleware=middleware).ainvoke(
            HELLO
        )
        return [str(message.content) for message in ended["messages"] if message.type == "tool"]

    answers = asyncio.run(agent())
    assert answers[:5] == ["out of time"] * 5
    assert ["was refused" in answer for answer in answers[5:]] == [True, True]


def test_a_cancelled_run_raises_what_cancels_it(guard: WritingGuard) -> None:
    async def cancelled() -> None:
        started = asyncio.Event()

        @tool
        async def wait(query: str) -> str:
            """Wait for ever."""
            started.set()
            await asyncio.Event().wait()
            return query

        agent = create_agent(model_of(asking(1, "wait")), [wait], middleware=[LoopGuardMiddleware(guard)])
        task = asyncio.create_task(agent.ainvoke(HELLO))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert [told.verb for told in guard.told] == ["before", "after"]


def test_a_call_that_a_person_stops_is_as_if_it_had_not_been(guard: WritingGuard) -> None:
    @tool
    def look(query: str) -> str:
        """Is stopped."""
        raise KeyboardInterrupt

    agent = create_agent(model_of(asking(1)), [look], middleware=[LoopGuardMiddleware(guard)])
    with pytest.raises(KeyboardInterrupt):
        agent.invoke(HELLO)
    assert [told.verb for told in guard.told] == ["before", "retract"]
