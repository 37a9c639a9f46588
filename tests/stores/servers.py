"""A real Redis (or Valkey) on a free port of this machine, for tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    import redis

PROGRAM = shutil.which("redis-server") or shutil.which("valkey-server")
MISSING = "neither redis-server nor valkey-server is installed"


def need_server() -> None:
    """Skip where there is no server (in CI there must be one), or no client."""
    pytest.importorskip("redis", reason="the extra redis is not installed")
    if PROGRAM is None:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)


PATIENCE = "?socket_timeout=100&socket_connect_timeout=100"
"""For machines that are slow."""


class Server:
    """A server that can be stopped and started again on the same port.

    Args:
        folder: Where it writes, if it does.
        keeps: Whether it keeps its data over a restart (every write at once, `appendonly`).
    """

    def __init__(self, folder: Path, *, keeps: bool = False) -> None:
        self.folder = folder
        self.keeps = keeps
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0{PATIENCE}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        assert PROGRAM is not None
        keeps = ["--appendonly", "yes", "--appendfsync", "always"] if self.keeps else ["--appendonly", "no"]
        self.process = subprocess.Popen(
            [PROGRAM, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", *keeps],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if b"eady to accept connections" in line:
                return
        pytest.fail("the server ended instead of starting")

    def stop(self) -> None:
        """Kill it, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def client(self) -> redis.Redis:
        import redis

        return redis.Redis.from_url(self.url)


class Relay:
    """Stands between a client and a server; can lose what the server answers.

    Attributes:
        loses: Whether the next answer is lost, and the connection with it.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.loses = False
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._socket.getsockname()[1]}/0{PATIENCE}"
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _accept(self) -> None:
        threads = []
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                break
            threads.append(threading.Thread(target=self._serve, args=(client,)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def _serve(self, client: socket.socket) -> None:
        """Hand on questions and answers in turn, as our client asks one thing at a time."""
        with client, socket.create_connection(("127.0.0.1", self.server.port)) as server:
            while asked := client.recv(1 << 20):
                server.sendall(asked)
                answered = server.recv(1 << 20)
                if self.loses:
                    self.loses = False
                    return
                client.sendall(answered)
