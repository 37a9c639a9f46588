"""LangGraph's runs: which calls belong together, and calls that a graph runs again."""

from __future__ import annotations

import asyncio
import dataclasses
import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph.prebuilt", reason="needs langgraph")

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, RetryPolicy, Send
from pydantic import BaseModel

from loopwarden import LoopAborted, LoopGuard
from loopwarden.adapters.langgraph import GuardedToolCalls
from tests.adapters.contract import ToolFailure
from tests.adapters.langgraph_agents import THREAD, asks_a_person
from tests.adapters.writing_guard import CONFIG, WritingGuard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Bare(TypedDict):
    """A history whose messages get no ids."""

    messages: Annotated[list[AnyMessage], operator.add]


class Chat(TypedDict):
    """A history under another name, beside another list."""

    plan: list[str]
    chat: Annotated[list[AnyMessage], operator.add]


class Named(TypedDict):
    """A history under another name, with ids."""

    chat: Annotated[list[AnyMessage], add_messages]


class Two(TypedDict):
    """Two histories; the tools are called in the second."""

    messages: Annotated[list[AnyMessage], add_messages]
    chat: Annotated[list[AnyMessage], operator.add]


class Model(BaseModel):
    """A history in a model."""

    messages: Annotated[list[AnyMessage], operator.add]


@dataclasses.dataclass
class Data:
    """A history under another name, in a dataclass."""

    chat: Annotated[list[AnyMessage], operator.add]


STATES: list[Any] = [MessagesState, Bare, Chat, Named, Two, Model, Data]


def ask(question: str, number: int, replies: int, *, call_id: str | None = None) -> AIMessage:
    """A reply without an id that asks for what the person asked for, `replies` times, then "done"."""
    if number >= replies:
        return AIMessage("done")
    call = {"name": "look", "args": {"query": question}, "id": call_id or f"c{number}"}
    return AIMessage("", tool_calls=[call])


def graph(
    guard: LoopGuard,
    state: Any,
    reply: Callable[[str, int], AIMessage],
    tools: list[Any] | None = None,
    *,
    sends: bool = False,
    handles: bool = True,
    retry: RetryPolicy | None = None,
    **options: Any,
) -> Any:
    """A graph that asks `reply(question, replies so far)`, with an object of its own around its tools."""
    key = next((name for name in ("chat", "messages") if name in state.__annotations__), "messages")
    guarded = GuardedToolCalls(guard)
    node = ToolNode(
        [tool(look)] if tools is None else tools,
        wrap_tool_call=guarded.wrap_tool_call,
        awrap_tool_call=guarded.awrap_tool_call,
        handle_tool_errors=handles,
        messages_key=key,
    )

    def history(values: Any) -> list[Any]:
        found: list[Any] = values[key] if isinstance(values, dict) else getattr(values, key)
        return found

    def model(values: Any) -> dict[str, Any]:
        messages = history(values)
        first = max(at for at, message in enumerate(messages) if isinstance(message, HumanMessage))
        replies = sum(isinstance(message, AIMessage) for message in messages[first:])
        return {key: [reply(str(messages[first].content), replies)]}

    def route(values: Any) -> Any:
        calls = history(values)[-1].tool_calls
        if not calls:
            return END
        return [Send("tools", [call]) for call in calls] if sends else "tools"

    built = StateGraph(state)
    built.add_node("model", model)
    built.add_node("tools", node, retry_policy=retry)
    built.add_edge(START, "model")
    built.add_conditional_edges("model", route, ["tools", END])
    built.add_edge("tools", "model")
    compiled = built.compile(**options)
    compiled.key = key
    return compiled


def look(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}"


def question(agent: Any, text: str) -> dict[str, Any]:
    """What the agent is asked; histories that it does not read are there too, the same each time."""
    asked: dict[str, Any] = {agent.key: [HumanMessage(text)]}
    if agent.builder.state_schema is Two:
        asked["messages"] = [HumanMessage("a note", id="same")]
    if agent.builder.state_schema is Chat:
        asked["plan"] = ["look"]
    return asked


def invoked(agent: Any, value: Any, config: Any = None, way: str = "sync") -> str:
    """The agent's last word."""
    config = {"recursion_limit": 200} | (config or {})
    if way == "sync":
        ended = agent.invoke(value, config)
    elif way == "async":
        ended = asyncio.run(agent.ainvoke(value, config))
    else:
        *_, ended = agent.stream(value, config, stream_mode="values")
    return str(ended[agent.key][-1].content)


