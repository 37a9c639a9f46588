"""Events of clients that go to Redis together: their order, and what people decided."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("redis", reason="the extra redis is not installed")
pytest.importorskip("starlette", reason="the extra gateway is not installed")

from loopwarden import load_config
from loopwarden.gateway.asked import read_one
from loopwarden.gateway.decisions import Decisions
from loopwarden.gateway.guards import Guards
from loopwarden.gateway.names import loop_name, run_name
from loopwarden.gateway.observers import Observers
from loopwarden.gateway.together import Together
from tests.gateway.processes import SMALL
from tests.stores.servers import Relay, Server, need_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from loopwarden import Verdict
    from loopwarden.gateway.asked import Asked


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Server]:
    need_server()
    server = Server(tmp_path)
    server.start()
    yield server
    server.stop()


@asynccontextmanager
async def together(url: str, decisions: Decisions | None = None) -> AsyncIterator[Together]:
    guards = Guards(load_config(SMALL), Observers(), decisions=decisions, store=url, most=1000)
    found = Together(guards)
    try:
        yield found
    finally:
        await found.close()
        guards.close()


def asked(kind: str, number: int = 0, run: str = "r", **fields: Any) -> Asked:
    if kind in {"before", "after"}:
        fields = {"call_id": f"c{number}", **fields}
        fields |= {"tool": "read", "arguments": {}} if kind == "before" else {"result": "same"}
    return read_one(kind, run, json.dumps({"session": "s", **fields}).encode())


def calls(desk: Together, numbers: range, run: str = "r") -> list[asyncio.Future[Verdict]]:
    """Calls with one and the same result, all told at once."""
    return [desk.answer(asked(kind, number, run)) for number in numbers for kind in ("before", "after")]


def letters(verdicts: list[Verdict]) -> str:
    return "".join({"allow": ".", "warn": "w", "block": "B", "abort": "X"}[one.action] for one in verdicts)


def test_events_of_a_run_are_answered_in_their_order(redis: Server) -> None:
    async def main() -> None:
        async with together(redis.url) as desk:
            runs = [calls(desk, range(6), f"run {number}") for number in range(50)]
            for run in runs:
                assert letters((await asyncio.gather(*run))[::2]) == "...wwB"

    asyncio.run(main())


def test_a_run_that_goes_on_under_another_name_takes_its_turn(redis: Server) -> None:
    async def main() -> None:
        async with together(redis.url) as desk:
            events = calls(desk, range(4))
            events.append(desk.answer(asked("compacted", run="new", continues="r")))
            events += [desk.answer(asked("before", 4, "new")), desk.answer(asked("before", 0))]
            verdicts = await asyncio.gather(*events)
            assert letters(verdicts[:8:2]) == "...w"
            assert [verdict.count for verdict in verdicts[-2:]] == [4, 0]

    asyncio.run(main())


def test_a_run_that_is_over_begins_anew(redis: Server) -> None:
    async def main() -> None:
        async with together(redis.url) as desk:
            for _ in range(2):
                events = calls(desk, range(6))
                events.append(desk.answer(asked("forget")))
                assert letters((await asyncio.gather(*events))[:12:2]) == "...wwB"
        with redis.client() as client:
            assert client.keys("*runs*r*") == []

    asyncio.run(main())


def test_who_does_not_wait_any_more_is_counted(redis: Server) -> None:
    async def main() -> None:
        async with together(redis.url) as desk:
            for number in range(5):
                desk.answer(asked("before", number)).cancel()
                desk.answer(asked("after", number)).cancel()
            assert (await desk.answer(asked("before", 5))).action == "block"

    asyncio.run(main())


def test_what_waits_is_answered_before_the_end_and_no_connection_is_left(redis: Server) -> None:
    async def main() -> None:
        async with together(redis.url) as desk:
            events = [desk.answer(asked("before", 0, f"run {number}")) for number in range(600)]
        assert all(event.done() and event.result().action == "allow" for event in events)

    asyncio.run(main())
    with redis.client() as client:
        assert len(client.client_list()) == 1
        assert client.zcard("loopwarden:{runs}") == 600


def test_an_outage_lets_through_what_is_on_its_way(redis: Server, caplog: pytest.LogCaptureFixture) -> None:
    relay = Relay(redis)

    async def main() -> None:
        async with together(relay.url) as desk:
            for number in range(5):
                await desk.answer(asked("before", number))
                await desk.answer(asked("after", number))
            relay.loses = True
            both = desk.answer(asked("before", 5)), desk.answer(asked("before", 0, "other"))
            lost = await asyncio.gather(*both)
            assert letters(list(lost)) == ".."
            for _ in range(6000):  # it is left alone for ten times as long as the failure took
                again = await desk.answer(asked("before", 5))
                if again.action != "allow":
                    break
                await asyncio.sleep(0.01)
            assert (again.action, again.count) == ("block", 5)

    asyncio.run(main())
    relay.close()
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("store")]
    assert len(told) == 2
    assert told[1] == "store is back"


def test_what_people_decided_counts_on_redis(redis: Server) -> None:
    async def loop(desk: Together, numbers: range) -> str:
        return letters((await asyncio.gather(*calls(desk, numbers)))[::2])

    async def main() -> None:
        decisions, run = Decisions(), run_name(None, "enforce", "s", "r")
        async with together(redis.url, decisions) as desk:
            assert await loop(desk, range(6)) == "...wwB"
            decisions.pause(run)
            assert await loop(desk, range(6, 9)) == "..."
            decisions.resume(run)
            refused = await desk.answer(asked("before", 9))
            assert refused.action == "block"
            assert refused.key is not None
            decisions.release(run, loop_name(refused.key))
            assert await loop(desk, range(10, 15)) == "...ww"
            assert await desk.answer(asked("forget")) is not None

    asyncio.run(main())
