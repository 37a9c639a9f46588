"""A server that answers as it is told, to see what a client does with it."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Answer: TypeAlias = "bytes | Callable[[socket.socket], object] | None"
"""What is sent; `None`: the connection is closed instead; or whatever is to be done with the connection."""

WELL = {
    "action": "allow", "level": None, "detector": None, "count": 0, "threshold": 0, "tool": None,
    "paired_tools": [], "message": None, "key": None, "error": None, "would": None, "announce": False,
}  # fmt: skip
LOOP = WELL | {
    "action": "block", "level": "critical", "detector": "generic_repeat", "count": 5, "threshold": 5,
    "tool": "read", "message": "stop", "key": "k", "announce": True,
}  # fmt: skip


def http(status: int, body: bytes, headers: str = "") -> bytes:
    return f"HTTP/1.1 {status} x\r\ncontent-length: {len(body)}\r\n{headers}\r\n".encode() + body


def verdict(**fields: Any) -> bytes:
    return http(200, json.dumps({"verdicts": [WELL | fields]}).encode())


class Server:
    """Answers one request after the other as `answers` say, and the rest as the last one says.

    Attributes:
        heads: First lines and headers of the requests.
        events: The events that were sent.
    """

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.heads: list[str] = []
        self.events: list[dict[str, Any]] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._threads[0].join()
        for connection in self._open:
            with suppress(OSError):  # it is closed
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # the client is gone
            while self._one(connection):
                pass

    def _one(self, connection: socket.socket) -> bool:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return False
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"
        )
        while len(body) < length:
            body += connection.recv(65536)
        self.heads.append(head.decode())
        self.events += json.loads(body)["events"]
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            return False
        if isinstance(answer, bytes):
            connection.sendall(answer)
            return True
        return bool(answer(connection))
