"""The guard as a middleware of AG2."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("ag2.middleware", reason="needs ag2; see scripts/check-hosts")

from ag2 import ToolResult, tool
from ag2.events import (
    BinaryInput,
    ModelMessage,
    ModelResponse,
    TextInput,
    ToolCallEvent,
    ToolCallsEvent,
    ToolErrorEvent,
    ToolResultEvent,
)
from ag2.middleware import (
    BaseMiddleware,
    ConditionalMiddleware,
    Middleware,
    RetryMiddleware,
)
from ag2.stream import MemoryStream

from loopwarden import LoopAborted
from loopwarden.adapters.ag2 import LoopGuardMiddleware
from tests.adapters.ag2_scripts import ABORTING, LADDER, Ag2, Scripted, actions, agent_of, look, run
from tests.adapters.contract import Ask, Contract, asking
from tests.adapters.writing_guard import WritingGuard

if TYPE_CHECKING:
    from collections.abc import Callable


class TestAg2(Contract):
    @pytest.fixture(params=["ask", "run", "stream"])
    def host(self, request: pytest.FixtureRequest) -> Ag2:
        return Ag2(request.param)


def both_ways(other: Any, guard: WritingGuard) -> list[list[Any]]:
    """The guard outside of the other middleware, and inside."""
    return [[LoopGuardMiddleware(guard), other], [other, LoopGuardMiddleware(guard)]]


class Hook(BaseMiddleware):
    """One function in the place of a hook."""

    def __init__(self, event: Any, context: Any, **hooks: Any) -> None:
        super().__init__(event, context)
        for name, function in hooks.items():
            setattr(self, name, function)


def hook(**hooks: Callable[..., Any]) -> Middleware:
    return Middleware(Hook, **hooks)


# --- other middleware


@pytest.mark.parametrize("first", [True, False])
def test_a_call_that_is_tried_again_counts_once(first: bool) -> None:
    attempts: list[str] = []

    def flaky(query: str) -> str:
        """Fail twice."""
        attempts.append(query)
        if len(attempts) < 3:
            raise RuntimeError("not yet")
        return "there"

    async def again(call_next: Any, event: Any, context: Any) -> Any:
        for _ in range(3):
            result = await call_next(event, context)
            if not isinstance(result, ToolErrorEvent):
                break
        return result

    guard = WritingGuard()
    model = Scripted(asking(1, "flaky"))
    run(model, agent_of(model, [flaky], both_ways(hook(on_tool_execution=again), guard)[first]))
    assert len(attempts) == 3
    assert len(guard.of("before")) == 1
    (after,) = guard.of("after")
    assert (after.result, after.error) == ("there", None)


def test_the_innermost_guard_is_told_what_the_tool_gave() -> None:
    numbers = iter(range(100))

    async def stamp(call_next: Any, event: Any, context: Any) -> Any:
        result = await call_next(event, context)
        result.result.parts.append(TextInput(f"kept as number {next(numbers)}"))
        return result

    guard = WritingGuard()
    model = Scripted(asking(6))
    run(model, agent_of(model, [look], [hook(on_tool_execution=stamp), LoopGuardMiddleware(guard)]))
    assert {told.result for told in guard.of("after")} == {"nothing about a"}
    warning = guard.of("before")[3].verdict.message
    assert model.ran.answers["c4"] == [f"nothing about a\n\n{warning}\nkept as number 3"]


def test_a_middleware_that_raises_is_a_failed_call() -> None:
    async def deny(call_next: Any, event: Any, context: Any) -> Any:
        raise PermissionError("not allowed")

    guard = WritingGuard()
    model = Scripted(asking(6))
    run(model, agent_of(model, [look], [LoopGuardMiddleware(guard), hook(on_tool_execution=deny)]))
    assert actions(guard) == LADDER
    assert {repr(told.error) for told in guard.of("after")} == {"PermissionError('not allowed')"}
    assert "not allowed" in model.ran.answers["c1"][0]
    assert model.ran.answers["c6"] == [guard.of("before")[5].verdict.message]


@pytest.mark.parametrize("first", [True, False])
def test_an_abort_comes_out_of_a_retry_of_requests(first: bool) -> None:
    guard = WritingGuard(ABORTING)
    model = Scripted(asking(9))
    with pytest.raises(LoopAborted):
        asyncio.run(agent_of(model, [look], both_ways(RetryMiddleware(), guard)[first]).ask("go"))
    assert model.ran.requests == 6


def test_an_abort_comes_out_where_a_middleware_answers_in_its_place() -> None:
    async def fall_back(call_next: Any, events: Any, context: Any) -> Any:
        try:
            return await call_next(events, context)
        except Exception:  # noqa: BLE001 - as middleware of users does
            return ModelResponse(ModelMessage("sorry"))

    guard = WritingGuard(ABORTING)
    model = Scripted(asking(9))
    run(model, agent_of(model, [look], [hook(on_llm_call=fall_back), LoopGuardMiddleware(guard)]))
    assert model.ran.aborted is not None
    assert model.ran.requests == 6


def test_a_guard_for_some_events_only_still_refuses() -> None:
    guard = WritingGuard()
    some = ConditionalMiddleware(LoopGuardMiddleware(guard), ToolCallEvent)
    model = Scripted(asking(6))
    run(model, agent_of(model, [look], [some]))
    assert actions(guard) == LADDER
    assert model.ran.answers["c6"] == [guard.of("before")[5].verdict.message]


# --- what is asked, and what comes back


@pytest.mark.parametrize("arguments", ["{", "[1]", '"a"', "", "[" * 100_000], ids=len)
def test_arguments_of_any_kind(arguments: str) -> None:
    class Strange(Scripted):
        async def __call__(self, messages: Any, context: Any, **options: Any) -> ModelResponse:
            answer = await super().__call__(messages, context)
            if self.ran.requests > 6:
                return answer
            call = ToolCallEvent("look", id=f"c{self.ran.requests}", arguments=arguments)
            return ModelResponse(tool_calls=ToolCallsEvent([call]))

    guard = WritingGuard()
    model = Strange([])
    run(model, agent_of(model, [look], [LoopGuardMiddleware(guard)]))
    assert actions(guard) == LADDER


@pytest.mark.parametrize(
    "result",
    [
        {"rows": [1, 2]},
        7,
        None,
        "",
        ToolResult("one", "two"),
        ToolResult({"one": 1}, "two", metadata={"kept": True}),
        ToolResult(BinaryInput(b"\x89PNG", media_type="image/png")),
        ToolResult(),
    ],
    ids=repr,
)
def test_a_warning_comes_along_with_any_result(result: Any) -> None:
    @tool
    def look(query: str) -> Any:
        """Look something up."""
        return result

    seen: dict[str, Any] = {}

    async def keep(event: ToolResultEvent) -> None:
        seen[event.parent_id] = event.result

    async def turn() -> None:
        stream = MemoryStream()
        stream.where(ToolResultEvent).subscribe(keep)
        await agent_of(model, [look], [LoopGuardMiddleware(guard)]).ask("go", stream=stream)

    guard = WritingGuard()
    model = Scripted(asking(6))
    asyncio.run(turn())
    warning = guard.of("before")[3].verdict.message
    assert actions(guard) == LADDER
    assert len({str(told.result) for told in guard.of("after")}) == 1
    assert seen["c5"] == seen["c1"]
    assert seen["c4"].metadata == seen["c1"].metadata
    assert seen["c4"].parts[-1].content.endswith(warning)
    assert model.ran.answers["c4"][0].startswith(model.ran.answers["c1"][0])


def test_unknown_tools_are_warned_of_and_refused() -> None:
    guard = WritingGuard()
    pairs = [
        [*ask, Ask(tool="look", call_id=f"x{at}", query=str(at))] for at, ask in enumerate(asking(6, "nope"))
    ]
    model = Scripted(pairs)
    run(model, agent_of(model, [look], [LoopGuardMiddleware(guard)]))
    said = {told.call_id: told.verdict for told in guard.of("before") if told.tool == "nope"}
    assert {"warn", "block"} & {verdict.action for verdict in said.values()}
    for call_id, verdict in said.items():
        (answer,) = model.ran.answers[call_id or ""]
        if verdict.action == "block":
            assert answer == verdict.message
        elif verdict.announce:
            assert answer.endswith(verdict.message or "?")


def test_unknown_tools_end_the_run() -> None:
    guard = WritingGuard(ABORTING)
    model = Scripted(asking(9, "nope"))
    run(model, agent_of(model, [look], [LoopGuardMiddleware(guard)]))
    assert model.ran.aborted is not None
