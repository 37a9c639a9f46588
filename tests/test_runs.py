"""The runs of one process: apart, found again, and bounded in number and in time."""

from __future__ import annotations

import pytest

from loopwarden import LoopGuard
from loopwarden.core.settings import Settings
from loopwarden.runs import Runs


class Clock:
    """A clock that stands still until it is told to move."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def runs(clock: Clock) -> Runs:
    return Runs(Settings(), 3, 100.0, clock)


def names(runs: Runs) -> str:
    return "".join(str(run) for _, run in runs)


def use(runs: Runs, name: str) -> None:
    """What the guard does: only a run that is not the newest is looked up."""
    if runs.newest_key != (None, name):
        runs.get((None, name))


def test_the_one_that_was_idle_for_longest_goes_first(runs: Runs) -> None:
    for name in "abcade":
        use(runs, name)
    assert names(runs) == "ade"


def test_what_is_idle_for_too_long_goes_when_a_new_run_begins(runs: Runs, clock: Clock) -> None:
    use(runs, "a")
    clock.now += 60
    use(runs, "b")
    clock.now += 60
    use(runs, "b")
    assert names(runs) == "ab"
    clock.now += 60
    use(runs, "c")
    assert names(runs) == "bc"


def test_the_newest_run_is_not_idle_however_long_it_goes_on(runs: Runs, clock: Clock) -> None:
    use(runs, "a")
    for _ in range(10):
        clock.now += 60
        use(runs, "a")
    use(runs, "b")
    assert names(runs) == "ab"


def test_a_run_that_moved_or_was_forgotten_leaves_nothing(runs: Runs, clock: Clock) -> None:
    use(runs, "a")
    runs.move((None, "a"), (None, "b"))
    runs.move((None, "nobody"), (None, "c"))
    use(runs, "d")
    runs.forget((None, "d"))
    runs.forget((None, "d"))
    assert names(runs) == "b"
    clock.now += 1000
    use(runs, "e")
    assert names(runs) == "e"


@pytest.mark.parametrize("wrong", [{"max_runs": 0}, {"idle_seconds": 0.0}, {"idle_seconds": float("nan")}])
def test_bounds_that_make_no_sense_are_told(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        LoopGuard({}, **wrong)  # type: ignore[arg-type]  # both are numbers
