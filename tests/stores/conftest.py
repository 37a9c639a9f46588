"""One server for the tests that don't restart it, and the addresses of both kinds of shared store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.stores.servers import Server, need_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    need_server()
    server = Server(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def server(running: Server) -> Server:
    """A running server with nothing in it."""
    with running.client() as client:
        client.flushall()
    return running


@pytest.fixture
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of one's own that keeps its data over a restart."""
    need_server()
    server = Server(tmp_path_factory.mktemp("redis"), keeps=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def passing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of one's own that forgets everything when it stops."""
    need_server()
    server = Server(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "redis"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'runs.db'}"
    server: Server = request.getfixturevalue("server")
    return server.url
