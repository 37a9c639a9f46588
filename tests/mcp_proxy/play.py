"""Plays a client against a command, and keeps every byte that came back."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

SERVER = [sys.executable, str(Path(__file__).parent / "fake_server.py")]
PATIENCE = 50.0
"""Seconds until a process that hangs is killed, so that the test fails and does not hang too."""


def loopwarden(*words: str, way: str = "stdio", grace: float = 60.0) -> list[str]:
    """A command of ours.

    `grace` are the seconds for which the module `way` is patient: many, so that a slow machine is no fault.
    """
    start = (
        f"from loopwarden.mcp_proxy import {way}; {way}.GRACE = {grace};"
        "from loopwarden.cli.main import run; run()"
    )
    return [sys.executable, "-c", start, *words]


def proxied(*options: str, server: list[str] = SERVER, grace: float = 60.0) -> list[str]:
    return loopwarden("mcp", *options, "--", *server, grace=grace)


def request(number: Any, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


def call(number: Any, name: str, **arguments: Any) -> bytes:
    return request(number, "tools/call", name=name, arguments=arguments)


class Played:
    """A process, its lines, and how it ended."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.out = b""
        self._watchdog = threading.Timer(PATIENCE, self.process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def line(self) -> bytes:
        """The next line of the other side, kept in `out`; empty at the end."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.out += line
        return line

    def ask(self, line: bytes) -> Any:
        self.send(line)
        return json.loads(self.line())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> tuple[int, str]:
        """The exit code and what was written to standard error, once the process ended."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        assert self.process.stdin is not None
        if not self.process.stdout.closed:
            self.out += self.process.stdout.read()
        err = self.process.stderr.read().decode()
        code = self.process.wait()
        self._watchdog.cancel()
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        return code, err
