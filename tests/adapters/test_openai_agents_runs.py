"""Runs of the OpenAI Agents SDK: compactions, ids, handoffs, agents and servers as tools, approvals."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("agents.testing", reason="needs openai-agents; see scripts/check-hosts")

from agents import (
    Agent,
    FunctionTool,
    ProgrammaticToolCallingTool,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    handoff,
)
from agents.mcp import MCPServer
from agents.testing import ScriptedModel, assistant_message, function_call
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool
from openai.types.responses import ResponseCompactionItem
from openai.types.responses.response_function_tool_call import CallerProgram
from openai.types.responses.response_output_item import Program

from loopwarden.adapters.openai_agents import AgentLoopAborted, GuardedRunner, watch
from tests.adapters.contract import CONFIG, Ask, WritingGuard, asking
from tests.adapters.openai_agents_scripts import GOES_ON, agent_with, look, run, shown

pytestmark = pytest.mark.usefixtures("closed_loop")


def test_a_compaction_by_the_provider_arms_once() -> None:
    mark = ResponseCompactionItem(id="cmp_1", encrypted_content="x", type="compaction")
    call = [function_call("look", {"query": "a"}, call_id=f"c{number}") for number in range(4)]
    model = ScriptedModel([[call[0]], [mark, call[1]], [call[2]], [call[3]], [assistant_message("done")]])
    guard = WritingGuard()
    agent = Agent(name="helper", model=model, tools=[function_tool(look)])
    with pytest.raises(AgentLoopAborted) as raised:
        run(guard, agent)
    assert [told.verb for told in guard.told] == ["before", "after", "compacted", *["before", "after"] * 3]
    assert raised.value.verdict.error == "compaction_loop_persisted"


def test_a_compaction_before_the_run_does_not_arm() -> None:
    given = [
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"},
        {"role": "user", "content": "go"},
    ]
    guard = WritingGuard()
    agent, _ = agent_with(function_tool(look), replies=asking(2))
    run(guard, agent, given)
    assert guard.of("compacted") == []


def test_a_shorter_request_is_no_compaction_where_the_provider_keeps_the_history() -> None:
    guard = WritingGuard()
    agent, _ = agent_with(function_tool(look), replies=asking(3))
    given = [{"role": "user", "content": "one"}] * 5
    run(guard, agent, given, auto_previous_response_id=True)
    assert guard.of("compacted") == []
    assert len(guard.of("before")) == 3


def test_agents_that_are_handed_off_to_belong_to_the_run() -> None:
    last, _ = agent_with(function_tool(look), replies=asking(1))
    last.name = "last"
    second = Agent(
        name="second",
        model=ScriptedModel([[function_call("transfer_to_last", {}, call_id="h2")]]),
        handoffs=[
            handoff(last, input_filter=lambda data: data.clone(input_history="", pre_handoff_items=()))
        ],
    )
    replies = [function_call("look", {"query": str(number)}, call_id=f"f{number}") for number in range(2)]
    model = ScriptedModel(
        [*([one] for one in replies), [function_call("transfer_to_second", {}, call_id="h1")]]
    )
    first = Agent(name="first", model=model, tools=[function_tool(look)], handoffs=[second])
    last.handoffs = [first]
    guard = WritingGuard()
    result = run(guard, first)
    assert result.last_agent is last
    assert [told.call_id for told in guard.of("before")] == ["f0", "f1", "c1"]
    assert len({told.run_id for told in guard.told}) == 1
    assert guard.of("compacted") == []


def test_an_agent_as_a_tool_is_a_run_of_its_own() -> None:
    inner, _ = agent_with(function_tool(look), replies=[*asking(3), [Ask(tool="nope", call_id="n1")]])
    tool = inner.as_tool(tool_name="ask", tool_description="Ask the helper.")
    calls = [[function_call("ask", {"input": "go"}, call_id="o1")], [assistant_message("over")]]
    outer = Agent(name="outer", model=ScriptedModel(calls), tools=[tool])
    guard = WritingGuard()
    assert run(guard, outer).final_output == "over"
    runs: dict[str | None, list[str | None]] = {}
    turns = {told.turn_id for told in guard.of("before")}
    for told in guard.of("before"):
        runs.setdefault(told.run_id, []).append(told.call_id)
    assert sorted(map(str, runs.values())) == ["['c1', 'c2', 'c3', 'n1']", "['o1']"]
    assert turns == {f"turn-{number}" for number in range(1, 5)}
    assert len(guard._runs) == 0, "runs are forgotten at their end"


def test_an_agent_as_a_tool_that_is_aborted_is_a_tool_that_failed() -> None:
    inner, _ = agent_with(function_tool(look), replies=asking(9))
    tool = inner.as_tool(tool_name="ask", tool_description="Ask the helper.")
    model = ScriptedModel(
        [[function_call("ask", {"input": "go"}, call_id="o1")], [assistant_message("over")]]
    )
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    assert run(guard, Agent(name="outer", model=model, tools=[tool])).final_output == "over"
    assert "error occurred" in shown(model)["o1"][0]
    assert len(guard.of("before")) == 7


@pytest.mark.parametrize("early", [False, True])
def test_a_call_that_a_person_approves_counts_once(early: bool) -> None:
    ran: list[str] = []

    def look(query: str) -> str:
        ran.append(query)
        return query

    config = RunConfig(tracing_disabled=True, tool_execution={"pre_approval_tool_input_guardrails": early})
    guard = WritingGuard()
    agent, _ = agent_with(function_tool(look, needs_approval=True), replies=asking(3))
    runner = GuardedRunner(guard)
    result = runner.run_sync(agent, "go", run_config=config)
    asked = 0
    while result.interruptions:
        state = result.to_state()
        state.approve(result.interruptions[0])
        result = runner.run_sync(agent, state, run_config=config)
        asked += 1
    assert (asked, ran, result.final_output) == (3, ["a"] * 3, "done")
    assert len({told.run_id for told in guard.told}) == 1
    assert len(guard.of("after")) == 3
    assert [told.verdict.action for told in guard.told] == ["allow"] * (9 if early else 6)


@pytest.mark.parametrize("message", [None, "Not this one."])
@pytest.mark.parametrize("early", [False, True])
def test_a_call_that_a_person_rejects_failed(early: bool, message: str | None) -> None:
    """The third is warned of, the fifth refused: a model that asks on and on for what it may not do."""
    config = RunConfig(tracing_disabled=True, tool_execution={"pre_approval_tool_input_guardrails": early})
    guard = WritingGuard()
    agent, model = agent_with(
        function_tool(lambda query: query, name_override="look", needs_approval=True), replies=asking(7)
    )
    runner = GuardedRunner(guard)
    result = runner.run_sync(agent, "go", run_config=config)
    while result.interruptions:
        state = result.to_state()
        state.reject(result.interruptions[0], rejection_message=message)
        result = runner.run_sync(agent, state, run_config=config)
    assert result.final_output == "done"
    answers = shown(model)
    said = message or answers["c1"][0]
    warned = next(told.verdict.message for told in guard.of("before") if told.verdict.action == "warn")
    refused = [told for told in guard.of("before") if told.verdict.action == "block"]
    assert answers["c1"] == answers["c2"] == [said]
    assert answers["c4"] == [f"{said}\n\n{warned}"]
    assert answers["c6"] == [refused[0].verdict.message]
    assert [told.error for told in guard.of("after")] == [said] * 5
    assert len({told.run_id for told in guard.told}) == 1


def test_a_rejected_call_may_end_the_run() -> None:
    config = RunConfig(tracing_disabled=True)
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    tool = function_tool(lambda query: query, name_override="look", needs_approval=True)
    agent, _ = agent_with(tool, replies=asking(9))
    runner = GuardedRunner(guard)
    result = runner.run_sync(agent, "go", run_config=config)

    def rejecting() -> None:
        nonlocal result
        while result.interruptions:
            state = result.to_state()
            state.reject(result.interruptions[0])
            result = runner.run_sync(agent, state, run_config=config)

    with pytest.raises(AgentLoopAborted):
        rejecting()
    assert len(guard.of("after")) == 5


def test_a_handoff_is_no_rejected_call() -> None:
    guard = WritingGuard()
    other, _ = agent_with(function_tool(look), replies=asking(1))
    first = Agent(
        name="first",
        model=ScriptedModel([[function_call("transfer_to_agent", {}, call_id="h1")]]),
        tools=[function_tool(look)],
        handoffs=[handoff(other, tool_name_override="transfer_to_agent")],
    )
    assert run(guard, first).final_output == "done"
    assert [told.call_id for told in guard.of("before")] == ["c1"]


def test_sessions_and_groups_are_sessions_of_the_guard() -> None:
    guard = WritingGuard()
    options: list[dict[str, Any]] = [
        {"session": SQLiteSession("the talk")},
        {"run_config": RunConfig(group_id="the group", tracing_disabled=True)},
        {"run_config": {"group_id": "the other", "tracing_disabled": True}},
        {},
    ]
    for given in options:
        run(guard, agent_with(function_tool(look), replies=asking(1))[0], **given)
    options[0]["session"].close()
    sessions = [told.session_id for told in guard.of("before")]
    assert sessions == ["the talk", "the group", "the other", None]
    assert len({told.run_id for told in guard.told}) == 4


def test_runs_in_a_named_block_are_one() -> None:
    guard = WritingGuard()
    with guard.run("the errand"):
        for number in range(3):
            replies = [[Ask(tool="look", call_id=f"c{number}-{call}")] for call in range(2)]
            run(guard, agent_with(function_tool(look), replies=replies)[0])
    assert {told.run_id for told in guard.told} == {"the errand"}
    assert [told.verdict.action for told in guard.of("before")][2:] == ["allow", "warn", "warn", "block"]


def test_an_agent_that_is_watched_runs_as_ever_without_the_guard() -> None:
    agent, model = agent_with(function_tool(look), replies=asking(8))
    for _ in range(2):
        watch(agent)
    (tool,) = agent.tools
    assert isinstance(tool, FunctionTool)
    assert len(tool.tool_input_guardrails or ()) == 1
    assert Runner.run_sync(agent, "go", run_config=GOES_ON).final_output == "done"
    assert set(map(str, shown(model).values())) == {"['nothing about a']"}


def test_tools_of_mcp_servers_are_guarded() -> None:
    class Server(MCPServer):
        async def connect(self) -> None: ...
        async def cleanup(self) -> None: ...

        @property
        def name(self) -> str:
            return "server"

        async def list_tools(self, *args: Any, **named: Any) -> list[Any]:
            schema = {"type": "object", "properties": {"query": {"type": "string"}}}
            return [MCPTool(name="look", input_schema=schema)]

        async def call_tool(self, *args: Any, **named: Any) -> Any:
            calls.append(args[0])
            return CallToolResult(content=[TextContent(type="text", text="nothing")])

        async def list_prompts(self) -> Any: ...
        async def get_prompt(self, *args: Any, **named: Any) -> Any: ...

    calls: list[str] = []
    guard = WritingGuard()
    agent, model = agent_with(replies=asking(6), mcp_servers=[Server()])
    run(guard, agent)
    assert (calls, len(guard.of("before"))) == (["look"] * 5, 6)
    message = guard.of("before")[3].verdict.message or ""
    assert message in shown(model)["c4"][0]


def test_a_program_that_takes_the_result_gets_no_note() -> None:
    guard = WritingGuard()
    caller = {"caller": CallerProgram(type="program", caller_id="p1")}
    calls = [function_call("look", {"query": "a"}, call_id=f"c{number}") for number in range(1, 6)]
    program = Program(id="i1", call_id="p1", code="look()", fingerprint="x", type="program")
    made = [[call.model_copy(update=caller)] for call in calls]
    model = ScriptedModel([[program, *made[0]], *made[1:], [assistant_message("done")]])
    tool = function_tool(look, allowed_callers=["programmatic"])
    run(guard, Agent(name="helper", model=model, tools=[tool, ProgrammaticToolCallingTool()]))
    assert guard.of("before")[3].verdict.announce
    assert set(map(str, shown(model).values())) == {"['nothing about a']"}
