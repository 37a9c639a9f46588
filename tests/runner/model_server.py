"""An OpenAI-compatible server on loopback that says what a script says and fails as real ones fail.

    with ModelServer([asks(Call("exec", {"command": "ls"})), Reply("Two files.")]) as server:
        ...  # an agent with `baseUrl: server.url`
    server.requests[-1].results  # what the model read

Or as a process of its own, until its standard input ends (see `read_script` for the file):

    python -m tests.runner.model_server SCRIPT.json

Only the standard library. The script is a list of replies (after its end the model says `DONE`), a function
of the request, or one of these for each model name. A request without tools is one for a summary; lists say
`SUMMARY` to it and lose no reply.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

from tests.runner import model_errors as errors
from tests.runner.model_wire import chunks, completion

DONE: Final = "All done."
"""What the model says when its list is at its end."""

SUMMARY: Final = "Summary: the work is under way and not done."
"""What the model says to a request without tools."""

PATIENCE: Final = 60.0
"""Seconds that anything here waits at most."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model asks for; without an id it gets one that is used once."""

    tool: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer to one request.

    Attributes:
        text: What the model says.
        calls: What it asks for, at once.
        tokens: What is told as the length of the request; `None`: what it is about.
        error: Fails with this instead.
        drop: The connection ends `before` the reply or in the `middle` of it.
        wait: The reply begins when this is set.
        raw: Type and text of an answer with 200 that is sent as it is, in place of all the rest.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    tokens: int | None = None
    error: errors.Failure | None = None
    drop: Literal["before", "middle"] | None = None
    wait: threading.Event | None = None
    raw: tuple[str, str] | None = None


def asks(*calls: Call, text: str = "", tokens: int | None = None) -> Reply:
    """A reply that asks for tools."""
    return Reply(text, calls, tokens)


def overflows(window: int = 8192, used: int = 9000) -> Reply:
    """400: the request is too long."""
    return Reply(error=errors.too_long(window, used))


def limits(after: float = 0.01) -> Reply:
    """429, to be tried again after so many seconds."""
    return Reply(error=errors.too_often(after))


def breaks() -> Reply:
    """500."""
    return Reply(error=errors.broken())


