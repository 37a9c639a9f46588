"""Agents that Strands makes itself, for its tools `subagent` and `swarm`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("strands", reason="needs strands-agents")

from strands import Agent, tool

from loopwarden.adapters.strands import LoopGuardHooks
from tests.adapters.contract import Ask, Tools, asking
from tests.adapters.strands_scripts import Scripted
from tests.adapters.writing_guard import CONFIG, WritingGuard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.skipif(
    find_spec("strands.vended_tools.subagent") is None, reason="this version has no such tool"
)


class Delegating(Scripted):
    """Hands a task on first; then the script is that of the agent below, and after it of the one above."""

    async def stream(self, messages: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        if self.ran.requests:
            async for event in super().stream(messages, *args, **options):
                yield event
            return
        self.ran.requests += 1
        call = {"name": "subagent", "toolUseId": "s1"}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {"toolUse": call}}}
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"task": "look it up"}'}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


def delegate(guard: WritingGuard, below: list[list[Ask]], *, inherited: bool = True) -> tuple[str, Tools]:
    """Run an agent that hands its task on; what it said, and what ran."""
    from strands.vended_tools.subagent import make_subagent

    tools = Tools()
    hooks = LoopGuardHooks(guard)
    agent = Agent(
        Delegating([[], *below]),
        tools=[*(tool(function) for function in tools().values()), make_subagent()],
        hooks=[hooks],
        interventions=[hooks.inherited()] if inherited else [],
        callback_handler=None,
    )
    return str(agent("go")).strip(), tools


def test_an_agent_of_the_host_is_a_run_of_its_own_and_is_ended() -> None:
    guard = WritingGuard(CONFIG)
    said, tools = delegate(guard, [*asking(10), []])
    assert said == "done"
    assert tools.ran == [("look", "a")] * 5
    runs = {told.run_id: told.tool for told in guard.of("before")}
    assert sorted(runs.values()) == ["look", "subagent"]
    assert [told.verdict.action for told in guard.of("before")][1:] == [
        *["allow"] * 3,
        *["warn"] * 2,
        *["block"] * 4,
        "abort",
    ]
    (outcome,) = (told for told in guard.of("after") if told.call_id == "s1")
    assert "the run ends here" in str(outcome.error)  # the agent above is told, and goes on


def test_work_of_an_agent_of_the_host_is_untouched() -> None:
    guard = WritingGuard(CONFIG)
    queries = [[Ask(tool="fresh", query=f"q{number}", call_id=f"c{number}")] for number in range(8)]
    said, tools = delegate(guard, queries)
    assert said == "done"
    assert len(tools.ran) == 8
    assert [told.call_id for told in guard.of("before")] == ["s1", *(f"c{number}" for number in range(8))]
    assert {told.verdict.action for told in guard.told} == {"allow"}


def test_without_it_they_are_not_seen() -> None:
    """What the guide says; if this fails, the host has begun to hand hooks on."""
    guard = WritingGuard(CONFIG)
    _, tools = delegate(guard, asking(8), inherited=False)
    assert len(tools.ran) == 8
    assert [told.tool for told in guard.of("before")] == ["subagent"]
