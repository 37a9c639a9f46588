"""Guarded functions whose calls are cancelled, as a time limit around them does, or stopped by a person."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden import LoopAborted, LoopGuard, Outcome
from tests.guards import SMALL, strict

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden import Verdict
    from loopwarden.events import Event


def hanging(guard: LoopGuard) -> Callable[[str], Any]:
    """A tool that never answers, and is given up as soon as it hangs; the answer is what came of it."""
    begun: list[asyncio.Event] = []

    @guard.tool
    async def fetch(query: str) -> str:
        begun[-1].set()
        await asyncio.Event().wait()
        return query

    async def given_up(query: str) -> str:
        begun.append(asyncio.Event())
        task = asyncio.create_task(fetch(query))
        hangs = asyncio.create_task(begun[-1].wait())
        await asyncio.wait([task, hangs], return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        try:
            answer: str = await task
        except asyncio.CancelledError:
            return "cancelled"
        return answer

    return lambda query: asyncio.run(given_up(query))


def test_a_call_that_hangs_is_warned_about_refused_and_ended() -> None:
    heard: list[str] = []
    guard = LoopGuard(SMALL, on_error="raise", on_verdict=[lambda verdict, _: heard.append(verdict.action)])
    fetch = hanging(guard)
    with guard.run():
        answers = [fetch("tea") for _ in range(9)]
        with pytest.raises(LoopAborted):
            fetch("tea")
    assert answers[:5] == ["cancelled"] * 5
    assert all("refused and did not run" in answer for answer in answers[5:])
    assert heard == ["warn"] * 2 + ["block"] * 4 + ["abort"]


@pytest.mark.parametrize("limit", [asyncio.wait_for, None])
def test_limits_of_asyncio_cancel_the_call(limit: Any) -> None:
    guard = strict()

    @guard.tool
    async def fetch() -> str:
        await asyncio.Event().wait()
        return "never"

    async def once() -> str:
        if limit is not None:
            return await limit(fetch(), 0.001)  # type: ignore[no-any-return]  # one of several
        async with asyncio.timeout(0.001):
            return await fetch()

    async def agent() -> list[str]:
        answers = []
        with guard.run():
            for _ in range(6):
                try:
                    answers.append(await once())
                except TimeoutError:
                    answers.append("out of time")
        return answers

    answers = asyncio.run(agent())
    assert answers[:5] == ["out of time"] * 5
    assert "refused and did not run" in answers[5]


def test_other_calls_that_hang_are_let_through() -> None:
    guard = strict()
    fetch = hanging(guard)
    with guard.run():
        assert [fetch(f"tea {number}") for number in range(20)] == ["cancelled"] * 20


def test_a_call_that_answers_now_and_then_goes_on() -> None:
    guard = strict()
    hangs: list[bool] = []

    @guard.tool
    async def fetch() -> str:
        hangs.append(True)
        if len(hangs) % 4:
            await asyncio.Event().wait()
        return f"answer {len(hangs)}"

    async def agent() -> int:
        answered = 0
        with guard.run():
            for _ in range(24):
                task = asyncio.create_task(fetch())
                await asyncio.sleep(0)
                task.cancel()
                done = await asyncio.gather(task, return_exceptions=True)
                answered += str(done[0]).startswith("answer")
        return answered

    assert asyncio.run(agent()) == 6
    assert len(hangs) == 24


def test_it_is_told_as_out_of_time_and_by_the_same_words() -> None:
    told: list[Outcome] = []

    class Hears:
        def saw(self, _: str | None, event: Event, *__: object) -> None:
            if isinstance(event, Outcome):
                told.append(event)

        def forgot(self, *_: object) -> None: ...

    guard = LoopGuard(SMALL, on_error="raise", record=Hears())

    @guard.tool
    async def fetch(words: str) -> str:
        raise asyncio.CancelledError(words)

    async def all_of_them() -> None:
        for words in ("Cancelled by cancel scope 7f8a01", "Cancelled by cancel scope 7f8a02"):
            with pytest.raises(asyncio.CancelledError, match=words):
                await fetch(words)

    asyncio.run(all_of_them())
    assert [(one.error, one.timed_out) for one in told] == [("CancelledError", True)] * 2


def test_a_cancellation_goes_on_where_the_run_ends_and_the_next_call_is_told() -> None:
    guard = strict({})
    fetch = hanging(guard)
    with guard.run("r"):
        guard.compacted(run_id="r")
        assert [fetch("tea") for _ in range(3)] == ["cancelled"] * 3
        with pytest.raises(LoopAborted) as end:
            fetch("tea")
    assert end.value.verdict.error == "compaction_loop_persisted"


@pytest.mark.parametrize("ended", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("grouped", [False, True])
def test_what_a_person_stopped_is_as_if_it_had_not_been(ended: type[BaseException], grouped: bool) -> None:
    guard = strict()

    @guard.tool
    def stop() -> str:
        if grouped:
            raise BaseExceptionGroup("of tasks", [ValueError("x"), ended()])
        raise ended

    for _ in range(12):
        with pytest.raises(BaseExceptionGroup if grouped else ended):
            stop()


def test_what_breaks_the_process_of_a_tool_is_its_failure() -> None:
    """Bindings of other languages raise what is no `Exception`, with words that tell failures apart."""

    class PanicException(BaseException): ...

    guard = strict()
    verdicts: list[Verdict] = []
    for number in range(6):
        guard.before("parse", {"number": 1}, call_id=f"c{number}")
        guard.after(f"c{number}", error=PanicException(f"index {number}"))
        verdicts.append(guard.before("parse", {"number": 1}, call_id=f"c{number}b"))
        guard.retract([f"c{number}b"])
    assert "block" not in {verdict.action for verdict in verdicts}
