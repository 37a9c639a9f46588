"""An MCP server that speaks streamable HTTP, of the standard library, in this process."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

SESSION: Final = "s-1"
MARKED: Final = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "in": {"type": "object", "properties": {"dry": {"type": "boolean", "x-mcp-header": "Dry"}}},
        "bad": {"type": "string", "x-mcp-header": "no token"},
    },
}


class FakeHttp(ThreadingHTTPServer):
    """What it was asked is in `seen`: verb, headers with small letters, message."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self.left = threading.Event()
        """A client closed the stream of `slow`."""
        self.told = threading.Event()
        """The client answered what was asked on the stream of the server."""
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self, path: str = "/mcp") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def of(self, method: str) -> list[tuple[dict[str, str], Any]]:
        return [(sent, said) for _, sent, said in self.seen if said and said.get("method") == method]

    def handle_error(self, *_: object) -> None:
        """Clients that go away are what is tested."""


class _Handler(BaseHTTPRequestHandler):
    server: FakeHttp
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message = json.loads(body)
        self._note("POST", message)
        if self.path == "/old":
            self._plain(307, Location="/mcp")
        elif self.path == "/away":
            self._plain(308, Location="http://elsewhere.invalid/mcp")
        elif self.path == "/circle":
            self._plain(307, Location="/circle")
        elif isinstance(message, list):
            self._json([_result(one["id"], text("of many")) for one in message if "id" in one])
        elif "method" not in message or "id" not in message:
            self._plain(202)
            if "result" in message:
                self.server.told.set()
        elif message["method"] == "tools/call":
            self._call(message)
        elif message["method"] == "tools/list":
            self._json(_result(message["id"], {"tools": [{"name": "same", "inputSchema": MARKED}, 5, {}]}))
        else:
            result = {"protocolVersion": "2025-11-25", "capabilities": {}}
            self._json(_result(message["id"], result), **{"Mcp-Session-Id": SESSION})

    def do_GET(self) -> None:
        self._note("GET", None)
        if self.headers.get("Last-Event-ID") == "e7":
            number = self.server.of("tools/call")[-1][1]["id"]
            self._events([_result(number, text("went on"))])
        elif self.path == "/silent":
            self._plain(405)
        else:
            self._begin_events()
            self._event({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
            self.server.told.wait(30)

    def do_DELETE(self) -> None:
        self._note("DELETE", None)
        self._plain(200)

    def _call(self, message: dict[str, Any]) -> None:
        number, name = message["id"], message["params"]["name"]
        answer = _result(number, text("nothing here"))
        if name == "same":
            self._json(answer)
        elif name == "big":
            self._json(_result(number, text("x" * 1_000_000)))
        elif name == "pretty":
            self._body(200, json.dumps(answer, indent=1).replace("\n", "\r\n").encode())
        elif name == "events":
            note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
            self._begin_events()
            self.wfile.write(b": a comment\r\nevent: message\r\nid: e1\r\ndata: " + json.dumps(note).encode())
            self.wfile.write(b"\r\n\r\nevent: other\ndata: {}\n\ndata:\n\n")
            for line in json.dumps(answer, indent=1).splitlines():
                self.wfile.write(f"data:{line}\n".encode())
            self.wfile.write(b"\n")
        elif name == "breaks":
            self._begin_events()
            self.wfile.write(b"id: e7\nretry: 1\ndata:\n\n")
        elif name == "cut":
            self._begin_events()
        elif name == "slow":
            self._slow()
        elif name == "gone":
            self._plain(404)
        elif name == "denied":
            self._plain(401)
        elif name == "accepted":
            self._plain(202)
        elif name == "bad":
            fault = {"jsonrpc": "2.0", "id": None, "error": {"code": -32020, "message": "mismatch"}}
            self._body(400, json.dumps(fault).encode())
        else:
            self._body(200, b"<html>", "text/html")

    def _slow(self) -> None:
        self._begin_events()
        try:
            while not self.server.left.wait(0.02):
                self.wfile.write(b": still there\n\n")
        except OSError:
            self.server.left.set()

    def _note(self, verb: str, message: Any) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append((verb, headers, message))

    def _plain(self, code: int, **headers: str) -> None:
        self._body(code, b"", "", **headers)

    def _json(self, value: Any, **headers: str) -> None:
        self._body(200, json.dumps(value).encode(), **headers)

    def _body(
        self, code: int, body: bytes, kind: str = "application/json; charset=utf-8", **headers: str
    ) -> None:
        self.send_response(code)
        for name, value in ({"Content-Type": kind, "Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _begin_events(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

    def _events(self, messages: list[Any]) -> None:
        self._begin_events()
        for message in messages:
            self._event(message)

    def _event(self, message: Any) -> None:
        self.wfile.write(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


def _result(number: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}
