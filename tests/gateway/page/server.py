"""A small gateway for the tests of the page: its routes, real guards, a real server on loopback."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette

from loopwarden.gateway.attended import AttendedGuard
from loopwarden.gateway.board import Board
from loopwarden.gateway.decisions import Decisions
from loopwarden.gateway.observers import Speaker
from loopwarden.gateway.page.site import Site
from loopwarden.gateway.stream import Stream
from loopwarden.gateway.token import Token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from loopwarden.events import Verdict

TOKEN = "0123456789-of-a-token-that-is-long-enough"  # noqa: S105 - of the test's own server


class Place:
    """What the tests act on."""

    def __init__(self, *, show_arguments: bool = True, **settings: Any) -> None:
        self.decisions = Decisions()
        self.board = Board(self.decisions, show_arguments=show_arguments)
        self.cancelled: list[str] = []
        self.can_cancel = True
        self.settings = {"enabled": True, **settings}
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.login = f"{self.url}/?token={TOKEN}"

    def guard(self, agent: str | None = None, **options: Any) -> AttendedGuard:
        return AttendedGuard(
            self.settings,
            decisions=self.decisions,
            record=self.board.observer(lambda: Speaker(agent, "enforce")),
            agent_id=agent,
            on_error="raise",
            **options,
        )

    def cancel(self, run: str) -> bool:
        self.cancelled.append(run)
        return self.can_cancel

    def site(self, stream: Stream) -> Site:
        token = Token(TOKEN, Path("state/token"))
        return Site(self.board, stream, token=token, cancel=self.cancel)

    @contextmanager
    def served(self, **options: Any) -> Iterator[Stream]:
        """The page, until the end of the block; may be served again at the same address."""
        stream = Stream(**{"gap": 0.05, "beat": 5.0, **options})
        app = Starlette(routes=self.site(stream).routes())
        config = uvicorn.Config(app, host="127.0.0.1", port=self.port, log_level="critical", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        wait_for(lambda: server.started)
        loop = server.servers[0].get_loop()
        try:
            yield stream
        finally:
            loop.call_soon_threadsafe(stream.close)
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def call(
    guard: AttendedGuard,
    number: int,
    tool: str,
    arguments: Any = None,
    result: Any = "same",
    *,
    run: str = "r",
    session: str = "s",
) -> Verdict:
    """One call with its result; the answer to it."""
    verbs = guard.session(session)
    verdict = verbs.before(tool, arguments, call_id=f"c{number}", run_id=run)
    if verdict.action in {"allow", "warn"}:
        ended = verbs.after(f"c{number}", result=result, run_id=run)
        return ended if ended.action == "abort" else verdict
    return verdict


def calls(
    guard: AttendedGuard, count: int, *, start: int = 0, run: str = "r", session: str = "s"
) -> list[Verdict]:
    """Some calls that are all the same."""
    return [
        call(guard, start + number, "read", {"path": "a.txt"}, run=run, session=session)
        for number in range(count)
    ]
