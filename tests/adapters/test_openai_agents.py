"""The guard in runs of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("agents.testing", reason="needs openai-agents; see scripts/check-hosts")

from agents import (
    Agent,
    FunctionTool,
    ModelBehaviorError,
    RunConfig,
    RunHooks,
    Runner,
    SQLiteSession,
    ToolGuardrailFunctionOutput,
    ToolOutputImage,
    ToolOutputText,
    UserError,
    function_tool,
    handoff,
    tool_input_guardrail,
    tool_output_guardrail,
)
from agents.mcp import MCPServer
from agents.run_config import CallModelData, ModelInputData
from agents.testing import ScriptedModel, assistant_message, function_call
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool
from openai.types.responses import ResponseCompactionItem

from loopwarden import LoopAborted
from loopwarden.adapters.openai_agents import ABILITIES, AgentLoopAborted, GuardedRunner, watch
from tests.adapters.contract import CONFIG, Ask, Contract, Ran, Script, WritingGuard, asking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from loopwarden import LoopGuard

GOES_ON = RunConfig(tool_not_found_behavior="return_error_to_model", tracing_disabled=True)
"""Unknown tools don't end the run, and nothing is sent anywhere."""


@pytest.fixture(autouse=True)
def _closed_loop() -> Iterator[None]:
    """`run_sync` makes an event loop where there is none, and leaves it open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


def steps(replies: list[list[Ask]]) -> ScriptedModel:
    """A model that asks for what is scripted and then says that it is done."""
    asked = [
        [function_call(ask.tool, {"query": ask.query}, call_id=ask.call_id) for ask in asks]
        for asks in replies
    ]
    return ScriptedModel([*asked, [assistant_message("done")]])


def shown(model: ScriptedModel) -> dict[str, list[str]]:
    """Every result that the model was shown, by call id."""
    answers: dict[str, list[str]] = {}
    for call in model.calls:
        for item in call.input if isinstance(call.input, list) else ():
            if item.get("type") == "function_call_output":
                output = item["output"]
                text = output if isinstance(output, str) else json.dumps(output)
                known = answers.setdefault(item["call_id"], [])
                if text not in known:
                    known.append(text)
    return answers


def compacting(before: int, *, marks: bool) -> Callable[[CallModelData[Any]], ModelInputData]:
    """A filter of the model's input that compacts before one request, with or without a mark."""
    requests = 0

    def compact(data: CallModelData[Any]) -> ModelInputData:
        nonlocal requests
        requests += 1
        items = data.model_data.input
        if requests > before:
            mark: list[Any] = (
                [{"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}] if marks else []
            )
            items = [*mark, *items[2 * before - 1 :]]
        return ModelInputData(input=items, instructions=data.model_data.instructions)

    return compact


class OpenAIAgents:
    abilities = ABILITIES
    errors_are_text = False
    survives_errors = True
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        model = steps(script.replies)
        tools: list[Any] = [
            function_tool(function, name_override=name) for name, function in script.tools.items()
        ]
        agent = Agent(name="helper", model=model, tools=tools)
        runner: Any = Runner if guard is None else GuardedRunner(guard)
        config: Any = GOES_ON
        if script.compact_before is not None:
            compact = compacting(script.compact_before, marks=self.way == "async")
            config = {"tracing_disabled": True, "call_model_input_filter": compact}
        ran = Ran()
        try:
            ran.text = self._text(runner, agent, config)
        except LoopAborted as aborted:
            ran.raised = ran.aborted = aborted
        except Exception as error:  # noqa: BLE001 - whatever the run raised
            ran.raised = error
        ran.answers, ran.requests = shown(model), len(model.calls)
        return ran

    def _text(self, runner: Any, agent: Agent[Any], config: Any) -> str:
        options = {"run_config": config, "max_turns": 50}
        if self.way == "sync":
            return str(runner.run_sync(agent, "go", **options).final_output)
        return asyncio.run(self._awaited(runner, agent, options))

    async def _awaited(self, runner: Any, agent: Agent[Any], options: dict[str, Any]) -> str:
        if self.way == "async":
            return str((await runner.run(agent, "go", **options)).final_output)
        result = runner.run_streamed(agent, "go", **options)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)


class TestOpenAIAgents(Contract):
    @pytest.fixture(params=["sync", "async", "stream"])
    def host(self, request: pytest.FixtureRequest) -> OpenAIAgents:
        return OpenAIAgents(request.param)


def look(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}"


def agent_with(*tools: Any, replies: list[list[Ask]], **options: Any) -> tuple[Agent[Any], ScriptedModel]:
    model = steps(replies)
    return Agent(name="helper", model=model, tools=list(tools), **options), model


def run(guard: WritingGuard, agent: Agent[Any], given: Any = "go", **options: Any) -> Any:
    options.setdefault("run_config", GOES_ON)
    return GuardedRunner(guard).run_sync(agent, given, max_turns=50, **options)


def test_an_abort_is_an_exception_of_the_host_with_its_data() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    agent, _ = agent_with(function_tool(look), replies=asking(9))
    with pytest.raises(AgentLoopAborted, match="look") as raised:
        run(guard, agent)
    assert raised.value.verdict.action == "abort"
    assert raised.value.run_data is not None
    assert raised.value.run_data.last_agent is agent


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (ToolOutputText(text="a page"), "input_text"),
        (ToolOutputImage(image_url="https://example.org/a.png"), "input_image"),
        ([ToolOutputText(text="a page"), ToolOutputImage(file_id="f1")], "input_image"),
        ({"rows": 1}, None),
    ],
    ids=repr,
)
def test_a_warning_leaves_structured_results_as_they_are(output: Any, kind: str | None) -> None:
    def look(query: str) -> Any:
        return output

    guard = WritingGuard()
    agent, model = agent_with(function_tool(look), replies=asking(5))
    result = run(guard, agent)
    message = guard.of("before")[3].verdict.message or ""
    answers = shown(model)
    assert {len(one) for one in answers.values()} == {1}
    ((plain,), (warned,)) = answers["c1"], answers["c4"]
    assert (message in plain, message in warned) == (False, True)
    assert answers["c5"] == answers["c1"]
    if kind is None:
        assert warned == f"{plain}\n\n{message}"
    else:
        assert json.loads(warned) == [*json.loads(plain), {"type": "input_text", "text": message}]
        assert kind in {part["type"] for part in json.loads(warned)}
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert outputs == [output] * 5


