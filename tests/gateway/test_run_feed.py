"""What is handed to readers of a run: in order, bounded, and ended."""

from __future__ import annotations

import asyncio

import pytest

from loopwarden.gateway import run_feed
from loopwarden.gateway.run_feed import Feed
from tests.runner.telling import Told


def test_readers_are_told_of_their_run_only() -> None:
    async def scene() -> None:
        feed, told, other = Feed(), Told("r1"), Told("r2")
        with feed.reading("r1") as one, feed.reading("r1") as two:
            assert feed.readers == 2
            for happening in (told("began"), other("began"), told("ended")):
                feed(happening)
            for reader in (one, two):
                found = [await reader.next(1.0) for _ in range(2)]
                assert [happening and (happening.run, happening.kind) for happening in found] == [
                    ("r1", "began"),
                    ("r1", "ended"),
                ]
                with pytest.raises(TimeoutError):
                    await reader.next(0.0)
        assert feed.readers == 0
        feed(told("text"))

    asyncio.run(scene())


def test_a_reader_that_is_too_far_behind_has_to_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_feed, "BEHIND", 3)

    async def scene() -> None:
        feed, told = Feed(), Told("r1")
        with feed.reading("r1") as slow:
            for _ in range(3):
                feed(told("text"))
            assert not slow.lost
            feed(told("text"))
            assert slow.lost

    asyncio.run(scene())


def test_the_end_of_the_gateway_ends_readers() -> None:
    async def scene() -> None:
        feed = Feed()
        with feed.reading("r1") as before:
            feed.close()
            assert await before.next(1.0) is None
        with feed.reading("r1") as afterwards:
            assert await afterwards.next(1.0) is None

    asyncio.run(scene())
