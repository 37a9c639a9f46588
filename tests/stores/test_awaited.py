"""Journals in Redis as an event loop asks for them: the same answers, and the same patience."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("redis", reason="the extra redis is not installed")
from loopwarden import LoopGuard, Outcome, StoreError, ToolCall
from loopwarden.journaled_runs import STEPS, JournaledRuns
from loopwarden.live_runs import Mark, Over, Told
from loopwarden.store_contract import put
from loopwarden.stores.journal import AwaitableStore, Entry, Found, JournalStore, Place
from loopwarden.stores.redis import PREFIX, RedisStore
from tests.guards import SMALL
from tests.stores.servers import PATIENCE, Relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from loopwarden.stores.redis_awaited import AwaitedRedis
    from tests.stores.servers import Server


@pytest.fixture
def store(server: Server) -> Iterator[RedisStore]:
    store = RedisStore(server.url)
    yield store
    store.close()


def in_loop(store: RedisStore, work: Callable[[AwaitedRedis], Awaitable[None]]) -> None:
    async def main() -> None:
        journals = store.awaited()
        try:
            await work(journals)
        finally:
            await journals.close()

    asyncio.run(main())


@asynccontextmanager
async def runs_in(store: JournalStore, **options: Any) -> AsyncIterator[JournaledRuns]:
    runs = JournaledRuns(LoopGuard(SMALL).settings, store, **options)
    try:
        yield runs
    finally:
        await runs.close_awaited()


def call(number: int, run: str = "r") -> Told:
    event = ToolCall(tool="read", arguments={"path": "a"}, call_id=f"c{number}", run_id=run)
    return Told(None, event, Mark(f"before:c{number}", "digest", None))


def outcome(number: int, run: str = "r") -> Told:
    return Told(None, Outcome(call_id=f"c{number}", result="same", run_id=run))


async def loop(runs: JournaledRuns, numbers: range, run: str = "r") -> str:
    """Calls with one and the same result; the first letters of the actions, `.` for allow."""
    strip = ""
    for number in numbers:
        (answer,) = await runs.tell_awaited([call(number, run)])
        strip += {"allow": ".", "warn": "w", "block": "B", "abort": "X"}[answer.verdict.action]
        await runs.tell_awaited([outcome(number, run)])
    return strip


def test_what_is_awaited_is_what_is_waited_for(store: RedisStore, server: Server) -> None:
    async def work(journals: AwaitedRedis) -> None:
        (first,) = await journals.append([Entry("a", None, b"1", alone=False)])
        assert isinstance(first, Found)
        assert (first.done, first.afresh, first.news) == (True, True, b"")
        (second,) = store.append([Entry("a", first.place, b"2", alone=False)])
        assert isinstance(second, Found)
        assert await journals.append([Entry("a", first.place, b"x", alone=True)]) == [
            Found(done=False, place=second.place, afresh=False, news=b"2")
        ]
        assert first.place is not None
        assert await journals.rewrite("a", first.place, b"state") is None
        assert second.place is not None
        third = await journals.rewrite("a", second.place, b"state")
        assert third is not None
        assert store.append([Entry("a", second.place, b"3", alone=False)]) == [
            Found(done=True, place=Place(third.token, third.end + 1), afresh=True, news=b"state")
        ]
        with server.client() as client:
            client.lpush(f"{PREFIX}b", "x")
            client.script_flush()
        found = await journals.append([Entry(key, None, b"1", alone=False) for key in "abc"])
        assert [type(one) for one in found] == [Found, StoreError, Found]
        await journals.append([Entry("a", None, None, alone=False)])
        assert store.read("a") is None

    in_loop(store, work)


def test_both_ways_work_on_one_run(store: RedisStore) -> None:
    async def main() -> None:
        async with runs_in(store) as runs:
            strip = ""
            for number in range(6):
                (answer,) = (
                    await runs.tell_awaited([call(number)]) if number % 2 else runs.tell([call(number)])
                )
                strip += answer.verdict.action[0]
                await runs.tell_awaited([outcome(number)])
            assert strip == "aaawwb"
            (again,) = runs.tell([call(5)])
            assert (again.verdict, again.again) == (answer.verdict, True)
            await runs.tell_awaited([Told(None, Over("r"))])
            assert runs.save((None, "r")) is None
            assert await loop(runs, range(6)) == "...wwB"

    asyncio.run(main())


def test_runs_of_many_tasks_are_apart_and_long_ones_are_written_anew(store: RedisStore) -> None:
    async def main() -> None:
        async with runs_in(store) as runs, runs_in(store) as others:
            names = [f"run {number}" for number in range(20)]
            strips = await asyncio.gather(
                *(loop((runs, others)[place % 2], range(6), name) for place, name in enumerate(names))
            )
            assert set(strips) == {"...wwB"}
            for number in range(STEPS):
                await runs.tell_awaited([outcome(number, "long")])
                await others.tell_awaited([call(number, "long"), outcome(number, "else")])
            assert runs.save((None, "long")) == others.save((None, "long"))
            saved = store.read(runs._name((None, "long")))
            assert saved is not None
            assert saved.startswith(b'{"version"')

    asyncio.run(main())


def test_a_run_that_several_tasks_tell_of_at_once_loses_nothing(store: RedisStore) -> None:
    async def main() -> None:
        async with runs_in(store) as runs:
            await asyncio.gather(*(runs.tell_awaited([call(number)]) for number in range(8)))
            (answer,) = await runs.tell_awaited([call(8)])
            assert answer.verdict.count == 8

    asyncio.run(main())


class Plain:
    """A store of journals that can't be awaited."""

    def __init__(self, store: RedisStore) -> None:
        self.threads: set[str] = set()
        self._store = store
        for name in ("update", "read", "move", "delete", "close", "rewrite"):
            setattr(self, name, getattr(store, name))

    def append(self, entries: list[Entry]) -> list[Found | StoreError]:
        self.threads.add(threading.current_thread().name)
        return self._store.append(entries)