def test_guardrails_of_others_see_what_they_saw() -> None:
    seen: list[str] = []

    @tool_input_guardrail
    def asks(data: Any) -> ToolGuardrailFunctionOutput:
        seen.append("asks")
        if data.context.tool_call_id == "c2":
            return ToolGuardrailFunctionOutput.reject_content("not you")
        return ToolGuardrailFunctionOutput.allow()

    @tool_output_guardrail
    def hides(data: Any) -> ToolGuardrailFunctionOutput:
        seen.append(data.output)
        return ToolGuardrailFunctionOutput.reject_content("hidden")

    tool = function_tool(look)
    tool.tool_input_guardrails, tool.tool_output_guardrails = [asks], [hides]
    guard = WritingGuard()
    agent, model = agent_with(tool, replies=asking(6))
    run(guard, agent)
    assert [told.call_id for told in guard.of("before")] == ["c1", "c3", "c4", "c5", "c6"]
    assert {told.result for told in guard.of("after")} == {"nothing about a"}
    assert seen.count("asks") == 6
    assert seen.count("nothing about a") == 5
    answers = shown(model)
    warned = guard.of("before")[3].verdict.message or ""
    assert (answers["c2"], answers["c4"]) == (["not you"], ["hidden"])
    assert answers["c5"] == [f"hidden\n\n{warned}"]


def test_hooks_and_settings_of_the_run_go_on() -> None:
    heard: list[str] = []

    class Hooks(RunHooks[Any]):
        async def on_llm_start(self, *args: Any) -> None:
            heard.append("asking")

        async def on_llm_end(self, *args: Any) -> None:
            heard.append("answered")

        async def on_tool_start(self, *args: Any) -> None:
            heard.append("tool")

        async def on_tool_end(self, *args: Any) -> None:
            heard.append("done")

        async def on_agent_start(self, *args: Any) -> None:
            heard.append("agent")

        async def on_agent_end(self, *args: Any) -> None:
            heard.append("end")

    def model_input(data: CallModelData[Any]) -> ModelInputData:
        heard.append("filter")
        return data.model_data

    async def formatter(args: Any) -> str | None:
        heard.append(args.kind)
        return f"no such tool: {args.tool_name}" if args.kind == "tool_not_found" else None

    config = RunConfig(
        tool_not_found_behavior="return_error_to_model",
        tool_error_formatter=formatter,
        call_model_input_filter=model_input,
        tracing_disabled=True,
    )
    replies = [*asking(1), [Ask(tool="nope", call_id="n1")]]
    agent, model = agent_with(function_tool(look), replies=replies)
    run(WritingGuard(), agent, hooks=Hooks(), run_config=config)
    asked = ["filter", "asking", "answered"]
    assert heard == ["agent", *asked, "tool", "done", *asked, "tool_not_found", *asked, "end"]
    assert shown(model)["n1"] == ["no such tool: nope"]


def test_a_tool_that_may_raise_ends_the_run_with_what_it_raised() -> None:
    def fails(query: str) -> str:
        raise KeyError(query)

    guard = WritingGuard()
    agent, _ = agent_with(function_tool(fails, failure_error_function=None), replies=asking(1, "fails"))
    with pytest.raises(UserError) as raised:
        run(guard, agent)
    assert isinstance(raised.value.__cause__, KeyError)
    (after,) = guard.of("after")
    assert isinstance(after.error, KeyError)


def test_an_unknown_tool_is_refused_and_ends_the_run() -> None:
    guard = WritingGuard(CONFIG | {"refusedCallLimit": 3})
    agent, model = agent_with(function_tool(look), replies=asking(20, "nope"))
    with pytest.raises(AgentLoopAborted):
        run(guard, agent)
    told = guard.of("before")
    refused = [one for one in told if one.verdict.action == "block"]
    assert refused
    answers = shown(model)
    assert all(answers[one.call_id or ""] == [one.verdict.message] for one in refused)
    assert {str(one.arguments) for one in told} == {"{'query': 'a'}"}
    assert told[-1].verdict.action == "abort"
    assert len(model.calls) == len(told)


def test_an_unknown_tool_ends_the_run_by_itself_where_it_is_not_told_otherwise() -> None:
    agent, _ = agent_with(function_tool(look), replies=asking(1, "nope"))
    with pytest.raises(ModelBehaviorError):
        run(WritingGuard(), agent, run_config={"tracing_disabled": True})


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
    assert "look" in shown(model)["o1"][0]


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
    calls = []
    for number in range(1, 6):
        call = function_call("look", {"query": "a"}, call_id=f"c{number}")
        calls.append(call.model_copy(update={"caller": {"type": "program", "caller_id": "p1"}}))
    model = ScriptedModel([*([call] for call in calls), [assistant_message("done")]])
    tool = function_tool(look, allowed_callers=["programmatic"])
    run(guard, Agent(name="helper", model=model, tools=[tool]))
    assert guard.of("before")[3].verdict.announce
    assert set(map(str, shown(model).values())) == {"['nothing about a']"}
