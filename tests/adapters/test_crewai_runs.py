"""CrewAI: where runs begin and end, whose calls count, blocks, and compactions."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

pytest.importorskip("crewai", reason="needs crewai; see scripts/check-hosts")

from crewai import Crew, Process, Task
from crewai.agent.planning_config import PlanningConfig
from crewai.core.providers.human_input import SyncHumanInputProvider, reset_provider, set_provider
from crewai.flow.flow import Flow, listen, start
from crewai.hooks.dispatch import HookAborted, InterceptionPoint, get_hooks, get_scoped_hooks
from crewai.tools.tool_failure import ToolExecutionFailedError

from loopwarden import LoopAborted
from loopwarden.adapters.crewai import CrewLoopAborted, guarded
from tests.adapters.contract import Ask, asking
from tests.adapters.crewai_scripts import (
    Scripted,
    agent_of,
    attempt,
    call_of,
    crew_of,
    crew_with,
    look,
    task_of,
)
from tests.adapters.writing_guard import CONFIG, WritingGuard

ABORTING = CONFIG | {"warningThreshold": 2, "criticalThreshold": 3, "onCritical": "abort"}


def runs(guard: WritingGuard) -> list[tuple[str | None, str | None]]:
    """The sessions and runs, in the order in which they were met."""
    return list(dict.fromkeys((told.session_id, told.run_id) for told in guard.told))


# --- the end


def test_the_signal_is_the_hosts_as_well() -> None:
    guard = WritingGuard(ABORTING)
    crew = crew_of(Scripted(asking(9)), [look])
    with guarded(guard), pytest.raises(HookAborted) as raised:
        crew.kickoff()
    aborted = raised.value
    assert isinstance(aborted, CrewLoopAborted)
    assert isinstance(aborted, LoopAborted)
    assert aborted.reason == str(aborted) == aborted.verdict.message


def test_what_is_caught_in_the_block_is_not_raised_again() -> None:
    guard = WritingGuard(ABORTING)
    with guarded(guard):
        with pytest.raises(LoopAborted):
            crew_of(Scripted(asking(9)), [look]).kickoff()
        assert str(crew_of(Scripted([]), [look]).kickoff()) == "done"


@pytest.mark.parametrize("options", [{"max_execution_time": 60}, {"max_retry_limit": 5}], ids=str)
def test_an_abort_is_not_tried_again(options: dict[str, Any]) -> None:
    guard = WritingGuard(ABORTING)
    model = Scripted(asking(9))
    crew = crew_with(task_of(agent_of(model, [look], **options)))
    assert isinstance(attempt(guard, crew.kickoff), LoopAborted)
    assert model.ran.requests == 4


def test_a_block_leaves_nothing_behind() -> None:
    guard = WritingGuard()
    attempt(guard, crew_of(Scripted(asking(2)), [look]).kickoff)
    assert len(runs(guard)) == 1
    assert len(guard._runs) == 0
    assert [get_hooks(point) + get_scoped_hooks(point) for point in InterceptionPoint] == [[]] * len(
        InterceptionPoint
    )
    guard.told.clear()
    crew_of(Scripted(asking(2)), [look]).kickoff()
    assert guard.told == []


# --- blocks


def test_a_crew_from_before_the_block_is_guarded() -> None:
    crew = crew_of(Scripted([*asking(1), [], *asking(1)]), [look])
    crew.kickoff()
    guard = WritingGuard()
    attempt(guard, crew.kickoff)
    assert len(guard.of("before")) == 1


def test_in_a_block_within_a_block_the_inner_guard_is_asked() -> None:
    outer, inner = WritingGuard(), WritingGuard()
    with guarded(outer):
        with guarded(inner):
            crew_of(Scripted(asking(1)), [look]).kickoff()
        crew_of(Scripted(asking(2)), [look]).kickoff()
    assert [len(guard.of("before")) for guard in (outer, inner)] == [2, 1]


def test_two_blocks_at_once_do_not_mix() -> None:
    """Each crew waits in its tool until the other one is in its own."""
    meeting = threading.Barrier(2, timeout=60)

    def meet(query: str) -> str:
        """Meet."""
        meeting.wait()
        return "met"

    async def kickoff(guard: WritingGuard, query: str) -> None:
        with guarded(guard):
            await crew_of(Scripted(asking(2, "meet", query)), [meet]).kickoff_async()

    async def both() -> None:
        await asyncio.gather(kickoff(guards[0], "a"), kickoff(guards[1], "b"))

    guards = WritingGuard(), WritingGuard()
    asyncio.run(both())
    for guard, query in zip(guards, "ab", strict=True):
        assert [told.arguments for told in guard.of("before")] == [{"query": query}] * 2
        assert len(guard.of("after")) == 2


# --- runs


def test_every_task_is_a_run_in_the_session_of_the_kickoff() -> None:
    guard = WritingGuard()
    agent = agent_of(Scripted([*asking(2), [], *asking(2)]), [look])
    crew = crew_with(task_of(agent), task_of(agent))
    attempt(guard, crew.kickoff)
    (session, one), (same, other) = runs(guard)
    assert session == same is not None
    assert one != other
    assert [told.run_id for told in guard.of("before")] == [one, one, other, other]


def test_a_crew_that_is_kicked_off_again_has_new_runs() -> None:
    guard = WritingGuard()
    crew = crew_of(Scripted([*asking(2), [], *asking(2)]), [look])
    attempt(guard, lambda: [crew.kickoff(), crew.kickoff()])
    (session, one), (next_session, other) = runs(guard)
    assert session != next_session
    assert one != other


def test_kickoffs_for_each_of_many_have_runs_of_their_own() -> None:
    guard = WritingGuard()
    crew = crew_of(Scripted([*asking(2), [], *asking(2)]), [look])
    attempt(guard, lambda: crew.kickoff_for_each([{"x": "1"}, {"x": "2"}]))
    assert len(runs(guard)) == 2
    assert len(guard.of("after")) == 4


def test_tasks_in_threads_are_guarded() -> None:
    guard = WritingGuard(ABORTING)
    model, other = Scripted(asking(9)), Scripted(asking(1))
    first = task_of(agent_of(model, [look]), async_execution=True)
    second = task_of(agent_of(other, [look], "Writer"), context=[first])
    assert isinstance(attempt(guard, crew_with(first, second).kickoff), LoopAborted)
    assert (model.ran.requests, other.ran.requests) == (4, 0)


def test_an_attempt_after_a_fault_of_the_model_is_a_run_of_its_own() -> None:
    class Breaking(Scripted):
        def call(self, *args: Any, **options: Any) -> Any:
            reply = super().call(*args, **options)
            if self.ran.requests == 3:
                raise RuntimeError("no connection")
            return reply

    guard = WritingGuard()
    attempt(guard, crew_of(Breaking([*asking(2), [], *asking(2)]), [look]).kickoff)
    assert len(runs(guard)) == 2
    assert [told.verdict.action for told in guard.of("before")] == ["allow"] * 4


def test_a_person_who_answers_goes_on_with_the_run() -> None:
    class Person(SyncHumanInputProvider):
        words = iter(["and once more", ""])

        def _prompt_input(self, *args: Any, **options: Any) -> str:
            return next(self.words)

    guard = WritingGuard(CONFIG | {"warningThreshold": 2, "criticalThreshold": 4})
    agent = agent_of(Scripted([*asking(5), [], *asking(2)]), [look])
    token = set_provider(Person())
    try:
        attempt(guard, crew_with(task_of(agent, human_input=True)).kickoff)
    finally:
        reset_provider(token)
    assert len(runs(guard)) == 1
    # What was refused may be tried once more, as a person wrote.
    assert [told.verdict.action for told in guard.of("before")][4:] == ["block", "warn", "block"]
    assert guard.of("compacted") == []


def test_agents_on_their_own_are_guarded() -> None:
    guard = WritingGuard()

    async def both() -> None:
        agents = [agent_of(Scripted(asking(2)), [look]) for _ in range(2)]
        await asyncio.gather(*(agent.kickoff_async("go") for agent in agents))

    attempt(guard, lambda: asyncio.run(both()))
    assert len(runs(guard)) == 2
    assert [told.verdict.action for told in guard.of("before")] == ["allow"] * 4
    aborted = attempt(WritingGuard(ABORTING), lambda: agent_of(Scripted(asking(9)), [look]).kickoff("go"))
    assert isinstance(aborted, LoopAborted)


def test_one_agent_at_work_for_two_at_once_has_two_runs() -> None:
    guard = WritingGuard()
    agent = agent_of(Scripted(asking(4)), [look])

    async def both() -> None:
        await asyncio.gather(agent.kickoff_async("one"), agent.kickoff_async("two"))

    attempt(guard, lambda: asyncio.run(both()))
    assert len(runs(guard)) == 2
    assert len(guard.of("before")) == len(guard.of("after")) == 4
    assert guard.of("compacted") == []


def test_crews_in_a_flow_are_guarded() -> None:
    first, second = Scripted(asking(1)), Scripted(asking(9))

    class Searching(Flow[Any]):
        @start()
        def one(self) -> str:
            return str(crew_of(first, [look]).kickoff())

        @listen(one)
        async def two(self, found: str) -> str:
            return str(await crew_of(second, [look]).akickoff())

    guard = WritingGuard(ABORTING)
    flow = Searching(suppress_flow_events=True)
    assert isinstance(attempt(guard, flow.kickoff), LoopAborted)
    (session, one), (same, other) = runs(guard)
    assert session == same
    assert one != other


# --- delegation


class Boss(Scripted):
    """A manager who gives the same work to the same coworker."""

    def call(self, messages: Any, *args: Any, **options: Any) -> Any:
        self._next(messages)
        if self.ran.requests > 5:
            return "done"
        words = {"task": "look", "context": "none", "coworker": "Finder"}
        return [call_of(f"d{self.ran.requests}", "delegate_work_to_coworker", **words)]


def hierarchy(boss: Boss, worker: Scripted) -> Crew:
    agent = agent_of(worker, [look])
    task = Task(description="Find it.", expected_output="it")
    options: dict[str, Any] = {"manager_llm": boss, "cache": False, "verbose": False}
    return Crew(agents=[agent], tasks=[task], process=Process.hierarchical, **options)


def test_delegated_work_is_a_run_of_its_own() -> None:
    """The manager's loop is refused; the coworker begins afresh each time."""
    guard = WritingGuard(CONFIG | {"warningThreshold": 2, "criticalThreshold": 3})
    boss = Boss([])
    attempt(guard, hierarchy(boss, Scripted([*asking(1), []] * 5)).kickoff)
    sessions, ids = zip(*runs(guard), strict=True)
    assert (len(set(sessions)), len(set(ids))) == (1, 4)
    told = [told for told in guard.of("before") if told.tool != "look"]
    assert [told.verdict.action for told in told] == ["allow", "allow", "warn", "block", "block"]
    assert {told.run_id for told in told} == {ids[0]}
    assert boss.ran.answers["d4"] == [told[3].verdict.message]


