"""LangChain's agents against the contract, and what only they have."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import pytest

pytest.importorskip("langchain", reason="needs langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from loopwarden import LoopAborted
from loopwarden.adapters.langchain import LoopGuardMiddleware
from tests.adapters.contract import Ask, Contract, Ran, Script, Tools, asking
from tests.adapters.langchain_agents import AgentHost
from tests.adapters.langgraph_agents import HELLO, PAIR, THREAD, asks_a_person, model_of
from tests.adapters.writing_guard import CONFIG, WritingGuard

if TYPE_CHECKING:
    from collections.abc import Callable


class TestLangChain(Contract):
    @pytest.fixture(params=["sync", "async", "stream"])
    def host(self, request: pytest.FixtureRequest) -> AgentHost:
        return AgentHost(request.param)


class Excuses(AgentMiddleware[Any, Any]):
    """Makes a result of what a tool raises."""

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(request)
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the tool raised
            call_id = request.tool_call["id"]
            return ToolMessage(f"failed: {error}", tool_call_id=call_id, status="error")


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


# --- ids


def test_the_run_id_of_the_configuration_is_the_run_and_the_thread_is_the_session(
    guard: WritingGuard,
) -> None:
    agent = create_agent(
        model_of(asking(1)),
        [tool(Tools()()["look"])],
        middleware=[LoopGuardMiddleware(guard)],
        checkpointer=InMemorySaver(),
    )
    run_id = "0d6c1d0e-7c0c-4b0a-8f56-2f6a5b3f4f10"
    agent.invoke(HELLO, THREAD | {"run_id": run_id})
    assert {(told.session_id, told.run_id) for told in guard.told} == {("t1", run_id)}


def test_a_run_that_is_named_in_code(guard: WritingGuard) -> None:
    agent = AgentHost("sync").agent(guard, Script(replies=[], tools=Tools()()), model_of(asking(2)))
    with guard.run("mine"):
        agent.invoke(HELLO)
    assert {told.run_id for told in guard.told} == {"mine"}


def test_a_sub_agent_is_its_own_run(guard: WritingGuard) -> None:
    look = tool(Tools()()["look"])
    inner = create_agent(model_of(asking(2)), [look], middleware=[LoopGuardMiddleware(guard)])

    @tool
    def delegate(query: str) -> str:
        """Let another agent do it."""
        return str(inner.invoke({"messages": [("user", query)]})["messages"][-1].text)

    outer = create_agent(model_of(asking(1, "delegate")), [delegate], middleware=[LoopGuardMiddleware(guard)])
    outer.invoke(HELLO, {"run_id": "0d6c1d0e-7c0c-4b0a-8f56-2f6a5b3f4f10"})
    runs = {told.tool: told.run_id for told in guard.of("before")}
    assert runs["delegate"] == "0d6c1d0e-7c0c-4b0a-8f56-2f6a5b3f4f10"
    assert runs["look"] not in (runs["delegate"], None)


def test_an_abort_of_a_sub_agent_ends_all(guard: WritingGuard) -> None:
    strict = WritingGuard(CONFIG | {"onCritical": "abort"})
    look = tool(Tools()()["look"])
    inner = create_agent(model_of(asking(9)), [look], middleware=[LoopGuardMiddleware(strict)])

    @tool
    def delegate(query: str) -> str:
        """Let another agent do it."""
        return str(inner.invoke({"messages": [("user", query)]}))

    outer = create_agent(
        model_of(asking(1, "delegate")),
        [delegate],
        middleware=[LoopGuardMiddleware(guard), Excuses()],
    )
    with pytest.raises(LoopAborted) as caught:
        outer.invoke(HELLO)
    assert caught.value.verdict.tool == "look"


# --- interrupts


@pytest.mark.parametrize("way", ["sync", "async"])
def test_an_interrupt_and_its_resume_count_once(guard: WritingGuard, way: str) -> None:
    ran: list[str] = []
    agent = create_agent(
        model_of([PAIR]),
        asks_a_person(ran),
        middleware=[LoopGuardMiddleware(guard)],
        checkpointer=InMemorySaver(),
    )
    host = AgentHost(way)
    host.invoke(agent, HELLO, THREAD)
    assert [told.call_id for told in guard.of("after")] == ["c1"]
    assert host.invoke(agent, Command(resume="yes"), THREAD) == "done"
    assert sorted(told.call_id or "" for told in guard.of("before")) == ["c1", "c2"]
    assert {told.call_id: told.result for told in guard.of("after")} == {
        "c1": "nothing about a",
        "c2": "a: yes",
    }
    assert len({told.run_id for told in guard.told}) == 1


def test_calls_that_a_person_approves_count_once(guard: WritingGuard) -> None:
    tools = Tools()
    agent = create_agent(
        model_of(asking(1)),
        [tool(tools()["look"])],
        middleware=[LoopGuardMiddleware(guard), HumanInTheLoopMiddleware({"look": True})],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(HELLO, THREAD)
    assert guard.told == []
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert [told.verb for told in guard.told] == ["before", "after"]


# --- what comes between


@pytest.mark.parametrize("first", [True, False])
def test_retries_count_once(guard: WritingGuard, first: bool) -> None:
    tools = Tools()
    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0.0, backoff_factor=0.0, jitter=False)
    ours = LoopGuardMiddleware(guard)
    agent = create_agent(
        model_of(asking(1, "fails")),
        [tool(tools()["fails"])],
        middleware=[ours, retry] if first else [retry, ours],
    )
    agent.invoke(HELLO)
    assert len(tools.ran) == 3
    assert [told.verb for told in guard.told] == ["before", "after"]
    assert "no a here" in str(guard.told[1].error)


def test_failures_that_another_middleware_handles_are_failures(guard: WritingGuard) -> None:
    tools = Tools()
    ran = Ran()
    agent = create_agent(
        model_of(asking(6, "fails"), ran),
        [tool(tools()["fails"])],
        middleware=[LoopGuardMiddleware(guard), Excuses()],
    )
    agent.invoke(HELLO)
    assert [told.error for told in guard.of("after")] == ["failed: no a here"] * 5
    assert len(tools.ran) == 5
    assert ran.answers["c6"] == [guard.of("before")[5].verdict.message]


def test_an_aborted_run_stays_aborted(guard: WritingGuard) -> None:
    strict = WritingGuard(CONFIG | {"onCritical": "abort"})
    tools = Tools()
    agent = create_agent(
        model_of(asking(9)),
        [tool(tools()["look"])],
        middleware=[LoopGuardMiddleware(strict)],
        checkpointer=InMemorySaver(),
    )
    for value in (HELLO, None):
        with pytest.raises(LoopAborted):
            agent.invoke(value, THREAD)
    assert len(tools.ran) == 5


# --- results of other shapes


@tool
def command(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Answer by a command."""
    return Command(update={"messages": [ToolMessage(f"about {query}", tool_call_id=tool_call_id)]})


