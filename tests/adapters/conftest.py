"""The contract's assertions are explained like those of any test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.event_loops import closed_at_the_end

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.register_assert_rewrite("tests.adapters.contract")


@pytest.fixture
def closed_loop() -> Iterator[None]:
    """For hosts that make an event loop where there is none, and leave it open."""
    with closed_at_the_end():
        yield
