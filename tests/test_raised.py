"""What tools raise: groups of exceptions, and exceptions that are broken."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.adapters.message_formats import content_of
from loopwarden.guarded import is_out_of_time, is_stop, said
from tests.guards import strict

if TYPE_CHECKING:
    from loopwarden import LoopGuard

WORDS = "unhandled errors in a TaskGroup"


def group(*within: BaseException, words: str = WORDS) -> BaseExceptionGroup[Any]:
    return BaseExceptionGroup(words, within)


def refused(guard: LoopGuard, errors: list[BaseException], *, same: bool) -> int:
    """How many calls are refused that fail with these errors, with the same arguments or with others."""
    count = 0
    for number, error in enumerate(errors):
        verdict = guard.before("load", {"row": 0 if same else number}, call_id=f"c{number}", run_id="r")
        count += verdict.action == "block"
        guard.after(f"c{number}", error=error, run_id="r")
    return count


@pytest.mark.parametrize("same", [True, False])
def test_groups_with_other_causes_are_other_failures(same: bool) -> None:
    errors: list[BaseException] = [group(ValueError(f"row {number} wrong")) for number in range(9)]
    assert refused(strict(), errors, same=same) == 0


@pytest.mark.parametrize("same", [True, False])
def test_groups_with_equal_causes_are_the_same_failure(same: bool) -> None:
    errors: list[BaseException] = [group(KeyError("id"), ValueError("no"))] * 8
    assert refused(strict(), errors, same=same) > 0


def test_a_real_task_group() -> None:
    async def fails(words: str) -> None:
        await asyncio.sleep(0)
        raise ValueError(words)

    async def both(*words: str) -> str:
        try:
            async with asyncio.TaskGroup() as tasks:
                for one in words:
                    tasks.create_task(fails(one))
        except ExceptionGroup as raised:
            return said(raised)
        return "nothing"

    expected = f"ExceptionGroup: {WORDS} (2 sub-exceptions) [ValueError: left; ValueError: right]"
    assert asyncio.run(both("left", "right")) == asyncio.run(both("right", "left")) == expected


def test_the_order_of_a_group_says_nothing() -> None:
    causes = [KeyError("a"), OSError("b"), group(ValueError("x"), TypeError("y")), OSError("a")]
    texts = set()
    for seed in range(10):
        random.Random(seed).shuffle(causes)
        texts.add(said(group(*causes)))
    assert len(texts) == 1


def test_types_count_as_much_as_messages() -> None:
    assert said(group(KeyError(1))) != said(group(IndexError(1)))
    assert said(group(group(KeyError(1)))) != said(group(group(KeyError(2))))


def test_a_plain_exception_is_its_type_and_message() -> None:
    assert said(ValueError("no")) == "ValueError: no"
    assert said(asyncio.CancelledError("by scope 7f8a")) == "CancelledError"
    assert said(KeyboardInterrupt("x")) == "KeyboardInterrupt: x"


class Broken(Exception):  # noqa: N818 - what a tool may raise
    def __str__(self) -> str:
        raise RuntimeError("broken")


class BrokenGroup(ExceptionGroup[Exception]):
    def __str__(self) -> str:
        raise RuntimeError("broken")

    @property
    def exceptions(self) -> Any:
        raise RuntimeError("broken")


def test_what_is_broken_is_said_by_its_type() -> None:
    assert said(Broken()) == "Broken"
    assert said(group(Broken(), ValueError("x"))) == (
        f"ExceptionGroup: {WORDS} (2 sub-exceptions) [Broken; ValueError: x]"
    )
    assert said(group(BrokenGroup("x", [Broken()]))) == (
        f"ExceptionGroup: {WORDS} (1 sub-exception) [BrokenGroup]"
    )
    assert not is_stop(BrokenGroup("x", [Broken()]))
    guard = strict()
    guard.before("load", {}, call_id="c1")
    guard.after("c1", error=group(Broken()))
    assert content_of(Broken()) == ("Broken", True)


def test_huge_groups_cost_little() -> None:
    deep: BaseException = ValueError("x")
    for _ in range(100_000):
        deep = group(deep, words="g")
    wide = group(*(ValueError("y" * 100_000) for _ in range(10_000)))
    assert len(said(deep)) < 1000
    assert len(said(wide)) < 40_000
    assert not is_stop(deep)
    assert not is_out_of_time(wide)
    while isinstance(deep, BaseExceptionGroup):  # to end it one by one, not all in each other
        (deep,) = deep.exceptions


def test_a_group_of_time_limits_is_out_of_time() -> None:
    late, cancelled = TimeoutError("x"), asyncio.CancelledError()
    assert is_out_of_time(late)
    assert is_out_of_time(group(late, group(cancelled, late)))
    assert not is_out_of_time(group(late, ValueError("x")))
    assert not is_out_of_time(ValueError("x"))
    assert not is_out_of_time(KeyboardInterrupt())


def test_a_group_with_a_stop_in_it_is_one() -> None:
    assert is_stop(group(ValueError("x"), group(KeyboardInterrupt())))
    assert not is_stop(group(ValueError("x"), group(asyncio.CancelledError())))
