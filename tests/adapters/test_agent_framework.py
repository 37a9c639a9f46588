"""The guard as a middleware of Microsoft Agent Framework."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="needs agent-framework-core; see scripts/check-hosts")

from agent_framework import SKIP_PARSING, Content, FunctionMiddleware

from tests.adapters.agent_framework_scripts import AgentFramework, Scripted, look, ran, run
from tests.adapters.contract import CONFIG, Ask, Contract, WritingGuard, asking


class TestAgentFramework(Contract):
    @pytest.fixture(params=["async", "stream"])
    def host(self, request: pytest.FixtureRequest) -> AgentFramework:
        return AgentFramework(request.param)


PICTURE = Content.from_data(b"\x89PNG", "image/png")


@pytest.mark.parametrize(
    "result",
    ["text", {"rows": [1, 2]}, ["a", "b"], 7, None, [Content.from_text("a"), Content.from_text("b")]],
    ids=["text", "mapping", "list", "number", "nothing", "contents"],
)
@pytest.mark.parametrize("parsed", [True, False])
def test_a_warning_comes_along_with_any_result(result: Any, parsed: bool) -> None:
    options: dict[str, Any] = {} if parsed else {"result_parser": SKIP_PARSING}
    guard = WritingGuard()
    scripted = Scripted(asking(5))
    asyncio.run(ran(scripted, guard, [look(lambda query: result, **options)]))
    (plain,), (warned,) = scripted.ran.answers["c1"], scripted.ran.answers["c4"]
    assert warned == f"{plain}\n{guard.of('before')[3].verdict.message}".lstrip()
    assert scripted.ran.answers["c5"] == [plain]
    assert len({str(after.result) for after in guard.of("after")}) == 1


def test_pictures_stay_with_a_warning_and_are_compared() -> None:
    shown = [PICTURE] * 4 + [Content.from_data(b"other", "image/png")] * 4
    results = iter(shown)
    guard = WritingGuard()
    scripted = run(guard, lambda query: [next(results)], asking(6))
    assert [told.verdict.action for told in guard.of("before")] == ["allow"] * 3 + ["warn"] * 3
    assert scripted.ran.answers["c4"] == [guard.of("before")[3].verdict.message]
    told = [after.result for after in guard.of("after")]
    assert told[0] == told[3] != told[4]
    assert isinstance(told[0], dict)
    assert told[0]["media_type"] == "image/png"


@pytest.mark.parametrize("stream", [False, True])
def test_a_warning_on_a_failure_stands_in_its_result_from_the_next_request_on(stream: bool) -> None:
    def fails(query: str) -> str:
        raise ValueError("not now")

    guard = WritingGuard()
    scripted = Scripted(asking(7))
    asyncio.run(ran(scripted, guard, [look(fails)], stream))
    verdicts = [told.verdict for told in guard.of("before")]
    assert [verdict.action for verdict in verdicts] == ["allow"] * 3 + ["warn"] * 2 + ["block"] * 2
    assert {str(told.error) for told in guard.of("after")} == {"not now"}
    answers = scripted.ran.answers
    assert answers["c4"] == [f"{answers['c1'][0]}\n{verdicts[3].message}"]
    assert answers["c5"] == answers["c1"] == ["Error: Function failed."]
    assert answers["c6"] == [verdicts[5].message]


def test_arguments_that_are_rejected_are_calls_that_failed() -> None:
    def numbers(query: int) -> str:
        raise AssertionError(query)

    guard = WritingGuard()
    scripted = run(guard, numbers, asking(6))
    assert [told.arguments for told in guard.of("before")] == [{"query": "a"}] * 6
    assert [told.verdict.action for told in guard.of("before")][3:] == ["warn", "warn", "block"]
    assert all("int" in str(told.error) for told in guard.of("after"))
    assert scripted.ran.answers["c6"] == [guard.of("before")[5].verdict.message]


def test_a_refused_unknown_tool_is_told_so() -> None:
    guard = WritingGuard()
    scripted = run(guard, lambda query: query, asking(6, "nope"))
    assert guard.of("before")[-1].verdict.action == "block"
    for told in guard.of("before"):
        (answer,) = scripted.ran.answers[told.call_id or ""]
        if told.verdict.action == "block":
            assert answer == told.verdict.message
        else:
            assert answer.startswith('Error: Requested function "nope" not found.')
    assert len({told.turn_id for told in guard.of("before")}) == 6


@pytest.mark.parametrize("stream", [False, True])
def test_unknown_tools_end_the_run_in_the_end(stream: bool) -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    scripted = Scripted(asking(20, "nope"))
    asyncio.run(ran(scripted, guard, [look(lambda query: query)], stream))
    assert scripted.ran.aborted is not None
    assert scripted.ran.aborted.verdict.detector == "unknown_tool_repeat"
    assert len(guard._runs) == 0


def test_unknown_tools_share_the_turn_of_their_reply() -> None:
    guard = WritingGuard()
    replies = [
        [Ask(tool="nope", call_id=f"n{number}"), Ask(tool="look", call_id=f"c{number}", query=str(number))]
        for number in range(2)
    ]
    run(guard, lambda query: query, replies)
    turns = {told.call_id: told.turn_id for told in guard.of("before")}
    assert turns["n0"] == turns["c0"] != turns["c1"] == turns["n1"]


class ThreeTries(FunctionMiddleware):
    """In the client's middleware it stands outside of the guard, which sees each try."""

    async def process(self, context: Any, call_next: Any) -> None:
        for _ in range(2):
            try:
                return await call_next()
            except ValueError:
                pass
        return await call_next()


@pytest.mark.parametrize("failures", [1, 2])
def test_a_middleware_of_the_client_that_tries_again_counts_once(failures: int) -> None:
    tries: list[str] = []

    def shaky(query: str) -> str:
        tries.append(query)
        if len(tries) % (failures + 1):
            raise ValueError
        return "there"

    guard = WritingGuard()
    scripted = Scripted(asking(4), middleware=[ThreeTries()])
    asyncio.run(ran(scripted, guard, [look(shaky)]))
    assert len(tries) == 4 * (failures + 1)
    assert [told.verb for told in guard.told] == ["before", "after", "retract", "before", "after"] * 4
    assert [told.result for told in guard.of("after")] == [None, "there"] * 4
    (warning,) = [told.verdict.message for told in guard.of("before") if told.verdict.announce]
    assert str(scripted.ran.answers["c4"]).count(warning or "-") == 1


def test_a_middleware_of_the_client_that_tries_in_vain_is_one_failure() -> None:
    def fails(query: str) -> str:
        raise ValueError

    guard = WritingGuard()
    scripted = Scripted(asking(6), middleware=[ThreeTries()])
    asyncio.run(ran(scripted, guard, [look(fails)]))
    assert [told.verb for told in guard.told] == [*["before", "after"] * 5, "before"]
    assert guard.told[-1].verdict.action == "block"
