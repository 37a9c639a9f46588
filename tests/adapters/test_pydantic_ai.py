"""The guard as a capability of Pydantic AI."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs pydantic-ai-slim; see scripts/check-hosts")

from pydantic_ai import BinaryContent, ModelRetry, ToolReturn
from pydantic_ai.exceptions import ToolFailed

from tests.adapters.contract import CONFIG, Contract, WritingGuard, asking
from tests.adapters.pydantic_ai_scripts import PydanticAI, notes, run

pytestmark = pytest.mark.usefixtures("closed_loop")


class TestPydanticAI(Contract):
    @pytest.fixture(params=["sync", "async", "stream"])
    def host(self, request: pytest.FixtureRequest) -> PydanticAI:
        return PydanticAI(request.param)


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
    for told in guard.of("before"):
        (answer,) = scripted.ran.answers[told.call_id or ""]
        if told.verdict.action == "block":
            assert told.verdict.message in answer
        else:
            assert "Unknown tool name: 'nope'" in answer
        assert ("Unknown" in answer) == (told.verdict.action != "block")
    assert len({told.turn_id for told in guard.of("before")}) == 5


def test_unknown_tools_end_the_run_in_the_end() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    scripted = run(guard, lambda query: query, asking(20, "nope"))
    assert scripted.ran.aborted is not None
    assert scripted.ran.aborted.verdict.detector == "unknown_tool_repeat"
