"""A client that speaks stdio in front of a server that speaks streamable HTTP.

Each message is posted by itself, and what is answered comes back as lines. A session that is over is passed
on as an error: the client begins a new one, or not.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from concurrent.futures import CancelledError
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from loopwarden.mcp_proxy.endpoint import CONNECT_SECONDS, FAILED, Endpoint, UnansweredError
from loopwarden.mcp_proxy.headers import Headers, version_of
from loopwarden.mcp_proxy.lines import Lines
from loopwarden.mcp_proxy.wire import RequestId, dump, id_key, parse
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.mcp_proxy.calls import Relay
    from loopwarden.mcp_proxy.channel import Client

GRACE: Final = 1.5
"""Seconds that open requests have when the client is gone, and again for the session to be ended."""

_LOOK: Final = 0.5
_BAD_JSON: Final = -32700
_BY_SIGNAL: Final = 128

Key: TypeAlias = tuple[bool, RequestId]


def serve(endpoint: Endpoint, headers: Headers, relay: Relay, client: Client) -> int:
    """Carry messages until the client ends; the answer is our exit code. To be called in the main thread."""
    return asyncio.run(_Session(endpoint, headers, relay, client).run())


@dataclass(frozen=True, slots=True)
class _Request:
    """A request without an answer.

    Attributes:
        modern: Whether it is of the generation without sessions.
        endless: Whether it is answered only when the client goes.
    """

    task: asyncio.Task[None]
    modern: bool
    endless: bool


class _Session:
    """One client and one server."""

    def __init__(self, endpoint: Endpoint, headers: Headers, relay: Relay, client: Client) -> None:
        self._endpoint = endpoint
        self._headers = headers
        self._relay = relay
        self._client = client
        self._open: dict[Key, _Request] = {}
        self._others: set[asyncio.Task[None]] = set()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue(maxsize=100)
        self._answers: asyncio.Queue[bytes] = asyncio.Queue(maxsize=1)
        self._end: Callable[[], object]

    async def run(self) -> int:
        work = asyncio.create_task(self._work())
        self._end = work.cancel
        signals: list[int] = []

        def stop(number: int) -> None:
            signals.append(number)
            work.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):  # on Windows
                asyncio.get_running_loop().add_signal_handler(number, stop, number)
        for thread in (self._read, self._write):  # a client that does not read must not stop the rest
            threading.Thread(target=thread, args=(asyncio.get_running_loop(),), daemon=True).start()
        with suppress(asyncio.CancelledError):
            await work
        for task in (*(request.task for request in self._open.values()), *self._others):
            task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._endpoint.leave()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._answers.join()
        await self._endpoint.close()
        self._client.close_output()
        return _BY_SIGNAL + signals[0] if signals else 0

    async def _work(self) -> None:
        while line := await self._lines.get():
            await self._said(line)
        tasks = {request.task for request in self._open.values() if not request.endless}
        while tasks and self._client.is_read():
            _, tasks = await asyncio.wait(tasks, timeout=_LOOK)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Takes lines from the client, in a thread of its own; an empty one at the end."""

        def put(line: bytes) -> None:
            asyncio.run_coroutine_threadsafe(self._lines.put(line), loop).result()

        lines = Lines()
        with suppress(RuntimeError, CancelledError):  # the loop is over
            while chunk := self._client.read():
                for piece in lines.feed(chunk):
                    if piece.kind == "line" and piece.data.strip():
                        put(piece.data)
                    elif piece.kind == "last":
                        log.logger.warning("a line of the client is too long and was dropped")
            for piece in lines.end():
                if piece.kind == "line":
                    put(piece.data)
            put(b"")

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        """Gives the client its lines, in a thread of its own; that it reads no more ends everything."""
        with suppress(RuntimeError, CancelledError):  # the loop is over
            while True:
                line = asyncio.run_coroutine_threadsafe(self._answers.get(), loop).result()
                try:
                    self._client.write(line)
                except OSError:
                    loop.call_soon_threadsafe(self._end)
                loop.call_soon_threadsafe(self._answers.task_done)

    async def _said(self, line: bytes) -> None:
        """The client says something."""
        onward, reply = self._relay.from_client(line)
        if reply:
            await self._answers.put(reply)
        if not onward:
            return
        message = parse(onward)
        if message is None:
            await self._answers.put(_error(None, "Parse error", _BAD_JSON))
            return
        if self._was_cancelled(message):
            return
        messages = message if isinstance(message, list) else [message]
        keys = [key for one in messages if (key := _asks(one)) is not None]
        task = asyncio.create_task(self._exchange(onward.strip(), message, set(keys)))
        if not keys:
            await asyncio.wait([task], timeout=CONNECT_SECONDS)  # messages keep their order
            if _method(message) == "notifications/initialized":
                await self._begin_listening()
            return
        modern = any(isinstance(one, dict) and version_of(one) is not None for one in messages)
        for key in keys:
            self._open[key] = _Request(task, modern, _method(message) == "subscriptions/listen")
        task.add_done_callback(lambda _: self._forget(keys, task))
        if _method(message) == "initialize":
            await asyncio.wait([task])  # what comes next needs what it brings

    def _forget(self, keys: list[Key], task: asyncio.Task[None]) -> None:
        for key in keys:
            if key in self._open and self._open[key].task is task:
                del self._open[key]

    async def _begin_listening(self) -> None:
        """Hear what the server says unasked, from the next request on; it may be about that."""
        begun = asyncio.Event()
        task = asyncio.create_task(self._listen(begun))
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await begun.wait()

    def _was_cancelled(self, message: Any) -> bool:
        """In the modern generation a request is cancelled by closing its stream, and not by a message."""
        params = message.get("params") if _method(message) == "notifications/cancelled" else None
        key = id_key({"id": params.get("requestId")}) if isinstance(params, dict) else None
        request = self._open.get(key) if key is not None else None
        if request is None or not request.modern:
            return False
        request.task.cancel()
        return True

    async def _exchange(self, body: bytes, message: Any, left: set[Key]) -> None:
        """Post one message, and give the client what is answered.

        Args:
            body: The message, as the client wrote it.
            message: The same, parsed.
            left: Its requests without an answer.
        """
        try:
            async with aclosing(self._endpoint.post(body, message, lambda: not left)) as lines:
                async for line in lines:
                    left -= set(_answers(line)) if left else set()
                    await self._answers.put(self._relay.from_server(line))
                    if not left and _asks(message) is not None:
                        return
        except UnansweredError as fault:
            log.logger.warning("%s", fault)
            reason, code = str(fault), fault.code
        except Exception as fault:  # noqa: BLE001 - the client has to be told, and the others go on
            log.logger.exception("fault in the proxy")
            reason, code = f"fault in the proxy ({type(fault).__name__})", FAILED
        else:
            return
        for _, number in left:
            await self._answers.put(self._relay.from_server(_error(number, reason, code)))

    async def _listen(self, begun: asyncio.Event) -> None:
        try:
            async for line in self._endpoint.listen(begun):
                await self._answers.put(self._relay.from_server(line))
        except UnansweredError as fault:
            log.logger.warning("%s", fault)


def _method(message: Any) -> object:
    return message.get("method") if isinstance(message, dict) else None


def _asks(message: Any) -> Key | None:
    """Id of a request."""
    return id_key(message) if isinstance(message, dict) and "method" in message else None


def _answers(line: bytes) -> list[Key]:
    """Ids of the requests that the line answers."""
    if b'"result"' not in line and b'"error"' not in line:
        return []
    message = parse(line)
    messages = message if isinstance(message, list) else [message]
    answers = [one for one in messages if isinstance(one, dict) and ("result" in one or "error" in one)]
    return [key for one in answers if "method" not in one and (key := id_key(one)) is not None]


def _error(number: Any, reason: str, code: int) -> bytes:
    return dump({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": reason}})
