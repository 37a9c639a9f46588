"""Claude Agent SDK: sub-agents and compactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="needs claude-agent-sdk; see scripts/check-hosts")

from loopwarden.adapters.claude_agent_sdk import LoopGuardHooks
from tests.adapters.anthropic_server import Reply, calling, saying
from tests.adapters.claude_agent_sdk_scripts import ABORTING, FULL, look, looks, talk
from tests.adapters.writing_guard import WritingGuard

if TYPE_CHECKING:
    from tests.adapters.anthropic_server import Request


# --- sub-agents


def with_sub_agent(own: list[list[dict[str, Any]]], calls: list[Any], *, background: bool = False) -> Any:
    """The main agent asks for a sub-agent, then goes on with `own`; the sub-agent asks for `calls`."""
    start = {"description": "search", "prompt": "SEARCH", "subagent_type": "general-purpose"}
    task = calling("Agent", start | {"run_in_background": background}, "t1")
    queues = {True: list(calls), False: [[task], *own]}

    def script(request: Request) -> Any:
        if request.asks_for_summary:
            return [saying("<summary>SEARCH</summary>")]
        queue = queues["SEARCH" in "\n".join(str(message) for message in request.messages[:1])]
        return queue.pop(0) if queue else [saying("done")]

    return script


def of_call(guard: WritingGuard, verb: str, call_id: str) -> Any:
    (found,) = (told for told in guard.of(verb) if told.call_id == call_id)
    return found


@pytest.mark.parametrize("background", [False, True])
def test_a_sub_agent_is_a_run_of_its_own(background: bool) -> None:
    guard = WritingGuard()
    script = with_sub_agent(looks(3, 7), looks(3), background=background)
    talk(LoopGuardHooks(guard), script, tools=[look], allowed_tools=["mcp__own__*", "Agent"])
    runs: dict[str | None, set[str]] = {}
    for told in guard.of("before"):
        runs.setdefault(told.run_id, set()).add(told.call_id or "")
    assert sorted(map(sorted, runs.values())) == [["c1", "c2", "c3"], ["c7", "c8", "c9", "t1"]]
    assert len({told.session_id for told in guard.told}) == 1


def test_the_run_of_a_sub_agent_ends_alone() -> None:
    guard = WritingGuard(ABORTING)
    script = with_sub_agent(looks(1, 20), looks(9))
    said = talk(LoopGuardHooks(guard), script, tools=[look], allowed_tools=["mcp__own__*", "Agent"])
    assert said.aborted == [None]
    assert said.results[0].result == "done"
    verdict = of_call(guard, "before", "c6").verdict
    assert verdict.action == "abort"
    assert of_call(guard, "after", "t1").error == verdict.message
    assert verdict.message in said.answers["t1"]
    assert of_call(guard, "after", "c20").error is None


def test_a_sub_agent_says_the_same_whatever_it_cost() -> None:
    start = {"description": "search", "prompt": "SEARCH", "subagent_type": "general-purpose"}
    script = [
        [calling("Agent", start | {"run_in_background": False}, f"t{number}")] if main else [saying("none")]
        for number in range(5)
        for main in (True, False)
    ]
    guard = WritingGuard()
    talk(LoopGuardHooks(guard), script, allowed_tools=["Agent"])
    assert len(guard.of("after")) == 5
    assert len({str(told.result) for told in guard.of("after")}) == 1


def test_the_compaction_of_a_sub_agent_is_its_own() -> None:
    guard = WritingGuard()
    calls = [Reply(reply, FULL if number == 1 else 10) for number, reply in enumerate(looks(8))]
    script = with_sub_agent([], calls)
    said = talk(LoopGuardHooks(guard), script, tools=[look], allowed_tools=["mcp__own__*", "Agent"])
    (compacted,) = guard.of("compacted")
    assert compacted.run_id == of_call(guard, "before", "c1").run_id
    assert said.aborted == [None]
    assert len(guard.of("after")) == 6
    assert "was compacted" in str(of_call(guard, "after", "t1").error)


# --- compactions


def test_a_compaction_by_a_person_is_that_of_the_next_run() -> None:
    guard = WritingGuard()
    script = [*looks(2), [saying("x")], *looks(9, 3)]
    said = talk(LoopGuardHooks(guard), script, "go", "/compact", "go on", tools=[look])
    (compacted,) = guard.of("compacted")
    assert compacted.run_id == of_call(guard, "before", "c3").run_id
    assert said.aborted[2] is not None
    assert said.aborted[2].verdict.error == "compaction_loop_persisted"
    assert [told.call_id for told in guard.of("after")] == ["c1", "c2", "c3", "c4", "c5"]


def test_a_compaction_that_fails_is_none() -> None:
    """The history is too long, and too short to be cut."""
    guard = WritingGuard()
    script = [Reply(reply, FULL if number == 0 else 10) for number, reply in enumerate(looks(5))]
    said = talk(LoopGuardHooks(guard), script, tools=[look])
    assert guard.of("compacted") == []
    assert said.results[0].result == "done"


def test_a_summary_that_fails_is_no_compaction() -> None:
    def script(request: Request) -> Any:
        if request.asks_for_summary:
            summaries.append(request)
            return Reply(error=400)
        return replies.pop(0)

    guard = WritingGuard()
    summaries: list[Request] = []
    replies = [Reply(reply, FULL if number == 1 else 10) for number, reply in enumerate(looks(4))]
    replies.append(Reply([saying("done")]))
    said = talk(LoopGuardHooks(guard), script, tools=[look])
    assert summaries
    assert guard.of("compacted") == []
    assert said.results[0].result == "done"
