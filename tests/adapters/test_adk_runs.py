"""Google ADK: several agents, people, other plugins, the end of a run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("google.adk.plugins", reason="needs google-adk; see scripts/check-hosts")

import google.adk
from google.adk.agents import LlmAgent, ParallelAgent
from google.adk.apps import ResumabilityConfig
from google.adk.apps.app import EventsCompactionConfig
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes
from google.adk.auth.auth_tool import AuthConfig
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.reflect_retry_tool_plugin import ReflectAndRetryToolPlugin
from google.adk.tools import AgentTool, FunctionTool, LongRunningFunctionTool, ToolContext
from google.adk.workflow import START, Workflow
from google.genai import types

from loopwarden import LoopAborted
from loopwarden.adapters.adk import GuardPlugin, loop_aborted, unwrapped
from tests.adapters.adk_scripts import (
    Compacting,
    Scripted,
    agent_of,
    events_of,
    run,
    runner_of,
    said,
    session_of,
)
from tests.adapters.contract import Ask, ToolFailure, Tools, asking
from tests.adapters.writing_guard import CONFIG, WritingGuard

CONFIRM = "adk_request_confirmation"
CREDENTIAL = "adk_request_credential"


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


@pytest.fixture
def strict() -> WritingGuard:
    return WritingGuard(CONFIG | {"onCritical": "abort"})


# --- aborts


def test_an_aborted_run_raises_the_signal(strict: WritingGuard) -> None:
    agent = agent_of("finder", asking(9), Tools()()["look"])
    with pytest.raises(LoopAborted) as caught:
        run(runner_of(agent, GuardPlugin(strict)))
    assert caught.value.verdict.tool == "look"
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_what_is_no_abort_comes_out_as_it_is() -> None:
    with pytest.raises(ToolFailure, match=r"^no$"), unwrapped():
        raise ToolFailure("no")


def test_an_endless_chain_of_causes_has_an_end() -> None:
    one, other = ToolFailure("one"), ToolFailure("other")
    one.__cause__, other.__cause__ = other, one
    assert loop_aborted(one) is None


# --- several agents


@pytest.mark.parametrize("retries", [True, False])
def test_an_agent_as_a_tool_is_its_own_run_and_its_abort_ends_all(
    strict: WritingGuard, retries: bool
) -> None:
    inner = agent_of("inner", asking(9), Tools()()["look"])
    outer = agent_of("outer", asking(2, "inner"), AgentTool(inner))
    others = [ReflectAndRetryToolPlugin(max_retries=5)] if retries else []
    with pytest.raises(LoopAborted) as caught:
        run(runner_of(outer, GuardPlugin(strict), *others))
    assert caught.value.verdict.tool == "look"
    runs = {told.tool: (told.session_id, told.run_id) for told in strict.of("before")}
    assert runs["inner"] != runs["look"]
    assert [told.tool for told in strict.of("before")].count("inner") == 1


def test_agents_in_parallel_are_runs_of_their_own(guard: WritingGuard) -> None:
    tools = Tools()
    agents = [agent_of(name, asking(4), tools()["look"]) for name in ("one", "two")]
    run(runner_of(ParallelAgent(name="both", sub_agents=agents), GuardPlugin(guard)))
    assert len(tools.ran) == 8
    runs = [told.run_id for told in guard.of("before") if told.verdict.action == "warn"]
    assert len(set(runs)) == len(runs) == 2
    for agent in agents:
        told = [agent.model.responses[f"c{number}"]["result"] for number in (1, 2, 3, 4)]
        assert [text == "nothing about a" for text in told] == [True, True, True, False]


def test_an_abort_of_an_agent_in_parallel_ends_all(strict: WritingGuard) -> None:
    agents = [agent_of("one", asking(9), Tools()()["look"]), agent_of("two", [])]
    with pytest.raises(LoopAborted):
        run(runner_of(ParallelAgent(name="both", sub_agents=agents), GuardPlugin(strict)))


def test_an_agent_of_one_turn_is_its_own_run(guard: WritingGuard) -> None:
    """Its calls have the ids that the outer agent's have: each model counts for itself."""
    inner = agent_of("inner", asking(1), Tools()()["look"], mode="single_turn", description="Looks.")
    outer = LlmAgent(name="outer", model=Scripted(replies=asking(1, "inner")), sub_agents=[inner])
    run(runner_of(outer, GuardPlugin(guard)))
    assert [(told.verb, told.call_id) for told in guard.told] == [
        ("before", "c1"),
        ("before", "c1"),
        ("after", "c1"),
        ("after", "c1"),
    ]
    assert len({told.run_id for told in guard.told}) == 2


def test_an_abort_in_a_workflow_ends_all(strict: WritingGuard) -> None:
    one, two = agent_of("one", asking(9), Tools()()["look"]), agent_of("two", [])
    workflow = Workflow(name="both", edges=[(START, one), (START, two)])
    with pytest.raises(LoopAborted):
        run(runner_of(workflow, GuardPlugin(strict)))


