"""What a client may ask of the gateway: size, time and rate of its requests."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from loopwarden.gateway.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope

BODY_SECONDS: Final = 30.0
"""How long a body may take to arrive."""

_ADDRESSES: Final = 4096
_DIGITS: Final = 18  # of a length; that it is a number the server has checked


async def read_body(scope: Scope, receive: Receive, most: int, seconds: float = BODY_SECONDS) -> bytes:
    """The body of a request, given up on as soon as it is too large or too slow.

    Raises:
        Problem: 413 above `most` bytes, 408 after `seconds`, 400 where the client went away, 415 where the
            body is compressed.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and (len(value) > _DIGITS or int(value) > most):
            raise _too_large(most)
        if name == b"content-encoding" and value.strip().lower() not in _PLAIN:
            raise Problem(415, "the body is compressed (`Content-Encoding`); send it as it is", headers=_ASIS)
    try:
        async with asyncio.timeout(seconds):
            return await _whole(receive, most)
    except TimeoutError:
        raise Problem(408, f"the body took longer than {seconds:g} seconds", headers=_CLOSE) from None


async def _whole(receive: Receive, most: int) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False) and message["type"] == "http.request":
        if len(body) > most:
            raise _too_large(most)
        return body
    parts, size = [body], len(body)
    while True:
        if message["type"] != "http.request":
            raise Problem(400, "the body ended too early", headers=_CLOSE)
        if size > most:
            raise _too_large(most)
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await receive()
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)


_PLAIN: Final = frozenset({b"", b"identity"})
_ASIS: Final = {"accept-encoding": "identity", "connection": "close"}
_CLOSE: Final = {"connection": "close"}


def _too_large(most: int) -> Problem:
    return Problem(413, f"the body is larger than {most} bytes (gateway.limits.bodyBytes)", headers=_CLOSE)


class Rate:
    """Requests per second for each address: a bucket that holds what one second brings.

    Args:
        per_second: Tokens that come in a second, and the most that are kept.
        clock: Seconds that don't go back.
    """

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._buckets: OrderedDict[str, list[float]] = OrderedDict()

    def take(self, address: str) -> float:
        """Take a token: 0.0 where there was one, else the seconds until there is."""
        now = self._clock()
        bucket = self._buckets.get(address)
        if bucket is None:
            bucket = self._buckets[address] = [float(self._per_second), now]
            if len(self._buckets) > _ADDRESSES:
                self._buckets.popitem(last=False)
        left = min(self._per_second, bucket[0] + (now - bucket[1]) * self._per_second)
        bucket[1] = now
        if left < 1.0:
            bucket[0] = left
            return (1.0 - left) / self._per_second
        bucket[0] = left - 1.0
        return 0.0
