"""Coroutines that run through."""

from __future__ import annotations

import asyncio

import pytest

from loopwarden.stores.waiting import finished


async def one() -> int:
    return 1


async def added() -> int:
    return await one() + await one()


async def gives_way() -> None:
    await asyncio.sleep(0)


async def fails() -> None:
    raise KeyError("x")


def test_what_awaits_nothing_runs_through() -> None:
    assert finished(added()) == 2


def test_what_gives_way_is_a_fault() -> None:
    with pytest.raises(RuntimeError, match="give way"):
        finished(gives_way())


def test_what_it_raises_comes_out() -> None:
    with pytest.raises(KeyError):
        finished(fails())
