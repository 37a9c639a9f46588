"""LlamaIndex: ReAct, handoffs, runs that wait, and ids."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip(
    "llama_index.core.agent.workflow", reason="needs llama-index-core; see scripts/check-hosts"
)

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.tools import FunctionTool, ToolOutput
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent, WorkflowRuntimeError
from workflows.errors import WorkflowCancelledByUser

from loopwarden import LoopAborted
from loopwarden.adapters.llama_index import guard_agent
from tests.adapters.contract import Ask, asking
from tests.adapters.llama_index_scripts import LADDER, Scripted, actions, agent_of, answer, go, look, messages
from tests.adapters.writing_guard import CONFIG, WritingGuard

# --- results of any shape


def pieces(query: str) -> Any:
    return {"rows": [1, 2]}


def nothing(query: str) -> Any:
    return None


def output(query: str) -> Any:
    return ToolOutput(content="nothing", tool_name="output", raw_input={}, raw_output=None)


def picture(query: str) -> Any:
    return [ImageBlock(url="https://example.com/a.png")]


def breaks(query: str) -> Any:
    raise LookupError("no such thing")


@pytest.mark.parametrize("function", [pieces, nothing, output, picture, breaks])
def test_a_warning_comes_along_with_any_result(function: Any) -> None:
    guard = WritingGuard()
    model = Scripted(asking(6, function.__name__))
    go(agent_of(model, [function], guard))
    warning, refusal = messages(guard)
    said = model.ran.answers["c1"][0]
    assert model.ran.answers["c4"] == ["\n".join(text for text in (said, warning) if text)]
    assert model.ran.answers["c5"] == [said]
    assert model.ran.answers["c6"] == [refusal]
    assert all((told.error is not None) == (function is breaks) for told in guard.of("after"))
    assert all(told.unknown_tool is None for told in guard.of("after"))
    assert len({str((told.result, told.error)) for told in guard.of("after")}) == 1


def test_a_result_that_is_the_answer_gets_no_note() -> None:
    def final(query: str) -> str:
        """Answer."""
        return "42"

    guard = WritingGuard()
    failing = [[Ask(tool=name, call_id=name)] for name in ("breaks", "nope", "gone")]
    model = Scripted([*failing, [Ask(tool="final", call_id="d1")]])
    tools = [breaks, FunctionTool.from_defaults(final, return_direct=True)]
    assert go(agent_of(model, tools, guard)) == "42"
    verdict = guard.of("before")[3].verdict
    assert (verdict.action, verdict.announce) == ("warn", True)


def test_the_stream_has_both_events_of_every_call() -> None:
    async def names() -> list[str]:
        handler = agent_of(Scripted(asking(6)), [look], WritingGuard()).run("go")
        found = [type(event).__name__ async for event in handler.stream_events()]
        await handler
        return found

    found = asyncio.run(names())
    assert (found.count("ToolCall"), found.count("ToolCallResult")) == (6, 6)


# --- ids


@pytest.mark.parametrize("call_id", ["", "look"])
def test_calls_that_share_an_id_are_told_apart(call_id: str) -> None:
    guard = WritingGuard()
    pair = [ToolCallBlock(tool_call_id=call_id, tool_name="look", tool_kwargs={"query": q}) for q in "ab"]
    go(agent_of(Scripted([pair]), [look], guard))
    assert len(guard.of("before")) == 2
    assert sorted(str(told.result) for told in guard.of("after")) == ["nothing about a", "nothing about b"]


def test_runs_and_sessions_are_those_of_the_host() -> None:
    guard = WritingGuard()
    agent = agent_of(Scripted([*asking(1), [], *asking(1)]), [look], guard)
    memory = Memory.from_defaults(session_id="s1")

    async def two_runs() -> list[str | None]:
        ctx = Context(agent)
        handlers = []
        for _ in range(2):
            handlers.append(agent.run("go", ctx=ctx, memory=memory))
            await handlers[-1]
        return [handler.run_id for handler in handlers]

    ids = asyncio.run(two_runs())
    assert [told.run_id for told in guard.of("before")] == ids
    assert len(set(ids)) == 2
    assert {told.session_id for told in guard.told} == {"s1"}


def test_a_context_goes_on_after_an_abort_once_its_open_calls_are_gone() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    shown: list[list[ChatMessage]] = []
    model = Scripted([*asking(6), []])
    said = model.say

    def say(messages: Any, **options: Any) -> ChatMessage:
        shown.append(list(messages))
        return said(messages, **options)

    agent = agent_of(model, [look], guard)
    agent.llm = MockFunctionCallingLLM(response_generator=say)

    async def two_runs() -> str:
        ctx = Context(agent)
        with pytest.raises(LoopAborted):
            await agent.run("go", ctx=ctx)
        await ctx.store.set("scratchpad", [])
        return str(await agent.run("and now?", ctx=ctx))

    assert asyncio.run(two_runs()) == "done"
    blocks = [block for message in shown[-1] for block in message.blocks]
    assert not any(isinstance(block, ToolCallBlock) for block in blocks)


def test_runs_at_the_same_time_are_told_apart() -> None:
    guard = WritingGuard()
    agents = [agent_of(Scripted(asking(4)), [look], guard) for _ in range(3)]

    async def together() -> None:
        await asyncio.gather(*(answer(agent) for agent in agents))

    asyncio.run(together())
    runs = [told.run_id for told in guard.of("before")]
    assert sorted(runs.count(run) for run in set(runs)) == [4, 4, 4]


# --- the end


@pytest.mark.parametrize("at", ["the handler", "the stream"])
def test_an_abort_comes_out_of_the_run(at: str) -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    agent = agent_of(Scripted(asking(9)), [look], guard)

    async def run() -> None:
        handler = agent.run("go")
        if at == "the stream":
            async for _ in handler.stream_events():
                pass
        await handler

    with pytest.raises(LoopAborted):
        asyncio.run(run())
    assert (_known(agent), len(guard._runs)) == (0, 0)


def test_a_run_that_reaches_its_limit_leaves_nothing_behind() -> None:
    guard = WritingGuard()
    agent = agent_of(Scripted(asking(9)), [look], guard)
    with pytest.raises(WorkflowRuntimeError, match="Max iterations"):
        go(agent, max_iterations=3)
    assert len(guard.of("after")) == 2
    assert (_known(agent), len(guard._runs)) == (0, 0)


def test_a_run_that_is_cancelled_leaves_nothing_behind() -> None:
    guard = WritingGuard()

    async def forever(query: str) -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return query

    agent = agent_of(Scripted(asking(1, "forever")), [forever], guard)
    started = asyncio.Event()

    async def run() -> None:
        handler = agent.run("go")
        await started.wait()
        await handler.cancel_run()
        with pytest.raises(WorkflowCancelledByUser):
            await handler

    asyncio.run(run())
    assert len(guard.of("before")) == 1
    assert _known(agent) == 0


def test_a_run_whose_model_fails_leaves_nothing_behind() -> None:
    def fail(index: int) -> None:
        if index == 2:
            raise ConnectionError("out of order")

    guard = WritingGuard()
    agent = agent_of(Scripted(asking(3), fail), [look], guard)
    with pytest.raises(ConnectionError):
        go(agent)
    assert len(guard.of("after")) == 2
    assert (_known(agent), len(guard._runs)) == (0, 0)


def test_a_run_leaves_nothing_behind() -> None:
    guard = WritingGuard()
    agent = agent_of(Scripted(asking(3)), [look], guard)
    go(agent)
    assert (_known(agent), len(guard._runs)) == (0, 0)


def _known(agent: Any) -> int:
    """How many runs the adapter keeps."""
    return len(type(agent).call_tool.guarded.runs)


# --- ReAct


def reasoning(*replies: str, guard: WritingGuard) -> tuple[str, list[str]]:
    """The answer of an agent whose model says this, and the last text of each request."""
    texts = iter(replies)
    shown: list[str] = []

    def say(asked: Any, **options: Any) -> ChatMessage:
        shown.append(str(asked[-1].content))
        return ChatMessage(role="assistant", content=next(texts, "Thought: enough\nAnswer: done"))

    agent = ReActAgent(tools=[look], llm=MockFunctionCallingLLM(response_generator=say))
    return go(guard_agent(agent, guard)), shown


LOOK = 'Thought: I look\nAction: look\nAction Input: {"query": "a"}'


def test_react_is_guarded() -> None:
    guard = WritingGuard()
    text, shown = reasoning(*[LOOK] * 6, guard=guard)
    assert text == "done"
    assert actions(guard) == LADDER
    warning, refusal = messages(guard)
    assert shown[1] == "Observation: nothing about a"
    assert shown[4] == f"Observation: nothing about a\n{warning}"
    assert shown[6] == f"Observation: {refusal}"


def test_unknown_tools_of_react_are_seen() -> None:
    guard = WritingGuard()
    reasoning(LOOK.replace("look", "nope"), guard=guard)
    assert [told.unknown_tool for told in guard.of("after")] == ["nope"]


def test_a_reply_that_can_not_be_read_is_no_compaction() -> None:
    guard = WritingGuard()
    reasoning(LOOK, LOOK, "Action: ???", "", LOOK, LOOK.replace('"a"', '"b"'), guard=guard)
    assert len(guard.of("before")) == 4
    assert guard.of("compacted") == []


# --- handoffs


def handoff(name: str, call_id: str) -> list[Any]:
    given = {"to_agent": name, "reason": "you know it"}
    return [ToolCallBlock(tool_call_id=call_id, tool_name="handoff", tool_kwargs=given)]


def workflow_of(one: Scripted, other: Scripted, guard: WritingGuard, **options: Any) -> AgentWorkflow:
    agents: list[Any] = [
        FunctionAgent(name=name, description=name, tools=[look], llm=model.llm, **options)
        for name, model in (("one", one), ("other", other))
    ]
    return guard_agent(AgentWorkflow(agents=agents, root_agent="one"), guard)


def test_a_run_with_handoffs_is_one_run_without_a_compaction() -> None:
    guard = WritingGuard()
    one = Scripted([*asking(2), handoff("other", "h1"), *asking(1, query="c")])
    other = Scripted([*asking(2, query="b"), handoff("one", "h2")])
    workflow = workflow_of(one, other, guard, system_prompt="You are helpful.")
    assert go(workflow) == "done"
    assert [told.tool for told in guard.of("before")].count("handoff") == 2
    assert len(guard.of("after")) == 7
    assert len({told.run_id for told in guard.told}) == 1
    assert guard.of("compacted") == []
    assert _known(workflow) == 0


def test_agents_that_hand_off_to_each_other_for_ever_are_refused() -> None:
    guard = WritingGuard()
    one = Scripted([handoff("other", f"h{number}") for number in range(9)])
    other = Scripted([handoff("one", f"i{number}") for number in range(9)])
    go(workflow_of(one, other, guard), max_iterations=40)
    assert {told.verdict.detector for told in guard.of("before")} >= {"ping_pong"}
    assert "block" in actions(guard)


def test_a_history_that_is_cut_at_a_handoff_is_a_compaction() -> None:
    guard = WritingGuard()
    one = Scripted([*asking(3), handoff("other", "h1")])
    other = Scripted(asking(4, query="b"))
    memory = ChatMemoryBuffer.from_defaults(token_limit=12)
    with pytest.raises(LoopAborted) as raised:
        go(workflow_of(one, other, guard), memory=memory)
    assert len(guard.of("compacted")) == 1
    assert raised.value.verdict.error == "compaction_loop_persisted"


# --- runs that wait for a person


async def ask_first(ctx: Context, query: str) -> str:
    """Ask a person."""
    event = await ctx.wait_for_event(
        HumanResponseEvent,
        waiter_id=query,
        waiter_event=InputRequiredEvent(prefix="may I?"),  # type: ignore[call-arg]  # events take any field
    )
    return f"{event.response} about {query}"


ask_first.__annotations__["ctx"] = Context  # the host does not resolve what is written as text


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_call_that_waits_for_a_person_counts_once(elsewhere: bool) -> None:
    guard = WritingGuard()
    # What was not done when the run was saved is done again, so the call is alone where it is saved.
    beside = [] if elsewhere else [Ask(tool="look", call_id="c2")]
    model = Scripted([[Ask(tool="ask_first", call_id="c1"), *beside], *asking(1)])
    agent = agent_of(model, [ask_first, look], guard)

    async def run() -> str:
        memory = ChatMemoryBuffer.from_defaults()
        handler = agent.run("go", memory=memory)
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                break
        if elsewhere:
            saved = handler.ctx.to_dict()
            await handler.cancel_run()
            handler = agent.run(ctx=Context.from_dict(agent, saved))
            await handler.ctx.store.set("memory", memory)  # the host does not save it
        handler.ctx.send_event(HumanResponseEvent(response="yes"))  # type: ignore[call-arg]  # as above
        return str(await handler)

    assert asyncio.run(run()) == "done"
    before, after = guard.of("before"), guard.of("after")
    assert [told.call_id for told in before].count("c1") == 2  # the last reply has the id once more
    assert len(before) == len(after) == 2 + len(beside)
    assert len({told.run_id for told in guard.told}) == 1
    assert "yes about a" in {told.result for told in after}
