"""A gateway in a process of its own, for tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import httpx2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE = 60.0
"""Seconds that a test waits for what must happen, on a slow machine."""

SMALL = {
    "tools": {
        "loopDetection": {
            "enabled": True,
            "warningThreshold": 3,
            "criticalThreshold": 5,
            "unknownToolThreshold": 4,
            "globalCircuitBreakerThreshold": 9,
        }
    }
}


class GatewayProcess:
    """Starts `loopwarden gateway` on a free port.

    Args:
        folder: Its state folder.
        config: Its configuration, as a file in the folder above; `None`: none.
        options: More words of the command line.
        before: Python that the process runs first, as to bound what it may do.
    """

    def __init__(
        self, folder: Path, config: dict[str, Any] | None = None, *options: str, before: str = ""
    ) -> None:
        self.folder = folder
        words = ["gateway", "--port", "0", "--state", str(folder), *options]
        if config is not None:
            path = folder.parent / f"{folder.name}.json5"
            path.write_text(json.dumps(config))
            words += ["--config", str(path)]
        code = f"{before}\nimport sys\nsys.argv[1:] = {words!r}\nfrom loopwarden.cli.main import run\nrun()\n"
        outside = os.environ.items()
        environment = {name: value for name, value in outside if not name.startswith("LOOPWARDEN_")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=folder.parent,
            env={**environment, "XDG_CONFIG_HOME": str(folder.parent), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self.logged: list[str] = []
        self._readers = [
            threading.Thread(target=_read, args=(stream, lines), daemon=True)
            for stream, lines in ((self.process.stdout, self.said), (self.process.stderr, self.logged))
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        wait_until(lambda: len(self.said) > 1 or self.process.poll() is not None)
        assert self.process.poll() is None, self.logged
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.wait()

    @property
    def address(self) -> str:
        return self.said[0].split()[-1].strip()

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def token(self) -> str:
        return (self.folder / "token").read_text().strip()

    def client(self, **options: Any) -> httpx2.Client:
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx2.Client(base_url=self.address, headers=headers, timeout=PATIENCE, **options)

    def raw(self, data: bytes) -> bytes:
        """What is answered to these bytes, up to the end of the connection or of the first answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(data)
            found = b""
            while chunk := connection.recv(65536):
                found += chunk
                head, gap, body = found.partition(b"\r\n\r\n")
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                if gap and length and len(body) >= int(length[0].split(b":")[1]):
                    break
            return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it with a signal, and give its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


def _read(stream: Any, lines: list[str]) -> None:
    lines.extend(iter(stream.readline, ""))


def wait_until(found: Callable[[], bool]) -> None:
    """Wait for something that must happen."""
    end = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def before(client: httpx2.Client, number: int = 1, run: str = "r", **fields: Any) -> dict[str, Any]:
    body = {"tool": "read", "arguments": {"path": "a"}, "call_id": f"c{number}", **fields}
    return said(client.post(f"/v1/runs/{run}/before", json=body))


def after(client: httpx2.Client, number: int = 1, run: str = "r", **fields: Any) -> dict[str, Any]:
    body = {"call_id": f"c{number}", "result": "same", **fields}
    return said(client.post(f"/v1/runs/{run}/after", json=body))


def loop(client: httpx2.Client, numbers: range, run: str = "r", **fields: Any) -> str:
    """Calls with one and the same result; the first letters of the actions, `.` for allow."""
    letters = {"allow": ".", "warn": "w", "block": "B", "abort": "X"}
    strip = ""
    for number in numbers:
        verdict = before(client, number, run, **fields)
        strip += letters[verdict["action"]]
        if verdict["action"] in {"allow", "warn"}:
            after(client, number, run, **fields)
    return strip


@contextmanager
def entered(process: GatewayProcess) -> Iterator[httpx2.Client]:
    """A browser that has the cookie."""
    with httpx2.Client(base_url=process.address, timeout=PATIENCE) as visitor:
        answer = visitor.get("/", params={"token": process.token})
        assert answer.status_code == 303
        yield visitor


def said(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    verdict: dict[str, Any] = answer.json()
    return verdict


def problem(answer: httpx2.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert found["status"] == status
    assert found["title"]
    assert found["detail"]
    assert "Traceback" not in answer.text
    return found


def gateways(folder: Path) -> Iterator[GatewayProcess]:
    """One with small numbers, for a fixture."""
    with GatewayProcess(folder, SMALL) as process:
        yield process
