"""Connections that ask nothing are closed, and they don't keep others out."""

from __future__ import annotations

import socket
import sys
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")

from tests.gateway.processes import PATIENCE, SMALL, GatewayProcess, before, wait_until

if TYPE_CHECKING:
    from pathlib import Path

HALF = b"POST /v1/runs/h/before HTTP/1.1\r\nHost: localhost\r\n"

SOON = "import loopwarden.gateway.connections as c; c.HEADER_SECONDS = {seconds}"
FEW = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {soft}))"


def connect(process: GatewayProcess, data: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", process.port), timeout=PATIENCE)
    if data:
        connection.sendall(data)
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Whether the other end hangs up; waits for what it says."""
    with suppress(ConnectionError):
        while connection.recv(65536):
            pass
    return True


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


@pytest.mark.parametrize("data", [b"", b"P", HALF, b"\r\n"])
def test_headers_that_do_not_come_end_the_connection(tmp_path: Path, data: bytes) -> None:
    with (
        GatewayProcess(tmp_path / "state", SMALL, before=SOON.format(seconds=0.2)) as process,
        closing(connect(process, data)) as connection,
    ):
        assert is_closed(connection)


def test_also_those_of_a_second_request(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path / "state", SMALL, before=SOON.format(seconds=0.2)) as process:
        whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with closing(connect(process, whole)) as connection:
            assert b"200 OK" in connection.recv(65536)
            connection.sendall(HALF)
            assert is_closed(connection)


def test_who_has_asked_and_waits_is_left_alone(tmp_path: Path) -> None:
    """A body that is on its way has a time of its own."""
    with GatewayProcess(tmp_path / "state", SMALL, before=SOON.format(seconds=1)) as process:
        body = b'{"tool":"read","call_id":"c"}'
        token = f"Authorization: Bearer {process.token}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with closing(connect(process, HALF + token + body[:5])) as slow:
            with closing(connect(process, HALF)) as other:  # one that came later is closed first
                assert is_closed(other)
            slow.sendall(body[5:])
            assert b"200 OK" in slow.recv(65536)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of the process")
def test_more_connections_than_descriptors_keep_nobody_out(tmp_path: Path) -> None:
    few = FEW.format(soft=200)
    with GatewayProcess(tmp_path / "state", SMALL, before=few) as process, ExitStack() as opened:
        first = [opened.enter_context(closing(connect(process, HALF))) for _ in range(300)]
        assert is_closed(first[0])
        with process.client() as client:
            for number in range(5):
                before(client, number)
            assert client.get("/healthz").json()["ok"] is True
        wait_until(lambda: any("150 connections are open" in line for line in process.logged))
        assert sum(map(is_open, first)) <= 150
        assert process.stop() == 0
    assert len([line for line in process.logged if "connections are open" in line]) == 1
    assert len(process.logged) < 20


@pytest.mark.skipif(sys.platform == "win32", reason="limits of the process")
def test_descriptors_that_run_out_are_said_once(tmp_path: Path) -> None:
    most = "import loopwarden.gateway.server as s; s.most_connections = lambda: 10_000"
    code = f"{most}\n{FEW.format(soft=60)}"
    with GatewayProcess(tmp_path / "state", SMALL, before=code) as process, ExitStack() as opened:
        for _ in range(200):
            opened.enter_context(closing(connect(process, HALF)))
        wait_until(lambda: any("no descriptor is left" in line for line in process.logged))
        opened.close()
        with process.client() as client:
            before(client)
        assert process.stop() == 0
    assert len([line for line in process.logged if "no descriptor is left" in line]) == 1
    assert len(process.logged) < 20


def test_idle_ones_within_the_number_stay(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path / "state", SMALL) as process, ExitStack() as opened:
        idle = [opened.enter_context(closing(connect(process, HALF))) for _ in range(100)]
        with process.client() as client:
            before(client)
        assert all(map(is_open, idle))
