"""Runs of Pydantic AI: compactions, ids, other capabilities, approvals."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs pydantic-ai-slim; see scripts/check-hosts")

from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, ToolReturn
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, SkipToolExecution, UsageLimitExceeded
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolResults, RunContext, Tool
from pydantic_ai.usage import UsageLimits

from loopwarden.adapters.pydantic_ai import GuardCapability
from tests.adapters.contract import Ask, WritingGuard, asking
from tests.adapters.pydantic_ai_scripts import Scripted, run

pytestmark = pytest.mark.usefixtures("closed_loop")


def test_a_compaction_before_the_run_does_not_arm() -> None:
    guard = WritingGuard()
    history: list[ModelMessage] = [ModelRequest(parts=[CompactionPart("before")])]
    agent = Agent(Scripted([]).model(), capabilities=[GuardCapability(guard)])
    assert agent.run_sync("go", message_history=history).output == "done"
    assert guard.of("compacted") == []


def test_a_compaction_by_the_provider_arms_once() -> None:
    guard = WritingGuard()
    scripted = Scripted(asking(3))

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        response = scripted.reply(messages, info)
        if scripted.ran.requests == 2:
            mark = CompactionPart(None, id="cmp", provider_name="function", provider_details={"sealed": "x"})
            response.parts = [mark, *response.parts]
        return response

    agent = Agent(
        FunctionModel(reply),
        tools=[Tool(lambda query: query, name="look")],
        capabilities=[GuardCapability(guard)],
    )
    agent.run_sync("go")
    assert [told.verb for told in guard.told] == ["before", "after", "compacted", *["before", "after"] * 2]


def test_a_capability_that_tries_again_counts_once() -> None:
    class Again(AbstractCapability[Any]):
        async def wrap_tool_execute(
            self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any
        ) -> Any:
            for _ in range(2):
                try:
                    return await handler(args)
                except ValueError:
                    pass
            return await handler(args)

    tries: list[str] = []

    def look(query: str) -> str:
        tries.append(query)
        if len(tries) % 3:
            raise ValueError
        return query

    guard = WritingGuard()
    run(guard, look, asking(2), capabilities=[Again(), GuardCapability(guard)])
    assert len(tries) == 6
    assert [told.verb for told in guard.told] == ["before", "after"] * 2


@pytest.mark.parametrize("asks", ["the tool", "its definition"])
def test_calls_that_a_person_approves_count_once_and_belong_to_one_run(asks: str) -> None:
    ran: list[str] = []

    def look(ctx: RunContext, query: str) -> str:
        if asks == "the tool" and not ctx.tool_call_approved:
            raise ApprovalRequired
        ran.append(query)
        return query

    guard = WritingGuard()
    replies = asking(4)
    replies[3].append(Ask(tool="free", call_id="f4"))
    scripted = Scripted([*replies, [Ask(tool="free", call_id="f5", query="b")]])
    agent: Agent[object, Any] = Agent(
        scripted.model(),
        tools=[
            Tool(look, name="look", takes_ctx=True, requires_approval=asks == "its definition"),
            Tool(lambda query: query, name="free"),
        ],
        capabilities=[GuardCapability(guard)],
        output_type=[str, DeferredToolRequests],
    )
    result = agent.run_sync("go", conversation_id="the talk")
    while isinstance(result.output, DeferredToolRequests):
        approvals = DeferredToolResults(
            approvals={call.tool_call_id: True for call in result.output.approvals}
        )
        history = result.all_messages()
        result = agent.run_sync(message_history=history, deferred_tool_results=approvals)
    assert (result.output, ran) == ("done", ["a"] * 4)
    assert len({told.run_id for told in guard.told}) == 1
    assert [told.call_id for told in guard.of("after")] == ["c1", "c2", "c3", "f4", "c4", "f5"]
    turns = {told.call_id: told.turn_id for told in guard.of("before")}
    assert turns["c4"] == turns["f4"] != turns["c3"]
    warned = [told for told in guard.of("before") if told.verdict.action == "warn"]
    assert {told.call_id for told in warned} == {"c4"}
    assert all(
        answers == ["a"] for name, answers in scripted.ran.answers.items() if name in {"c1", "c2", "c3"}
    )
    assert scripted.ran.answers["c4"] == [f"a\n\n{warned[0].verdict.message}"]
    assert len(guard._runs) == 0, "a run is forgotten at its end"


def test_a_request_that_is_made_again_tells_nothing_twice() -> None:
    class Again(AbstractCapability[Any]):
        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            asked.append(ctx.run_step)
            if len(asked) in {2, 7}:
                raise ModelRetry("once more")
            return request_context

    def look(query: str) -> str:
        raise ModelRetry("not now")

    asked: list[int] = []
    guard = WritingGuard()
    replies = [[Ask(tool="nope", call_id="n1")], *asking(5)]
    scripted = run(guard, look, replies, capabilities=[GuardCapability(guard), Again()])
    assert [told.call_id for told in guard.of("before")] == ["n1", "c1", "c2", "c3", "c4", "c5"]
    message = guard.of("before")[4].verdict.message or ""
    assert [answer.count(message) for answer in scripted.ran.answers["c4"]] == [1]
    assert len(asked) == 9


def test_what_is_not_for_the_model_makes_no_difference() -> None:
    def look(query: str) -> ToolReturn:
        return ToolReturn(return_value="same", metadata={"at": next(numbers)})

    numbers = itertools.count()
    guard = WritingGuard()
    run(guard, look, asking(6))
    assert [told.verdict.action for told in guard.of("before")][-1] == "block"


def test_a_tool_that_another_capability_answers_for_gave_that_answer() -> None:
    class Cached(AbstractCapability[Any]):
        async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            raise SkipToolExecution("cached")

    guard = WritingGuard()
    scripted = run(guard, lambda query: query, asking(4), capabilities=[GuardCapability(guard), Cached()])
    assert [(told.result, told.error) for told in guard.of("after")] == [("cached", None)] * 4
    assert scripted.ran.answers["c3"] == ["cached"]
    assert scripted.ran.answers["c4"] == [f"cached\n\n{guard.of('before')[3].verdict.message}"]


def test_a_tool_that_the_model_was_not_shown_yet_is_no_unknown_tool() -> None:
    guard = WritingGuard()
    scripted = Scripted(asking(2))
    hidden = Tool(lambda query: query, name="look", defer_loading=True)
    agent = Agent(scripted.model(), tools=[hidden], capabilities=[GuardCapability(guard)], retries=20)
    agent.run_sync("go")
    assert [(told.call_id, told.unknown_tool) for told in guard.of("after")] == [("c1", None), ("c2", None)]
    assert all("not available yet" in str(told.error) for told in guard.of("after"))


def test_a_run_that_is_cancelled_is_forgotten() -> None:
    async def cancelled() -> None:
        started = asyncio.Event()

        async def look(query: str) -> str:
            started.set()
            await asyncio.Event().wait()
            return query

        tool = Tool(look, name="look")
        agent = Agent(Scripted(asking(1)).model(), tools=[tool], capabilities=[GuardCapability(guard)])
        running = asyncio.ensure_future(agent.run("go"))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    guard = WritingGuard()
    asyncio.run(cancelled())
    assert [told.verb for told in guard.told] == ["before"]
    assert len(guard._runs) == 0


def test_what_stood_beside_a_call_that_waits_is_seen_afterwards() -> None:
    guard = WritingGuard()
    scripted = Scripted([[Ask(tool="look", call_id="c1"), Ask(tool="nope", call_id="n1")]])
    agent: Agent[object, Any] = Agent(
        scripted.model(),
        tools=[Tool(lambda query: query, name="look", requires_approval=True)],
        capabilities=[GuardCapability(guard)],
        output_type=[str, DeferredToolRequests],
    )
    first = agent.run_sync("go")
    answers = DeferredToolResults(approvals={"c1": True})
    agent.run_sync(message_history=first.all_messages(), deferred_tool_results=answers)
    assert [(told.call_id, told.unknown_tool) for told in guard.of("after")] == [("c1", None), ("n1", "nope")]
    assert len({told.turn_id for told in guard.of("before")}) == 1
    agent.run_sync("again", message_history=first.all_messages()[:1])
    assert len(guard.of("after")) == 2


def test_a_tool_out_of_time_is_told_by_structure() -> None:
    async def look(query: str) -> str:
        await asyncio.sleep(3600)
        return query

    class TimedGuard(WritingGuard):
        def session(self, session_id: str) -> Any:
            session = super().session(session_id)
            after = session.after

            def noting(call_id: str, **outcome: Any) -> Any:
                timed.append(outcome["timed_out"])
                return after(call_id, **outcome)

            session.after = noting  # type: ignore[method-assign] - the flag is not in what is told
            return session

    timed: list[bool] = []
    scripted = Scripted(asking(1))
    tool = Tool(look, name="look", timeout=0.001)
    Agent(scripted.model(), tools=[tool], capabilities=[GuardCapability(TimedGuard())]).run_sync("go")
    assert timed == [True]


def test_a_sub_agent_is_a_run_of_its_own() -> None:
    guard = WritingGuard()
    inner = Agent(
        Scripted(asking(1, "search")).model(),
        tools=[Tool(lambda query: "found", name="search")],
        capabilities=[GuardCapability(guard)],
    )

    async def look(query: str) -> str:
        return (await inner.run(query)).output

    run(guard, look, asking(1))
    runs = {(told.session_id, told.run_id): told.tool for told in guard.of("before")}
    assert sorted(map(str, runs.values())) == ["look", "search"]


def test_the_ids_are_those_of_the_host() -> None:
    guard = WritingGuard()
    agent = Agent(
        Scripted(asking(1)).model(),
        tools=[Tool(lambda query: query, name="look")],
        capabilities=[GuardCapability(guard)],
    )
    agent.run_sync("go", run_id="the run", conversation_id="the talk")
    assert {(told.session_id, told.run_id) for told in guard.told} == {("the talk", "the run")}
    assert len(guard._runs) == 0, "a run is forgotten at its end"


def test_several_runs_of_the_host_are_one_where_the_program_says_so() -> None:
    guard = WritingGuard()
    heard: list[tuple[str | None, str]] = []

    def capability() -> GuardCapability:
        return GuardCapability(
            guard,
            session_id="mine",
            run_id="one",
            heard=lambda call_id, verdict: heard.append((call_id, verdict.action)),
        )

    scripted = Scripted(asking(6))
    tools = [Tool(lambda query: query, name="look")]
    for first in (True, False):
        agent = Agent(scripted.model(), tools=tools, capabilities=[capability()], retries=20)
        limits = UsageLimits(request_limit=3) if first else None
        with contextlib.suppress(UsageLimitExceeded):
            agent.run_sync("go", usage_limits=limits)
    assert {(told.session_id, told.run_id) for told in guard.told} == {("mine", "one")}
    assert len({told.turn_id for told in guard.of("before")}) == 6, "a turn of one is none of the other"
    assert [told.verdict.action for told in guard.of("before")] == [*["allow"] * 3, *["warn"] * 2, "block"]
    assert heard == [("c4", "warn"), ("c5", "warn"), ("c6", "block")]
    assert len(guard._runs) == 1, "the program forgets it"


def test_a_shrunken_history_between_runs_of_the_host_arms_nothing() -> None:
    guard = WritingGuard()
    scripted = Scripted(asking(3))
    agent = Agent(
        scripted.model(),
        tools=[Tool(lambda query: query, name="look")],
        capabilities=[GuardCapability(guard, session_id="mine", run_id="one")],
    )
    history = agent.run_sync("go").all_messages()
    agent.run_sync("go", message_history=history[:1])
    assert guard.of("compacted") == []


def test_what_the_program_compares() -> None:
    numbers = itertools.count()

    def look(query: str) -> ToolReturn:
        return ToolReturn(return_value=f"{query} {next(numbers)}", metadata="the same")

    guard = WritingGuard()
    capability = GuardCapability(guard, compared=lambda result: result.metadata)
    scripted = run(guard, look, asking(6), capabilities=[capability])
    assert {told.result for told in guard.of("after")} == {"the same"}
    assert [told.verdict.action for told in guard.of("before")][-1] == "block"
    assert scripted.ran.answers["c2"] == ["a 1"]


def test_a_call_that_is_cancelled_counts_where_the_run_goes_on() -> None:
    async def cancelled() -> None:
        started = asyncio.Event()

        async def look(query: str) -> str:
            started.set()
            await asyncio.Event().wait()
            return query

        agent = Agent(
            Scripted(asking(1)).model(),
            tools=[Tool(look, name="look")],
            capabilities=[GuardCapability(guard, session_id="mine", run_id="one")],
        )
        running = asyncio.ensure_future(agent.run("go"))
        hangs = asyncio.ensure_future(started.wait())
        await asyncio.wait([running, hangs], return_when=asyncio.FIRST_COMPLETED)
        if running.cancel():
            with pytest.raises(asyncio.CancelledError):
                await running

    guard = WritingGuard()
    for _ in range(6):
        asyncio.run(cancelled())
    assert [told.verb for told in guard.told] == ["before", "after"] * 5 + ["before"]
    assert guard.of("before")[-1].verdict.action == "block"
