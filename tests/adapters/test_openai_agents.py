"""The guard in runs of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("agents.testing", reason="needs openai-agents; see scripts/check-hosts")

from agents import (
    ModelBehaviorError,
    RunConfig,
    RunHooks,
    ToolGuardrailFunctionOutput,
    ToolOutputImage,
    ToolOutputText,
    UserError,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)

from loopwarden.adapters.openai_agents import AgentLoopAborted, GuardedRunner
from loopwarden.adapters.openai_agents_run import Run
from tests.adapters.contract import CONFIG, Ask, Contract, WritingGuard, asking
from tests.adapters.openai_agents_scripts import (
    GOES_ON,
    OpenAIAgents,
    agent_with,
    compacting,
    look,
    run,
    shown,
)

if TYPE_CHECKING:
    from agents.run_config import CallModelData, ModelInputData

pytestmark = pytest.mark.usefixtures("closed_loop")


class TestOpenAIAgents(Contract):
    @pytest.fixture(params=["sync", "async", "stream"])
    def host(self, request: pytest.FixtureRequest) -> OpenAIAgents:
        return OpenAIAgents(request.param)


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
    assert [told.call_id for told in guard.of("before")] == ["c1", "c2", "c3", "c4", "c5", "c6"]
    assert {told.result for told in guard.of("after") if not told.error} == {"nothing about a"}
    assert [(told.call_id, told.error) for told in guard.of("after") if told.error] == [("c2", "not you")]
    assert seen.count("asks") == 6
    assert seen.count("nothing about a") == 5
    answers = shown(model)
    warned = guard.of("before")[3].verdict.message or ""
    assert answers["c2"] == ["not you"]
    assert answers["c4"] == [f"hidden\n\n{warned}"]


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


def test_an_unknown_tool_after_a_compaction_ends_the_run() -> None:
    config = RunConfig(
        tool_not_found_behavior="return_error_to_model",
        call_model_input_filter=compacting(1, marks=True),
        tracing_disabled=True,
    )
    agent, _ = agent_with(function_tool(look), replies=asking(9, "nope"))
    guard = WritingGuard(CONFIG | {"unknownToolThreshold": 9})
    with pytest.raises(AgentLoopAborted) as raised:
        run(guard, agent, run_config=config)
    assert raised.value.verdict.error == "compaction_loop_persisted"
    assert len(guard.of("before")) == 4


def test_an_unknown_tool_beside_a_call_that_waits_counts_once() -> None:
    guard = WritingGuard()
    tool = function_tool(look, needs_approval=True)
    replies = [[Ask(tool="look", call_id="c1"), Ask(tool="nope", call_id="n1")]]
    agent, model = agent_with(tool, replies=replies)
    runner = GuardedRunner(guard)
    result = runner.run_sync(agent, "go", run_config=GOES_ON)
    state = result.to_state()
    state.approve(result.interruptions[0])
    assert runner.run_sync(agent, state, run_config=GOES_ON).final_output == "done"
    assert sorted(str(told.call_id) for told in guard.of("before")) == ["c1", "n1"]
    assert len({told.turn_id for told in guard.of("before")}) == 1
    assert {name: len(answers) for name, answers in shown(model).items()} == {"c1": 1, "n1": 1}


def test_a_call_that_is_cut_off_by_an_abort_has_no_outcome() -> None:
    async def slow(query: str) -> str:
        return await asyncio.get_running_loop().create_future()

    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    last = [Ask(tool="slow", call_id="s1"), Ask(tool="look", call_id="c6")]
    agent, _ = agent_with(function_tool(look), function_tool(slow), replies=[*asking(5), last])
    with pytest.raises(AgentLoopAborted):
        run(guard, agent)
    assert [told.call_id for told in guard.of("after")] == ["c1", "c2", "c3", "c4", "c5"]
    assert len(guard._runs) == 0


def test_few_calls_are_remembered_of_many() -> None:
    known: OrderedDict[str, Run] = OrderedDict()
    one = Run(WritingGuard(), known)
    for number in range(5000):
        one.answered([{"type": "function_call", "call_id": f"c{number}", "arguments": "{}"}], ())
    assert next(iter(known)) == f"c{5000 - len(known)}"
    assert len(known) <= 4096