def good_or_bad(asked: str, number: int) -> AIMessage:
    return ask("a", number, 2 if asked == "good" else 99)


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard(on_error="raise")


def counted(guard: WritingGuard) -> dict[str | None, list[object]]:
    """What stands of each call: the outcomes that were told and not taken back."""
    calls: dict[str | None, list[object]] = {}
    for told in guard.told:
        if told.verb == "before":
            calls.setdefault(told.call_id, [])
        elif told.verb == "after":
            calls[told.call_id].append(told.error or told.result)
    retracted = [told for told in guard.told if told.verb == "retract"]
    assert len(guard.of("before")) - len(retracted) <= len(calls)
    return calls


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


# --- calls that run again


def pair(asked: str, number: int) -> AIMessage:
    """One call that runs at once and one that asks a person, in one reply."""
    calls = [{"name": name, "args": {"query": asked}, "id": f"{name}{number}"} for name in ("look", "sure")]
    return AIMessage("", tool_calls=calls) if number < 2 else AIMessage("done")


@pytest.mark.parametrize("sends", [False, True])
@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_a_run_that_is_taken_up_is_the_same_run(
    guard: WritingGuard, state: Any, anew: bool, sends: bool
) -> None:
    saver = InMemorySaver()
    ran: list[str] = []

    def built() -> Any:
        return graph(guard, state, pair, asks_a_person(ran), sends=sends, checkpointer=saver)

    agent = built()
    agent.invoke(question(agent, "a"), THREAD)
    for _ in range(2):
        agent = built() if anew else agent
        last = agent.invoke(Command(resume="yes"), THREAD)
    assert last[agent.key][-1].content == "done"
    assert len(ran) == (4 if not sends else 2)
    expected: dict[str | None, list[object]] = {
        f"{name}{number}": [said] for number in (0, 1) for name, said in SAID.items()
    }
    told = counted(guard)
    assert {call: outcomes[-1:] for call, outcomes in told.items()} == expected
    assert told == expected or anew
    if not anew or state in (MessagesState, Named):
        assert len({each.run_id for each in guard.told}) == 1


SAID: dict[str, object] = {"look": "nothing about a", "sure": "a: yes"}


@pytest.mark.parametrize("state", [Bare, MessagesState])
def test_a_run_that_waits_before_its_tools(guard: WritingGuard, state: Any) -> None:
    agent = graph(
        guard,
        state,
        lambda _, number: ask("a", number, 5),
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"],
    )
    agent.invoke(question(agent, "a"), THREAD)
    while agent.get_state(THREAD).next:
        agent.invoke(None, THREAD)
    assert [told.verdict.action for told in guard.of("before")] == [*["allow"] * 3, "warn", "warn"]
    assert len({told.run_id for told in guard.told}) == 1


@pytest.mark.parametrize("anew", [False, True])
def test_a_call_that_is_often_taken_up_counts_once(tmp_path: Path, anew: bool) -> None:
    """Each resume runs the sibling again; with a store, also in another process."""
    saver = InMemorySaver()
    ran: list[str] = []

    @tool
    def sure(query: str) -> str:
        """Ask a person many times."""
        from langgraph.types import interrupt

        return f"{query}: " + "".join(interrupt(f"{number}?") for number in range(6))

    def reply(asked: str, number: int) -> AIMessage:
        return pair(asked, number) if number == 0 else AIMessage("done")

    shared = LoopGuard(CONFIG, store=f"sqlite:{tmp_path / 'runs.db'}", on_error="raise")
    value: Any = None
    for _ in range(7):
        guard = (
            LoopGuard(CONFIG, store=f"sqlite:{tmp_path / 'runs.db'}", on_error="raise") if anew else shared
        )
        agent = graph(guard, MessagesState, reply, [asks_a_person(ran)[0], sure], checkpointer=saver)
        last = agent.invoke(value or question(agent, "a"), THREAD)
        value = Command(resume="y")
        if guard is not shared:
            guard.close()
    shared.close()
    assert len(ran) == 7
    texts = [message.content for message in last["messages"] if isinstance(message, ToolMessage)]
    assert texts == ["nothing about a", "a: yyyyyy"]


