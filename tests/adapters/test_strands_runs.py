"""Strands Agents: where runs begin, pause and end, whose calls count, and compactions."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("strands.hooks", reason="needs strands-agents; see scripts/check-hosts")

from strands import Agent, tool
from strands.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
)
from strands.tools.executors import SequentialToolExecutor
from strands.types.exceptions import ContextWindowOverflowException, EventLoopException

from loopwarden import LoopAborted
from loopwarden.adapters.strands import LoopGuardHooks, StrandsLoopAborted
from tests.adapters.contract import Ask, asking
from tests.adapters.strands_scripts import Hook, Scripted, agent_of, both_ways, look, run, window
from tests.adapters.writing_guard import CONFIG, WritingGuard

pytestmark = pytest.mark.usefixtures("closed_loop")


# --- interrupts


@pytest.mark.parametrize("first", [True, False])
def test_a_call_that_waits_for_a_person_counts_once(first: bool) -> None:
    def approve(event: BeforeToolCallEvent) -> None:
        if event.tool_use["toolUseId"] == "c2":
            event.interrupt("approval", reason="look?")

    guard = WritingGuard()
    pair = [Ask(tool="look", call_id="c1", query="b"), Ask(tool="look", call_id="c2")]
    model = Scripted([pair, *asking(1, query="c")])
    hooks = both_ways(Hook(BeforeToolCallEvent, approve), guard)[first]
    agent = agent_of(model, [look], hooks)
    asked = agent("go")
    assert asked.stop_reason == "interrupt"
    assert [told.call_id for told in guard.of("after")] == ["c1"]
    answer = {"interruptResponse": {"interruptId": asked.interrupts[0].id, "response": "yes"}}
    assert str(agent([answer])).strip() == "done"
    assert [told.call_id for told in guard.of("before")] == ["c1", "c2", "c1"]
    assert [told.call_id for told in guard.of("after")] == ["c1", "c2", "c1"]
    assert len({told.run_id for told in guard.told}) == 1
    assert Counter(told.turn_id for told in guard.of("before")).most_common(1)[0][1] == 2
    assert guard.of("compacted") == []


def test_a_refused_call_that_waits_counts_once() -> None:
    def approve(event: BeforeToolCallEvent) -> None:
        if event.tool_use["toolUseId"] == "c6":
            event.interrupt("approval")

    guard = WritingGuard()
    model = Scripted(asking(6))
    agent = agent_of(model, [look], [LoopGuardHooks(guard), Hook(BeforeToolCallEvent, approve)])
    asked = agent("go")
    answer = {"interruptResponse": {"interruptId": asked.interrupts[0].id, "response": "yes"}}
    run(model, agent, [answer])
    assert [told.call_id for told in guard.of("before")] == [f"c{number}" for number in range(1, 7)]
    assert guard.of("before")[5].verdict.message in model.ran.answers["c6"][0]
    assert len(guard.of("after")) == 5


def test_a_run_that_a_hook_goes_on_with_is_one_run() -> None:
    prompts = ["once more"]

    def more(event: AfterInvocationEvent) -> None:
        if prompts:
            event.resume = prompts.pop()

    guard = WritingGuard()
    model = Scripted([*asking(3), [], *asking(3)])
    agent = agent_of(model, [look], [LoopGuardHooks(guard), Hook(AfterInvocationEvent, more)])
    run(model, agent)
    assert len({told.run_id for told in guard.told}) == 1
    assert [told.verdict.action for told in guard.of("before")] == [*["allow"] * 3, "warn", "warn", "block"]


def test_a_run_that_stops_at_checkpoints_is_one_run() -> None:
    guard = WritingGuard()
    hooks = LoopGuardHooks(guard)
    agent = agent_of(Scripted(asking(6)), [look], [hooks], checkpointing=True)
    result = agent("go")
    stops = 0
    while result.stop_reason == "checkpoint":
        stops += 1
        result = agent({"checkpointResume": {"checkpoint": result.checkpoint.to_dict()}})
    assert stops == 12
    assert len({told.run_id for told in guard.told}) == 1
    assert len({told.turn_id for told in guard.of("before")}) == 6
    assert [told.verdict.action for told in guard.of("before")] == [*["allow"] * 3, "warn", "warn", "block"]
    assert len(hooks._runs) == 0


# --- the end


def test_the_signal_is_the_hosts_exception_as_well() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    model = Scripted(asking(9))
    agent = agent_of(model, [look], [LoopGuardHooks(guard)])
    with pytest.raises(EventLoopException) as raised:
        agent("go")
    assert isinstance(raised.value, StrandsLoopAborted)
    assert type(raised.value.original_exception) is LoopAborted
    assert raised.value.original_exception.verdict is raised.value.verdict
    assert str(raised.value) == raised.value.verdict.message
    model.replies = []
    assert str(agent("and now?")).strip() == "done"


@pytest.mark.parametrize("executor", [None, SequentialToolExecutor()])
def test_an_abort_in_a_batch_runs_nothing_more_of_it(executor: Any) -> None:
    ran: list[str] = []

    def note(query: str) -> str:
        """Take a note."""
        ran.append(query)
        return "noted"

    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    batch = [Ask(tool="note", call_id="d1"), Ask(tool="note", call_id="d2", query="b")]
    model = Scripted([*asking(5, "note"), batch, *asking(2, "note", "c")])
    run(model, agent_of(model, [note], [LoopGuardHooks(guard)], tool_executor=executor))
    assert model.ran.aborted is not None
    assert model.ran.requests == 6
    assert "c" not in ran


def test_a_run_leaves_nothing_behind() -> None:
    guard = WritingGuard()
    hooks = LoopGuardHooks(guard)
    model = Scripted(asking(3))
    run(model, agent_of(model, [look], [hooks]))
    assert len(hooks._runs) == 0
    assert len(guard._runs) == 0


def test_a_stream_that_is_closed_leaves_nothing_behind() -> None:
    guard = WritingGuard()
    hooks = LoopGuardHooks(guard)
    agent = agent_of(Scripted(asking(3)), [look], [hooks])

    async def read_a_little() -> None:
        stream = agent.stream_async("go")
        async for _ in stream:
            if guard.told:
                break
        await stream.aclose()

    asyncio.run(read_a_little())
    assert guard.told
    assert len(hooks._runs) == 0
    assert len(guard._runs) == 0


def test_an_agent_that_waits_forever_is_not_kept() -> None:
    def approve(event: BeforeToolCallEvent) -> None:
        event.interrupt("approval")

    hooks = LoopGuardHooks(WritingGuard())
    agent = agent_of(Scripted(asking(1)), [look], [hooks, Hook(BeforeToolCallEvent, approve)])
    agent("go")
    assert len(hooks._runs) == 1
    del agent
    gc.collect()
    assert len(hooks._runs) == 0


# --- whose calls


def test_calls_by_code_are_not_the_models() -> None:
    guard = WritingGuard()
    agent = agent_of(Scripted([]), [look], [LoopGuardHooks(guard)])
    assert agent.tool.look(query="a")["status"] == "success"
    assert guard.told == []


def test_calls_in_the_background_are_the_models() -> None:
    if "background_tasks" not in inspect.signature(Agent).parameters:
        pytest.skip("this version has no calls in the background")
    guard = WritingGuard()
    model = Scripted(asking(6))
    tasks = {"always": ["look"]}
    run(model, agent_of(model, [look], [LoopGuardHooks(guard)], background_tasks=tasks))
    assert [told.call_id for told in guard.of("before")] == [f"c{number}" for number in range(1, 7)]
    assert {told.result for told in guard.of("after")} == {"nothing about a"}
    assert len({told.run_id for told in guard.told}) == 1


def test_a_sub_agent_is_a_run_of_its_own() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    hooks = LoopGuardHooks(guard)
    inner = Agent(Scripted(asking(9)), name="inner", tools=[tool(look)], hooks=[hooks], callback_handler=None)
    model = Scripted([[Ask(tool="inner", call_id="p1")]])
    outer = Agent(model, tools=[inner], hooks=[hooks], callback_handler=None)
    assert str(outer("go")).strip() == "done"
    runs = {told.run_id: told.tool for told in guard.of("before")}
    assert set(runs.values()) == {"inner", "look"}
    (outcome,) = (told for told in guard.of("after") if told.call_id == "p1")
    assert outcome.error


# --- compaction


def test_a_request_that_is_tried_again_as_it_was_is_no_compaction() -> None:
    def again(event: AfterModelCallEvent) -> None:
        event.retry = isinstance(event.exception, ContextWindowOverflowException)

    guard = WritingGuard()
    model = Scripted(asking(3), overflows_at=2)
    agent = agent_of(model, [look], [LoopGuardHooks(guard), Hook(AfterModelCallEvent, again)])
    run(model, agent)
    assert len(guard.of("before")) == 3
    assert guard.of("compacted") == []


def test_what_was_cut_between_two_runs_is_no_compaction_of_the_second() -> None:
    guard = WritingGuard()
    model = Scripted(asking(4))
    agent = agent_of(model, [look], [LoopGuardHooks(guard)], conversation_manager=window())
    run(model, agent)
    agent.conversation_manager.reduce_context(agent)
    assert agent.conversation_manager.removed_message_count
    model.replies = [*model.replies, [], *asking(2)]
    run(model, agent)
    assert len(guard.of("before")) == 6
    assert guard.of("compacted") == []


def test_compactions_without_a_call_between_them_end_the_run() -> None:
    def cut(event: BeforeModelCallEvent) -> None:
        event.agent.conversation_manager.removed_message_count += 1

    def again(event: AfterModelCallEvent) -> None:
        event.retry = len(guard.told) < 50

    guard = WritingGuard()
    model = Scripted([])
    hooks = [
        LoopGuardHooks(guard),
        Hook(BeforeModelCallEvent, cut),
        Hook(AfterModelCallEvent, again),
    ]
    run(model, agent_of(model, [look], hooks))
    assert model.ran.aborted is not None
    assert model.ran.aborted.verdict.error == "compaction_loop_persisted"
