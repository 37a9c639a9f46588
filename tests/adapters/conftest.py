"""The contract's assertions are explained like those of any test."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.register_assert_rewrite("tests.adapters.contract")


@pytest.fixture
def closed_loop() -> Iterator[None]:
    """For hosts that make an event loop where there is none, and leave it open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()