def test_ids_that_a_model_gives_again_are_other_calls(guard: WritingGuard) -> None:
    """Where ids repeat in the history, an earlier call is not taken back for a later one."""
    saver = InMemorySaver()
    for number in range(6):
        agent = graph(
            guard,
            MessagesState,
            lambda _, number: ask("a", number, 6, call_id="call_0"),
            checkpointer=saver,
            interrupt_before=["tools"],
        )
        agent.invoke(question(agent, "a") if number == 0 else None, THREAD)
    agent.invoke(None, THREAD)
    assert [told.verdict.action for told in guard.of("before")][3:] == ["warn", "warn", "block"]


# --- failures that the graph tries again


class Flaky:
    """A tool that fails the first `times` times for each query."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.tried: dict[str, int] = {}

    def __call__(self) -> Any:
        @tool
        def look(query: str) -> str:
            """Look something up."""
            self.tried[query] = self.tried.get(query, 0) + 1
            if self.tried[query] <= self.times:
                raise ToolFailure("connection reset")
            return f"something about {query}"

        return look


def other_each_time(_: str, number: int) -> AIMessage:
    return ask(f"q{number}", number, 12)


RETRY = RetryPolicy(
    max_attempts=3, initial_interval=0.0, backoff_factor=0.0, jitter=False, retry_on=ToolFailure
)


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("state", [Bare, MessagesState])
def test_a_retry_that_succeeds_is_a_success(guard: WritingGuard, state: Any, way: str) -> None:
    flaky = Flaky(2)
    agent = graph(guard, state, other_each_time, [flaky()], handles=False, retry=RETRY)
    assert invoked(agent, question(agent, "a"), way=way) == "done"
    assert set(flaky.tried.values()) == {3}
    assert {told.verdict.action for told in guard.told} == {"allow"}
    outcomes = counted(guard)
    assert [str(said[-1]) for said in outcomes.values()] == [f"something about q{at}" for at in range(12)]
    assert {len(said) for said in outcomes.values()} == {2}
    assert len(guard.of("retract")) == 12


def test_retries_that_fail_are_one_failure(guard: WritingGuard) -> None:
    flaky = Flaky(9)
    agent = graph(guard, MessagesState, other_each_time, [flaky()], handles=False, retry=RETRY)
    with pytest.raises(ToolFailure):
        invoked(agent, question(agent, "a"))
    assert flaky.tried == {"q0": 3}
    assert [told.verb for told in guard.told] == ["before", "after"]


def test_failures_that_no_retry_mends_are_refused(guard: WritingGuard) -> None:
    """The opposite: here each failure goes to the model, and it goes on failing."""
    agent = graph(guard, Bare, other_each_time, [Flaky(9)()], retry=RETRY)
    invoked(agent, question(agent, "a"))
    assert "block" in {told.verdict.action for told in guard.told}
    assert guard.of("retract") == []


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("state", [Bare, MessagesState])
def test_a_graph_that_is_asked_to_go_on_after_an_exception(
    guard: WritingGuard, state: Any, anew: bool
) -> None:
    saver = InMemorySaver()
    flaky = Flaky(1)
    value: Any = None
    failures = 0
    agent = graph(guard, state, other_each_time, [flaky()], handles=False, checkpointer=saver)
    value = question(agent, "a")
    while value is not None or agent.get_state(THREAD).next:
        try:
            agent.invoke(value, THREAD)
        except ToolFailure:
            failures += 1
            if anew:
                agent = graph(guard, state, other_each_time, [flaky()], handles=False, checkpointer=saver)
        value = None
    assert failures == 12
    assert {told.verdict.action for told in guard.told} == {"allow"}
    assert [str(said[-1]) for said in counted(guard).values()] == [
        f"something about q{at}" for at in range(12)
    ]


def test_a_success_that_fails_when_it_runs_again_is_a_failure(guard: WritingGuard) -> None:
    saver = InMemorySaver()
    ran: list[str] = []
    _, sure = asks_a_person(ran)

    @tool
    def look(query: str) -> str:
        """Look something up."""
        ran.append(query)
        if len(ran) > 1:
            raise ToolFailure("gone")
        return f"something about {query}"

    agent = graph(guard, Bare, pair, [look, sure], checkpointer=saver)
    agent.invoke(question(agent, "a"), THREAD)
    agent.invoke(Command(resume="yes"), THREAD)
    said = counted(guard)["look0"]
    assert said[0] == "something about a"
    assert "gone" in str(said[-1])
    assert len(said) == 2
