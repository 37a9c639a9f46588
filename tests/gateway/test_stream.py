"""Server-sent events: what changed, resumed where a reader left off, bounded whatever readers do."""

from __future__ import annotations

import asyncio
import http.client
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("starlette", reason="the extra `gateway` is not installed")
pytest.importorskip("uvicorn", reason="the extra `gateway` is not installed")

from loopwarden.gateway.stream import Stream
from tests.gateway.page.server import TOKEN, Place, calls, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Reading:
    """An open stream of events."""

    def __init__(self, place: Place, path: str = "/events", last: str | None = None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=20)
        headers = BEARER if last is None else {**BEARER, "Last-Event-ID": last}
        self.connection.request("GET", path, headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200
        assert self.response.headers["content-type"].startswith("text/event-stream")

    def next(self) -> dict[str, str]:
        """The next block that has fields; comments under the name ''."""
        fields: dict[str, str] = {}
        while True:
            line = self.response.readline().decode().rstrip("\n")
            if line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
            elif fields and fields.keys() != {"retry"}:
                return fields
            elif not fields:
                raise EOFError
            else:
                fields = {}

    def until(self, event: str) -> dict[str, str]:
        while True:
            found = self.next()
            if found.get("event") == event:
                return found

    def close(self) -> None:
        self.response.close()
        self.connection.close()


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    with place.served(beat=0.2):
        yield place


def test_a_change_is_told_and_silence_has_a_heartbeat(place: Place) -> None:
    reading = Reading(place)
    assert "id" in reading.next()
    assert "" in reading.next()  # a comment
    calls(place.guard(), 1)
    event = reading.until("runs")
    assert event["id"] == event["data"]
    reading.close()


def test_a_reader_of_one_run_is_told_of_that_run_only(place: Place) -> None:
    guard = place.guard()
    calls(guard, 1, run="mine")
    calls(guard, 1, run="other")
    names = {card.run: card.name for card in place.board.cards()}
    reading = Reading(place, f"/events?run={names['mine']}")
    first = reading.next()
    calls(guard, 1, start=5, run="other")
    assert "event" not in reading.next()
    calls(guard, 1, start=9, run="mine")
    assert reading.until("run")["id"] != first["id"]
    reading.close()


def test_a_reader_resumes_after_the_event_it_knows(place: Place) -> None:
    reading = Reading(place)
    reading.next()
    calls(place.guard(), 1)
    last = reading.until("runs")["id"]
    reading.close()
    again = Reading(place, last=last)
    assert "event" not in again.next()
    again.close()
    calls(place.guard(), 1, start=5)
    after = Reading(place, last=last)
    assert after.next()["event"] == "runs"
    after.close()
    by_query = Reading(place, f"/events?after={last}")
    assert by_query.next()["event"] == "runs"
    by_query.close()


@pytest.mark.parametrize("last", ["00000000-5", "nonsense", "x" * 5000, "-", "abcdef01-" + "9" * 40])
def test_who_knows_another_time_fetches_everything(place: Place, last: str) -> None:
    reading = Reading(place, last=last)
    assert reading.next()["event"] == "reload"
    reading.close()


def test_the_end_of_the_gateway_ends_the_stream() -> None:
    place = Place()
    with place.served():
        reading = Reading(place)
        reading.next()
    with pytest.raises(EOFError):
        reading.until("never")
    reading.close()


def test_after_a_restart_everything_is_fetched() -> None:
    place = Place()
    with place.served():
        reading = Reading(place)
        last = reading.next()["id"]
        reading.close()
    with place.served():
        reading = Reading(place, last=last)
        assert reading.next()["event"] == "reload"
        reading.close()


def test_readers_are_limited_and_give_their_place_back() -> None:
    place = Place()
    with place.served(most=3, beat=0.1) as stream:
        readings = [Reading(place) for _ in range(3)]
        connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=20)
        connection.request("GET", "/events", headers=BEARER)
        assert connection.getresponse().status == 503
        connection.close()
        for reading in readings:
            reading.close()
        wait_for(lambda: stream.readers == 0)
        Reading(place).close()


def test_a_reader_that_does_not_read_is_dropped_and_others_go_on() -> None:
    async def go() -> None:
        stream = Stream(gap=0.0, patience=0.2, beat=0.05)
        got: list[bytes] = []

        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        async def stuck(message: dict[str, Any]) -> None:
            """As a server does whose buffers are full."""
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        async def reads(message: dict[str, Any]) -> None:
            got.append(message.get("body", b""))

        def reader(send: Any) -> asyncio.Task[None]:
            response: Any = stream.response({"runs": "runs"}, None)
            return asyncio.create_task(response({}, receive, send))

        slow, quick = reader(stuck), reader(reads)
        await asyncio.wait_for(slow, 20)
        assert stream.readers == 1
        got.clear()
        stream.touch("r")
        while not any(b"event: runs" in piece for piece in got):  # noqa: ASYNC110 - the other side only appends
            await asyncio.sleep(0.01)
        stream.close()
        await asyncio.wait_for(quick, 20)
        assert stream.readers == 0

    asyncio.run(go())


def test_what_is_remembered_does_not_grow_and_skips_what_is_superseded() -> None:
    async def go() -> None:
        stream = Stream(gap=0.0, topics=8)
        stream.begin()
        start = stream.now
        for number in range(100):
            stream.touch(f"r{number % 12}")
            await asyncio.sleep(0)
        for _ in range(50):
            stream.touch("mine")
            await asyncio.sleep(0.001)
        assert len(stream._changed) <= 8
        _, names = stream.since({"mine": "run"}, start)
        assert names == ["run"]
        # of a topic that may have been dropped nothing is known
        assert stream.since({"unknown": "run"}, start)[1] == ["reload"]
        assert stream.since({"unknown": "run"}, stream.now)[1] == []

    asyncio.run(go())


def test_more_changes_at_once_than_are_remembered_reload_everything() -> None:
    async def go() -> None:
        stream = Stream(gap=0.0, topics=8)
        start = stream.now
        for number in range(30):
            stream.touch(f"r{number}")
        stream.begin()
        assert stream.since({"r29": "run"}, start)[1] == ["reload"]

    asyncio.run(go())


def test_changes_from_threads_reach_a_reader_on_the_loop(place: Place) -> None:
    reading = Reading(place)
    reading.next()
    before: Any = place.board.revision
    calls(place.guard(), 20)
    assert place.board.revision == before + 40
    assert reading.until("runs")
    reading.close()
