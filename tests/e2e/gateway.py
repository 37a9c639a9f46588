"""A gateway in a process of its own, and what a client asks of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

PATIENCE: Final = 60.0
"""Seconds that anything here is waited for at most."""

_SERVES: Final = re.compile(r"http://127\.0\.0\.1:(\d+)")


def wait_until(done: Callable[[], Any], what: str) -> Any:
    """What `done` gives as soon as it is true."""
    until = time.monotonic() + PATIENCE
    while not (found := done()):
        if time.monotonic() > until:
            raise TimeoutError(f"waited for {what}")
        time.sleep(0.02)
    return found


def environment(folder: Path) -> dict[str, str]:
    """Variables for a process that must touch nothing outside the folder."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT") if name in os.environ}
    return {**kept, "HOME": str(folder), "LOOPWARDEN_STATE": str(folder / "state"), "PYTHONUTF8": "1"}


@dataclass
class Gateway:
    """A gateway; it runs while the `with` block does, and can be killed and started again in between.

    Attributes:
        folder: Its home: settings, state and log.
        config: What stands in its settings, besides the port.
    """

    folder: Path
    config: Mapping[str, Any]
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    port: int = field(default=0, init=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()  # so that it ends the commands of its agents
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()

    def command(self) -> list[str]:
        """The command that starts it."""
        settings = self.folder / "loopwarden.json5"
        settings.write_text(json.dumps({**self.config, "gateway": {"port": 0}}), encoding="utf-8")
        return [sys.executable, "-m", "loopwarden", "gateway", "--config", str(settings)]

    def start(self) -> None:
        """Start it, and wait until it serves."""
        begun = len(self.log)
        with (self.folder / "gateway.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), cwd=self.folder, env=environment(self.folder), stdout=log, stderr=log
            )

        def serves() -> re.Match[str] | None:
            assert self.process
            assert self.process.poll() is None, self.log[begun:]
            return _SERVES.search(self.log, begun)

        self.port = int(wait_until(serves, "the address of the gateway")[1])
        wait_until(self._healthy, "the gateway to serve")

    def kill(self) -> None:
        """End it as nobody can prepare for."""
        assert self.process
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        """End it as a service manager does."""
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    @property
    def log(self) -> str:
        """All that it has printed."""
        path = self.folder / "gateway.log"
        return path.read_text("utf-8") if path.exists() else ""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON answer to a request.

        Raises:
            urllib.error.HTTPError: It failed.
        """
        with self._open(method, path, body) as answer:
            return json.loads(answer.read() or b"null")

    def say(self, session: str, text: str) -> str:
        """A person says something in a session; the id of the run that answers it."""
        run: str = self.ask("POST", f"/v1/sessions/{session}/messages", {"text": text})["run"]
        return run

    def session(self, agent: str) -> str:
        """A new session."""
        session: str = self.ask("POST", "/v1/sessions", {"agent": agent})["session"]
        return session

    def run(self, run: str) -> dict[str, Any]:
        """What is known of a run."""
        found: dict[str, Any] = self.ask("GET", f"/v1/runs/{run}")
        return found

    def ended(self, run: str) -> dict[str, Any]:
        """What is known of a run, once it is over."""

        def over() -> dict[str, Any] | None:
            found = self.run(run)
            return found if found["state"] != "open" else None

        found: dict[str, Any] = wait_until(over, f"run {run} to end")
        return found

    def events(self, run: str, after: int = 0) -> list[dict[str, Any]]:
        """All that happens in a run until it is over, from the one after number `after` on."""
        happened: list[dict[str, Any]] = []
        heard = {"last-event-id": str(after)} if after else {}
        with self._open("GET", f"/v1/runs/{run}/events", headers=heard) as stream:
            for line in stream:
                if line.startswith(b"data:"):
                    happened.append(json.loads(line[5:]))
                    if happened[-1].get("kind") == "ended":
                        break
        return happened

    def _open(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "content-type": "application/json",
                "authorization": f"Bearer {self.token}",
                **(headers or {}),
            },
        )
        return urllib.request.urlopen(request, timeout=PATIENCE)  # noqa: S310 - our own server

    @property
    def token(self) -> str:
        """What it lets clients in with."""
        return (self.folder / "state" / "gateway" / "token").read_text("utf-8").strip()

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=PATIENCE):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False
