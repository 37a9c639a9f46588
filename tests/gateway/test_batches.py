"""Batches that come again: each is answered once, whatever becomes of the first."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

from loopwarden.events import ALLOW
from loopwarden.gateway import batches
from loopwarden.gateway.asked import read_batch
from loopwarden.gateway.batches import Batches

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from loopwarden.events import Verdict
    from loopwarden.gateway.asked import Asked

    Answer = Callable[[Sequence[Asked]], Awaitable[list[Verdict]]]


def batch(name: str) -> list[Asked]:
    events = [{"event": "before", "run": "r", "tool": "t", "call_id": f"{name}{number}"} for number in (1, 2)]
    return read_batch(json.dumps({"events": events}).encode(), 10)


def gated(gate: asyncio.Event, fault: Exception | None = None) -> Answer:
    async def answer(asked: Sequence[Asked]) -> list[Verdict]:
        await gate.wait()
        if fault is not None:
            raise fault
        return [ALLOW] * len(asked)

    return answer


async def never(_: Sequence[Asked]) -> list[Verdict]:
    raise AssertionError("it was answered already")


def test_a_batch_that_comes_again_while_it_is_answered_waits_for_that_answer() -> None:
    async def main() -> None:
        known, gate = Batches(), asyncio.Event()
        first = asyncio.create_task(known.once(batch("a"), gated(gate)))
        await asyncio.sleep(0)
        again = asyncio.create_task(known.once(batch("a"), never))
        gate.set()
        assert await first == await again == [ALLOW, ALLOW]
        assert await known.once(batch("a"), never) == [ALLOW, ALLOW]

    asyncio.run(main())


def test_one_that_fails_is_not_remembered_and_all_who_wait_are_told() -> None:
    async def main() -> None:
        known, gate = Batches(), asyncio.Event()
        first = asyncio.create_task(known.once(batch("a"), gated(gate, OSError("broken"))))
        await asyncio.sleep(0)
        again = asyncio.create_task(known.once(batch("a"), never))
        gate.set()
        told = await asyncio.gather(first, again, return_exceptions=True)
        assert [str(error) for error in told] == ["broken", "broken"]
        assert await known.once(batch("a"), gated(gate)) == [ALLOW, ALLOW]

    asyncio.run(main())


def test_one_that_others_have_pushed_out_may_fail_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MOST", 3)

    async def main() -> None:
        known, gate, opened = Batches(), asyncio.Event(), asyncio.Event()
        opened.set()
        first = asyncio.create_task(known.once(batch("a"), gated(gate, OSError("broken"))))
        await asyncio.sleep(0)
        again = asyncio.create_task(known.once(batch("a"), never))
        await asyncio.sleep(0)
        await known.once(batch("b"), gated(opened))  # there is no room for both
        await known.once(batch("a"), gated(opened))
        gate.set()
        told = await asyncio.gather(first, again, return_exceptions=True)
        assert [str(error) for error in told] == ["broken", "broken"]
        assert await known.once(batch("a"), never) == [ALLOW, ALLOW], "the one that went well is kept"

    asyncio.run(main())
