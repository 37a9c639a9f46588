"""Plain functions as guarded tools."""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden import LoopAborted, LoopGuard
from tests.guards import SMALL, plain, strict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


def asynchronous(guard: LoopGuard, answer: Any) -> Callable[[], Any]:
    @guard.tool
    async def look() -> Any:
        await asyncio.sleep(0)
        return answer

    return lambda: asyncio.run(look())


def handed_on(guard: LoopGuard, answer: Any) -> Callable[[], Any]:
    async def inner() -> Any:
        return answer

    look = guard.tool(name="look")(lambda: inner())

    async def outer() -> Any:
        came = look()
        return await came if inspect.isawaitable(came) else came

    return lambda: asyncio.run(outer())


def an_object(guard: LoopGuard, answer: Any) -> Callable[[], Any]:
    class Look:
        def __call__(self) -> Any:
            return answer

    return guard.tool(name="look")(Look())


FORMS = [plain, asynchronous, handed_on, an_object]


@pytest.mark.parametrize("form", FORMS)
def test_a_text_is_given_then_with_a_warning_then_a_refusal_then_the_end(form: Any) -> None:
    look = form(strict(), "nothing found")
    answers = [look() for _ in range(9)]
    assert answers[:3] == ["nothing found"] * 3
    assert answers[3].startswith("nothing found\n\nlook was called 3 times with the same arguments.")
    assert answers[4] == "nothing found"
    assert all("refused and did not run" in answer for answer in answers[5:9])
    with pytest.raises(LoopAborted) as end:
        look()
    assert (end.value.verdict.action, end.value.verdict.error) == ("abort", "tool_loop_persisted")
    assert str(end.value) == end.value.verdict.message


RESULTS: list[tuple[Any, Any]] = [
    ({"rows": 0}, {"rows": 0, "loop_warning": "look was called"}),
    (["a"], ["a"]),
    (None, None),
    (7, 7),
    (b"x", b"x"),
]


@pytest.mark.parametrize(("result", "warned"), RESULTS)
def test_only_texts_and_dicts_carry_a_warning(result: Any, warned: Any) -> None:
    look = plain(strict(), result)
    answer = [look() for _ in range(4)][-1]
    if isinstance(answer, dict):
        answer["loop_warning"] = answer["loop_warning"][:15]
    assert answer == warned
    assert result != {"rows": 0, "loop_warning": "look was called"}


def test_a_warning_is_no_part_of_the_result_that_is_compared() -> None:
    look = plain(strict(), "same")
    answers = [look() for _ in range(6)]
    assert answers[3] != "same"
    assert "refused" in answers[5]


def test_a_refused_call_does_not_run() -> None:
    ran: list[int] = []
    guard = strict()

    @guard.tool
    def count() -> str:
        ran.append(1)
        return "done"

    for _ in range(8):
        count()
    assert len(ran) == 5


def test_an_exception_passes_on_unchanged_and_counts() -> None:
    guard = strict()
    error = ValueError("no")

    @guard.tool
    def fail() -> str:
        raise error

    for _ in range(5):
        with pytest.raises(ValueError, match="no") as raised:
            fail()
        assert raised.value is error
    assert "refused" in fail()


@pytest.mark.parametrize("ended", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupted_call_is_as_if_it_had_not_been(ended: type[BaseException]) -> None:
    guard = strict()

    @guard.tool
    def stop() -> str:
        raise ended

    for _ in range(12):
        with pytest.raises(ended):
            stop()


def test_a_run_that_a_compaction_outlived_ends_with_the_outcome() -> None:
    guard = strict({})
    look = plain(guard, "same")
    with guard.run("r"):
        guard.compacted(run_id="r")
        look()
        look()
        with pytest.raises(LoopAborted) as end:
            look()
    assert end.value.verdict.error == "compaction_loop_persisted"


def test_generators_are_refused_when_they_are_decorated() -> None:
    guard = strict()

    def rows() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    for function in (rows, later):
        with pytest.raises(TypeError, match=f"{function.__name__} is a generator function"):
            guard.tool(function)


def test_what_has_no_name_needs_one() -> None:
    guard = strict()
    part = functools.partial(int, "7")
    with pytest.raises(TypeError, match=r"has no name; give one: guard.tool\(name="):
        guard.tool(part)
    assert guard.tool(name="seven")(part)() == 7


def test_the_tool_has_the_functions_name_or_the_one_given() -> None:
    names: list[str | None] = []
    guard = LoopGuard(SMALL, on_error="raise", on_verdict=[lambda verdict, _: names.append(verdict.tool)])

    def look() -> str:
        return "x"

    for tool in (guard.tool(look), guard.tool(name="search")(look)):
        for _ in range(4):
            tool()
    assert names == ["look", "search"]


def test_what_is_known_of_the_function_is_kept() -> None:
    def look(query: str, limit: int = 5) -> str:
        """Look something up."""
        return query * limit

    made = strict().tool(look)
    assert (made.__name__, made.__doc__) == ("look", "Look something up.")
    assert inspect.signature(made) == inspect.signature(look)
    assert made.__annotations__ == look.__annotations__
    assert inspect.unwrap(made) is look


def test_an_async_function_stays_one() -> None:
    async def look() -> str:
        return "x"

    assert inspect.iscoroutinefunction(strict().tool(look))
