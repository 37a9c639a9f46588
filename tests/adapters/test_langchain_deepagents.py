"""deepagents: sub-agents with and without a middleware of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("deepagents", reason="needs deepagents")

from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from loopwarden import LoopAborted
from loopwarden.adapters.langchain import LoopGuardMiddleware
from tests.adapters.contract import Ask, Tools, asking
from tests.adapters.langgraph_agents import HELLO, THREAD
from tests.adapters.writing_guard import WritingGuard

TASK = "TASK: look it up"


class TwoRoles(BaseChatModel):
    """The main agent hands its task on; the sub-agent says what the script says, then "sub done"."""

    replies: list[list[Ask]]
    to: str = "general-purpose"
    tasks: int = 1
    asked: int = 0
    shown: list[str] = []  # noqa: RUF012 - pydantic copies it

    @property
    def _llm_type(self) -> str:
        return "two roles"

    def bind_tools(self, tools: Any, **options: Any) -> TwoRoles:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        calls: list[Any] = []
        if not any(TASK in message.text for message in messages if message.type == "human"):
            done = sum(isinstance(message, ToolMessage) for message in messages)
            if done < self.tasks:
                arguments = {"description": TASK, "subagent_type": self.to}
                calls = [{"name": "task", "args": arguments, "id": f"t{done}"}]
        else:
            asks = self.replies[self.asked] if self.asked < len(self.replies) else []
            self.asked += 1
            calls = [{"name": ask.tool, "args": {"query": ask.query}, "id": ask.call_id} for ask in asks]
            if isinstance(messages[-1], ToolMessage):
                self.shown.append(messages[-1].text)
        reply = AIMessage("" if calls else "done", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


def deep(model: TwoRoles, tools: Tools, guard: WritingGuard | None = None, **more: Any) -> Any:
    """A deep agent as the guide makes it."""
    middleware = [] if guard is None else [LoopGuardMiddleware(guard)]
    made = [tool(function) for function in tools().values()]
    return create_deep_agent(model=model, tools=made, middleware=middleware, **more)


def ask(agent: Any, way: str, config: Any = None) -> str:
    if way == "sync":
        return str(agent.invoke(HELLO, config)["messages"][-1].text)
    return str(asyncio.run(agent.ainvoke(HELLO, config))["messages"][-1].text)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_the_built_in_sub_agent_is_ended(guard: WritingGuard, way: str) -> None:
    tools = Tools()
    model = TwoRoles(replies=asking(30))
    with pytest.raises(LoopAborted) as caught:
        ask(deep(model, tools, guard), way)
    assert caught.value.verdict.tool == "look"
    assert tools.ran == [("look", "a")] * 5
    before = [told.verdict for told in guard.of("before") if told.tool == "look"]
    assert [verdict.action for verdict in before] == [
        "allow",
        "allow",
        "allow",
        "warn",
        "warn",
        "block",
        "block",
        "block",
        "block",
        "abort",
    ]
    assert model.shown[:3] == ["nothing about a"] * 3
    assert model.shown[3] == f"nothing about a\n\n{before[3].message}"
    assert model.shown[4] == "nothing about a"
    assert model.shown[5] == before[5].message


@pytest.mark.parametrize("way", ["sync", "async"])
def test_work_of_the_built_in_sub_agent_is_untouched(guard: WritingGuard, way: str) -> None:
    replies = [[Ask(tool="fresh", call_id=f"{turn}{place}") for place in "ab"] for turn in range(6)]
    shown = []
    for each in (None, guard):
        model = TwoRoles(replies=replies)
        tools = Tools()
        assert ask(deep(model, tools, each), way) == "done"
        assert len(tools.ran) == 12
        shown.append(sorted(model.shown))
    assert len(shown[0]) == len(shown[1]) == 6
    before = [told for told in guard.of("before") if told.tool == "fresh"]
    assert {told.verdict.action for told in guard.told} <= {"allow", "warn"}
    assert [told.arguments for told in before] == [{"query": "a"}] * 12
    assert len({told.turn_id for told in before}) == 6


def test_each_task_is_a_run_of_its_own(guard: WritingGuard) -> None:
    model = TwoRoles(replies=[*asking(3), [], *asking(3)], tasks=2)
    assert ask(deep(model, Tools(), guard, checkpointer=InMemorySaver()), "sync", THREAD) == "done"
    runs = [told.run_id for told in guard.of("before") if told.tool == "look"]
    assert len(set(runs)) == 2
    assert runs[:3] == [runs[0]] * 3
    assert not {told.run_id for told in guard.of("before") if told.tool == "task"} & set(runs)
    assert {told.session_id for told in guard.told} == {"t1"}
    assert {told.verdict.action for told in guard.told} == {"allow"}


@pytest.mark.parametrize("own", [True, False])
def test_a_sub_agent_of_ones_own_counts_once(guard: WritingGuard, own: bool) -> None:
    tools = Tools()
    entry: dict[str, Any] = {"name": "worker", "description": "works", "system_prompt": "work"}
    if own:
        entry["middleware"] = [LoopGuardMiddleware(guard)]
    model = TwoRoles(replies=asking(2), to="worker")
    assert ask(deep(model, tools, guard, subagents=[entry]), "sync") == "done"
    assert [told.call_id for told in guard.of("before")] == ["t0", "c1", "c2"]
    assert [told.call_id for told in guard.of("after")] == ["c1", "c2", "t0"]


def test_an_entry_in_the_place_of_the_built_in_one(guard: WritingGuard) -> None:
    """As the guide has it."""
    tools = Tools()
    entry = {
        "name": "general-purpose",
        "description": "Researches and carries out tasks of many steps.",
        "system_prompt": "Do the task and report what you found.",
        "middleware": [LoopGuardMiddleware(guard)],
    }
    with pytest.raises(LoopAborted):
        ask(deep(TwoRoles(replies=asking(30)), tools, guard, subagents=[entry]), "sync")
    assert tools.ran == [("look", "a")] * 5
    assert len(guard.of("before")) == 11


@pytest.mark.parametrize("own", [True, False])
def test_a_sub_agent_that_is_made_already(guard: WritingGuard, own: bool) -> None:
    tools = Tools()
    model = TwoRoles(replies=asking(30), to="worker")
    middleware = [LoopGuardMiddleware(guard)] if own else []
    runnable = create_agent(model, [tool(tools()["look"])], middleware=middleware)
    entry = {"name": "worker", "description": "works", "runnable": runnable}
    with pytest.raises(LoopAborted):
        ask(deep(model, Tools(), guard, subagents=[entry]), "sync")
    assert tools.ran == [("look", "a")] * 5


def test_what_a_tool_of_the_sub_agent_calls_itself_does_not_count(guard: WritingGuard) -> None:
    @tool
    def inner(query: str) -> str:
        """Look closer."""
        return query

    @tool
    def outer(query: str) -> str:
        """Look."""
        return str(inner.invoke({"query": query}))

    model = TwoRoles(replies=asking(2, "outer"))
    agent = create_deep_agent(model=model, tools=[outer, inner], middleware=[LoopGuardMiddleware(guard)])
    assert ask(agent, "sync") == "done"
    assert [told.tool for told in guard.of("before")] == ["task", "outer", "outer"]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_failure_in_the_sub_agent_is_told_and_raised(guard: WritingGuard, way: str) -> None:
    agent = deep(TwoRoles(replies=asking(1, "fails")), Tools(), guard)
    with pytest.raises(Exception, match="no a here"):
        ask(agent, way)
    assert [told.call_id for told in guard.of("after")] == ["c1", "t0"]
    assert all("no a here" in str(told.error) for told in guard.of("after"))


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_sub_agent_that_waits_for_a_person_counts_once(guard: WritingGuard, way: str) -> None:
    @tool
    def sure(query: str) -> str:
        """Ask a person."""
        return f"{query}: {interrupt('really?')}"

    model = TwoRoles(replies=asking(2, "sure"))
    agent = create_deep_agent(
        model=model, tools=[sure], middleware=[LoopGuardMiddleware(guard)], checkpointer=InMemorySaver()
    )
    for value in (HELLO, Command(resume="yes"), Command(resume="yes")):
        if way == "sync":
            agent.invoke(value, THREAD)
        else:
            asyncio.run(agent.ainvoke(value, THREAD))
    told = [each for each in guard.told if each.tool == "sure" or each.call_id in {"c1", "c2"}]
    assert [each.call_id for each in told if each.verb == "after"] == ["c1", "c2"]
    assert len({each.run_id for each in told}) == 1
    assert guard.of("retract") == []


def test_calls_of_a_sub_agent_that_is_cancelled_are_over_and_count(guard: WritingGuard) -> None:
    async def cancelled() -> None:
        started = asyncio.Event()

        @tool
        async def wait(query: str) -> str:
            """Wait for ever."""
            started.set()
            await asyncio.Event().wait()
            return query

        model = TwoRoles(replies=asking(1, "wait"))
        agent = create_deep_agent(model=model, tools=[wait], middleware=[LoopGuardMiddleware(guard)])
        task = asyncio.create_task(agent.ainvoke(HELLO))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert sorted(told.verb for told in guard.told) == ["after", "after", "before", "before"]
