"""Several gateways on one Redis, and one that goes away."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")

from tests.gateway.processes import PATIENCE, SMALL, GatewayProcess, after, before, loop, said, wait_until
from tests.stores.servers import Server, need_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Server]:
    need_server()
    server = Server(tmp_path, keeps=True)
    server.start()
    yield server
    server.stop()


def test_two_gateways_count_together(redis: Server, tmp_path: Path) -> None:
    with (
        GatewayProcess(tmp_path / "one", SMALL, "--store", redis.url) as one,
        GatewayProcess(tmp_path / "two", {**SMALL, "gateway": {"store": redis.url}}) as two,
        one.client() as first,
        two.client() as second,
    ):
        strip = ""
        for number in range(6):
            strip += loop((first, second)[number % 2], range(number, number + 1), session="s", agent="a")
        assert strip == "...wwB"
        assert loop(second, range(3), session="other", agent="a") == "..."
        assert loop(second, range(3), session="s", agent="a", mode="observe") == "..."
        assert loop(first, range(3), session="s") == "..."
        assert one.stop() == 0
        assert before(second, 9, session="s", agent="a")["action"] == "block"
        assert two.stop() == 0
    assert not (tmp_path / "one" / "gateway.db").exists()


def test_events_sent_at_once_count_once_each(redis: Server, tmp_path: Path) -> None:
    """A client that lost patience, and sends again what is still on its way."""
    with GatewayProcess(tmp_path / "one", SMALL, "--store", redis.url) as one, one.client() as client:
        for number in range(5):
            found: list[str] = []

            def ask(number: int = number, found: list[str] = found) -> None:
                with one.client() as another:
                    found.append(before(another, number)["action"])

            threads = [threading.Thread(target=ask) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
            assert found == ["allow" if number < 3 else "warn"] * 4
            after(client, number)
        assert before(client, 5)["count"] == 5


def test_agents_at_once_on_redis(redis: Server, tmp_path: Path) -> None:
    strips: dict[int, str] = {}
    with GatewayProcess(tmp_path / "one", SMALL, "--store", redis.url) as one:

        def agent(number: int) -> None:
            with one.client() as client:
                strips[number] = loop(client, range(7), f"run-{number}")

        threads = [threading.Thread(target=agent, args=(number,)) for number in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE * 2)
        assert strips == dict.fromkeys(range(40), "...wwBB")


def test_calls_are_let_through_while_redis_is_gone(redis: Server, tmp_path: Path) -> None:
    with GatewayProcess(tmp_path / "one", SMALL, "--store", redis.url) as one, one.client() as client:
        assert client.get("/healthz").json() == {"ok": True, "store": True, "closing": False}
        assert loop(client, range(6)) == "...wwB"
        redis.stop()
        assert before(client, 6)["action"] == "allow"
        wait_until(lambda: client.get("/healthz").status_code == 503)
        event = {"event": "before", "run": "r", "tool": "t"}
        events = [{**event, "call_id": str(number)} for number in range(20)]
        verdicts = said(client.post("/v1/events", json={"events": events}))["verdicts"]
        assert {verdict["action"] for verdict in verdicts} == {"allow"}
        redis.start()
        wait_until(lambda: client.get("/healthz").status_code == 200)
        assert before(client, 7)["action"] == "block"
        assert one.stop() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_health_asks_and_the_guard_is_back_soon_after_a_hiccup(redis: Server, tmp_path: Path) -> None:
    """Redis is stopped while one call waits for it: it is not left alone for ten times as long."""
    url = redis.url.partition("?")[0] + "?socket_timeout=2&socket_connect_timeout=2"
    with GatewayProcess(tmp_path / "one", SMALL, "--store", url) as one, one.client() as client:
        assert loop(client, range(6)) == "...wwB"
        assert redis.process is not None
        redis.process.send_signal(signal.SIGSTOP)
        try:
            assert before(client, 6)["action"] == "allow"
            assert client.get("/healthz").status_code == 503
        finally:
            redis.process.send_signal(signal.SIGCONT)
        assert client.get("/healthz").status_code == 200
        assert before(client, 7)["action"] == "block"
        assert one.stop() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_gateway_that_ends_answers_what_waits_for_redis(redis: Server, tmp_path: Path) -> None:
    frozen = "import atexit, gc, sys; atexit.register(lambda: print(gc.get_freeze_count(), file=sys.stderr))"
    with GatewayProcess(tmp_path / "one", SMALL, "--store", redis.url, before=frozen) as one:
        connections = [HTTPConnection("127.0.0.1", one.port, timeout=PATIENCE) for _ in range(21)]

        def ask(connection: HTTPConnection, path: str, body: dict[str, object] | None = None) -> None:
            words = {"authorization": f"Bearer {one.token}", "content-type": "application/json"}
            connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, words)

        for connection in connections:
            ask(connection, "/metrics")
            assert connection.getresponse().read()
        assert redis.process is not None
        redis.process.send_signal(signal.SIGSTOP)
        try:
            for number, connection in enumerate(connections[1:]):
                ask(connection, f"/v1/runs/{number}/before", {"call_id": "c", "tool": "read"})
            ask(connections[0], "/metrics")  # once that is answered the others are read, too
            assert connections[0].getresponse().read()
            one.process.send_signal(signal.SIGTERM)
            wait_until(lambda: _refuses(one.port))
        finally:
            redis.process.send_signal(signal.SIGCONT)
        answers = [json.load(connection.getresponse()) for connection in connections[1:]]
        assert one.wait() == 0
        for connection in connections:
            connection.close()
    assert [answer["action"] for answer in answers] == ["allow"] * 20
    with redis.client() as client:
        assert len(client.client_list()) == 1
        assert client.zcard("loopwarden:{runs}") == 20
    assert int(one.logged[-1]) > 10_000, "what was loaded is left out of garbage collections"
    assert "unclosed" not in "".join(one.logged)


def _refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
    except OSError:
        return True
    return False


def test_redis_that_is_not_there_or_makes_no_sense(tmp_path: Path) -> None:
    pytest.importorskip("redis", reason="the extra redis is not installed")
    for address, words in (("redis://127.0.0.1:1/0", "127.0.0.1:1"), ("nonsense:", "nonsense:")):
        process = GatewayProcess(tmp_path / "one", SMALL, "--store", address)
        assert process.wait() == 2
        text = "".join(process.logged)
        assert words in text
        assert "Traceback" not in text


def test_two_gateways_asked_at_once_about_one_run(redis: Server, tmp_path: Path) -> None:
    """No call is lost and none counts twice: eight agents in one run, each through both."""
    options = SMALL["tools"]["loopDetection"] | {
        "historySize": 1000,
        "warningThreshold": 160,
        "criticalThreshold": 1000,
        "globalCircuitBreakerThreshold": 1001,
    }
    config = {"tools": {"loopDetection": options}}
    with (
        GatewayProcess(tmp_path / "one", config, "--store", redis.url) as one,
        GatewayProcess(tmp_path / "two", config, "--store", redis.url) as two,
    ):
        done = []

        def agent(place: int) -> None:
            with one.client() as first, two.client() as second:
                for number in range(place * 20, place * 20 + 20):
                    before((first, second)[number % 2], number)
                    after((first, second)[(number + place) % 2], number)
            done.append(place)

        threads = [threading.Thread(target=agent, args=(place,)) for place in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert sorted(done) == list(range(8))
        with one.client() as client:
            assert before(client, 999)["count"] == 160


def test_a_refused_call_sent_again_to_the_other_gateway_counts_once(redis: Server, tmp_path: Path) -> None:
    with (
        GatewayProcess(tmp_path / "one", SMALL, "--store", redis.url) as one,
        GatewayProcess(tmp_path / "two", SMALL, "--store", redis.url) as two,
        one.client() as first,
        two.client() as second,
    ):
        assert loop(first, range(5)) == "...ww"
        refused = before(first, 5)
        assert refused["action"] == "block"
        for client in (second, first, second) * 5:
            assert before(client, 5) == refused
        assert before(second, 6)["count"] == refused["count"] + 1
        assert before(first, 7, event_id="e1") == before(second, 7, event_id="e1")
        assert before(second, 7, event_id="e2")["count"] == refused["count"] + 3


def test_a_call_id_that_is_used_again_is_a_new_call_at_both_gateways(redis: Server, tmp_path: Path) -> None:
    with (
        GatewayProcess(tmp_path / "one", SMALL, "--store", redis.url) as one,
        GatewayProcess(tmp_path / "two", SMALL, "--store", redis.url) as two,
        one.client() as first,
        two.client() as second,
    ):
        actions = []
        for _ in range(6):
            actions.append(before(first, 1)["action"])
            after(second, 1)
        assert actions == ["allow"] * 3 + ["warn"] * 2 + ["block"]


@pytest.mark.parametrize("address", ["foo://x", "http://127.0.0.1:1", "sqlite", "memory"])
def test_store_that_a_gateway_does_not_take(tmp_path: Path, address: str) -> None:
    process = GatewayProcess(tmp_path / "one", SMALL, "--store", address)
    assert process.wait() == 2
    text = " ".join("".join(process.logged).replace("│", " ").split())
    assert "redis://HOST:PORT/DB" in text
    assert "memory:," not in text
    assert "http://HOST" not in text
    assert "Traceback" not in text
