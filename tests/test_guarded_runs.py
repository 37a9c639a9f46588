"""Guarded functions: the runs that their calls belong to."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading

import pytest

from loopwarden import LoopAborted
from tests.guards import plain, strict


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


def test_a_name_that_is_held_twice_is_forgotten_with_its_last_block() -> None:
    guard = strict()
    look = plain(guard, "same")
    with guard.run("r"):
        assert [look() for _ in range(3)] == ["same"] * 3
        with guard.run("r"):
            assert "called 3 times" in look()
        with guard.run("other"):
            assert look() == "same"
        look()
        assert "refused" in look()
    with guard.run("r"):
        assert [look() for _ in range(3)] == ["same"] * 3


def test_an_aborted_run_stays_so_until_its_last_block_ends() -> None:
    guard = strict()
    look = plain(guard, "same")

    def until_aborted() -> None:
        for _ in range(20):
            look()

    with guard.run("r"):
        with pytest.raises(LoopAborted), guard.run("r"):
            until_aborted()
        with pytest.raises(LoopAborted):
            look()
    with guard.run("r"):
        assert look() == "same"


def test_tasks_and_threads_may_hold_one_name_beside_each_other() -> None:
    guard = strict()
    look = plain(guard, "same")
    answers: list[str] = []

    async def agent(ends: asyncio.Event | None) -> None:
        with guard.run("r"):
            for _ in range(1 if ends is None else 3):
                answers.append(look())
                await asyncio.sleep(0)
            if ends is not None:
                await ends.wait()

    async def agents() -> None:
        ends = asyncio.Event()
        long = asyncio.create_task(agent(ends))
        for _ in range(2):
            await asyncio.create_task(agent(None))
            await asyncio.to_thread(lambda: asyncio.run(agent(None)))
        ends.set()
        await long

    asyncio.run(agents())
    assert len(answers) == 7
    assert "refused" in answers[-1]
    with guard.run("r"):
        assert look() == "same"


def test_a_block_that_ends_in_another_thread_counts_as_ended() -> None:
    guard = strict()
    look = plain(guard, "same")
    context = contextvars.copy_context()
    block = guard.run("r")
    thread = threading.Thread(target=lambda: context.run(block.__enter__))
    thread.start()
    thread.join()
    for _ in range(4):
        context.run(look)
    context.run(block.__exit__, None, None, None)
    with guard.run("r"):
        assert [look() for _ in range(3)] == ["same"] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_process_holds_the_blocks_of_its_own_thread_only() -> None:
    guard = strict()
    look = plain(guard, "same")
    inside, ends = threading.Event(), threading.Event()

    def other() -> None:
        with guard.run("r"):
            inside.set()
            ends.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(60)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for _ in range(2):
                with guard.run("r"):
                    same = [look() for _ in range(3)] == ["same"] * 3
            code = 0 if same else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    ends.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


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


def test_the_first_call_outside_of_a_run_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    warning = "look was called outside of guard.run(): such calls of this process count as one run"
    first, second = strict(), strict()
    look, again, other = plain(first, "same"), plain(first, "same"), plain(second, "same")
    for function in (look, look, again):
        function()
    assert [record.message for record in caplog.records] == [warning]
    other()
    assert [record.message for record in caplog.records] == [warning] * 2


def test_nothing_is_warned_of_inside_of_a_run_or_where_all_is_off(caplog: pytest.LogCaptureFixture) -> None:
    guard = strict()
    look = plain(guard, "same")
    with guard.run():
        look()
    plain(strict({"enabled": False}), "same")()
    assert caplog.records == []


def test_an_aborted_run_ends_with_its_block_but_not_outside_of_one() -> None:
    guard = strict()
    look = plain(guard, "same")

    def until_aborted() -> None:
        for _ in range(20):
            look()

    with guard.run(), pytest.raises(LoopAborted):
        until_aborted()
    with guard.run():
        assert look() == "same"
    with pytest.raises(LoopAborted):
        until_aborted()
    with pytest.raises(LoopAborted):
        look()
