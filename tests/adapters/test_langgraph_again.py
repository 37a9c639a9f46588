"""Calls that LangGraph runs again: after an interrupt, a retry, an exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langgraph.prebuilt", reason="needs langgraph")

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.types import Command, RetryPolicy, interrupt

from loopwarden import LoopGuard
from tests.adapters.contract import ToolFailure
from tests.adapters.langgraph_agents import THREAD, asks_a_person
from tests.adapters.langgraph_graphs import STATES, Bare, Named, ask, graph, invoked, question
from tests.adapters.writing_guard import CONFIG, WritingGuard

if TYPE_CHECKING:
    from pathlib import Path


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
