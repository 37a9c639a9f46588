"""Agno: results of all shapes, teams, runs that wait, and what a guarded agent stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator  # noqa: TC003 - the host reads the tools' types
from typing import Any

import pytest

pytest.importorskip("agno.models.base", reason="needs agno; see scripts/check-hosts")

from agno.agent import Agent
from agno.exceptions import ModelProviderError, RetryAgentRun
from agno.models.fallback import FallbackConfig
from agno.run import RunStatus
from agno.tools import tool
from agno.tools.function import ToolResult

from loopwarden import LoopAborted
from loopwarden.adapters.agno import guard_agent, raise_if_aborted
from tests.adapters.agno_scripts import LADDER, Scripted, actions, look, messages, raw
from tests.adapters.contract import Ask, asking
from tests.adapters.writing_guard import CONFIG, WritingGuard


def agent_of(model: Scripted, tools: list[Any], guard: WritingGuard | None, **options: Any) -> Agent:
    agent = Agent(model=model, tools=tools, telemetry=False, **options)
    return agent if guard is None else guard_agent(agent, guard)


# --- results of any shape


def plain(query: str) -> Any:
    return {"rows": [1, 2]}


def nothing(query: str) -> Any:
    return None


def result(query: str) -> Any:
    return ToolResult(content="nothing here")


def pieces(query: str) -> Iterator[str]:
    yield "nothing "
    yield query


async def later(query: str) -> str:
    return "nothing"


async def later_pieces(query: str) -> AsyncIterator[str]:
    yield "nothing "
    yield query


def breaks(query: str) -> str:
    raise LookupError("no such thing")


@pytest.mark.parametrize("function", [plain, nothing, result, pieces, breaks])
def test_a_warning_comes_along_with_any_result(function: Any) -> None:
    guard = WritingGuard()
    model = Scripted(replies=asking(6, function.__name__))
    agent_of(model, [function], guard).run("go")
    _warned(guard, model, failed=function is breaks)


@pytest.mark.parametrize("function", [plain, result, pieces, later, later_pieces, breaks])
def test_and_with_any_result_of_an_async_run(function: Any) -> None:
    guard = WritingGuard()
    model = Scripted(replies=asking(6, function.__name__))
    asyncio.run(agent_of(model, [function], guard).arun("go"))
    _warned(guard, model, failed=function is breaks)


def _warned(guard: WritingGuard, model: Scripted, *, failed: bool) -> None:
    warning, refusal = messages(guard)
    said = model.ran.answers["c1"][0]
    assert model.ran.answers["c4"] == [f"{said}\n\n{warning}"]
    assert model.ran.answers["c5"] == [said]
    assert model.ran.answers["c6"] == [refusal]
    assert all((told.error is not None) == failed for told in guard.of("after"))
    assert len({str((told.result, told.error)) for told in guard.of("after")}) == 1


@pytest.mark.parametrize("works", [True, False])
def test_pieces_are_one_outcome(works: bool) -> None:
    def search(query: str) -> Iterator[str]:
        yield "a"
        if not works:
            raise LookupError("lost")
        yield "b"

    guard = WritingGuard()
    agent_of(Scripted(replies=asking(1, "search")), [search], guard).run("go")
    (after,) = guard.of("after")
    assert (after.result, str(after.error)) == (("ab", "None") if works else (None, "lost"))


def test_a_result_that_is_the_answer_gets_no_note() -> None:
    @tool(stop_after_tool_call=True)
    def answer(query: str) -> str:
        """Answer."""
        return "42"

    guard = WritingGuard()
    failing = [[Ask(tool=name, call_id=name)] for name in ("breaks", "nope", "gone")]
    model = Scripted(replies=[*failing, [Ask(tool="answer", call_id="d1")]])
    run = agent_of(model, [breaks, answer], guard).run("go")
    verdict = guard.of("before")[3].verdict
    assert (verdict.action, verdict.announce) == ("warn", True)
    assert run.content == "42"


def test_a_tool_that_asks_for_a_retry_is_a_call_that_failed() -> None:
    def fussy(query: str) -> str:
        raise RetryAgentRun("say it otherwise")

    guard = WritingGuard()
    model = Scripted(replies=asking(6, "fussy"))
    agent_of(model, [fussy], guard).run("go")
    warning, refusal = messages(guard)
    assert actions(guard) == LADDER
    assert {str(told.error) for told in guard.of("after")} == {"say it otherwise"}
    assert model.ran.answers["c4"] == [f"say it otherwise\n\n{warning}"]
    assert model.ran.answers["c6"] == [refusal]


def test_the_hooks_of_a_tool_stay_and_what_they_retry_counts_once() -> None:
    attempts: list[str] = []

    def twice(function_call: Any, arguments: Any) -> Any:
        function_call(**arguments)
        return function_call(**arguments)

    @tool(tool_hooks=[twice])
    def flaky(query: str) -> str:
        """Something."""
        attempts.append(query)
        return f"attempt {len(attempts)}"

    guard = WritingGuard()
    model = Scripted(replies=asking(1, "flaky"))
    agent_of(model, [flaky], guard).run("go")
    assert attempts == ["a", "a"]
    assert len(guard.of("before")) == 1
    assert [told.result for told in guard.of("after")] == ["attempt 2"]


# --- calls that can't be made


@pytest.mark.parametrize(
    ("name", "arguments"), [("nope", '{"query": "a"}'), ("look", '{"query": '), ("look", "[1]")]
)
def test_calls_that_cannot_be_made_are_refused_in_the_end(name: str, arguments: str) -> None:
    guard = WritingGuard(CONFIG | {"unknownToolThreshold": 5})
    model = Scripted(replies=[[raw(name, f"c{number}", arguments)] for number in range(1, 9)])
    agent_of(model, [look], guard).run("go")
    assert "block" in actions(guard)
    at = actions(guard).index("block")
    assert model.ran.answers[f"c{at + 1}"] == [guard.of("before")[at].verdict.message]
    unknown = {told.unknown_tool for told in guard.of("after")}
    assert unknown == ({"nope"} if name == "nope" else {None})
    assert all(told.error for told in guard.of("after"))
    warned = next(told for told in guard.of("before") if told.verdict.announce)
    assert (warned.verdict.message or "?") in model.ran.answers[warned.call_id or ""][0]


def test_unknown_tools_end_the_run() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    model = Scripted(replies=asking(30, "nope"))
    run = agent_of(model, [look], guard).run("go")
    with pytest.raises(LoopAborted):
        raise_if_aborted(run)
    assert model.ran.requests < 10


def test_calls_without_an_id_are_told_apart() -> None:
    guard = WritingGuard()
    replies = [[raw("look", None, '{"query": "a"}')] for _ in range(6)]
    agent_of(Scripted(replies=replies), [look], guard).run("go")
    assert actions(guard) == LADDER
    assert len({told.call_id for told in guard.of("before")}) == 6


# --- the end


def test_an_aborted_run_is_a_cancelled_one() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    model = Scripted(replies=asking(9))
    agent = agent_of(model, [look], guard, retries=2)
    run = agent.run("go")
    assert run.status == RunStatus.cancelled
    with pytest.raises(LoopAborted) as raised:
        raise_if_aborted(run)
    assert run.content == str(raised.value)
    assert model.ran.requests == 6
    assert len(guard._runs) == 0
    model.replies.clear()
    again = agent.run("and now?")
    raise_if_aborted(again)
    assert again.content == "done"


def test_the_stream_says_so_too() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    agent = agent_of(Scripted(replies=asking(9)), [look], guard)
    last = list(agent.run("go", stream=True))[-1]
    with pytest.raises(LoopAborted):
        raise_if_aborted(last)


def test_a_run_leaves_nothing_behind() -> None:
    guard = WritingGuard()
    agent = agent_of(Scripted(replies=asking(3)), [look], guard)
    agent.run("go")
    watch: Any = agent.model
    assert len(guard.of("after")) == 3
    assert (len(watch._watch.runs), len(watch._watch.working), len(guard._runs)) == (0, 0, 0)


def test_a_stream_that_is_closed_leaves_nothing_behind() -> None:
    guard = WritingGuard()
    agent = agent_of(Scripted(replies=asking(3)), [look], guard)
    stream = agent.run("go", stream=True, stream_events=True)
    for _ in stream:
        if guard.of("after"):
            break
    stream.close()  # type: ignore[attr-defined]  # it is a generator
    watch: Any = agent.model
    assert (len(watch._watch.runs), len(watch._watch.working), len(guard._runs)) == (0, 0, 0)


# --- runs that wait for a person


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_call_that_waits_for_a_person_counts_once(way: str) -> None:
    @tool(requires_confirmation=True)
    def send(query: str) -> str:
        """Send it."""
        return "nothing about it"

    guard = WritingGuard()
    pair = [Ask(tool="look", call_id="c1", query="b"), Ask(tool="send", call_id="c2")]
    agent = agent_of(Scripted(replies=[pair, *asking(2, query="c")]), [look, send], guard)

    async def in_two_steps() -> Any:
        run = await agent.arun("go")
        _confirm(run)
        return await agent.acontinue_run(run)

    if way == "sync":
        first = agent.run("go")
        _confirm(first)
        run = agent.continue_run(first)
    else:
        run = asyncio.run(in_two_steps())
    assert run.content == "done"
    assert [told.call_id for told in guard.of("before")] == ["c1", "c2", "c1", "c2"]
    assert len(guard.of("after")) == 4
    assert {told.run_id for told in guard.told} == {run.run_id}
    first_turn, second_turn = (told.turn_id for told in guard.of("before")[:2])
    assert first_turn == second_turn
    assert len(guard._runs) == 0


def _confirm(run: Any) -> None:
    assert run.is_paused
    for requirement in run.requirements:
        requirement.confirm()


@pytest.mark.parametrize("way", ["sync", "async", "stream"])
def test_calls_that_the_program_makes_are_guarded(way: str) -> None:
    @tool(external_execution=True)
    def browse(query: str) -> str:
        """Done by the program."""
        raise AssertionError("not here")

    guard = WritingGuard()
    model = Scripted(replies=asking(6, "browse"))
    agent = agent_of(model, [browse], guard)

    async def steps() -> Any:
        run = await agent.arun("go")
        while run.is_paused:
            run = await agent.acontinue_run(_done(run))
        return run

    def streamed(events: Any) -> Any:
        return list(events)[-1]

    if way == "async":
        run = asyncio.run(steps())
    else:
        options = {"stream": True, "yield_run_output": True} if way == "stream" else {}
        last = streamed if way == "stream" else lambda run: run
        run = last(agent.run("go", **options))
        while run.is_paused:
            run = last(agent.continue_run(_done(run), **options))
    assert run.content == "done"
    assert actions(guard) == LADDER
    assert {told.result for told in guard.of("after")} == {"nothing there"}
    warning, refusal = messages(guard)
    assert [model.ran.answers[name] for name in ("c3", "c4", "c6")] == [
        ["nothing there"],
        [f"nothing there\n\n{warning}"],
        [refusal],
    ]
    assert len(guard._runs) == 0


def _done(run: Any) -> Any:
    """The program makes the calls."""
    for requirement in run.active_requirements:
        requirement.set_external_execution_result("nothing there")
    return run


# --- two at once, and the models of others


def test_runs_at_the_same_time_are_told_apart() -> None:
    guard = WritingGuard()
    agents = [agent_of(Scripted(replies=asking(4)), [look], guard) for _ in range(3)]

    async def together() -> None:
        await asyncio.gather(*(agent.arun("go") for agent in agents))

    asyncio.run(together())
    runs = {told.run_id for told in guard.told}
    assert len(runs) == 3
    assert all(len([told for told in guard.of("before") if told.run_id == run]) == 4 for run in runs)


def test_another_agent_with_the_same_model_is_left_alone() -> None:
    guard = WritingGuard()
    model = Scripted(replies=asking(6))
    alone = agent_of(model, [look], None)
    guarded = agent_of(model, [look], guard)
    alone.run("go")
    assert guard.told == []
    assert alone.model is model
    assert isinstance(guarded.model, Scripted)
    assert (type(guarded.model).__name__, type(guarded.model).__module__) == ("Scripted", Scripted.__module__)


def test_an_agent_that_is_guarded_again_has_the_new_guard_only() -> None:
    first, second = WritingGuard(), WritingGuard()
    agent = agent_of(Scripted(replies=asking(6)), [look], first)
    guard_agent(agent, second).run("go")
    assert first.told == []
    assert actions(second) == LADDER


def test_a_copy_of_an_agent_is_guarded() -> None:
    guard = WritingGuard()
    agent_of(Scripted(replies=asking(6)), [look], guard).deep_copy().run("go")
    assert actions(guard) == LADDER


def test_a_fallback_model_goes_on_with_the_run() -> None:
    class Failing(Scripted):
        def invoke(self, *arguments: Any, **options: Any) -> Any:
            if self.ran.requests == 2:
                raise ModelProviderError("out of order", status_code=500)
            return super().invoke(*arguments, **options)

    guard = WritingGuard()
    options = {"fallback_config": FallbackConfig(on_error=[Scripted(replies=asking(4))])}
    agent_of(Failing(replies=asking(3)), [look], guard, **options).run("go")
    assert actions(guard) == LADDER
    assert len({told.run_id for told in guard.told}) == 1


def test_what_is_no_agent_is_an_error() -> None:
    with pytest.raises(TypeError, match="not a str"):
        guard_agent("agent", WritingGuard())


def test_an_agent_without_a_model_is_an_error() -> None:
    with pytest.raises(ValueError, match="no model yet"):
        guard_agent(Agent(), WritingGuard())