def test_a_store_that_cannot_be_awaited_is_asked_in_a_thread(store: RedisStore) -> None:
    plain: Any = Plain(store)
    assert isinstance(plain, JournalStore)
    assert not isinstance(plain, AwaitableStore)
    assert isinstance(store, AwaitableStore)

    async def main() -> None:
        async with runs_in(plain) as runs:
            assert await loop(runs, range(6)) == "...wwB"

    asyncio.run(main())
    assert plain.threads
    assert threading.current_thread().name not in plain.threads


def test_a_server_that_was_restarted_is_not_noticed(
    lasting: Server, caplog: pytest.LogCaptureFixture
) -> None:
    store = RedisStore(lasting.url)

    async def main() -> None:
        async with runs_in(store) as runs:
            assert await loop(runs, range(5)) == "...ww"
            await asyncio.to_thread(lasting.stop)
            await asyncio.to_thread(lasting.start)  # the loop goes on, and sees the end of the connection
            assert await loop(runs, range(5, 6)) == "B"

    asyncio.run(main())
    store.close()
    assert not caplog.records


def test_an_outage_in_the_middle_is_told_once(lasting: Server, caplog: pytest.LogCaptureFixture) -> None:
    store = RedisStore(lasting.url)
    now = [0.0]

    async def main() -> None:
        async with runs_in(store, clock=lambda: now[0]) as runs:
            assert await loop(runs, range(5)) == "...ww"
            lasting.stop()
            for _ in range(3):
                with pytest.raises(StoreError):
                    await runs.tell_awaited([call(5)])
            lasting.start()
            assert await loop(runs, range(5, 6)) == "B"

    asyncio.run(main())
    store.close()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "let through" in told[0]
    assert told[1] == "store is back"


def test_an_answer_that_was_lost_counts_once(server: Server) -> None:
    relay = Relay(server)
    store = RedisStore(relay.url)

    async def main() -> None:
        async with runs_in(store, clock=lambda: 0.0) as runs:
            for number in range(3):
                relay.loses = number == 2
                if number < 2:
                    await runs.tell_awaited([call(number), call(number, "other")])
                    continue
                with pytest.raises(StoreError):
                    await runs.tell_awaited([call(number), call(number, "other")])
            both = await runs.tell_awaited([call(2), call(2, "other")])
            assert [answer.again for answer in both] == [True, True]
            both = await runs.tell_awaited([call(3), call(3, "other")])
            assert [answer.verdict.count for answer in both] == [3, 3]

    asyncio.run(main())
    store.close()
    relay.close()


needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@needs_signals
def test_a_server_that_hangs_is_waited_for_no_longer_than_agreed(lasting: Server) -> None:
    store = RedisStore(lasting.url.removesuffix(PATIENCE) + "?socket_timeout=0.2")
    assert lasting.process is not None

    async def main(process: int) -> None:
        async with runs_in(store, clock=lambda: 0.0) as runs:
            await runs.tell_awaited([call(0)])
            os.kill(process, signal.SIGSTOP)
            try:
                with pytest.raises(StoreError, match="imeout"):
                    await runs.tell_awaited([call(1)])
            finally:
                os.kill(process, signal.SIGCONT)
            store.update("a", put(b"1"))  # it is back
            (answer,) = await runs.tell_awaited([call(1)])
            assert answer.verdict.count in {0, 1}

    asyncio.run(main(lasting.process.pid))
    store.close()


@needs_signals
def test_who_gives_up_leaves_no_answer_for_another(lasting: Server) -> None:
    store = RedisStore(lasting.url)
    assert lasting.process is not None

    async def main(process: int) -> None:
        async with runs_in(store) as runs:
            assert await loop(runs, range(5)) == "...ww"
            os.kill(process, signal.SIGSTOP)
            try:
                given_up = asyncio.create_task(runs.tell_awaited([call(0, "other")]))
                while not given_up.done():
                    await asyncio.sleep(0)
                    if store.awaited()._redis.connection_pool._in_use_connections:
                        given_up.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await given_up
            finally:
                os.kill(process, signal.SIGCONT)
            assert await loop(runs, range(5, 6)) == "B"
            assert (await runs.tell_awaited([call(1, "other")]))[0].verdict.count <= 1

    asyncio.run(main(lasting.process.pid))
    store.close()


def test_no_connection_is_left_and_another_loop_has_its_own(store: RedisStore, server: Server) -> None:
    def connections() -> int:
        with server.client() as client:
            return len(client.client_list())

    async def main(first: int) -> None:
        async with runs_in(store) as runs, runs_in(store) as others:
            before = connections()
            strip = await loop(runs, range(first, first + 3)) + await loop(others, range(2), "other")
            assert strip == ("....." if first == 0 else "wwB..")
            assert connections() == before + 1

    before = connections()
    asyncio.run(main(0))
    store.delete(JournaledRuns._name((None, "other")))
    asyncio.run(main(3))
    assert connections() == before
