"""Server-sent events that say what changed on the page, not what it is now.

An event names a topic (the list of runs, one run); the page then fetches that part. So only the newest event
of a topic matters, and the log that a reader resumes from is the number of the last change of each topic: it
does not grow with the events, a reader that is slow skips what is superseded and nothing is buffered for it,
and many readers cost one look-up each.

Ids are `EPOCH-NUMBER`, the epoch drawn when the process begins: a reader that comes back after a restart, or
after so many topics that its own may have been dropped, is told to fetch everything (`reload`).
"""

from __future__ import annotations

import asyncio
import re
import secrets
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse, Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

EVERYTHING: Final = "runs"
"""The topic of all changes."""

_TOPICS: Final = 1024
_ID: Final = re.compile(r"([0-9a-f]{8})-([0-9]{1,18})")
_RETRY_MILLISECONDS: Final = 1000


class Stream:
    """What changed, for any number of readers.

    Args:
        gap: Seconds over which changes are gathered into one event.
        beat: Seconds of silence after which a comment is sent, so that a dead connection is noticed.
        patience: Seconds that a reader may take for one event; then it is dropped.
        most: Readers at once; further ones get 503.
        topics: Topics remembered.

    Attributes:
        readers: Readers at present.
    """

    def __init__(
        self,
        *,
        gap: float = 0.25,
        beat: float = 15.0,
        patience: float = 20.0,
        most: int = 256,
        topics: int = _TOPICS,
    ) -> None:
        self.readers = 0
        self._gap, self._beat, self._patience, self._most = gap, beat, patience, most
        self._topics = topics
        self._epoch = secrets.token_hex(4)
        self._number = 0
        self._changed: OrderedDict[str, int] = OrderedDict()
        self._dropped = 0  # number of the newest change that is no longer known by its topic
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._overflow = False
        self._scheduled = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._closed = False

    @property
    def now(self) -> str:
        """Id of the present moment: what a page that is made now knows."""
        with self._lock:
            return f"{self._epoch}-{self._number}"

    def touch(self, topic: str) -> None:
        """Something of a topic changed. From any thread; does not wait."""
        with self._lock:
            if len(self._waiting) < self._topics:
                self._waiting.add(topic)
            else:
                self._overflow = True
            if self._scheduled or self._loop is None:
                return
            self._scheduled = True
            loop = self._loop
        try:
            loop.call_soon_threadsafe(loop.call_later, self._gap, self._publish)
        except RuntimeError:  # that loop is over; the next reader brings its own
            with self._lock:
                self._scheduled, self._loop = False, None

    def close(self) -> None:
        """End all readers; those in browsers come back by themselves. On the event loop."""
        self._closed = True
        self._wake()

    def response(self, topics: Mapping[str, str], last: str | None) -> Response:
        """A stream of events, or the answer that there are too many readers.

        Args:
            topics: Names of the events to send, by topic.
            last: The last id that the reader knows; `None`: it begins now.
        """
        if self.readers >= self._most or self._closed:
            text = "too many readers" if not self._closed else "the gateway is closing"
            return PlainTextResponse(f"{text}\n", status_code=503, headers={"Retry-After": "5"})
        return _Reader(self, topics, last)

    def begin(self) -> None:
        """A reader begins; on the event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._loop is not loop:
                self._loop, self._scheduled = loop, False
                self._news = asyncio.Event()
        self._publish()

    def since(self, topics: Mapping[str, str], last: str | None) -> tuple[str, list[str]]:
        """The id of now, and the events that a reader has missed."""
        with self._lock:
            now = f"{self._epoch}-{self._number}"
            if last is None:
                return now, []
            known = _ID.fullmatch(last)
            if known is None or known[1] != self._epoch:
                return now, ["reload"]
            seen = int(known[2])
            numbers = {name: self._changed.get(topic) for topic, name in topics.items()}
            if seen < self._dropped and None in numbers.values():
                return now, ["reload"]
            return now, [name for name, number in numbers.items() if number is not None and number > seen]

    @property
    def news(self) -> asyncio.Event:
        """Is set at the next change; to be got before `since` is asked, so that none is missed."""
        return self._news

    async def wait(self, change: asyncio.Event, gone: asyncio.Task[None]) -> bool:
        """Wait for a change, for a heartbeat or for the reader to go; whether something changed."""
        news = asyncio.ensure_future(change.wait())
        try:
            await asyncio.wait({news, gone}, timeout=self._beat, return_when=asyncio.FIRST_COMPLETED)
            return news.done()
        finally:
            news.cancel()

    @property
    def patience(self) -> float:
        """Seconds that a reader may take for one event."""
        return self._patience

    @property
    def closed(self) -> bool:
        """Whether the stream is over."""
        return self._closed

    def _publish(self) -> None:
        with self._lock:
            self._scheduled = False
            if not self._waiting:
                return
            topics, self._waiting = self._waiting, set()
            for topic in (*topics, EVERYTHING):
                self._number += 1
                self._changed[topic] = self._number
                self._changed.move_to_end(topic)
            if self._overflow:
                self._overflow = False
                self._dropped = self._number
                self._changed.clear()
                self._changed[EVERYTHING] = self._number
            while len(self._changed) > self._topics:
                self._dropped = self._changed.popitem(last=False)[1]
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


class _Reader(Response):
    """One reader: knows how far it has read, and nothing else."""

    media_type = "text/event-stream"

    def __init__(self, stream: Stream, topics: Mapping[str, str], last: str | None) -> None:
        self._stream = stream
        self._topics = topics
        self._last = last
        self.status_code = 200
        self.background = None
        self.body = b""
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        stream = self._stream
        stream.begin()
        stream.readers += 1
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._events(send, gone)
        except TimeoutError:
            return  # it does not read: the server closes the connection
        finally:
            stream.readers -= 1
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    async def _events(self, send: Send, gone: asyncio.Task[None]) -> None:
        stream = self._stream
        head = f"retry: {_RETRY_MILLISECONDS}\n\n"
        news = stream.news
        now, names = stream.since(self._topics, self._last)
        await self._send(send, head + _written(now, names))
        while not gone.done() and not stream.closed:
            if await stream.wait(news, gone):
                news = stream.news
                now, names = stream.since(self._topics, now)
                if names:
                    await self._send(send, _written(now, names))
            elif not gone.done():
                await self._send(send, ": still here\n\n")
        if not gone.done():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, text: str) -> None:
        async with asyncio.timeout(self._stream.patience):
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _written(now: str, names: list[str]) -> str:
    """As it stands on the wire; without names only the id, for a reader that has to resume later."""
    if not names:
        return f"id: {now}\n\n"
    return "".join(f"id: {now}\nevent: {name}\ndata: {now}\n\n" for name in names)
