"""A server that is a child process: two pumps of bytes, and how it all ends.

Ends are passed on as they come: the client closes its end, the server closes its own, either crashes. The
server's standard error is ours, and its exit code becomes ours.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from loopwarden.mcp_proxy.channel import CHUNK, Client, write_all
from loopwarden.mcp_proxy.lines import Lines
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

    from loopwarden.mcp_proxy.calls import Relay

GRACE: Final = 1.5
"""Seconds that the server has to end by itself, and again after it was asked to; clients wait two."""

_LOOK: Final = 0.5
"""Seconds between looks whether the client, which closed its end, still reads."""

_ECHO: Final = 0.5
"""Seconds that the server has to end by a signal that the terminal sent to it, too."""

_DRAIN: Final = 2.0
"""Seconds in which the rest of an ended server's output has to come; a grandchild may keep the pipe open."""

_SIGNALS: Final = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_OF_TERMINAL: Final = frozenset(_SIGNALS) - {signal.SIGTERM}
_BY_SIGNAL: Final = 128
"""Added to the number of the signal that ended the server, as shells do."""


def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """The server, with pipes at both of its ends.

    Raises:
        OSError: It can't be started.
    """
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)  # noqa: S603 - it is what the user wants to run


def serve(server: subprocess.Popen[bytes], relay: Relay, client: Client) -> int:
    """Carry lines until one side ends; the answer is our exit code. To be called in the main thread."""
    return _Session(server, relay, client).run()


class _Session:
    """One client and one server, with a thread for each direction and one that waits for the process."""

    def __init__(self, server: subprocess.Popen[bytes], relay: Relay, client: Client) -> None:
        self._server = server
        self._relay = relay
        self._client = client
        self._events: SimpleQueue[str | int] = SimpleQueue()
        """What ended: `client`, `server` (its output), `exit` (its process); or the number of a signal."""

    def run(self) -> int:
        for number in _SIGNALS:
            signal.signal(number, lambda number, _: self._events.put(number))
        pumps = [
            threading.Thread(target=target, daemon=True)
            for target in (self._from_server, self._from_client, self._wait)
        ]
        for pump in pumps:
            pump.start()
        event = self._events.get()
        while event == "server":
            self._client.close_output()  # as it would see it; it may go on writing
            event = self._events.get()
        if event == "client":
            _close(self._server.stdin)
            event = self._while_read()
        code = self._ended(event)
        pumps[0].join(_DRAIN)
        self._client.close_output()
        return _BY_SIGNAL - code if code < 0 else code

    def _while_read(self) -> str | int:
        """The client has said all; the server has time as long as somebody reads what it answers."""
        while self._client.is_read():
            with suppress(Empty):
                event = self._events.get(timeout=_LOOK)
                if event not in {"client", "server"}:
                    return event
        return "client"

    def _ended(self, event: str | int) -> int:
        """Have the server end, if it did not yet; its exit code."""
        if isinstance(event, int) and not (event in _OF_TERMINAL and self._exits_within(_ECHO)):
            self._server.send_signal(event)
        if not self._exits_within(GRACE) and event != signal.SIGTERM:
            self._server.terminate()
            self._exits_within(GRACE)
        if self._server.returncode is None:
            self._server.kill()
        return self._server.wait()

    def _exits_within(self, seconds: float) -> bool:
        """Whether the server ends in time; a second signal means that the user is in a hurry."""
        until = time.monotonic() + seconds
        while self._server.returncode is None:
            try:
                event = self._events.get(timeout=max(until - time.monotonic(), 0))
            except Empty:
                return False
            if isinstance(event, int):
                return False
        return True

    def _wait(self) -> None:
        self._server.wait()
        self._events.put("exit")

    def _from_client(self) -> None:
        lines = Lines()
        warned = False
        into = self._server.stdin
        assert into is not None  # noqa: S101 - `start` made the pipe
        try:
            while chunk := self._client.read():
                for piece in lines.feed(chunk):
                    if piece.kind == "line":
                        self._send(into.fileno(), piece.data)
                        continue
                    write_all(into.fileno(), piece.data)
                    if not warned:
                        warned = True
                        log.logger.warning("a line of the client is too long to be read and goes on unseen")
            for piece in lines.end():
                self._send(into.fileno(), piece.data)
        except (OSError, ValueError):  # the server reads no more, or is gone
            self._client.close_input()
            return
        self._events.put("client")

    def _send(self, into: int, line: bytes) -> None:
        onward, reply = self._relay.from_client(line)
        if reply:
            self._client.write(reply)
        if onward:
            write_all(into, onward)

    def _from_server(self) -> None:
        out = self._server.stdout
        assert out is not None  # noqa: S101 - `start` made the pipe
        lines = Lines()
        held = False
        try:
            while chunk := os.read(out.fileno(), CHUNK):
                for piece in lines.feed(chunk):
                    if piece.kind == "line":
                        self._client.write(self._relay.from_server(piece.data))
                        continue
                    if not held:
                        held = True
                        self._client.hold()
                    self._client.write(piece.data)
                    if piece.long is not None:
                        held = False
                        self._client.release()
                        self._relay.long_from_server(piece.long)
            for piece in lines.end():
                self._client.write(
                    self._relay.from_server(piece.data) if piece.kind == "line" else piece.data
                )
        except OSError:  # the client reads no more: for the server, too, its reader is gone
            _close(out)
            self._events.put("client")
            return
        finally:
            if held:
                self._client.release()
        self._events.put("server")


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        with suppress(OSError):
            stream.close()
