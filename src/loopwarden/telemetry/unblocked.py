"""Log lines to a stream that nobody may be reading.

A pipe that is not read is full after some 64 kB, and whoever writes to it then waits for ever: a program
that starts the guard and never reads its standard error would hang with it. So one thread writes, and what
it can't keep up with is left out and counted.
"""

from __future__ import annotations

import logging
from queue import Full, Queue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final

from loopwarden.telemetry import log

if TYPE_CHECKING:
    from typing import TextIO

_WAITING: Final = 1_000
"""Lines that wait to be written; more are left out."""

_LAST_SECONDS: Final = 1.0
"""For what still waits when the handler is closed."""


class UnblockedHandler(logging.Handler):
    """Writes as `logging.StreamHandler` does, but a stream that takes nothing never holds up the program.

    Once the stream takes lines again, one of them says how many were left out.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: Queue[str | None] = Queue(_WAITING)
        self._left_out = 0
        self._counting = Lock()
        self._writer: Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Hand the line over; it is written soon."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - as every handler does with a record that can't be formatted
            self.handleError(record)
            return
        if self._writer is None:
            self._writer = Thread(target=self._write, name="loopwarden-log", daemon=True)
            self._writer.start()
        try:
            self._lines.put_nowait(line)
        except Full:
            with self._counting:
                self._left_out += 1

    def close(self) -> None:
        """Write what waits, for a second at most."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                self._lines.put(None, timeout=_LAST_SECONDS)
                writer.join(_LAST_SECONDS)
            except Full:
                pass
        super().close()

    def _write(self) -> None:
        line: str | None = ""
        while line is not None:
            line = self._lines.get()
            try:
                if line is not None:
                    self._stream.write(f"{line}\n")
                if line is None or self._lines.empty():
                    self._stream.write(self._missing())
                    self._stream.flush()
            except (OSError, ValueError):  # nobody reads any more, or the stream is closed
                continue

    def _missing(self) -> str:
        with self._counting:
            left_out, self._left_out = self._left_out, 0
        if not left_out:
            return ""
        words = "%d log lines were left out here: nobody read them in time"
        return self.format(_record(words, left_out)) + "\n"


def _record(words: str, *values: object) -> logging.LogRecord:
    return logging.LogRecord(log.logger.name, logging.WARNING, __file__, 0, words, values, None)