def test_an_agent_that_takes_over_goes_on_with_the_run(guard: WritingGuard) -> None:
    class Transferring(Scripted):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            async for reply in super().generate_content_async(llm_request, stream):
                for part in reply.content.parts:
                    if part.function_call is not None and part.function_call.name == "transfer_to_agent":
                        part.function_call.args = {"agent_name": "second"}
                yield reply

    second = agent_of("second", asking(1), Tools()()["look"])
    first = LlmAgent(
        name="first", model=Transferring(replies=asking(1, "transfer_to_agent")), sub_agents=[second]
    )
    run(runner_of(first, GuardPlugin(guard)))
    assert [told.tool for told in guard.of("before")] == ["transfer_to_agent", "look"]
    assert len({told.run_id for told in guard.told}) == 1
    assert len({told.turn_id for told in guard.of("before")}) == 2


# --- people and late results


@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize("resumable", [True, False])
def test_a_call_that_a_person_is_asked_about_counts_once(
    guard: WritingGuard, confirmed: bool, resumable: bool
) -> None:
    tools = Tools()
    look = FunctionTool(tools()["look"], require_confirmation=True)
    agent = agent_of("finder", asking(1), look)
    options = {"resumability_config": ResumabilityConfig(is_resumable=True)} if resumable else {}
    runner = runner_of(agent, GuardPlugin(guard), **options)

    async def asked_and_answered() -> None:
        session_id = await session_of(runner)
        events = await events_of(runner, session_id)
        assert [told.verb for told in guard.told] == ["before"]
        assert tools.ran == []
        calls = [call for event in events for call in event.get_function_calls() if call.name == CONFIRM]
        answer = types.FunctionResponse(id=calls[0].id, name=CONFIRM, response={"confirmed": confirmed})
        await events_of(runner, session_id, said(types.Part(function_response=answer)))

    asyncio.run(asked_and_answered())
    assert [told.verb for told in guard.told] == ["before", "after"]
    assert len({told.run_id for told in guard.told}) == 1
    (after,) = guard.of("after")
    assert len(tools.ran) == confirmed
    assert after.result == "nothing about a" if confirmed else "rejected" in str(after.error)


def test_a_call_that_waits_for_credentials_counts_once(guard: WritingGuard) -> None:
    wanted = AuthConfig.model_validate({"authScheme": {"type": "apiKey", "in": "header", "name": "key"}})

    def look(query: str, tool_context: ToolContext) -> str:
        """Look something up, with a key."""
        if tool_context.get_auth_response(wanted) is None:
            tool_context.request_credential(wanted)
            return "waiting"
        return f"nothing about {query}"

    model = Scripted(replies=asking(1))
    runner = runner_of(LlmAgent(name="finder", model=model, tools=[look]), GuardPlugin(guard))

    async def asked_and_answered() -> None:
        session_id = await session_of(runner)
        events = await events_of(runner, session_id)
        assert [told.verb for told in guard.told] == ["before"]
        (call,) = [call for event in events for call in event.get_function_calls() if call.name == CREDENTIAL]
        given = AuthConfig.model_validate(call.args["authConfig"])
        given.exchanged_auth_credential = AuthCredential(
            auth_type=AuthCredentialTypes.API_KEY, api_key="some key"
        )
        answer = types.FunctionResponse(id=call.id, name=CREDENTIAL, response=given.model_dump())
        await events_of(runner, session_id, said(types.Part(function_response=answer)))

    asyncio.run(asked_and_answered())
    assert [told.verb for told in guard.told] == ["before", "after"]
    assert guard.of("after")[0].result == "nothing about a"


def test_a_warning_waits_for_the_outcome(guard: WritingGuard) -> None:
    tools = Tools()

    def fourth(query: str) -> bool:
        return len(tools.ran) == 3

    model = Scripted(replies=asking(4))
    look = FunctionTool(tools()["look"], require_confirmation=fourth)
    runner = runner_of(LlmAgent(name="finder", model=model, tools=[look]), GuardPlugin(guard))

    async def asked_and_answered() -> None:
        session_id = await session_of(runner)
        events = await events_of(runner, session_id)
        (call,) = [call for event in events for call in event.get_function_calls() if call.name == CONFIRM]
        answer = types.FunctionResponse(id=call.id, name=CONFIRM, response={"confirmed": True})
        await events_of(runner, session_id, said(types.Part(function_response=answer)))

    asyncio.run(asked_and_answered())
    message = guard.of("before")[3].verdict.message
    assert model.responses["c4"] == {"result": f"nothing about a\n\n{message}"}
    assert len(guard.of("before")) == len(guard.of("after")) == 4


