"""The guard around crews of CrewAI: the contract, the host's own stops, other hooks, results, text."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("crewai", reason="needs crewai; see scripts/check-hosts")


from crewai.hooks.dispatch import InterceptionPoint, register, register_scoped, scoped_hooks, unregister
from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolExecutionFailedError, ToolFailure

from loopwarden import LoopAborted
from loopwarden.adapters.crewai import guarded
from tests.adapters.contract import Ask, Contract, asking
from tests.adapters.crewai_scripts import (
    CrewAI,
    Scripted,
    agent_of,
    attempt,
    crew_of,
    crew_with,
    look,
    task_of,
)
from tests.adapters.writing_guard import CONFIG, WritingGuard

EARLY = CONFIG | {"warningThreshold": 2, "criticalThreshold": 3}
"""Ahead of the host, which ends a crew at the fifth equal call with an equal result."""


class TestCrewAI(Contract):
    @pytest.fixture(params=["sync", "thread", "async", "stream"])
    def host(self, request: pytest.FixtureRequest) -> CrewAI:
        return CrewAI(request.param)


def actions(guard: WritingGuard) -> list[str]:
    return [told.verdict.action for told in guard.of("before")]


# --- what the host does by itself


def test_the_host_ends_the_crew_at_the_fifth_call() -> None:
    model = Scripted(asking(9))
    with guarded(WritingGuard(CONFIG | {"enabled": False})), pytest.raises(ToolExecutionFailedError):
        crew_of(model, [look]).kickoff()
    assert model.ran.requests == 5


def test_small_thresholds_are_ahead_of_the_host() -> None:
    guard = WritingGuard(EARLY)
    model = Scripted(asking(4))
    assert str(attempt(guard, crew_of(model, [look]).kickoff)) == "done"
    assert actions(guard) == ["allow", "allow", "warn", "block"]


@pytest.mark.parametrize(("limit", "error"), [(15, ToolExecutionFailedError), (5, LoopAborted)])
def test_a_small_limit_of_refusals_is_ahead_of_the_host(limit: int, error: type[Exception]) -> None:
    """To the host a refusal is a result like others; that of two calls in turn has always the same text."""
    guard = WritingGuard(EARLY | {"refusedCallLimit": limit})
    replies = [[Ask(tool="look", call_id=f"c{number}", query="ab"[number % 2])] for number in range(30)]
    with pytest.raises(error), guarded(guard):
        crew_of(Scripted(replies), [look]).kickoff()


def test_an_abort_at_an_outcome_is_ahead_of_the_host() -> None:
    guard = WritingGuard(CONFIG | {"warningThreshold": 8, "criticalThreshold": 9})
    model = Scripted(asking(9), compact_before=2)
    aborted = attempt(guard, crew_of(model, [look]).kickoff)
    assert aborted.verdict.error == "compaction_loop_persisted"
    assert len(guard.of("after")) == 5


def test_a_result_that_the_host_kept_is_a_call() -> None:
    ran: list[str] = []

    def note(query: str) -> str:
        """Take a note."""
        ran.append(query)
        return "noted"

    guard = WritingGuard(EARLY)
    agent = agent_of(Scripted(asking(4, "note")), [note], cache=True)
    attempt(guard, crew_with(task_of(agent), cache=True).kickoff)
    assert ran == ["a"]
    assert actions(guard) == ["allow", "allow", "warn", "block"]
    assert {told.result for told in guard.of("after")} == {"noted"}


class Answering(BaseTool):
    """A tool whose result is the answer, and that always fails."""

    name: str = "look"
    description: str = "Look something up."
    result_as_answer: bool = True

    def _run(self, query: str) -> str:
        raise ValueError("no")


def answering() -> tuple[Scripted, Any]:
    model = Scripted(asking(9))
    agent = agent_of(model, [])
    agent.tools = [Answering()]
    return model, agent


def test_the_host_takes_a_refusal_for_the_result_that_is_the_answer() -> None:
    guard = WritingGuard(EARLY)
    _, agent = answering()
    assert str(attempt(guard, crew_with(task_of(agent)).kickoff)) == guard.of("before")[3].verdict.message


@pytest.mark.parametrize("crew", [True, False], ids=["crew", "agent"])
def test_an_abort_is_not_taken_for_the_result_that_is_the_answer(crew: bool) -> None:
    guard = WritingGuard(EARLY | {"onCritical": "abort"})
    model, agent = answering()
    kickoff = crew_with(task_of(agent), task_of(agent)).kickoff if crew else lambda: agent.kickoff("go")
    assert isinstance(attempt(guard, kickoff), LoopAborted)
    assert model.ran.requests == 4


# --- other hooks


def test_a_call_that_another_hook_refuses_is_a_failure() -> None:
    def deny(context: Any) -> bool:
        return False

    guard = WritingGuard(EARLY)
    model = Scripted(asking(4))
    register(InterceptionPoint.PRE_TOOL_CALL, deny)
    try:
        attempt(guard, crew_of(model, [look]).kickoff)
    finally:
        unregister(InterceptionPoint.PRE_TOOL_CALL, deny)
    assert len(guard.of("before")) == 4
    assert all("blocked by hook" in str(told.error) for told in guard.of("after"))
    assert model.ran.answers["c4"] == [guard.of("before")[3].verdict.message]


def test_a_hook_that_is_registered_in_the_block_comes_later() -> None:
    def deny(context: Any) -> bool:
        return False

    guard = WritingGuard(EARLY)
    model = Scripted(asking(4))
    with guarded(guard):
        register_scoped(InterceptionPoint.PRE_TOOL_CALL, deny)
        crew_of(model, [look]).kickoff()
    assert actions(guard) == ["allow", "allow", "warn", "block"]
    assert all("blocked by hook" in str(told.error) for told in guard.of("after"))


def test_the_guard_is_told_what_the_tool_gave() -> None:
    """Another hook writes something new into every result."""
    numbers = iter(range(100))

    def stamp(context: Any) -> str:
        return f"kept as number {next(numbers)}"

    guard = WritingGuard()
    model = Scripted(asking(6))
    with scoped_hooks({InterceptionPoint.POST_TOOL_CALL: [stamp]}):
        attempt(guard, crew_of(model, [look]).kickoff)
    assert {told.result for told in guard.of("after")} == {"nothing about a"}
    warning, refusal = (guard.of("before")[index].verdict.message for index in (3, 5))
    assert model.ran.answers["c4"] == [f"kept as number 3\n\n{warning}"]
    assert model.ran.answers["c6"] == [refusal]


def test_arguments_are_as_other_hooks_leave_them() -> None:
    def change(context: Any) -> None:
        context.tool_input["query"] = "b"

    guard = WritingGuard()
    with scoped_hooks({InterceptionPoint.PRE_TOOL_CALL: [change]}):
        attempt(guard, crew_of(Scripted(asking(2)), [look]).kickoff)
    assert [told.arguments for told in guard.of("before")] == [{"query": "b"}] * 2
    assert [told.result for told in guard.of("after")] == ["nothing about b"] * 2


# --- results


@pytest.mark.parametrize(
    "result",
    [{"rows": [1, 2]}, 7, None, ("a", "b"), object(), ToolFailure(message="it did not work")],
    ids=lambda result: type(result).__name__,
)
def test_a_warning_comes_along_with_any_result(result: Any) -> None:
    def look(query: str) -> Any:
        """Look something up."""
        return result

    guard = WritingGuard(EARLY)
    model = Scripted(asking(4))
    attempt(guard, crew_of(model, [look]).kickoff)
    warning, refusal = (guard.of("before")[index].verdict.message for index in (2, 3))
    plain = model.ran.answers["c1"][0]
    assert model.ran.answers["c3"] == [f"{plain}\n\n{warning}"]
    assert model.ran.answers["c4"] == [refusal]
    outcomes = {repr(told.error or told.result) for told in guard.of("after")}
    assert len(outcomes) == 1
    assert all((told.error is not None) == isinstance(result, ToolFailure) for told in guard.of("after"))


def test_calls_of_one_reply_are_run_at_the_same_time() -> None:
    """Equal ones too: each gets its own outcome."""
    guard = WritingGuard()
    batch = [Ask(tool="fresh", call_id=f"c{number}") for number in range(6)]
    numbers = iter(range(100))

    def fresh(query: str) -> str:
        """Give something new."""
        return f"item {next(numbers)}"

    model = Scripted([batch])
    attempt(guard, crew_of(model, [fresh]).kickoff)
    ran = [told for told in guard.of("before") if told.verdict.action != "block"]
    assert sorted(told.call_id or "" for told in ran) == sorted(
        told.call_id or "" for told in guard.of("after")
    )
    assert len({told.result for told in guard.of("after")}) == len(ran) == 5
    assert len({told.turn_id for told in guard.of("before")}) == 1


def test_an_abort_in_a_batch_runs_nothing_more() -> None:
    guard = WritingGuard(EARLY | {"onCritical": "abort"})
    batch = [Ask(tool="look", call_id="d1"), Ask(tool="look", call_id="d2", query="b")]
    model = Scripted([*asking(3), batch, *asking(3, query="c")])
    assert isinstance(attempt(guard, crew_of(model, [look]).kickoff), LoopAborted)
    assert model.ran.requests == 4
    assert {told.arguments["query"] for told in guard.of("before")} <= {"a", "b"}  # type: ignore[index]  # a dict


def test_arguments_that_are_no_json_are_failures() -> None:
    """The host answers such a call by itself, on and on."""

    class Garbling(Scripted):
        def call(self, *args: Any, **options: Any) -> Any:
            calls = super().call(*args, **options)
            for call in calls if isinstance(calls, list) else []:
                if call["id"].startswith("c"):
                    call["function"]["arguments"] = '{"query": '
            return calls

    guard = WritingGuard()
    beside = [[*pair, Ask(tool="look", call_id=f"b{at}", query=str(at))] for at, pair in enumerate(asking(6))]
    model = Garbling(beside)
    attempt(guard, crew_of(model, [look]).kickoff)
    garbled = [told for told in guard.of("before") if told.arguments == '{"query": ']
    assert [told.verdict.action for told in garbled] == [*["allow"] * 3, "warn", "warn", "block"]
    assert [len(told) for told in (guard.of("before"), guard.of("after"))] == [12, 11]
    assert len({told.turn_id for told in guard.of("before")}) == 6
    plain = model.ran.answers["c1"][0]
    assert "Failed to parse" in plain
    assert model.ran.answers["c4"] == [f"{plain}\n\n{garbled[3].verdict.message}"]
    assert model.ran.answers["c6"] == [garbled[5].verdict.message]


# --- models that ask for tools in their text


def in_text(guard: WritingGuard, replies: list[list[Ask]], *functions: Any) -> Scripted:
    model = Scripted(replies, native=False)
    model.ran.text = str(attempt(guard, crew_of(model, [look, *functions]).kickoff))
    return model


def test_in_text_every_call_is_told_once() -> None:
    guard = WritingGuard()
    replies = [[Ask(tool="look", call_id=query, query=query)] for query in "abc"]
    model = in_text(guard, replies)
    assert [told.arguments for told in guard.of("before")] == [{"query": query} for query in "abc"]
    # The host reminds the model of its tools after every third result: that is no news.
    assert [told.result for told in guard.of("after")] == [f"nothing about {query}" for query in "abc"]
    assert len({told.turn_id for told in guard.of("before")}) == 3
    assert model.ran.text == "done"


def test_in_text_a_loop_is_warned_of_and_refused() -> None:
    """The host runs an equal call no second time, but lets the model ask for it on and on."""
    guard = WritingGuard(EARLY)
    model = in_text(guard, asking(5))
    assert actions(guard) == ["allow", "allow", "warn", "warn", "block"]
    warning, refusal = (guard.of("before")[index].verdict.message or "?" for index in (2, 4))
    assert warning in model.ran.answers["c3"][0]
    assert model.ran.answers["c5"] == [refusal]


def test_in_text_a_call_that_the_host_tries_again_counts_once() -> None:
    attempts: list[str] = []

    def fails(query: str) -> str:
        """Fail."""
        attempts.append(query)
        raise RuntimeError("not here")

    guard = WritingGuard(EARLY)
    in_text(guard, asking(2, "fails"), fails)
    assert len(attempts) > 2
    assert len(guard.of("before")) == 2
    assert all("not here" in str(told.error) for told in guard.of("after"))


def test_in_text_unknown_tools_are_seen_and_refused() -> None:
    guard = WritingGuard()
    model = in_text(guard, asking(4, "nope"))
    assert [told.tool for told in guard.of("before")] == ["nope"] * 4
    assert [told.unknown_tool for told in guard.of("after")] == ["nope"] * 3
    assert "don't exist" in model.ran.answers["c1"][0]
    assert model.ran.answers["c4"] == [guard.of("before")[3].verdict.message]
    assert model.ran.text == "done"


def test_in_text_unknown_tools_end_the_run() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    model = in_text(guard, asking(9, "nope"))
    assert model.ran.text == guard.of("before")[3].verdict.message
    assert model.ran.requests == 4


def test_in_text_a_call_without_arguments_is_a_failure() -> None:
    guard = WritingGuard()
    in_text(guard, [[Ask(tool="look", call_id="c1", query='"')]])
    (before,), (after,) = guard.of("before"), guard.of("after")
    assert (before.tool, after.unknown_tool) == ("look", None)