@dataclass(frozen=True, slots=True)
class Request:
    """One request for a completion, and what can be read out of it."""

    body: dict[str, Any]

    @property
    def model(self) -> str:
        """The model that was asked."""
        return str(self.body.get("model"))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history."""
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages

    @property
    def tools(self) -> list[str]:
        """Names of the tools that are offered."""
        return [tool["function"]["name"] for tool in self.body.get("tools") or []]

    @property
    def results(self) -> dict[str, str]:
        """What the model reads as the result of each call, by call id, in order."""
        tools = (message for message in self.messages if message["role"] == "tool")
        return {message["tool_call_id"]: text_of(message["content"]) for message in tools}

    @property
    def last_result(self) -> str:
        """The newest of them; empty where there is none."""
        return next(reversed(self.results.values()), "")

    @property
    def said(self) -> list[str]:
        """What people said."""
        return [text_of(message["content"]) for message in self.messages if message["role"] == "user"]

    @property
    def asks_for_summary(self) -> bool:
        """The client compacts the history."""
        return not self.tools

    @property
    def tokens(self) -> int:
        """About how long it is."""
        return len(json.dumps([self.messages, self.body.get("tools") or []], ensure_ascii=False)) // 4


Lines: TypeAlias = Sequence[Reply] | Callable[[Request], Reply]
Script: TypeAlias = Lines | Mapping[str, Lines]


@dataclass
class ModelServer:
    """The server; it listens while the `with` block runs, which raises what a script raised.

    Attributes:
        script: What it answers.
        window: Requests that are longer than so many tokens fail as too long; `None`: none does.
        key: The only key that is taken; `None`: any or none.
        summary: What lists say to a request without tools.
        requests: All requests for completions, in order, those that failed included.
        others: What else was asked for, as `GET /v1/models`.
    """

    script: Script
    window: int | None = None
    key: str | None = None
    summary: Reply = field(default_factory=lambda: Reply(SUMMARY))
    requests: list[Request] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    _faults: list[Exception] = field(default_factory=list, repr=False)
    _came: threading.Condition = field(default_factory=threading.Condition, repr=False)
    _places: dict[str, int] = field(default_factory=dict, repr=False)

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
        if self._faults and not any(raised):
            raise self._faults[0]

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def wait_for(self, number: int) -> Request:
        """Request number so and so, from 1, when it is there.

        Raises:
            TimeoutError: It never came.
        """
        with self._came:
            if not self._came.wait_for(lambda: len(self.requests) >= number, PATIENCE):
                raise TimeoutError(f"{len(self.requests)} requests came, not {number}")
            return self.requests[number - 1]

    def of(self, model: str) -> list[Request]:
        """The requests to one model."""
        return [request for request in self.requests if request.model == model]

    def answer(self, request: Request, key: str | None) -> tuple[Reply, int]:
        """What is said to a request, and its number."""
        with self._came:
            self.requests.append(request)
            number = len(self.requests)
            self._came.notify_all()
            failure = self._refuses(request, key)
        if failure is not None:
            return Reply(error=failure), number
        try:
            reply = self._says(request)
        except Exception as fault:  # noqa: BLE001 - raised where the block ends
            self._faults.append(fault)
            return breaks(), number
        if reply.wait is not None:
            reply.wait.wait(PATIENCE)
        calls = [
            replace(call, call_id=call.call_id or f"call_{number}_{place}")
            for place, call in enumerate(reply.calls)
        ]
        tokens = request.tokens if reply.tokens is None else reply.tokens
        return replace(reply, calls=calls, tokens=tokens), number

    def _refuses(self, request: Request, key: str | None) -> errors.Failure | None:
        """What a real server finds wrong before the model is asked."""
        if self.key is not None and key != f"Bearer {self.key}":
            return errors.wrong_key()
        if self.window is not None and request.tokens > self.window:
            return errors.too_long(self.window, request.tokens)
        return errors.unpaired(request.messages)

    def _says(self, request: Request) -> Reply:
        lines: Any = self.script
        if isinstance(lines, Mapping):
            lines = lines[request.model]
        if callable(lines):
            reply: Reply = lines(request)
            return reply
        if request.asks_for_summary:
            return self.summary
        name = request.model if isinstance(self.script, Mapping) else ""
        with self._came:
            place = self._places.get(name, 0)
            self._places[name] = place + 1
        return lines[place] if place < len(lines) else Reply(DONE)


def text_of(content: Any) -> str:
    """The text of a message, which is a string or a list of parts."""
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return str(content or "")


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = PATIENCE

        def log_message(self, *words: object) -> None:
            """Nothing is printed."""

        def do_GET(self) -> None:
            self._other()

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            if not self.path.endswith("/chat/completions"):
                self._other()
                return
            request = Request(json.loads(data))
            reply, number = server.answer(request, self.headers.get("authorization"))
            with suppress(OSError):  # a client that has gone
                if reply.error is not None:
                    self._whole(reply.error.status, reply.error.body, reply.error.headers)
                elif reply.raw is not None:
                    self._sent(200, reply.raw[0], reply.raw[1].encode())
                elif reply.drop == "before":
                    self.close_connection = True
                elif request.body.get("stream"):
                    options = request.body.get("stream_options") or {}
                    self._stream(chunks(reply, number, request.model, options), reply.drop)
                else:
                    self._whole(200, completion(reply, number, request.model), cut=reply.drop)

        def _other(self) -> None:
            server.others.append(f"{self.command} {self.path}")
            failure = errors.unknown_path(self.command, self.path)
            with suppress(OSError):
                self._whole(failure.status, failure.body)

        def _head(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            named = {"content-type": kind, "connection": "close", "x-request-id": "req_scripted"}
            for name, value in {**named, **headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def _whole(
            self,
            status: int,
            body: Mapping[str, Any],
            headers: Mapping[str, str] | None = None,
            cut: str | None = None,
        ) -> None:
            self._sent(status, "application/json", json.dumps(body).encode(), headers, cut)

        def _sent(
            self,
            status: int,
            kind: str,
            content: bytes,
            headers: Mapping[str, str] | None = None,
            cut: str | None = None,
        ) -> None:
            self._head(status, kind, {"content-length": str(len(content)), **(headers or {})})
            self.wfile.write(content[: len(content) // 2] if cut else content)

        def _stream(self, pieces: Sequence[Mapping[str, Any]], cut: str | None) -> None:
            self._head(200, "text/event-stream", {"transfer-encoding": "chunked"})
            lines = [f"data: {json.dumps(piece)}\n\n" for piece in pieces] + ["data: [DONE]\n\n"]
            for line in lines[: len(lines) // 2] if cut else lines:
                self.wfile.write(f"{len(line.encode()):x}\r\n{line}\r\n".encode())
                self.wfile.flush()
            if not cut:
                self.wfile.write(b"0\r\n\r\n")

    return Handler


def read_script(text: str) -> ModelServer:
    """The server that a JSON file describes.

    The file holds `{"replies": [...], "window": 8000, "key": "..."}` or, for several models, `{"models":
    {"NAME": [...]}}`. A reply: `{"text": "...", "calls": [{"tool": "exec", "arguments": {...}}], "tokens":
    100, "times": 20}`, or `{"fails": "overflow" | "limit" | "error" | "drop" | "cut"}`.
    """
    given = json.loads(text)
    models = given.get("models")
    script: Script = (
        {name: _replies(lines) for name, lines in models.items()} if models else _replies(given["replies"])
    )
    return ModelServer(script, window=given.get("window"), key=given.get("key"))


def _replies(lines: Sequence[Mapping[str, Any]]) -> list[Reply]:
    return [reply for line in lines for reply in [_reply(line)] * line.get("times", 1)]


def _reply(line: Mapping[str, Any]) -> Reply:
    calls = [
        Call(call["tool"], call.get("arguments", {}), call.get("id", "")) for call in line.get("calls", ())
    ]
    reply = Reply(line.get("text", ""), calls, line.get("tokens"))
    match line.get("fails"):
        case None:
            return reply
        case "overflow":
            return overflows()
        case "limit":
            return limits()
        case "error":
            return breaks()
        case "drop":
            return replace(reply, drop="before")
        case "cut":
            return replace(reply, drop="middle")
        case other:
            raise ValueError(f"fails: {other!r}; allowed: overflow, limit, error, drop, cut")


def main() -> None:
    """Say the base URL in one line, and listen until standard input ends."""
    with read_script(Path(sys.argv[1]).read_text("utf-8")) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
