"""A Messages API on loopback that says what a script says, for agents that bring their own client.

    with AnthropicServer([[calling("Read", {"file_path": "a"}, "c1")]]) as server:
        subprocess.run([...], env=server.environment(folder))
    server.requests[-1].answers

Only the standard library. It streams where the client asks for a stream.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

Block: TypeAlias = dict[str, Any]
"""A block of a reply, as the API has it."""

DONE: Final = "done"
"""What the model says when the script is at its end."""

SUMMARY: Final = "<summary>The tools were called, and the work is not done.</summary>"
"""What the model says when the client asks for a summary of the history."""

_SUMMARIZE: Final = "Respond with plain text only"
"""Stands in a request for a summary by Claude Code."""

_NOTE: Final = re.compile(r"^\w+(?::\S+)? hook additional context: ", re.MULTILINE)
"""How Claude Code introduces what a hook adds."""


def saying(text: str) -> Block:
    """A block of text."""
    return {"type": "text", "text": text}


def calling(tool: str, arguments: dict[str, Any], call_id: str) -> Block:
    """A block that asks for a tool."""
    return {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of the model.

    Attributes:
        blocks: What it says and asks for.
        input_tokens: How long the request was, as the model counts; a large number makes a client compact.
        error: Another HTTP status than 200: the request fails with it.
    """

    blocks: Sequence[Block] = ()
    input_tokens: int = 10
    error: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and what can be read out of it."""

    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history."""
        return self.body["messages"]

    @property
    def asks_for_summary(self) -> bool:
        """The client compacts the history."""
        newest = itertools.takewhile(lambda message: message["role"] != "assistant", reversed(self.messages))
        return any(_SUMMARIZE in text_of(message["content"]) for message in newest)

    @property
    def answers(self) -> dict[str, str]:
        """What the model reads as the result of each call, by id, with what hooks added after the batch."""
        found: dict[str, str] = {}
        newest: list[str] = []
        for message in self.messages:
            blocks = blocks_of(message["content"])
            if message["role"] == "system":
                notes = [block["text"] for block in blocks if _NOTE.search(block.get("text", ""))]
                found |= {call_id: "\n".join([found[call_id], *notes]) for call_id in newest}
                continue
            results = [block for block in blocks if block["type"] == "tool_result"]
            newest = [block["tool_use_id"] for block in results]
            found |= {block["tool_use_id"]: text_of(block.get("content", "")) for block in results}
        return found


Script: TypeAlias = "Sequence[Sequence[Block] | Reply] | Callable[[Request], Sequence[Block] | Reply]"
"""Replies in order, after which the model says `DONE`; or what answers each request. Requests for a summary
take none of a list."""


def blocks_of(content: Any) -> list[Block]:
    """The blocks of a message's or a result's content, which may be a text."""
    return [saying(content)] if isinstance(content, str) else list(content)


def text_of(content: Any) -> str:
    """The text of a message's or a result's content."""
    return "\n".join(block["text"] for block in blocks_of(content) if block["type"] == "text")


@dataclass
class AnthropicServer:
    """The server; it listens while the `with` block runs, which raises what the script raised.

    Attributes:
        script: What it answers.
        requests: Requests for a reply, in order.
    """

    script: Script
    requests: list[Request] = field(default_factory=list)
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

    def environment(self, folder: Path) -> dict[str, str]:
        """For Claude Code: this server and no other, a home of its own, and nothing from the outer one."""
        outer = ("ANTHROPIC_", "CLAUDE_", "CLAUDECODE")
        return {name: "" for name in os.environ if name.startswith(outer)} | {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000",
            "CLAUDE_CONFIG_DIR": str(folder / "config"),
            "ENABLE_TOOL_SEARCH": "false",
            "HOME": str(folder),
            "NO_PROXY": "*",
        }

    def reply(self, request: Request) -> Reply:
        """What the script says to this request; it is written down."""
        with self._lock:
            self.requests.append(request)
            if callable(self.script):
                try:
                    said = self.script(request)
                except Exception as fault:  # noqa: BLE001 - raised where the block ends
                    self._faults.append(fault)
                    said = Reply(error=400)
            elif request.asks_for_summary:
                said = [saying(SUMMARY)]
            else:
                said = self.script[self._said] if self._said < len(self.script) else [saying(DONE)]
                self._said += 1
        return said if isinstance(said, Reply) else Reply(said)


def _handler(server: AnthropicServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            """Nothing is printed."""

        def do_GET(self) -> None:
            self._miss()

        def do_HEAD(self) -> None:
            self._miss()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
            if self.path.split("?")[0] != "/v1/messages":
                self._miss()
                return
            with suppress(OSError):  # a client that has gone
                self._answer(server.reply(Request(body)), body)

        def _miss(self) -> None:
            self._send(404, "application/json", b"{}")

        def _answer(self, reply: Reply, body: dict[str, Any]) -> None:
            if reply.error is not None:
                fault = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
                return self._send(reply.error, "application/json", json.dumps(fault).encode())
            message = _message(reply, body["model"], len(server.requests))
            if not body.get("stream"):
                return self._send(200, "application/json", json.dumps(message).encode())
            lines = (f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in _events(message))
            return self._send(200, "text/event-stream", "".join(lines).encode())

        def _send(self, status: int, kind: str, content: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler


def _message(reply: Reply, model: str, number: int) -> dict[str, Any]:
    asks = any(block["type"] == "tool_use" for block in reply.blocks)
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(reply.blocks),
        "stop_reason": "tool_use" if asks else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": reply.input_tokens, "output_tokens": 5},
    }


def _events(message: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The message as the events of a stream."""
    for name, data in _parts(message):
        yield name, {"type": name, **data}


def _parts(message: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "message_start", {"message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        if block["type"] == "tool_use":
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            start = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        yield "content_block_start", {"index": index, "content_block": start}
        yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"delta": end, "usage": message["usage"]}
    yield "message_stop", {}