def test_an_abort_of_the_coworker_is_a_failed_call_of_the_manager() -> None:
    guard = WritingGuard(ABORTING)
    worker = Scripted([*asking(4), []] * 5)
    boss = Boss([])
    attempt(guard, hierarchy(boss, worker).kickoff)
    failures = [told.error for told in guard.of("after") if told.error is not None]
    assert failures
    assert "look was called 3 times" in str(failures[0])
    assert "look was called 3 times" in boss.ran.answers["d1"][0]


# --- agents that work off a plan


class Planning(Scripted):
    """Makes a plan of one step, and follows the script in it."""

    def call(self, messages: Any, *args: Any, **options: Any) -> Any:
        tools = str(options.get("tools"))
        if "create_reasoning_plan" in tools:
            step = {"step_number": 1, "description": "look", "tool_to_use": "look", "depends_on": []}
            return json.dumps({"plan": "look", "steps": [step], "ready": True})
        return super().call(messages, *args, **options) if "look" in tools else "done"


@pytest.mark.parametrize("hooked", [True, False])
def test_agents_with_a_plan_are_guarded(hooked: bool) -> None:
    """A model that calls no hooks goes on to ask, and is refused, until the host has had enough of it."""
    guard = WritingGuard(ABORTING)
    model = Planning(asking(9), hooked=hooked)
    agent = agent_of(model, [look], planning_config=PlanningConfig(max_attempts=1))
    crew = crew_with(task_of(agent))
    assert isinstance(attempt(guard, crew.kickoff), LoopAborted)
    assert len(guard.of("after")) == 3
    assert len(runs(guard)) == 1
    assert model.ran.requests == (4 if hooked else 9)
    assert {told.turn_id is None for told in guard.of("before")[1:]} == {not hooked}


