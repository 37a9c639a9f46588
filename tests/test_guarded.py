"""Plain functions as guarded tools."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden import LoopAborted, LoopGuard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

SMALL: dict[str, Any] = {
    "enabled": True,
    "warningThreshold": 3,
    "criticalThreshold": 5,
    "globalCircuitBreakerThreshold": 9,
}


def strict(config: dict[str, Any] = SMALL) -> LoopGuard:
    return LoopGuard(config, on_error="raise")


def plain(guard: LoopGuard, answer: Any) -> Callable[[], Any]:
    @guard.tool
    def look(query: str = "q") -> Any:
        return answer

    return look


def asynchronous(guard: LoopGuard, answer: Any) -> Callable[[], Any]:
    @guard.tool
    async def look(query: str = "q") -> Any:
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


def test_a_cancelled_call_is_as_if_it_had_not_been() -> None:
    guard = strict()

    @guard.tool
    async def wait() -> str:
        await asyncio.Event().wait()
        return "never"

    async def cancelled() -> None:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def all_of_them() -> None:
        for _ in range(12):
            await cancelled()

    asyncio.run(all_of_them())


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


class Shelf:
    """Tools that are methods, of an object that changes with every call."""

    guard = strict()

    def __init__(self) -> None:
        self.calls = 0

    @guard.tool
    def method(self, book: str) -> str:
        self.calls += 1
        return "there"

    @guard.tool
    async def slow(self, book: str) -> str:
        self.calls += 1
        return "there"

    @staticmethod
    @guard.tool
    def static(book: str) -> str:
        return "there"

    @classmethod
    @guard.tool
    def of_class(cls, book: str) -> str:
        return cls.__name__


@pytest.mark.parametrize("name", ["method", "static", "of_class"])
def test_methods(name: str) -> None:
    shelf = Shelf()
    with Shelf.guard.run():
        answers = [getattr(shelf, name)("a") for _ in range(6)]
        others = [getattr(shelf, name)(f"b{number}") for number in range(3)]
    assert "refused" in answers[5]
    assert not any("refused" in answer for answer in (*answers[:5], *others))


def test_async_methods() -> None:
    async def six() -> list[str]:
        shelf = Shelf()
        with Shelf.guard.run():
            return [await shelf.slow("a") for _ in range(6)]

    assert "refused" in asyncio.run(six())[5]


SAME: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "by place and by name": [((1, 2), {}), ((1,), {"b": 2}), ((), {"a": 1, "b": 2}), ((), {"b": 2, "a": 1})],
    "with and without defaults": [((1,), {}), ((1, 0), {}), ((1,), {"c": None}), ((), {"a": 1, "b": 0})],
    "further names": [((1,), {"x": 5}), ((), {"x": 5, "a": 1}), ((1, 0, None), {"x": 5})],
}
UNLIKE: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((2,), {}),
    ((1, 2), {}),
    ((2, 1), {}),
    ((1,), {"c": 2}),
    ((1,), {"x": 2}),
    ((1,), {"y": 2}),
    ((1,), {"rest": 2}),
]


def signatures(given: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[int]:
    """How often the guard had seen each call before."""
    guard = strict({**SMALL, "warningThreshold": 1, "detectors": {"pingPong": False, "stagnation": False}})
    counts: list[int] = []

    @guard.tool
    def pick(a: int, b: int = 0, c: Any = None, **rest: Any) -> str:
        return "x"

    for args, named in given:
        answer = pick(*args, **named)
        counts.append(len(answer) > 1)
    return counts


@pytest.mark.parametrize("name", SAME)
def test_the_way_arguments_are_passed_makes_no_difference(name: str) -> None:
    given = SAME[name]
    for one in given[1:]:
        assert signatures([given[0], one]) == [False, True]


def test_other_arguments_are_other_calls() -> None:
    assert signatures(UNLIKE) == [False] * len(UNLIKE)


def test_names_that_a_function_takes_only_by_place_do_not_collide() -> None:
    guard = strict({**SMALL, "warningThreshold": 1})

    @guard.tool
    def pick(a: int, /, **rest: int) -> str:
        return "x"

    assert [pick(1, a=2), pick(3, a=2)] == ["x", "x"]


def test_wrong_arguments_are_the_functions_own_matter() -> None:
    guard = strict()

    @guard.tool
    def pick(a: int) -> int:
        return a

    @guard.tool
    async def later(a: int) -> int:
        return a

    wrong: Any = pick
    for _ in range(5):
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            wrong()
    assert "refused" in wrong()
    wrong = later
    for _ in range(5):
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            asyncio.run(wrong())
    assert "refused" in asyncio.run(wrong())


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
    assert inspect.iscoroutinefunction(strict().tool(Shelf.slow))


def test_runs_are_apart_and_end_with_their_block() -> None:
    guard = strict()
    look = plain(guard, "same")
    for _ in range(3):
        with guard.run("r"):
            assert [look() for _ in range(3)] == ["same"] * 3
    with guard.run() as first, guard.run() as second:
        assert first != second


def test_runs_may_lie_in_each_other() -> None:
    guard = strict()
    look = plain(guard, "same")
    with guard.run():
        assert [look() for _ in range(3)] == ["same"] * 3
        with guard.run():
            assert [look() for _ in range(3)] == ["same"] * 3
        assert "called 3 times" in look()
    assert look() == "same"


def test_a_run_ends_with_an_exception_too() -> None:
    guard = strict()
    look = plain(guard, "same")
    with pytest.raises(ValueError, match="x"), guard.run("r"):  # noqa: PT012 - the calls before it matter
        for _ in range(3):
            look()
        raise ValueError("x")
    with guard.run("r"):
        assert [look() for _ in range(3)] == ["same"] * 3


def test_tasks_have_the_run_they_were_made_in() -> None:
    guard = strict()
    found: dict[int, list[bool]] = {}

    @guard.tool
    async def look() -> str:
        await asyncio.sleep(0)
        return "same"

    async def agent(number: int) -> None:
        with guard.run():
            found[number] = [(await look()) == "same" for _ in range(6)]

    async def agents() -> None:
        await asyncio.gather(*(agent(number) for number in range(5)))

    asyncio.run(agents())
    assert found == dict.fromkeys(range(5), [True] * 3 + [False, True, False])


@pytest.mark.parametrize("carried", [True, False])
def test_a_thread_has_the_run_if_the_context_is_carried_over(carried: bool) -> None:
    guard = strict()
    look = plain(guard, "same")
    answers: list[str] = []
    with guard.run():
        for _ in range(3):
            look()
        context = contextvars.copy_context() if carried else contextvars.Context()
        thread = threading.Thread(target=lambda: answers.append(context.run(look)))
        thread.start()
        thread.join()
    assert ("called 3 times" in answers[0]) is carried
