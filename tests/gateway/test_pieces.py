"""What can be seen better without a server: rates, bounds of what is remembered, observers that fail."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")

import httpx2

from loopwarden.config import load_config
from loopwarden.gateway import desk as desk_module
from loopwarden.gateway.app import Part, create_app
from loopwarden.gateway.asked import read_batch, read_one
from loopwarden.gateway.context import Gateway
from loopwarden.gateway.front import LOCAL_HOSTS
from loopwarden.gateway.limits import Rate, read_body
from loopwarden.gateway.observers import speaker
from loopwarden.gateway.problems import Problem
from loopwarden.loopback import is_loopback
from loopwarden.records import read
from tests.gateway.processes import SMALL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from starlette.types import Message


def with_gateway(folder: Path, work: Callable[[Gateway], Awaitable[None]], config: Any = SMALL) -> None:
    async def main() -> None:
        gateway = Gateway(load_config(config), folder=folder)
        try:
            async with gateway.running():
                await work(gateway)
        finally:
            gateway.close()

    asyncio.run(main())


def call(number: int, **fields: Any) -> bytes:
    return json.dumps({"tool": "t", "call_id": str(number), **fields}).encode()


def test_rate_lets_through_what_a_second_brings() -> None:
    now = [0.0]
    rate = Rate(10, clock=lambda: now[0])
    assert [rate.take("a") for _ in range(10)] == [0.0] * 10
    assert 0 < rate.take("a") <= 0.1
    assert rate.take("b") == 0.0
    now[0] += 0.25
    assert [rate.take("a") > 0 for _ in range(3)] == [False, False, True]
    now[0] += 1000
    assert [rate.take("a") > 0 for _ in range(11)] == [False] * 10 + [True]


def test_rate_remembers_some_addresses_only() -> None:
    rate = Rate(1, clock=lambda: 0.0)
    for number in range(10_000):
        rate.take(str(number))
    assert len(rate._buckets) < 5000


def test_slow_body_is_given_up() -> None:
    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        with pytest.raises(Problem) as found:
            await read_body({"headers": []}, never, 100, seconds=0.01)
        assert found.value.status == 408

    asyncio.run(main())


def test_client_that_goes_away() -> None:
    messages = iter(
        [
            {"type": "http.request", "body": b"{", "more_body": True},
            {"type": "http.disconnect"},
        ]
    )

    async def receive() -> Message:
        return next(messages)

    async def main() -> None:
        with pytest.raises(Problem) as found:
            await read_body({"headers": []}, receive, 100)
        assert found.value.status == 400

    asyncio.run(main())


def test_answers_that_are_remembered_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "ALL_ANSWERS", 3000)

    async def work(gateway: Gateway) -> None:
        for run in range(10):
            for number in range(1100):
                await gateway.desk.answer(read_one("before", str(run), call(number, arguments=number)))
        remembered = [len(run.answers) for run in gateway.desk._runs.values()]
        assert max(remembered) == 1024
        assert sum(remembered) <= 3000
        assert sum(remembered) == gateway.desk._answered

    with_gateway(tmp_path / "state", work)


def test_batch_in_the_middle_is_not_done_twice(tmp_path: Path) -> None:
    raw = json.dumps({"events": [{"event": "compacted", "event_id": str(n)} for n in range(200)]}).encode()

    async def work(gateway: Gateway) -> None:
        batch = read_batch(raw, 1000)
        first, second = await asyncio.gather(*(gateway.desk.answer_all(batch) for _ in range(2)))
        assert first is second
        assert [verdict.action for verdict in first[:3]] == ["allow", "allow", "abort"]

    with_gateway(tmp_path / "state", work)


class Broken:
    def saw(self, *_: Any) -> None:
        raise RuntimeError

    def forgot(self, *_: Any) -> None:
        raise RuntimeError


class Seen:
    def __init__(self) -> None:
        self.all: list[tuple[Any, ...]] = []

    def saw(self, session_id: str | None, event: Any, *_: Any) -> None:
        self.all.append((*speaker(), session_id, event.run_id))

    def forgot(self, session_id: str | None, run_id: str | None) -> None:
        self.all.append((*speaker(), session_id, run_id))


def test_observer_that_fails_does_not_keep_others_from_being_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()

    async def work(gateway: Gateway) -> None:
        gateway.observers.add(Broken())
        gateway.observers.add(seen)
        for number in range(3):
            asked = read_one("before", "r", call(number, agent="a", session="s", mode="observe"))
            await gateway.desk.answer(asked)
        await gateway.desk.answer(read_one("forget", "r", b'{"agent":"a","session":"s","mode":"observe"}'))
        gateway.guards("b").session("own").before("t", call_id="c", run_id="q")

    with_gateway(tmp_path / "state", work, {**SMALL, "agents": {"list": [{"id": "b"}]}})
    assert seen.all == [("a", "observe", "s", "r")] * 4 + [("b", "enforce", "own", "q")]
    assert len([record for record in caplog.records if "fault in Broken" in record.message]) == 1


def test_record_follows_some_agents_at_once(tmp_path: Path) -> None:
    async def work(gateway: Gateway) -> None:
        for number in range(150):
            await gateway.desk.answer(read_one("before", "r", call(number, agent=f"a{number}")))

    with_gateway(tmp_path / "state", work)
    entries = list(read(tmp_path / "state" / "runs.jsonl"))
    assert len([entry for entry in entries if entry.kind == "begun"]) == 150
    assert len([entry for entry in entries if entry.kind == "ended"]) == 150
    assert entries[0].details["agent"] == "a0"


def test_part_is_entered_and_its_faults_stay_inside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def fault(_: Any) -> Any:
        raise RuntimeError("secret argument")

    async def refuse(_: Any) -> Any:
        raise Problem(409, "not now")

    async def public(_: Any) -> Any:
        return PlainTextResponse("open")

    async def work(gateway: Gateway) -> None:
        routes = [Route("/fault", fault), Route("/refuse", refuse), Route("/open", public)]
        part = Part(
            routes=routes, public=frozenset({"/open"}), paths={"/refuse": {"get": {}}}, schemas={"X": {}}
        )
        app = create_app(gateway, [part], hosts=LOCAL_HOSTS)
        transport = httpx2.ASGITransport(app=app)
        headers = {"authorization": f"Bearer {gateway.token.text}"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/open")).text == "open"
            assert (await client.get("/refuse")).status_code == 401
            found = await client.get("/refuse", headers=headers)
            assert (found.status_code, found.json()["detail"]) == (409, "not now")
            found = await client.get("/fault", headers=headers)
            assert found.status_code == 500
            assert found.headers["content-type"] == "application/problem+json"
            assert "secret" not in found.text
            document = (await client.get("/openapi.json", headers=headers)).json()
            assert "/refuse" in document["paths"]
            assert "X" in document["components"]["schemas"]

    with_gateway(tmp_path / "state", work)
    assert any("fault in the gateway" in record.message for record in caplog.records)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"])
def test_addresses_of_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])  # noqa: S104 - not local
def test_addresses_of_others(host: str) -> None:
    assert not is_loopback(host)
