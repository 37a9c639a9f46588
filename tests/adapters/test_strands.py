"""The guard as a hook provider of Strands Agents."""

from __future__ import annotations

import copy
from typing import Any

import pytest

pytest.importorskip("strands.hooks", reason="needs strands-agents; see scripts/check-hosts")

from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent, BeforeToolsEvent

from loopwarden.adapters.strands import LoopGuardHooks
from tests.adapters.contract import Ask, Contract, asking
from tests.adapters.strands_scripts import Hook, Scripted, Strands, agent_of, both_ways, look, run
from tests.adapters.writing_guard import CONFIG, WritingGuard

pytestmark = pytest.mark.usefixtures("closed_loop")


class TestStrands(Contract):
    @pytest.fixture(params=["sync", "async", "stream"])
    def host(self, request: pytest.FixtureRequest) -> Strands:
        return Strands(request.param)


# --- other hooks

STRANGE = asking(9, "look at!")
"""The host refuses the name before any hook of a call."""


@pytest.mark.parametrize("first", [True, False])
def test_a_call_that_a_hook_tries_again_counts_once(first: bool) -> None:
    attempts: list[str] = []

    def flaky(query: str) -> str:
        """Fail twice."""
        attempts.append(query)
        if len(attempts) < 3:
            raise RuntimeError("not yet")
        return "there"

    def again(event: AfterToolCallEvent) -> None:
        event.retry = event.exception is not None

    guard = WritingGuard()
    model = Scripted(asking(1, "flaky"))
    agent = agent_of(model, [flaky], both_ways(Hook(AfterToolCallEvent, again), guard)[first])
    run(model, agent)
    assert len(attempts) == 3
    assert len(guard.of("before")) == 1
    (after,) = guard.of("after")
    assert (after.result, after.error) == ("there", None)


@pytest.mark.parametrize("first", [True, False])
def test_the_guard_is_told_what_the_tool_gave(first: bool) -> None:
    """Another hook writes something new into every result."""
    numbers = iter(range(100))

    def stamp(event: AfterToolCallEvent) -> None:
        if event.cancel_message is None:
            event.result = {**event.result, "content": [{"text": f"kept as number {next(numbers)}"}]}

    guard = WritingGuard()
    model = Scripted(asking(6))
    agent = agent_of(model, [look], both_ways(Hook(AfterToolCallEvent, stamp), guard)[first])
    run(model, agent)
    assert {told.result for told in guard.of("after")} == {"nothing about a"}
    warning, refusal = (guard.of("before")[index].verdict.message or "?" for index in (3, 5))
    assert model.ran.answers["c4"] == [f"kept as number 3\n{warning}"]
    assert model.ran.answers["c6"] == [refusal]


def test_a_call_that_another_hook_refuses_is_a_failure() -> None:
    def deny(event: BeforeToolCallEvent) -> None:
        event.cancel_tool = event.cancel_tool or "not allowed"

    guard = WritingGuard()
    model = Scripted(asking(6))
    agent = agent_of(model, [look], [Hook(BeforeToolCallEvent, deny), LoopGuardHooks(guard)])
    run(model, agent)
    assert {told.error for told in guard.of("after")} == {"not allowed"}
    assert model.ran.answers["c1"] == ["not allowed"]
    assert model.ran.answers["c6"] == [guard.of("before")[5].verdict.message]


def test_a_batch_that_another_hook_refuses_is_seen() -> None:
    def deny(event: BeforeToolsEvent) -> None:
        event.cancel = "not now"

    guard = WritingGuard()
    model = Scripted(asking(6))
    agent = agent_of(model, [look], [LoopGuardHooks(guard), Hook(BeforeToolsEvent, deny)])
    run(model, agent)
    assert [told.verdict.action for told in guard.of("before")] == [*["allow"] * 3, "warn", "warn", "block"]
    assert {told.error for told in guard.of("after")} == {"not now"}
    warning = guard.of("before")[3].verdict.message
    assert model.ran.answers["c4"] == [f"not now\n{warning}"]


def test_names_that_no_tool_can_have_are_seen() -> None:
    guard = WritingGuard()
    model = Scripted(
        [[*pair, Ask(tool="look", call_id=f"x{at}", query=str(at))] for at, pair in enumerate(STRANGE)]
    )
    run(model, agent_of(model, [look], [LoopGuardHooks(guard)]))
    strange = [told for told in guard.of("before") if told.tool != "look"]
    assert [told.call_id for told in strange] == [ask.call_id for (ask,) in STRANGE]
    refused = [told for told in strange if told.verdict.action == "block"]
    assert refused
    for told in refused:
        assert model.ran.answers[told.call_id or ""] == [told.verdict.message]


def test_names_that_no_tool_can_have_end_the_run() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    model = Scripted(STRANGE)
    run(model, agent_of(model, [look], [LoopGuardHooks(guard)]))
    assert model.ran.aborted is not None


# --- results of any shape


@pytest.mark.parametrize(
    "result",
    [
        {"rows": [1, 2]},
        7,
        None,
        {"status": "success", "content": [{"text": "one"}, {"json": {"two": 2}}]},
        {"status": "error", "content": [{"text": "it did not work"}]},
        {"status": "error", "content": [{"json": {"code": 1}}]},
    ],
    ids=repr,
)
def test_a_warning_comes_along_with_any_result(result: Any) -> None:
    def look(query: str) -> Any:
        """Look something up."""
        return copy.deepcopy(result)  # the host writes the call's id into it

    guard = WritingGuard()
    model = Scripted(asking(6))
    run(model, agent_of(model, [look], [LoopGuardHooks(guard)]))
    warning, refusal = (guard.of("before")[index].verdict.message or "?" for index in (3, 5))
    plain = model.ran.answers["c1"][0]
    assert model.ran.answers["c4"] == [f"{plain}\n{warning}"]
    assert model.ran.answers["c5"] == [plain]
    assert model.ran.answers["c6"] == [refusal]
    failed = isinstance(result, dict) and result.get("status") == "error"
    assert all((told.error is not None) == failed for told in guard.of("after"))
    assert len({str((told.result, told.error)) for told in guard.of("after")}) == 1
