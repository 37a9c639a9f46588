"""Guarded functions: how arguments are told apart, and methods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.guards import SMALL, strict


class Shelf:
    """Tools that are methods, of an object that changes with every call."""

    guard = strict()

    def __init__(self) -> None:
        self.calls = 0

    @guard.tool
    def method(self, book: str) -> str:
        self.calls += 1
        return f"{book} is there"

    @guard.tool
    async def slow(self, book: str) -> str:
        self.calls += 1
        return f"{book} is there"

    @staticmethod
    @guard.tool
    def static(book: str) -> str:
        return f"{book} is there"

    @classmethod
    @guard.tool
    def of_class(cls, book: str) -> str:
        return f"{book} is there, says {cls.__name__}"


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


def seen_before(given: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[bool]:
    """Whether the guard took each call for one that it had seen."""
    guard = strict({**SMALL, "warningThreshold": 1, "detectors": {"pingPong": False, "stagnation": False}})
    seen: list[bool] = []

    @guard.tool
    def pick(a: int, b: int = 0, c: Any = None, **rest: Any) -> str:
        return f"{a} {b} {c} {rest}"

    for args, named in given:
        answer = pick(*args, **named)
        seen.append("was called" in answer)
    return seen


@pytest.mark.parametrize("name", SAME)
def test_the_way_arguments_are_passed_makes_no_difference(name: str) -> None:
    given = SAME[name]
    for one in given[1:]:
        assert seen_before([given[0], one]) == [False, True]


def test_other_arguments_are_other_calls() -> None:
    assert seen_before(UNLIKE) == [False] * len(UNLIKE)


def test_names_that_a_function_takes_only_by_place_do_not_collide() -> None:
    guard = strict({**SMALL, "warningThreshold": 1, "detectors": {"pingPong": False}})

    @guard.tool
    def pick(a: int, /, **rest: int) -> str:
        return f"{a} {rest}"

    assert [pick(1, a=2), pick(3, a=2)] == ["1 {'a': 2}", "3 {'a': 2}"]
    assert "was called 1 times" in pick(1, a=2)


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
