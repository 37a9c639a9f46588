"""A relay without any process, and a guard that writes down what it is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from loopwarden.mcp_proxy.calls import Relay
from loopwarden.mcp_proxy.hints import Naming
from tests.adapters.writing_guard import WritingGuard

if TYPE_CHECKING:
    from tests.adapters.writing_guard import Told

MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
UNKNOWN = {"content": [{"type": "text", "text": "Unknown tool: gone"}], "isError": True}
NOTHING = {"content": [{"type": "text", "text": "nothing"}]}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Scene:
    """A relay with a guard that writes down what it is told."""

    def __init__(self, config: Any = None, gap: float = 600.0, **options: Any) -> None:
        self.clock = Clock()
        self.guard = WritingGuard(config, on_error="raise", **options)
        verbs = self.guard.session("s")
        self.relay = Relay(verbs, Naming(verbs, gap, self.clock))

    def call(self, number: Any, name: str = "look", **params: Any) -> Any:
        """Ask for a tool; the refusal, `None` if the line went on."""
        return self.ask(number, "tools/call", name=name, **params)

    def ask(self, number: Any, method: str, **params: Any) -> Any:
        line = dump({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        onward, reply = self.relay.read_client(line)
        assert onward in {line, b""}
        assert (onward == b"") == (reply != b"")
        return json.loads(reply) if reply else None

    def tell(self, method: str, **params: Any) -> None:
        line = dump({"jsonrpc": "2.0", "method": method, "params": params})
        assert self.relay.from_client(line) == (line, b"")

    def answer(self, number: Any, result: Any = NOTHING) -> Any:
        return self._back({"jsonrpc": "2.0", "id": number, "result": result})

    def fault(self, number: Any, message: str, code: int = -32602) -> Any:
        return self._back({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})

    def _back(self, message: Any) -> Any:
        """What the client gets; `message` itself if no byte was touched."""
        line = dump(message)
        found = self.relay.from_server(line)
        return message if found == line else json.loads(found)

    def loop(self, times: int, name: str = "look", start: int = 0, **params: Any) -> None:
        for number in range(start, start + times):
            assert self.call(number, name, **params) is None
            self.answer(number)

    def of(self, verb: str) -> list[Told]:
        return self.guard.of(verb)


def dump(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"
