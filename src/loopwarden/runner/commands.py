"""One command that was started: its process, what it wrote, how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from loopwarden.runner.output import Output

Status: TypeAlias = Literal["running", "completed", "failed"]


class Reader(asyncio.Protocol):
    """Takes what comes out of a pipe.

    Attributes:
        news: Set when something came, and when the command is over.
        ended: Set when nobody holds the other end open.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self.news = asyncio.Event()
        self.ended = asyncio.Event()

    async def more(self, seconds: float) -> None:
        """Wait until something comes, or the end, but no longer than that."""
        self.news.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.news.wait(), seconds)

    def data_received(self, data: bytes) -> None:
        """Something was written."""
        self._output.add(data)
        self.news.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - part of the protocol
        """Nobody holds the other end open, or it was closed here."""
        self.ended.set()


@dataclass(eq=False, slots=True, kw_only=True)
class Command:
    """One command that was started.

    Attributes:
        id: Names it as a background session.
        text: The command line.
        folder: Where it was started.
        mark: In the environment of all that it starts.
        process: Its shell, which leads the process group.
        output: What it wrote so far.
        pipe: Its output, to be closed if somebody holds it open for ever.
        reader: Fills `output`.
        background: Whether it is a session.
        dropped: Whether it is forgotten as soon as it is over.
        timed_out: Whether it was ended for running too long.
        leftovers: Processes that it left running and that were ended.
        started_at: Seconds since the epoch.
        ended_at: Seconds since the epoch; `None` while it runs.
        polled: Bytes of output that were given out by `poll`.
        over: Set when it has ended and all of its output was read.
        duration: Seconds that it ran, once it is over.
        began: When it was started, on the monotonic clock.
    """

    id: str
    text: str
    folder: Path
    mark: str
    process: asyncio.subprocess.Process
    output: Output
    pipe: asyncio.ReadTransport
    reader: Reader
    background: bool = False
    dropped: bool = False
    timed_out: bool = False
    leftovers: int = 0
    started_at: float = field(default_factory=time.time)
    ended_at: float | None = None
    polled: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    duration: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def status(self) -> Status:
        """`completed`: it ended with exit code 0."""
        if self.ended_at is None:
            return "running"
        return "completed" if self.exit_code == 0 and not self.timed_out else "failed"

    @property
    def exit_code(self) -> int | None:
        """`None` while it runs and where a signal ended it."""
        code = self.process.returncode if self.ended_at is not None else None
        return code if code is None or code >= 0 else None

    @property
    def exit_signal(self) -> str | None:
        """Name of the signal that ended it, as `SIGKILL`."""
        code = self.process.returncode
        if code is None or code >= 0:
            return None
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