def test_a_result_that_comes_later_is_the_outcome(guard: WritingGuard) -> None:
    def order(query: str) -> None:
        """Order something."""

    runner = runner_of(
        agent_of("buyer", asking(1, "order"), LongRunningFunctionTool(order)), GuardPlugin(guard)
    )

    async def ordered_and_delivered() -> None:
        session_id = await session_of(runner)
        await events_of(runner, session_id)
        assert [told.verb for told in guard.told] == ["before"]
        answer = types.FunctionResponse(id="c1", name="order", response={"status": "delivered"})
        await events_of(runner, session_id, said(types.Part(function_response=answer)))

    asyncio.run(ordered_and_delivered())
    assert [told.verb for told in guard.told] == ["before", "after"]
    assert guard.of("after")[0].result == {"status": "delivered"}


# --- what comes between


class Seeing(BasePlugin):
    """Writes down the results that it sees."""

    def __init__(self) -> None:
        super().__init__("seeing")
        self.results: list[Any] = []

    async def after_tool_callback(self, *, result: Any, **_: Any) -> None:
        self.results.append(result)


def test_a_warning_keeps_nobody_from_the_result(guard: WritingGuard) -> None:
    """A callback of the agent that strikes a secret out is called for the call that is warned of, too."""

    def strike_out(**_: Any) -> dict[str, Any]:
        return {"result": "struck out"}

    seeing = Seeing()
    agent = agent_of("finder", asking(4), Tools()()["look"], after_tool_callback=strike_out)
    run(runner_of(agent, GuardPlugin(guard), seeing))
    message = guard.of("before")[3].verdict.message or "-"
    assert agent.model.ran.answers["c4"] == [f"struck out\n\n{message}"]
    assert seeing.results == ["nothing about a"] * 4


def test_a_callback_that_answers_for_the_tool_gives_the_outcome(guard: WritingGuard) -> None:
    tools = Tools()

    def answer(**_: Any) -> dict[str, Any]:
        return {"result": "known"}

    run(
        runner_of(
            agent_of("finder", asking(6), tools()["look"], before_tool_callback=answer), GuardPlugin(guard)
        )
    )
    assert tools.ran == []
    assert [told.result for told in guard.of("after")] == [{"result": "known"}] * 5
    assert guard.of("before")[5].verdict.action == "block"


def test_failures_that_another_plugin_handles_are_failures(guard: WritingGuard) -> None:
    tools = Tools()
    agent = agent_of("finder", asking(7, "fails"), tools()["fails"])
    run(runner_of(agent, GuardPlugin(guard), ReflectAndRetryToolPlugin(max_retries=20)))
    assert [told.error for told in guard.of("after")][-1].args == ("no a here",)
    assert len(guard.of("after")) == len(tools.ran) == 5
    answers = agent.model.ran.answers
    message = guard.of("before")[3].verdict.message or "-"
    assert [message in answers[f"c{number}"][0] for number in (3, 4, 5)] == [False, True, False]
    assert guard.of("before")[5].verdict.message in answers["c6"][0]


def test_a_call_that_is_cancelled_is_taken_back(guard: WritingGuard) -> None:
    async def waits(query: str) -> str:
        """Wait."""
        await asyncio.Event().wait()
        raise AssertionError

    async def fails(query: str) -> str:
        """Fail, once the other one waits."""
        await asyncio.sleep(0)
        raise ToolFailure("no")

    both = [Ask(tool="waits", call_id="c1"), Ask(tool="fails", call_id="c2")]
    with pytest.raises(ToolFailure):
        run(runner_of(agent_of("finder", [both], waits, fails), GuardPlugin(guard)))
    assert [told.call_id for told in guard.of("after")] == ["c2"]
    if tuple(map(int, google.adk.__version__.split(".")[:2])) >= (2, 13):  # before, no callback is told
        assert len(guard.of("retract")) == 1
    assert len(guard._runs) == 0


# --- compaction, and the end of a run


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL")
def test_compactions_between_runs_arm_nothing(guard: WritingGuard) -> None:
    model = Scripted(replies=[*asking(1), [], *asking(2)])
    every = EventsCompactionConfig(summarizer=Compacting(model, 2), compaction_interval=1, overlap_size=0)
    agent = LlmAgent(name="finder", model=model, tools=[Tools()()["look"]])
    runner = runner_of(agent, GuardPlugin(guard), events_compaction_config=every)

    async def twice() -> list[Any]:
        session_id = await session_of(runner)
        await events_of(runner, session_id)
        await events_of(runner, session_id)
        session = await runner.session_service.get_session(
            app_name=runner.app_name, user_id="someone", session_id=session_id
        )
        assert session is not None
        return [event for event in session.events if event.actions.compaction is not None]

    assert len(asyncio.run(twice())) == 1
    assert len(guard.of("before")) == 3
    assert guard.of("compacted") == []


@pytest.mark.parametrize("tool", ["look", "fails"])
def test_a_run_is_forgotten_at_its_end(guard: WritingGuard, tool: str) -> None:
    plugin = GuardPlugin(guard)
    agent = agent_of("finder", asking(2, tool), Tools()()[tool])
    try:
        run(runner_of(agent, plugin))
    except ToolFailure:
        assert tool == "fails"
    told = guard.of("before")[0]
    assert guard.session(told.session_id or "").save(run_id=told.run_id) is None
