"""The guard as a capability of Pydantic AI."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs pydantic-ai-slim; see scripts/check-hosts")

from pydantic_ai import Agent, BinaryContent, DeferredToolRequests, ModelRetry, ToolReturn
from pydantic_ai.capabilities import AbstractCapability, ProcessHistory
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tools import DeferredToolResults, RunContext, Tool

from loopwarden import LoopAborted
from loopwarden.adapters.pydantic_ai import ABILITIES, GuardCapability
from tests.adapters.contract import CONFIG, Ask, Contract, Ran, Script, WritingGuard, asking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from loopwarden import LoopGuard


@pytest.fixture(autouse=True)
def _closed_loop() -> Iterator[None]:
    """`run_sync` makes an event loop where there is none, and leaves it open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


class Scripted:
    """A model that follows a script and writes down what it is shown."""

    def __init__(self, replies: list[list[Ask]]) -> None:
        self.replies = replies
        self.ran = Ran()
        self.history: list[ModelMessage] = []

    def next(self, messages: list[ModelMessage]) -> list[Ask]:
        self.history = list(messages)
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    answers = self.ran.answers.setdefault(part.tool_call_id, [])
                    text = part.model_response_str()
                    if text not in answers:
                        answers.append(text)
        index, self.ran.requests = self.ran.requests, self.ran.requests + 1
        return self.replies[index] if index < len(self.replies) else []

    def reply(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        calls = [ToolCallPart(ask.tool, {"query": ask.query}, ask.call_id) for ask in self.next(messages)]
        return ModelResponse(parts=calls or [TextPart("done")])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        asked = self.next(messages)
        for index, ask in enumerate(asked):
            arguments = f'{{"query": "{ask.query}"}}'
            yield {index: DeltaToolCall(name=ask.tool, json_args=arguments, tool_call_id=ask.call_id)}
        if not asked:
            yield "done"

    def model(self) -> FunctionModel:
        return FunctionModel(self.reply, stream_function=self.stream)


class Compacting:
    """A history processor that compacts before one request, with or without a mark."""

    def __init__(self, before: int, *, marks: bool) -> None:
        self.before = before
        self.marks = marks
        self.requests = 0

    def __call__(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        self.requests += 1
        if self.requests != self.before + 1:
            return messages
        summary: list[ModelMessage] = [ModelRequest(parts=[CompactionPart("so far")])] if self.marks else []
        return [*summary, *messages[-2:]]


class PydanticAI:
    abilities = ABILITIES
    errors_are_text = False
    survives_errors = False
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        scripted = Scripted(script.replies)
        capabilities: list[AbstractCapability[Any]] = []
        if script.compact_before is not None:
            capabilities.append(ProcessHistory(Compacting(script.compact_before, marks=self.way == "async")))
        if guard is not None:
            capabilities.append(GuardCapability(guard))
        tools = [Tool(function, name=name) for name, function in script.tools.items()]
        agent = Agent(scripted.model(), tools=tools, capabilities=capabilities, retries=20)
        ran = scripted.ran
        try:
            ran.text = self._text(agent)
        except LoopAborted as aborted:
            ran.raised = ran.aborted = aborted
        except Exception as error:  # noqa: BLE001 - whatever the run raised
            ran.raised = error
        return ran

    def _text(self, agent: Agent) -> str:
        if self.way == "sync":
            return agent.run_sync("go").output
        return asyncio.run(self._awaited(agent))

    async def _awaited(self, agent: Agent) -> str:
        if self.way == "async":
            return (await agent.run("go")).output
        async with agent.run_stream("go") as result:
            return await result.get_output()


class TestPydanticAI(Contract):
    @pytest.fixture(params=["sync", "async", "stream"])
    def host(self, request: pytest.FixtureRequest) -> PydanticAI:
        return PydanticAI(request.param)


def run(guard: WritingGuard, tool: Callable[..., Any], replies: list[list[Ask]], **options: Any) -> Scripted:
    """One run with one tool, named `look`."""
    scripted = Scripted(replies)
    options.setdefault("capabilities", [GuardCapability(guard)])
    agent = Agent(scripted.model(), tools=[Tool(tool, name="look")], retries=20, **options)
    try:
        scripted.ran.text = agent.run_sync("go").output
    except LoopAborted as aborted:
        scripted.ran.aborted = aborted
    return scripted


def notes(scripted: Scripted) -> list[str]:
    """What the model was told beside the results."""
    prompts = [
        part for message in scripted.history for part in message.parts if isinstance(part, UserPromptPart)
    ]
    return [str(prompt.content) for prompt in prompts[1:]]


PICTURE = BinaryContent(b"\x89PNG", media_type="image/png")


@pytest.mark.parametrize(
    "result",
    [
        {"rows": [1, 2]},
        ["a", "b"],
        7,
        ToolReturn(return_value={"rows": 1}),
        ToolReturn(return_value="text"),
        ToolReturn(return_value={"rows": 1}, content="look here"),
        ToolReturn(return_value={"rows": 1}, content=["look here", PICTURE], metadata={"kept": True}),
    ],
    ids=repr,
)
def test_a_warning_comes_along_with_any_result(result: Any) -> None:
    guard = WritingGuard()
    scripted = run(guard, lambda query: result, asking(4))
    message = guard.of("before")[3].verdict.message or ""
    (plain,), (warned,) = scripted.ran.answers["c1"], scripted.ran.answers["c4"]
    told = [*notes(scripted), warned]
    assert sum(message in one for one in told) == 1
    assert warned.startswith(plain)
    assert len({str(after.result) for after in guard.of("after")}) == 1


@pytest.mark.parametrize("failure", [ModelRetry("not now"), ToolFailed("not now")])
def test_failures_that_the_model_reads_are_failures(failure: Exception) -> None:
    def look(query: str) -> str:
        raise failure

    guard = WritingGuard()
    scripted = run(guard, look, asking(7))
    assert [told.verdict.action for told in guard.of("before")] == [
        *["allow"] * 3,
        *["warn"] * 2,
        *["block"] * 2,
    ]
    assert {str(told.error) for told in guard.of("after")} == {"not now"}
    warning = guard.of("before")[3].verdict.message or ""
    refusal = guard.of("before")[5].verdict.message or ""
    answers = scripted.ran.answers
    assert Counter(len(one) for one in answers.values()) == {1: 7}
    assert warning in answers["c4"][0]
    assert "not now" in answers["c4"][0]
    assert answers["c5"] == answers["c3"]
    assert refusal in answers["c6"][0]
    assert "not now" not in answers["c6"][0]


def test_arguments_that_are_rejected_are_calls_that_failed() -> None:
    def look(query: int) -> str:
        raise AssertionError(query)

    guard = WritingGuard()
    scripted = run(guard, look, asking(6))
    assert [told.arguments for told in guard.of("before")] == [{"query": "a"}] * 6
    assert [told.verdict.action for told in guard.of("before")][3:] == ["warn", "warn", "block"]
    assert all("int" in str(told.error) for told in guard.of("after"))
    warning = guard.of("before")[3].verdict.message or ""
    assert warning in scripted.ran.answers["c4"][0]
    assert guard.of("before")[5].verdict.message in scripted.ran.answers["c6"][0]
    assert scripted.ran.answers["c5"] == scripted.ran.answers["c1"]


def test_a_refused_unknown_tool_is_told_so() -> None:
    guard = WritingGuard()
    scripted = run(guard, lambda query: query, asking(5, "nope"))
    verdicts = [told.verdict for told in guard.of("before")]
    assert verdicts[-1].action == "block"
    refused = {
        told.call_id: told.verdict.message for told in guard.of("before") if told.verdict.action == "block"
    }
    for call_id, message in refused.items():
        assert scripted.ran.answers[call_id or ""] == [f"<error>{message}</error>"] or message in str(
            scripted.ran.answers[call_id or ""]
        )
        assert len(scripted.ran.answers[call_id or ""]) == 1
    assert {told.turn_id for told in guard.of("before")} == {f"step-{step}" for step in range(1, 6)}


def test_unknown_tools_end_the_run_in_the_end() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    scripted = run(guard, lambda query: query, asking(20, "nope"))
    assert scripted.ran.aborted is not None
    assert scripted.ran.aborted.verdict.detector == "unknown_tool_repeat"


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
def test_a_call_that_a_person_approves_counts_once(asks: str) -> None:
    ran: list[str] = []

    def look(ctx: RunContext, query: str) -> str:
        if asks == "the tool" and not ctx.tool_call_approved:
            raise ApprovalRequired
        ran.append(query)
        return query

    guard = WritingGuard()
    scripted = Scripted(asking(1))
    tool = Tool(look, name="look", takes_ctx=True, requires_approval=asks == "its definition")
    agent: Agent[object, Any] = Agent(
        scripted.model(),
        tools=[tool],
        capabilities=[GuardCapability(guard)],
        output_type=[str, DeferredToolRequests],
    )
    first = agent.run_sync("go")
    assert isinstance(first.output, DeferredToolRequests)
    waiting = [told.verb for told in guard.told]
    assert waiting in ([], ["before", "retract"])
    answers = DeferredToolResults(approvals={"c1": True})
    second = agent.run_sync(message_history=first.all_messages(), deferred_tool_results=answers)
    assert (second.output, ran) == ("done", ["a"])
    assert [told.verb for told in guard.told][len(waiting) :] == ["before", "after"]


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
