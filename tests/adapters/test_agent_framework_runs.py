"""Runs of Microsoft Agent Framework: compactions, ids, other middleware, approvals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="needs agent-framework-core; see scripts/check-hosts")

from agent_framework import (
    Agent,
    AgentMiddleware,
    AgentSession,
    ChatMiddleware,
    Content,
    FunctionMiddleware,
    FunctionTool,
    InMemoryHistoryProvider,
    Message,
    MiddlewareTermination,
    ResponseStream,
)

from loopwarden import LoopAborted
from loopwarden.adapters.agent_framework import LoopGuardMiddleware
from tests.adapters.agent_framework_scripts import Scripted, compacting, look, ran
from tests.adapters.contract import CONFIG, Ask, WritingGuard, asking


def agent_with(guard: WritingGuard, scripted: Scripted, *tools: FunctionTool, **options: Any) -> Agent[Any]:
    middleware = [LoopGuardMiddleware(guard), *options.pop("middleware", [])]
    return Agent(scripted, tools=list(tools), middleware=middleware, **options)


@pytest.mark.parametrize("stream", [False, True])
def test_where_the_service_keeps_the_history_all_is_seen_too(stream: bool) -> None:
    guard = WritingGuard()
    replies = [*asking(1), *asking(3, "nope"), [Ask(tool="look", call_id="c5", query="b")]]
    scripted = Scripted(replies, conversation_id="the talk")
    asyncio.run(ran(scripted, guard, [look(lambda query: query)], stream))
    assert scripted.ran.text == "done"
    assert scripted.sent == [1] * 6
    assert [told.tool for told in guard.of("before")] == ["look", "nope", "nope", "nope", "look"]
    assert guard.of("compacted") == []


@pytest.mark.parametrize("stream", [False, True])
def test_the_host_closes_the_calls_of_an_aborted_run_where_the_service_keeps_the_history(
    stream: bool,
) -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    replies = asking(9)
    replies[5] += [Ask(tool="nope", call_id="n1")]
    scripted = Scripted(replies, conversation_id="the talk")
    asyncio.run(ran(scripted, guard, [look(lambda query: query)], stream))
    assert scripted.ran.aborted is not None
    assert scripted.ran.requests == 7
    assert all("aborted by middleware" in scripted.ran.answers[name][0] for name in ("c6", "n1"))
    assert {told.tool for told in guard.of("before")} == {"look"}
    assert len(guard._runs) == 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
def test_what_the_model_was_told_stands_in_the_history_of_the_next_run(stream: bool, at_once: bool) -> None:
    async def talk() -> None:
        session = AgentSession()
        for _ in range(2):
            if stream:
                await agent.run("go", stream=True, session=session).get_final_response()
            else:
                await agent.run("go", session=session)

    def fails(query: str) -> str:
        raise ValueError(query)

    guard = WritingGuard()
    scripted = Scripted([*asking(4), *[[Ask(tool="nope", call_id=f"n{number}")] for number in range(5)]])
    agent = agent_with(
        guard,
        scripted,
        look(fails),
        context_providers=[InMemoryHistoryProvider()],
        require_per_service_call_history_persistence=at_once,
    )
    asyncio.run(talk())
    assert scripted.sent[-1] > scripted.sent[-2]
    assert "block" in {told.verdict.action for told in guard.of("before")}
    assert {len(answers) for answers in scripted.ran.answers.values()} == {1}


@pytest.mark.parametrize("owner", ["agent", "client", "run"])
def test_a_compaction_is_seen_whoever_compacts(owner: str) -> None:
    guard = WritingGuard()
    strategy = {"compaction_strategy": compacting(2)}
    scripted = Scripted(asking(3), **(strategy if owner == "client" else {}))
    tool = look(lambda query: query)
    agent = agent_with(guard, scripted, tool, **(strategy if owner == "agent" else {}))
    asyncio.run(agent.run("go", **(strategy if owner == "run" else {})))
    told = [told.verb for told in guard.told]
    assert told == [*["before", "after"] * 2, "compacted", "before", "after"]


def test_compactions_without_work_between_end_the_run() -> None:
    class Again(ChatMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            for _ in range(30):
                await call_next()

    async def always(messages: list[Message]) -> bool:
        return True

    guard = WritingGuard()
    agent = agent_with(guard, Scripted([]), compaction_strategy=always, middleware=[Again()])
    with pytest.raises(LoopAborted) as aborted:
        asyncio.run(agent.run("go"))
    assert aborted.value.verdict.error == "compaction_loop_persisted"


def test_a_strategy_is_to_the_host_what_it_was() -> None:
    class Strategy:
        tokenizer = "its own"

        async def __call__(self, messages: list[Message]) -> bool:
            return False

    class Seen(AgentMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            seen.append(context.compaction_strategy)
            await call_next()

    seen: list[Any] = []
    agent = agent_with(WritingGuard(), Scripted([]), compaction_strategy=Strategy(), middleware=[Seen()])
    asyncio.run(agent.run("go"))
    (strategy,) = seen
    assert (strategy.tokenizer, strategy.__name__) == ("its own", "Strategy")


def test_a_middleware_that_tries_again_counts_once() -> None:
    class Again(FunctionMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            for _ in range(2):
                try:
                    return await call_next()
                except ValueError:
                    pass
            return await call_next()

    tries: list[str] = []

    def shaky(query: str) -> str:
        tries.append(query)
        if len(tries) % 3:
            raise ValueError
        return query

    guard = WritingGuard()
    asyncio.run(
        Agent(Scripted(asking(2)), tools=[look(shaky)], middleware=[Again(), LoopGuardMiddleware(guard)]).run(
            "go"
        )
    )
    assert len(tries) == 6
    assert [told.verb for told in guard.told] == ["before", "after"] * 2


def test_what_another_middleware_ends_the_loop_with_is_the_result() -> None:
    class Ends(FunctionMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            context.result = "cached"
            raise MiddlewareTermination

    guard = WritingGuard()
    agent = agent_with(guard, Scripted(asking(2)), look(lambda query: query), middleware=[Ends()])
    asyncio.run(agent.run("go"))
    assert [(told.verb, told.result) for told in guard.told] == [("before", None), ("after", "cached")]


def test_middleware_of_the_request_stays() -> None:
    class Seen(FunctionMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            seen.append(context.function.name)
            await call_next()

    seen: list[str] = []
    guard = WritingGuard()
    agent = agent_with(guard, Scripted(asking(1)), look(lambda query: query))
    asyncio.run(agent.run("go", client_kwargs={"middleware": Seen()}))
    assert seen == [told.tool for told in guard.of("before")] == ["look"]


def test_a_call_that_another_middleware_asks_a_person_about_stays_open() -> None:
    class Asks(FunctionMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            if "approval_response" in context.metadata:
                return await call_next()
            call = Content.from_function_call("c1", "look", arguments={"query": "a"})
            call.id = context.metadata["function_call_occurrence_id"]
            context.result = Content.from_function_approval_request(call.id, call)
            raise MiddlewareTermination

    async def talk() -> str:
        session = AgentSession()
        (request,) = (await agent.run("go", session=session)).user_input_requests
        answer = Message("user", [request.to_function_approval_response(True)])
        return (await agent.run(answer, session=session)).text

    guard = WritingGuard()
    agent = agent_with(guard, Scripted(asking(1)), look(lambda query: query), middleware=[Asks()])
    assert asyncio.run(talk()) == "done"
    assert [told.verb for told in guard.told] == ["before", "before", "after"]
    assert len({(told.run_id, told.turn_id) for told in guard.of("before")}) == 1
    assert len(guard._runs) == 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("remembers", [False, True])
def test_calls_that_a_person_approves_count_once_and_belong_to_one_run(stream: bool, remembers: bool) -> None:
    async def talk() -> str:
        messages: list[Message] = [Message("user", ["go"])]
        session = AgentSession() if remembers else None
        while True:
            if stream:
                result = await agent.run(messages, stream=True, session=session).get_final_response()
            else:
                result = await agent.run(messages, session=session)
            if not result.user_input_requests:
                return result.text
            answers = [request.to_function_approval_response(True) for request in result.user_input_requests]
            history = [] if remembers else [*messages, *result.messages]
            messages = [*history, Message("user", answers)]

    done: list[str] = []

    def approved(query: str) -> str:
        done.append(query)
        return query

    guard = WritingGuard()
    replies = asking(4)
    replies[3].append(Ask(tool="free", call_id="f4"))
    scripted = Scripted([*replies, [Ask(tool="free", call_id="f5", query="b")]])
    scripted.function_invocation_configuration["disable_approval_response_binding"] = not remembers
    free = FunctionTool(name="free", func=lambda query: query)
    agent = agent_with(guard, scripted, look(approved, approval_mode="always_require"), free)
    assert asyncio.run(talk()) == "done"
    assert done == ["a"] * 4
    assert len({told.run_id for told in guard.told}) == 1
    assert sorted(str(told.call_id) for told in guard.of("after")) == ["c1", "c2", "c3", "c4", "f4", "f5"]
    turns = {told.call_id: told.turn_id for told in guard.of("before")}
    assert turns["c4"] == turns["f4"]
    assert len(set(turns.values())) == 5
    warned = [told for told in guard.of("before") if told.verdict.action == "warn"]
    assert {told.call_id for told in warned} == {"c4"}
    assert scripted.ran.answers["c4"] == [f"a\n{warned[0].verdict.message}"]
    assert len(guard._runs) == 0, "a run is forgotten at its end"


@pytest.mark.parametrize("stream", [False, True])
def test_a_run_that_waits_for_a_call_outside_goes_on_as_the_same_run(stream: bool) -> None:
    async def talk() -> str:
        session = AgentSession()
        messages = [Message("user", ["go"])]
        for _ in range(3):
            if stream:
                result = await agent.run(messages, stream=True, session=session).get_final_response()
            else:
                result = await agent.run(messages, session=session)
            answers = [
                Content.from_function_result(request.call_id or "", result="from outside")
                for request in result.user_input_requests
            ]
            messages = [Message("tool", answers)]
            if not answers:
                break
        return result.text

    guard = WritingGuard()
    outside = Ask(tool="outside", call_id="o1")
    scripted = Scripted([*asking(1), [outside], *asking(1)])
    declared = FunctionTool(name="outside", input_model={"type": "object", "properties": {}})
    agent = agent_with(guard, scripted, look(lambda query: query), declared)
    assert asyncio.run(talk()) == "done"
    assert scripted.ran.answers["o1"] == ["from outside"]
    assert [told.tool for told in guard.of("before")] == ["look", "look"]
    assert len({told.run_id for told in guard.told}) == 1
    assert len(guard._runs) == 0


def test_a_sub_agent_is_a_run_of_its_own_and_what_ends_it_ends_the_agent() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    search = FunctionTool(name="search", func=lambda query: "found")
    inner = agent_with(guard, Scripted(asking(20, "search")), search, name="inner")
    scripted = Scripted([[Ask(tool="inner", call_id="i1")]])
    sub_agent = inner.as_tool(arg_name="query")
    with pytest.raises(LoopAborted) as aborted:
        asyncio.run(agent_with(guard, scripted, sub_agent).run("go"))
    assert aborted.value.verdict.tool == "search"
    runs = {told.run_id: told.tool for told in guard.of("before")}
    assert sorted(map(str, runs.values())) == ["inner", "search"]
    assert len(guard._runs) == 0


@pytest.mark.parametrize("stream", [False, True])
def test_the_session_is_that_of_the_host_and_a_run_is_forgotten_at_its_end(stream: bool) -> None:
    async def talk(agent: Agent[Any]) -> None:
        session = AgentSession(session_id="the talk")
        if stream:
            async for _ in agent.run("go", stream=True, session=session):
                pass
        else:
            await agent.run("go", session=session)

    for config, count in ((CONFIG, 2), (CONFIG | {"onCritical": "abort"}, 9)):
        guard = WritingGuard(config)
        agent = agent_with(guard, Scripted(asking(count)), look(lambda query: query))
        try:
            asyncio.run(talk(agent))
        except LoopAborted:
            assert count == 9
        assert {told.session_id for told in guard.told} == {"the talk"}
        assert len(guard._runs) == 0


def test_a_stream_that_is_closed_early_is_forgotten() -> None:
    if not hasattr(ResponseStream, "close"):
        pytest.skip("in this version a stream can't be closed")

    async def closed() -> None:
        stream = agent.run("go", stream=True)
        async for update in stream:
            if any(content.type == "function_result" for content in update.contents):
                break
        assert len(guard._runs) == 1
        await stream.close()

    guard = WritingGuard()
    agent = agent_with(guard, Scripted(asking(5)), look(lambda query: query))
    asyncio.run(closed())
    assert len(guard._runs) == 0


def test_a_run_that_is_cancelled_is_forgotten() -> None:
    async def cancelled() -> None:
        started = asyncio.Event()

        async def waits(query: str) -> str:
            started.set()
            await asyncio.Event().wait()
            return query

        running = asyncio.ensure_future(agent_with(guard, Scripted(asking(1)), look(waits)).run("go"))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    guard = WritingGuard()
    asyncio.run(cancelled())
    assert [told.verb for told in guard.told] == ["before", "after"]
    assert len(guard._runs) == 0


def test_runs_at_the_same_time_are_apart() -> None:
    async def both() -> None:
        await asyncio.gather(agent.run("go"), other.run("go"))

    async def slow(query: str) -> str:
        await asyncio.sleep(0)
        return query

    guard = WritingGuard()
    middleware = LoopGuardMiddleware(guard)
    agent, other = (Agent(Scripted(asking(4)), tools=[look(slow)], middleware=[middleware]) for _ in range(2))
    asyncio.run(both())
    assert [told.verdict.action for told in guard.of("before")] == ["allow"] * 6 + ["warn"] * 2
    assert len({told.run_id for told in guard.told}) == 2