@tool
def commands(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> list[Any]:
    """Answer by a list."""
    message = ToolMessage(f"about {query}", tool_call_id=tool_call_id)
    return [Command(update={}), message]


@tool
def blocks(query: str) -> list[Any]:
    """Answer by blocks."""
    return [{"type": "text", "text": f"about {query}", "id": f"lc_{id(object())}"}]


@pytest.mark.parametrize("answering", [command, commands, blocks])
@pytest.mark.parametrize("way", ["sync", "async"])
def test_results_of_any_shape(guard: WritingGuard, answering: Any, way: str) -> None:
    ran = Ran()
    model = model_of(asking(6, answering.name), ran)
    agent = create_agent(model, [answering], middleware=[LoopGuardMiddleware(guard)])
    assert AgentHost(way).invoke(agent) == "done"
    verdicts = [told.verdict for told in guard.of("before")]
    assert [verdict.action for verdict in verdicts] == [*["allow"] * 3, "warn", "warn", "block"]
    assert ran.answers["c1"] == ran.answers["c5"] == ["about a"]
    assert ran.answers["c4"][0].startswith("about a")
    assert ran.answers["c4"][0].endswith(verdicts[3].message or "-")
    assert ran.answers["c6"] == [verdicts[5].message]
    told = "about a" if answering is not blocks else {"content": [{"type": "text", "text": "about a"}]}
    assert [told.result for told in guard.of("after")] == [told] * 5


# --- compaction


def test_a_summary_of_an_earlier_run_arms_nothing(guard: WritingGuard) -> None:
    model = model_of([*asking(3), [], *asking(2)])
    agent = create_agent(
        model,
        [tool(Tools()()["look"])],
        middleware=[
            LoopGuardMiddleware(guard),
            SummarizationMiddleware(
                model_of([]),
                trigger=("tokens", 5),
                keep=("messages", 2),
                token_counter=lambda _: 9 if model.asked == 2 else 1,
            ),
        ],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(HELLO, THREAD)
    assert [told.verb for told in guard.told].count("compacted") == 1
    guard.told.clear()
    agent.invoke(HELLO, THREAD)
    assert [told.verb for told in guard.told] == ["before", "after"] * 2


@pytest.mark.parametrize("way", ["sync", "async"])
def test_the_summaries_of_deepagents(guard: WritingGuard, way: str) -> None:
    summarization = pytest.importorskip("deepagents.middleware.summarization", reason="needs deepagents")
    from deepagents.backends import StateBackend

    tools = Tools()
    model = model_of(asking(9))
    agent = create_agent(
        model,
        [tool(tools()["look"])],
        middleware=[
            LoopGuardMiddleware(guard),
            summarization.SummarizationMiddleware(
                model=model_of([]),
                backend=StateBackend(),
                trigger=("tokens", 5),
                keep=("messages", 2),
                token_counter=lambda *_, **__: 9 if model.asked == 2 else 1,
            ),
        ],
    )
    with pytest.raises(LoopAborted) as caught:
        AgentHost(way).invoke(agent)
    assert len(guard.of("compacted")) == 1
    assert caught.value.verdict.error == "compaction_loop_persisted"
    assert len(tools.ran) == 5


def test_a_run_that_is_wound_back_is_not_compacted(guard: WritingGuard) -> None:
    agent = create_agent(
        model_of([*asking(3), [], *asking(2)]),
        [tool(Tools()()["look"])],
        middleware=[LoopGuardMiddleware(guard)],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(HELLO, THREAD)
    early = [state for state in agent.get_state_history(THREAD) if len(state.values["messages"]) == 3]
    agent.invoke(None, early[0].config)
    assert guard.of("compacted") == []
    assert len(guard.of("before")) == 5
    assert len({told.run_id for told in guard.told}) == 1


# --- many at once


def test_runs_at_the_same_time_stay_apart(guard: WritingGuard) -> None:
    def agent() -> Any:
        return create_agent(model_of(asking(4)), [tool(Tools()()["look"])], middleware=[shared])

    async def all_of_them() -> None:
        await asyncio.gather(*(agent().ainvoke(HELLO) for _ in range(4)))

    shared = LoopGuardMiddleware(guard)
    asyncio.run(all_of_them())
    runs: dict[str | None, list[str]] = {}
    for told in guard.of("before"):
        runs.setdefault(told.run_id, []).append(told.verdict.action)
    assert list(runs.values()) == [["allow", "allow", "allow", "warn"]] * 4


@pytest.mark.parametrize("count", [2, 7])
def test_equal_calls_of_one_reply_are_one_repeat(guard: WritingGuard, count: int) -> None:
    tools = Tools()
    ran = Ran()
    reply = [Ask(tool="look", call_id=f"p{number}") for number in range(count)]
    host = AgentHost("sync")
    agent = host.agent(guard, Script(replies=[reply], tools=tools()), model_of([reply], ran))
    assert host.invoke(agent) == "done"
    assert len(ran.answers) == count
    assert len(tools.ran) == min(count, 5)
