"""One server behind streamable HTTP: messages in, the lines that it answers out."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import LoopwardenError, MissingExtraError
from loopwarden.mcp_proxy.headers import SESSION, Headers, from_environment
from loopwarden.mcp_proxy.lines import LONGEST
from loopwarden.mcp_proxy.sse import Events
from loopwarden.mcp_proxy.wire import dump, parse

try:
    import httpx2
except ImportError as error:
    raise MissingExtraError("httpx2", "mcp") from error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

CONNECT_SECONDS: Final = 30.0
"""For a connection, and for a message to be sent; an answer may take as long as the client waits."""

ENDED: Final = -32600
FAILED: Final = -32000
"""Codes of errors: the session is over; no answer could be had."""

_RETRY: Final = 1.0
_LONGEST_RETRY: Final = 30.0
_TRIES: Final = 3
"""Attempts in a row to go on with a stream that broke off."""

_REDIRECTS: Final = 3
_EVENTS: Final = {"Accept": "text/event-stream", "Cache-Control": "no-store"}


class UnansweredError(LoopwardenError):
    """Why a request has no answer.

    Attributes:
        code: Code of the JSON-RPC error that says so.
    """

    def __init__(self, reason: str, code: int = FAILED) -> None:
        super().__init__(reason)
        self.code = code


class Endpoint:
    """The server at a URL.

    Args:
        url: Where it is; `${VARIABLE}` is read from the environment. Redirects are followed only within its
            host: our headers are for nobody else.
        headers: What is sent.

    Raises:
        LoopwardenError: The URL is none, or a variable is not set.
    """

    def __init__(self, url: str, headers: Headers) -> None:
        try:
            self._url = httpx2.URL(from_environment(url, "--url"))
        except httpx2.InvalidURL:
            raise LoopwardenError("--url: this is no URL") from None
        if self._url.scheme not in {"http", "https"} or not self._url.host:
            raise LoopwardenError("--url: only http and https are known")
        self._headers = headers
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=None, pool=None)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        self._http = httpx2.AsyncClient(timeout=timeout, limits=limits)

    async def post(
        self, body: bytes, message: Any, is_done: Callable[[], bool]
    ) -> AsyncGenerator[bytes, None]:
        """Send a message; the lines that the server answers.

        Args:
            body: The message, as the client wrote it.
            message: The same, parsed.
            is_done: Whether every request in it is answered.

        Raises:
            UnansweredError: An answer is missing, and why.
        """
        try:
            response = await self._sent(body, message)
            try:
                async for line in self._taken(response, message, is_done):
                    yield line
            finally:
                await response.aclose()
        except httpx2.HTTPError as fault:
            raise UnansweredError(f"the server can't be reached ({type(fault).__name__})") from fault

    async def listen(self, begun: asyncio.Event) -> AsyncGenerator[bytes, None]:
        """What the server says unasked, in the generation with sessions; some servers say nothing.

        Args:
            begun: Set once the server listens too, or will not.
        """
        events = Events()
        tries = 0
        while tries < _TRIES:
            with suppress(httpx2.HTTPError):
                async with self._http.stream("GET", self._url, headers=self._resuming(events)) as response:
                    begun.set()
                    if not response.is_success:
                        return
                    async for line in _lines(response, events):
                        tries = 0
                        yield line
            begun.set()
            tries += 1
            await _pause(events)

    async def leave(self) -> None:
        """End the session, if there is one; servers need not allow it."""
        with suppress(httpx2.HTTPError):
            if self._headers.session is not None:
                await self._http.delete(self._url, headers=self._headers.plain())

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _sent(self, body: bytes, message: Any) -> httpx2.Response:
        headers = self._headers.of(message)
        for _ in range(_REDIRECTS):
            request = self._http.build_request("POST", self._url, content=body, headers=headers)
            response = await self._http.send(request, stream=True)
            if not response.is_redirect:
                return response
            await response.aclose()
            target = self._url.join(response.headers.get("location", ""))
            if response.status_code not in {307, 308} or not _is_same_host(self._url, target):
                raise UnansweredError(
                    f"HTTP {response.status_code}: the server is elsewhere; give its own URL"
                )
            self._url = target
        raise UnansweredError("the server redirects in circles")

    async def _taken(
        self, response: httpx2.Response, message: Any, is_done: Callable[[], bool]
    ) -> AsyncGenerator[bytes, None]:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.is_success:
            if kind == "text/event-stream":
                events = Events()
                with suppress(httpx2.HTTPError):  # it may go on where it broke off
                    async for line in _lines(response, events):
                        self._learn(message, line, response)
                        yield line
                async for line in self._resumed(events, is_done):
                    yield line
            elif kind == "application/json" and (body := await _body(response)).strip():
                line = body.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
                self._learn(message, line, response)
                yield line
            if not is_done():
                raise UnansweredError(f"HTTP {response.status_code}: the answer ended without a result")
            return
        said = parse(await _body(response)) if kind == "application/json" else None
        session = response.request.headers.get(SESSION)
        if response.status_code == httpx2.codes.NOT_FOUND and session is not None:
            if session == self._headers.session:
                self._headers.session = None
            raise UnansweredError("the session is over (HTTP 404); initialize a new one", ENDED)
        if isinstance(said, dict) and isinstance(said.get("error"), dict) and isinstance(message, dict):
            yield dump(said | {"id": message.get("id")})  # the server may not have got as far as the id
        raise UnansweredError(f"HTTP {response.status_code} {response.reason_phrase}".strip())

    async def _resumed(self, events: Events, is_done: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
        """Go on with a stream that broke off, where the server numbers its events."""
        tries = 0
        while not is_done() and events.last_id and tries < _TRIES:
            await _pause(events)
            tries += 1
            with suppress(httpx2.HTTPError):
                async with self._http.stream("GET", self._url, headers=self._resuming(events)) as response:
                    if not response.is_success:
                        return
                    async for line in _lines(response, events):
                        tries = 0
                        yield line
                        if is_done():
                            return

    def _resuming(self, events: Events) -> dict[str, str]:
        last = {"Last-Event-ID": events.last_id} if events.last_id else {}
        return self._headers.plain() | _EVENTS | last

    def _learn(self, message: Any, line: bytes, response: httpx2.Response) -> None:
        """Session, version and marked arguments, from the answers that have them."""
        method = message.get("method") if isinstance(message, dict) else None
        if method not in ("initialize", "tools/list"):  # a tuple: it may be of any type
            return
        answer = parse(line)
        result = answer.get("result") if isinstance(answer, dict) else None
        if not isinstance(result, dict):
            return
        if method == "tools/list":
            self._headers.learn(result.get("tools"))
        elif isinstance(version := result.get("protocolVersion"), str):
            self._headers.version = version
            self._headers.session = response.headers.get(SESSION)


async def _lines(response: httpx2.Response, events: Events) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in response.aiter_bytes():
            for line in events.feed(chunk):
                yield line
    except ValueError as fault:
        raise UnansweredError(f"the server's answer can't be read: {fault}") from fault


async def _body(response: httpx2.Response) -> bytes:
    parts, size = [], 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > LONGEST:
            raise UnansweredError("the server's answer is too long")
    return b"".join(parts)


async def _pause(events: Events) -> None:
    await asyncio.sleep(_RETRY if events.retry is None else min(events.retry, _LONGEST_RETRY))


def _is_same_host(url: httpx2.URL, target: httpx2.URL) -> bool:
    return (url.scheme, url.host, url.port) == (target.scheme, target.host, target.port)
