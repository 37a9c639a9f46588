"""How long what failed is left alone, and what ends that."""

from __future__ import annotations

import pytest

from loopwarden.errors import StoreError
from loopwarden.outages import LONGEST_PAUSE, Outages


class Flaky:
    """Something that takes two seconds to fail, and the clock that goes on meanwhile."""

    def __init__(self) -> None:
        self.time = 100.0
        self.fails = True
        self.asked = 0

    def clock(self) -> float:
        return self.time

    def __call__(self) -> str:
        self.asked += 1
        if self.fails:
            self.time += 2.0
            raise StoreError("no answer")
        return "here"


@pytest.mark.parametrize(("longest", "pause"), [(LONGEST_PAUSE, 20.0), (3.0, 3.0)])
def test_what_failed_is_left_alone_for_a_while(longest: float, pause: float) -> None:
    flaky = Flaky()
    outages = Outages("thing", flaky.clock)
    outages.longest = longest
    with pytest.raises(StoreError, match="no answer"):
        outages.ask(flaky)
    flaky.fails = False
    flaky.time += pause - 0.1
    with pytest.raises(StoreError, match="left alone"):
        outages.ask(flaky)
    assert flaky.asked == 1
    flaky.time += 0.2
    assert outages.ask(flaky) == "here"


def test_an_answer_ends_the_pause_and_another_failure_does_not() -> None:
    flaky = Flaky()
    outages = Outages("thing", flaky.clock)
    for _ in range(2):
        with pytest.raises(StoreError, match="no answer"):
            outages.ask(flaky, now=True)
    with pytest.raises(StoreError, match="left alone"):
        outages.ask(flaky)
    flaky.fails = False
    assert outages.ask(flaky, now=True) == "here"
    assert outages.ask(flaky) == "here"
    assert flaky.asked == 4
