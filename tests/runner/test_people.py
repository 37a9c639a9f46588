"""What people do while a run goes on: write, cancel, close; and what stands in the session afterwards."""

# ruff: noqa: ARG001 - tools and scripts take what they are given

from __future__ import annotations

import asyncio
import threading

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from loopwarden.runner.live import MOST_SAID
from loopwarden.runner.seams import RunResult
from tests.runner.agents import Seen, runner_for
from tests.runner.model_server import Call, ModelServer, Reply, Request, asks

LOOK = asks(Call("look", {"query": "a"}))


def idle(query: str) -> str:
    return query


def test_a_message_is_read_with_the_next_request() -> None:
    async def talk() -> str:
        async def look(query: str) -> str:
            assert runner.say("r", "Look for b instead.")
            return "nothing"

        runner = runner_for(server, seen, look)
        result = await runner.run("main", "Look.", run_id="r")
        assert not runner.say("r", "too late")
        return result.reason

    seen = Seen()
    with ModelServer([LOOK, Reply("ok")]) as server:
        assert asyncio.run(talk()) == "done"
    assert server.requests[1].said == ["Look.", "Look for b instead."]
    assert list(server.requests[1].results.values()) == ["nothing"]
    assert seen.of("user_message") == [{"text": "Look for b instead.", "sender": None}]


def test_messages_that_wait_are_bounded() -> None:
    async def talk() -> int:
        taken = 0

        async def look(query: str) -> str:
            nonlocal taken
            taken = sum(runner.say("r", f"message {number}") for number in range(3 * MOST_SAID))
            return "nothing"

        runner = runner_for(server, seen, look)
        await runner.run("main", "Look.", run_id="r")
        return taken

    seen = Seen()
    with ModelServer([LOOK, Reply("ok")]) as server:
        assert asyncio.run(talk()) == MOST_SAID
    assert server.requests[1].said[-1] == f"message {MOST_SAID - 1}"
    assert len(seen.of("user_message")) == MOST_SAID


def test_a_message_at_the_last_word_is_answered_too() -> None:
    async def talk() -> str | None:
        gate = threading.Event()
        server.script = [Reply("first", wait=gate), Reply("second")]
        runner = runner_for(server, seen, idle)
        running = asyncio.create_task(runner.run("main", "Look.", run_id="r"))
        await asyncio.to_thread(server.wait_for, 1)
        assert runner.say("r", "And b?")
        gate.set()
        return (await running).answer

    seen = Seen()
    with ModelServer([]) as server:
        assert asyncio.run(talk()) == "second"
    assert server.requests[1].said == ["Look.", "And b?"]
    assert len(seen.of("began")) == len(seen.of("ended")) == 1


def test_a_message_frees_a_loop_that_is_held() -> None:
    """The guard hears of it: refusals are forgiven and one probe may run."""

    async def talk() -> None:
        def script(request: Request) -> Reply:
            if len(server.requests) == 8:
                loop.call_soon_threadsafe(runner.say, "r", "Go on.")
            return LOOK if len(server.requests) < 11 else Reply("ok")

        loop = asyncio.get_running_loop()
        server.script = script
        runner = runner_for(
            server, seen, look, guard={"enabled": True, "warningThreshold": 3, "criticalThreshold": 5}
        )
        await runner.run("main", "Look.", run_id="r")

    def look(query: str) -> str:
        return "nothing"

    seen = Seen()
    with ModelServer([]) as server:
        asyncio.run(talk())
    said = next(one.number for one in seen.all if one.kind == "user_message")
    before = [one.data["ok"] for one in seen.all if one.kind == "outcome" and one.number < said]
    after = [one.data["ok"] for one in seen.all if one.kind == "outcome" and one.number > said]
    assert before[-1] is False
    assert after[0] is True, "the probe ran"


