"""An overflow, a summary, and the same loop again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai")
pytest.importorskip("starlette")

from tests.runner.model_server import Call, Reply, Request, asks, overflows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.stage import Stage

BIG = 4
"""Files that fill the context."""

ARMED = "post-compaction guard armed for {} attempts"


def counted(name: str, says: str = "same") -> Call:
    """A command that leaves a mark each time it runs."""
    return Call("exec", {"command": f"echo x >> {name}; {says if says != 'same' else 'echo same'}"})


def marks(stage: Stage, name: str) -> int:
    return len((work(stage) / name).read_text().splitlines())


def work(stage: Stage) -> Path:
    return stage.gateway.folder / "work"


def full(request: Request) -> Reply:
    """The request does not fit any more."""
    return overflows(request.tokens - 100, request.tokens)


def overflow_after(calls: int, call: Call, most: int = 40) -> Callable[[Request, int], Reply]:
    """Fills the context, then asks for the same call for ever; after so many of them it is full."""

    def lines(request: Request, number: int) -> Reply:
        if number <= BIG:
            return asks(Call("read", {"path": f"big-{number}.txt"}))
        if number == BIG + calls + 1:
            return full(request)
        return asks(call) if number <= most else Reply("Enough.")

    return lines


@pytest.mark.parametrize(("agent", "window"), [("unset", 3), ("on", 3), ("wide", 5)])
def test_the_run_ends_after_exactly_as_many_identical_calls(stage: Stage, agent: str, window: int) -> None:
    name = f"marks-{agent}"
    before = stage.gateway.log.count(ARMED.format(window))
    play, played = stage.play(agent, overflow_after(4, counted(name)))
    assert played.run["state"] == "aborted"
    assert played.run["code"] == "compaction_loop_persisted"
    assert "exec" in played.run["message"]
    assert str(window) in played.run["message"]
    assert marks(stage, name) == 4 + window
    assert len(play.summaries) == 1
    assert [one["window"] for one in played.kinds("compaction")] == [window]
    assert stage.gateway.log.count(ARMED.format(window)) == before + 1


def test_with_both_guards_off_nobody_ends_it(stage: Stage) -> None:
    before = stage.gateway.log.count("post-compaction guard armed")
    _, played = stage.play("off", overflow_after(2, counted("marks-off"), 20))
    assert (played.run["state"], played.run["code"]) == ("done", None)
    assert marks(stage, "marks-off") == 15
    assert stage.gateway.log.count("post-compaction guard armed") == before
    assert played.told == []


@pytest.mark.parametrize("agent", ["unset", "on"])
def test_results_that_change_are_never_stopped(stage: Stage, agent: str) -> None:
    name = f"changing-{agent}"
    _, played = stage.play(agent, overflow_after(3, counted(name, f"wc -l < {name}"), 45))
    assert (played.run["state"], played.run["code"]) == ("done", None)
    assert marks(stage, name) == 40
    assert played.of("block") == played.of("abort") == []


def test_the_window_is_over_after_its_calls(stage: Stage) -> None:
    one = counted("marks-over")
    after = iter([*(Call("read", {"path": f"{name}.txt"}) for name in "abc"), *[one] * 4])

    def lines(request: Request, number: int) -> Reply:
        if number <= BIG + 2:
            return overflow_after(1, one)(request, number)
        call = next(after, None)
        return Reply("Enough.") if call is None else asks(call)

    _, played = stage.play("unset", lines)
    assert played.run["state"] == "done"
    assert marks(stage, "marks-over") == 5


def test_a_second_compaction_arms_it_afresh(stage: Stage) -> None:
    one = counted("marks-twice")
    big = [Call("read", {"path": f"big-{number}.txt"}) for number in range(1, BIG + 1)]
    script = [*big, one, None, one, one, *big, one, None, *[one] * 9]

    def lines(request: Request, number: int) -> Reply:
        call = script[number - 1]
        return full(request) if call is None else asks(call)

    play, played = stage.play("wide", lines)
    assert played.run["code"] == "compaction_loop_persisted"
    assert marks(stage, "marks-twice") == 1 + 2 + 1 + 5
    assert len(play.summaries) == len(played.kinds("compaction")) == 2


def test_a_compaction_that_frees_nothing_ends_the_run(stage: Stage) -> None:
    play, played = stage.play(
        "unset", lambda _, number: asks(counted("full")) if number == 1 else overflows()
    )
    assert played.run["state"] in ("aborted", "failed")
    assert marks(stage, "full") == 1
    assert len(play.requests) <= 5


def pages(most: int, window: int) -> Callable[[Request, int], Reply]:
    """Reads so many different pages, and takes no request that is longer than the window."""
    read: list[Call] = []

    def lines(request: Request, _: int) -> Reply:
        if request.tokens > window:
            return overflows(window, request.tokens)
        if len(read) == most:
            return Reply("All read.")
        read.append(Call("read", {"path": f"big-{len(read) % BIG + 1}.txt", "offset": len(read) + 1}))
        return asks(read[-1])

    return lines


@pytest.mark.parametrize("agent", ["on", "small"])
def test_long_work_goes_on_over_compactions(stage: Stage, agent: str) -> None:
    play, played = stage.play(agent, pages(7, 9_000))
    assert (played.run["state"], played.run["answer"]) == ("done", "All read.")
    assert len(played.kinds("outcome")) == 7
    causes = {one["cause"] for one in played.kinds("compaction")}
    assert causes == {"ahead" if agent == "small" else "overflow"}
    refused = [request for request in play.requests if request.tokens > 9_000]
    assert bool(refused) == (agent == "on")
    assert all(play.name in request.said[-1] for request in play.requests)


def test_work_that_takes_many_compactions_is_work(stage: Stage) -> None:
    play, played = stage.play("on", pages(24, 9_000))
    assert (played.run["state"], played.run["answer"]) == ("done", "All read.")
    assert len(play.summaries) == len(played.kinds("compaction")) > 3
    assert len(played.kinds("outcome")) == 24