# --- compaction


def test_a_request_that_was_too_long_is_a_compaction() -> None:
    guard = WritingGuard(CONFIG | {"warningThreshold": 8, "criticalThreshold": 9})
    model = Scripted(asking(9), overflows_at=1)
    aborted = attempt(guard, crew_of(model, [look]).kickoff)
    assert aborted.verdict.error == "compaction_loop_persisted"
    assert len(guard.of("compacted")) == 1


def test_in_text_a_compaction_is_seen() -> None:
    guard = WritingGuard()
    replies = [[Ask(tool="look", call_id=query, query=query)] for query in "abc"]
    model = Scripted(replies, native=False, compact_before=2)
    attempt(guard, crew_of(model, [look]).kickoff)
    assert [told.verb for told in guard.told] == ["before", "after"] * 2 + ["compacted", "before", "after"]


def test_compactions_without_a_call_between_them_end_the_run() -> None:
    class Overflowing(Scripted):
        def call(self, messages: Any, *args: Any, **options: Any) -> Any:
            if options.get("from_agent") is not None and self.ran.requests:
                raise RuntimeError("context length exceeded")
            return super().call(messages, *args, **options)

    guard = WritingGuard()
    aborted = attempt(guard, crew_of(Overflowing(asking(1)), [look]).kickoff)
    assert aborted.verdict.error == "compaction_loop_persisted"


def test_the_next_kickoff_is_no_compaction() -> None:
    guard = WritingGuard()
    crew = crew_of(Scripted([*asking(4, "look"), [], *asking(1)]), [look])
    attempt(guard, lambda: [crew.kickoff(), crew.kickoff()])
    assert guard.of("compacted") == []


def test_the_host_ends_a_run_between_two_blocks() -> None:
    """What one block saw is no evidence in the next."""
    guard = WritingGuard(CONFIG | {"warningThreshold": 8, "criticalThreshold": 9})
    for _ in range(2):
        with guarded(guard), pytest.raises(ToolExecutionFailedError):
            crew_of(Scripted(asking(9)), [look]).kickoff()
    assert {told.verdict.action for told in guard.told} == {"allow"}
