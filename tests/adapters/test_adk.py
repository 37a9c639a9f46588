"""The guard as a plugin of Google ADK."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("google.adk.plugins", reason="needs google-adk; see scripts/check-hosts")

from loopwarden.adapters.adk import GuardPlugin
from tests.adapters.adk_scripts import Adk, agent_of, run, runner_of
from tests.adapters.contract import Contract, Tools, asking
from tests.adapters.writing_guard import WritingGuard


class TestAdk(Contract):
    @pytest.fixture(params=["sync", "async", "stream"])
    def host(self, request: pytest.FixtureRequest) -> Adk:
        return Adk(request.param)


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


@pytest.mark.parametrize(
    ("result", "key"),
    [
        ("text", "result"),
        ({"output": "text", "more": 1}, "output"),
        ({"error": "wrong"}, "error"),
        ({"rows": [1, 2]}, "loop_warning"),
        (["a", "b"], "loop_warning"),
        (7, "loop_warning"),
        (None, "loop_warning"),
        ({}, "loop_warning"),
    ],
    ids=repr,
)
def test_a_warning_comes_along_with_any_result(guard: WritingGuard, result: Any, key: str) -> None:
    def look(query: str) -> Any:
        """Look something up."""
        return result

    agent = agent_of("finder", asking(6), look)
    run(runner_of(agent, GuardPlugin(guard)))
    responses = agent.model.responses
    message = guard.of("before")[3].verdict.message or "-"
    plain, warned = responses["c1"], responses["c4"]
    assert warned[key] == (f"{plain[key]}\n\n{message}" if key in plain else message)
    assert {**warned, **plain} == {**plain, **({} if key in plain else {key: message})}
    assert responses["c5"] == plain
    assert responses["c6"] == {"error": guard.of("before")[5].verdict.message}
    assert len({str((told.result, told.error)) for told in guard.of("after")}) == 1


def test_arguments_that_are_rejected_are_calls_that_failed(guard: WritingGuard) -> None:
    def look(other: str) -> str:
        """Look something up."""
        raise AssertionError(other)

    run(runner_of(agent_of("finder", asking(6), look), GuardPlugin(guard)))
    assert all("other" in str(told.error) for told in guard.of("after"))
    assert guard.of("before")[5].verdict.action == "block"


def test_a_warning_about_an_unknown_tool_is_added_to_what_the_host_says(guard: WritingGuard) -> None:
    agent = agent_of("finder", asking(6, "nope"), Tools()()["look"])
    run(runner_of(agent, GuardPlugin(guard)))
    for told in guard.of("before"):
        (answer,) = agent.model.ran.answers[told.call_id or ""]
        assert ("no tool with that name" in answer) == (told.verdict.action != "block")
        if told.verdict.announce or told.verdict.action == "block":
            assert told.verdict.message in answer
    assert "block" in {told.verdict.action for told in guard.of("before")}
