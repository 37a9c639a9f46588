"""A model on loopback that says what a script says, for coding agents that bring their own client.

    with ResponsesServer([asks(Call("exec_command", {"cmd": "ls"}))]) as server:
        subprocess.run([...])  # with server.url in its settings
    server.requests[-1].answers

This is what the servers of all APIs share. Only the standard library.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DONE = "All done."
"""What the model says when the script is at its end."""

SUMMARY = "<state_snapshot>The files were looked at, and the work is not done.</state_snapshot>"
"""What the model says when the client asks for a summary of the history; some want it between these tags."""

SUMMARY_TOKENS = 75_000
"""How long such a request was, as the model counts; some take the difference for what was won."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model asks for."""

    tool: str
    arguments: dict[str, Any]
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of the model.

    Attributes:
        text: What it says.
        calls: What it asks for.
        tokens: How long the request was, as the model counts; a large number makes a client compact.
        status: Another HTTP status than 200: the request fails with it.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    tokens: int = 10
    status: int = 200


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and what can be read out of it.

    Attributes:
        path: Where it was sent.
        body: As the client sent it.
    """

    path: str
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """All of it, to look for words in."""
        return json.dumps(self.body, ensure_ascii=False)

    @property
    def answers(self) -> dict[str, list[str]]:
        """What the model reads as results of each call, by id."""
        raise NotImplementedError

    @property
    def asks_for_summary(self) -> bool:
        """The client compacts the history."""
        raise NotImplementedError


Script: TypeAlias = "Sequence[Reply] | Callable[[Request], Reply]"
"""Replies in order, after which the model says `DONE`; or what answers each request. Requests for a summary
take none of a list."""


def asks(*calls: Call, text: str = "", tokens: int = 10) -> Reply:
    """A reply that asks for tools; calls without an id get one from their place."""
    return Reply(text, calls, tokens)


@dataclass
class ModelServer:
    """The server; it listens while the `with` block runs, which raises what the script raised.

    Attributes:
        script: What it answers.
        requests: Requests for a reply, in order.
        others: Paths that were asked for besides; they are answered with 404.
    """

    script: Script
    requests: list[Request] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    _faults: list[Exception] = field(default_factory=list, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _said: int = 0

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        if self._faults:
            raise self._faults[0]

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def read(self, path: str, body: dict[str, Any]) -> Request | None:
        """The request for a reply that this is; `None` for one of another kind."""
        raise NotImplementedError

    def written(self, request: Request, reply: Reply, number: int) -> tuple[str, str]:
        """Content type and text of a reply, as the API has it."""
        raise NotImplementedError

    def reply(self, request: Request) -> tuple[Reply, int]:
        """What the script says to this request, and its number; the request is written down."""
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            if callable(self.script):
                try:
                    return self.script(request), number
                except Exception as fault:  # noqa: BLE001 - raised where the block ends
                    self._faults.append(fault)
                    return Reply(status=400), number
            if request.asks_for_summary:
                return Reply(SUMMARY, tokens=SUMMARY_TOKENS), number
            self._said += 1
            return (self.script[self._said - 1] if self._said <= len(self.script) else Reply(DONE)), number


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            """Nothing is printed."""

        def do_GET(self) -> None:
            self._miss()

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            try:
                request = server.read(self.path, json.loads(data))
            except ValueError:
                request = None
            if request is None:
                self._miss()
                return
            reply, number = server.reply(request)
            if reply.status != 200:
                self._send(reply.status, "application/json", '{"error": {"message": "no", "code": 400}}')
                return
            self._send(200, *server.written(request, reply, number))

        def _miss(self) -> None:
            server.others.append(self.path)
            self._send(404, "application/json", "{}")

        def _send(self, status: int, kind: str, text: str) -> None:
            content = text.encode()
            with suppress(OSError):  # a client that has gone
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

    return Handler