def test_cancelling_ends_tools_and_leaves_a_session_that_goes_on() -> None:
    async def talk() -> None:
        started = asyncio.Event()
        ended: list[str] = []

        async def look(query: str) -> str:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append(query)
                raise
            return query

        def quick(query: str) -> str:
            return "quick"

        runner = runner_for(server, seen, look, quick)
        running = asyncio.create_task(runner.run("main", "Look.", run_id="r", session_id="s"))
        await started.wait()
        assert runner.running() == runner.running("s") == ["r"]
        assert runner.running("other") == []
        assert runner.cancel("r")
        assert runner.running() == []
        result = await running
        assert (result.reason, result.code, ended) == ("cancelled", None, ["a"])
        assert not runner.cancel("r")
        again = await runner.run("main", "Go on.", session_id="s")
        assert (again.reason, again.answer) == ("done", "ok")

    seen = Seen()
    both = asks(Call("look", {"query": "a"}), Call("quick", {"query": "a"}))
    with ModelServer([both, Reply("ok")]) as server:
        asyncio.run(talk())
    results = server.requests[1].results
    assert len(results) == 2
    assert any("cancelled" in text for text in results.values())
    assert server.requests[1].said == ["Look.", "Go on."]
    ends = [data["reason"] for data in seen.of("ended")]
    assert ends == ["cancelled", "done"]


def test_cancelling_while_the_model_speaks() -> None:
    async def talk() -> None:
        runner = runner_for(server, seen, idle)
        running = asyncio.create_task(runner.run("main", "Look.", run_id="r", session_id="s"))
        await asyncio.to_thread(server.wait_for, 1)
        runner.cancel("r")
        assert (await running).reason == "cancelled"
        gate.set()
        assert (await runner.run("main", "Go on.", session_id="s")).answer == "second"

    gate = threading.Event()
    seen = Seen()
    with ModelServer([Reply("first", wait=gate), Reply("second")]) as server:
        asyncio.run(talk())
    assert server.requests[1].said == ["Look.", "Go on."]


def test_a_caller_that_is_cancelled_ends_the_run() -> None:
    async def talk() -> None:
        runner = runner_for(server, seen, idle)
        running = asyncio.create_task(runner.run("main", "Look."))
        await asyncio.to_thread(server.wait_for, 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    gate = threading.Event()
    seen = Seen()
    with ModelServer([Reply("first", wait=gate)]) as server:
        asyncio.run(talk())
        gate.set()
    assert seen.of("ended")[0]["reason"] == "cancelled"


def test_closing_ends_all_runs() -> None:
    async def talk() -> None:
        runner = runner_for(server, seen, idle)
        running = [asyncio.create_task(runner.run("main", "Look.")) for _ in range(3)]
        await asyncio.to_thread(server.wait_for, 3)
        await runner.close()
        assert [(await one).reason for one in running] == ["cancelled"] * 3
        with pytest.raises(RuntimeError, match="closed"):
            await runner.run("main", "Look.")

    gate = threading.Event()
    seen = Seen()
    with ModelServer([Reply("first", wait=gate)] * 3) as server:
        asyncio.run(talk())
        gate.set()
    assert seen.kinds()["ended"] == 3


def test_one_run_at_a_time_in_a_session() -> None:
    async def talk() -> None:
        runner = runner_for(server, seen, idle)
        await asyncio.gather(*(runner.run("main", f"Task {n}.", session_id="s") for n in range(3)))
        assert not runner._sessions._locks

    seen = Seen()
    with ModelServer([Reply("one"), Reply("two"), Reply("three")]) as server:
        asyncio.run(talk())
    assert [len(request.said) for request in server.requests] == [1, 2, 3]
    assert len({one.run for one in seen.all}) == 3


def test_finished_runs_are_forgotten_and_old_counts_are_not_inherited() -> None:
    async def talk() -> None:
        def look(query: str) -> str:
            return "nothing"

        runner = runner_for(server, seen, look)
        for _ in range(2):
            await runner.run("main", "Look.", session_id="s")
        assert len(runner._guards("main")._runs) == 0
        assert not runner._live

    seen = Seen()
    with ModelServer([*[LOOK] * 3, Reply("ok"), *[LOOK] * 3, Reply("ok")]) as server:
        asyncio.run(talk())
    assert seen.of("verdict") == []


def test_a_run_that_is_cancelled_before_it_begins_has_its_end() -> None:
    async def talk() -> None:
        runner = runner_for(server, seen, idle)
        by_id = asyncio.create_task(runner.run("main", "Look.", run_id="r"))
        by_caller = asyncio.create_task(runner.run("main", "Look."))
        await asyncio.sleep(0)
        assert runner.cancel("r")
        by_caller.cancel()
        done = await asyncio.gather(by_id, by_caller, return_exceptions=True)
        assert [type(one) for one in done] == [RunResult, asyncio.CancelledError]
        assert not runner._live

    seen = Seen()
    with ModelServer([]) as server:
        asyncio.run(talk())
    assert [data["reason"] for data in seen.of("ended")] == ["cancelled"] * 2
    assert server.requests == []
