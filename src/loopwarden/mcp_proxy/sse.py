"""Server-sent events out of chunks of bytes: what MCP uses of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.mcp_proxy.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator


class Events:
    """Reads one stream.

    Attributes:
        last_id: Id of the newest event that had one; empty: none had.
        retry: Seconds that the server wants us to wait before we come again; `None`: it does not say.
    """

    def __init__(self) -> None:
        self.last_id = ""
        self.retry: float | None = None
        self._lines = Lines()
        self._data: list[bytes] = []
        self._message = True

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The messages that are complete with this chunk, each as one line.

        Raises:
            ValueError: One is longer than `lines.LONGEST`.
        """
        for piece in self._lines.feed(chunk):
            if piece.kind != "line":
                raise ValueError("an event is too long")
            line = piece.data.rstrip(b"\r\n")
            if line:
                self._field(line)
                continue
            data, self._data = b" ".join(self._data), []
            if self._message and data.strip():
                yield data.replace(b"\r", b" ") + b"\n"
            self._message = True

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._message = value == b"message"
        elif name == b"id" and b"\0" not in value:
            self.last_id = value.decode(errors="replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:  # noqa: PLR2004 - a number that fits
            self.retry = int(value) / 1000
