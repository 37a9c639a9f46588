"""AG2: where runs begin, pause and end, whose calls count, and compactions."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

pytest.importorskip("ag2.middleware", reason="needs ag2; see scripts/check-hosts")

from ag2 import Context, ToolResult, tool
from ag2.events import (
    CompactionCompleted,
    ModelRequest,
    ModelResponse,
    TextInput,
    ToolCallEvent,
    ToolCallsEvent,
    ToolResultEvent,
    ToolResultsEvent,
)
from ag2.exceptions import HumanInputError
from ag2.middleware import approval_required
from ag2.stream import MemoryStream
from ag2.tools.final import ClientTool

from loopwarden.adapters.ag2 import LoopGuardMiddleware
from tests.adapters.ag2_scripts import ABORTING, LADDER, Scripted, actions, agent_of, compacting, look, run
from tests.adapters.contract import Ask, asking
from tests.adapters.writing_guard import CONFIG, WritingGuard

# --- the end of a run


def test_after_an_abort_every_call_has_its_result_and_the_next_turn_is_a_new_run() -> None:
    guard = WritingGuard(ABORTING)
    pair = [Ask(tool="look", call_id="d1"), Ask(tool="look", call_id="d2", query="b")]
    model = Scripted([*asking(5), pair])
    agent = agent_of(model, [look], [LoopGuardMiddleware(guard)])
    stream = MemoryStream()
    run(model, agent, stream=stream)
    assert model.ran.aborted is not None
    assert model.ran.requests == 6
    assert str(model.ran.aborted) == model.ran.aborted.verdict.message
    assert run(model, agent, stream=stream).body == "done"
    assert {"d1", "d2"} <= model.ran.answers.keys()
    assert len({told.session_id for told in guard.told}) == 1


def test_a_run_leaves_nothing_behind() -> None:
    guard = WritingGuard()
    middleware = LoopGuardMiddleware(guard)
    model = Scripted(asking(3))
    run(model, agent_of(model, [look], [middleware]))
    gc.collect()
    assert guard.told
    assert len(guard._runs) == 0
    assert len(middleware._streams) == 0


def test_a_run_that_is_cancelled_leaves_nothing_behind() -> None:
    async def wait(query: str) -> str:
        """Wait."""
        waiting.set()
        await asyncio.Event().wait()
        return query

    async def cancelled() -> None:
        turn = asyncio.ensure_future(agent_of(model, [wait], [LoopGuardMiddleware(guard)]).ask("go"))
        await waiting.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    guard = WritingGuard()
    model = Scripted(asking(1, "wait"))
    waiting = asyncio.Event()
    asyncio.run(cancelled())
    assert [told.verb for told in guard.told] == ["before"]
    assert len(guard._runs) == 0


def test_an_answer_that_a_tool_gives_stays_as_it_is() -> None:
    @tool
    def finish(query: str) -> ToolResult:
        """Give the answer."""
        return ToolResult(f"all of {query}", final=True)

    guard = WritingGuard(CONFIG | {"warningThreshold": 1})
    model = Scripted(asking(1, "finish"))
    agent = agent_of(model, [finish], [LoopGuardMiddleware(guard)])
    assert run(model, agent).body == "all of a"
    (after,) = guard.of("after")
    assert after.result == "all of a"


# --- whose calls


class Outer(Scripted):
    """It asks another agent, once."""

    async def __call__(self, messages: Any, context: Any, **options: Any) -> ModelResponse:
        answer = await super().__call__(messages, context)
        if self.ran.requests > 1:
            return answer
        return ModelResponse(
            tool_calls=ToolCallsEvent([ToolCallEvent("inner", id="p1", arguments='{"objective": "look"}')])
        )


def test_a_sub_agent_is_a_run_of_its_own() -> None:
    guard = WritingGuard(ABORTING)
    middleware = LoopGuardMiddleware(guard)
    inner = agent_of(Scripted(asking(9)), [look], [middleware])
    model = Outer([])
    outer = agent_of(model, [inner.as_tool(description="Ask another.", name="inner")], [middleware])
    assert run(model, outer).body == "done"
    runs = {told.run_id: told.tool for told in guard.of("before")}
    assert sorted(runs.values()) == ["inner", "look"]
    assert len({told.session_id for told in guard.told}) == 2
    (outcome,) = (told for told in guard.of("after") if told.call_id == "p1")
    assert guard.of("before")[-1].verdict.message in str(outcome.error or outcome.result)


def test_two_turns_at_once_are_two_runs() -> None:
    async def both() -> None:
        await asyncio.gather(*(agent.ask("go") for agent in agents))

    guard = WritingGuard()
    middleware = LoopGuardMiddleware(guard)
    agents = [agent_of(Scripted(asking(3)), [look], [middleware]) for _ in range(2)]
    asyncio.run(both())
    assert len({(told.session_id, told.run_id) for told in guard.told}) == 2
    assert set(actions(guard)) == {"allow"}


@pytest.mark.parametrize("brought", [True, False])
def test_a_run_that_waits_for_the_client_is_one_run(brought: bool) -> None:
    """The client runs the calls; a turn with something else to say is a new run."""
    shape = {"type": "object", "properties": {"query": {"type": "string"}}}
    client = ClientTool({"type": "function", "function": {"name": "show", "parameters": shape}})
    guard = WritingGuard()
    model = Scripted(asking(6, "show"))
    agent = agent_of(model, [client], [LoopGuardMiddleware(guard)])

    async def converse() -> None:
        stream = MemoryStream()
        reply = await agent.ask("go", stream=stream)
        while reply.response.tool_calls:
            (call,) = reply.response.tool_calls.calls
            result = ToolResultEvent.from_call(call, "shown")
            trigger = ToolResultsEvent([result]) if brought else ModelRequest([TextInput("never mind")])
            history = await stream.history.get_events()
            reply = await agent.resume(*history, trigger, stream=stream)

    asyncio.run(converse())
    assert actions(guard) == (LADDER if brought else ["allow"] * 6)
    assert len({told.run_id for told in guard.told}) == (1 if brought else 6)
    assert [told.result for told in guard.of("after")] == (["shown"] * 5 if brought else [])
    assert len(guard._runs) == 0
    if brought:
        assert model.ran.answers["c4"] == [f"shown\n\n{guard.of('before')[3].verdict.message}"]
        assert model.ran.answers["c6"] == [guard.of("before")[5].verdict.message]


def test_a_call_that_a_person_allows_counts_once() -> None:
    answers = iter("yn")
    guard = WritingGuard()
    model = Scripted(asking(2))
    asked = tool(look, middleware=[approval_required()])
    agent = agent_of(model, [asked], [LoopGuardMiddleware(guard)], hitl_hook=lambda event: next(answers))
    assert run(model, agent).body == "done"
    assert [told.call_id for told in guard.of("before")] == ["c1", "c2"]
    assert [told.result for told in guard.of("after")] == ["nothing about a", model.ran.answers["c2"][0]]


def test_a_call_for_which_nobody_can_be_asked_has_no_outcome() -> None:
    def gone(event: Any) -> str:
        raise RuntimeError("nobody there")

    guard = WritingGuard()
    model = Scripted(asking(2))
    agent = agent_of(
        model,
        [tool(look, middleware=[approval_required()])],
        [LoopGuardMiddleware(guard)],
        hitl_hook=gone,
    )
    with pytest.raises(HumanInputError):
        asyncio.run(agent.ask("go"))
    assert [told.verb for told in guard.told] == ["before"]
    assert len(guard._runs) == 0


# --- compaction


def test_a_compaction_counts_for_the_turn_that_comes_after_it() -> None:
    guard = WritingGuard()
    model = Scripted([*asking(2), "first", *asking(2, query="b"), "second"])
    agent = agent_of(model, [look], [LoopGuardMiddleware(guard)], knowledge=compacting())
    stream = MemoryStream()
    run(model, agent, stream=stream)
    assert guard.of("compacted") == []
    run(model, agent, stream=stream)
    (compacted,) = guard.of("compacted")
    assert compacted.run_id == guard.of("before")[2].run_id
    assert compacted.run_id != guard.of("before")[1].run_id


@pytest.mark.parametrize(("left", "count"), [(2, 1), (4, 0)])
def test_a_compaction_within_a_turn(left: int, count: int) -> None:
    """By a strategy of the user's own, which may find nothing to leave out."""

    async def shrink(query: str, context: Context) -> str:
        """Make room."""
        done = CompactionCompleted(agent="a", strategy="own", events_before=4, events_after=left)
        await context.send(done)
        return "done"

    guard = WritingGuard()
    model = Scripted([*asking(1, "shrink"), *asking(3)])
    run(model, agent_of(model, [shrink, look], [LoopGuardMiddleware(guard)]))
    assert len(guard.of("compacted")) == count
    assert (model.ran.aborted is not None) == bool(count)
