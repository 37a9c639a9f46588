"""Journals in Redis for an event loop: the scripts of `redis_scripts`, by the asyncio client of redis-py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import redis
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from loopwarden.stores.journal import Place
from loopwarden.stores.redis_scripts import (
    APPEND,
    INDEX,
    PREFIX,
    TOKEN_BYTES,
    WRITE,
    Tokens,
    append_answers,
    append_words,
    fault,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from loopwarden.errors import StoreError
    from loopwarden.stores.journal import Entry, Found


class AwaitedRedis:
    """Journals in Redis. Questions one after the other need one connection, which is made when needed.

    Args:
        url: As for `RedisStore`.
        wait_seconds: As for `RedisStore`.
        bounds: Gives what `append_words` takes as `bounds`.
        tokens: Gives tokens.
    """

    def __init__(
        self, url: str, wait_seconds: float, bounds: Callable[[], tuple[int, int, int]], tokens: Tokens
    ) -> None:
        self._bounds = bounds
        self._tokens = tokens
        self._redis: Any = Redis.from_url(
            url,
            socket_timeout=wait_seconds,
            socket_connect_timeout=wait_seconds,
            retry=Retry(NoBackoff(), 0),
            protocol=2,  # with 3 redis-py 8 doesn't look whether a connection was lost while idle
        )
        options = self._redis.connection_pool.connection_kwargs
        self._wait: float | None = options["socket_timeout"]
        options["socket_timeout"] = None  # see `_asked`
        self._append = self._redis.register_script(APPEND)
        self._write = self._redis.register_script(WRITE)

    async def append(self, entries: Sequence[Entry]) -> list[Found | StoreError]:
        """As `JournalStore.append`; all entries in one round trip."""
        token = self._tokens.next()
        keys, args = append_words(entries, self._bounds(), token)
        answers = await self._asked(self._append(keys=keys, args=args))
        return list(append_answers(entries, token, answers))

    async def rewrite(self, key: str, seen: Place, data: bytes) -> Place | None:
        """As `JournalStore.rewrite`."""
        token = self._tokens.next()
        args: list[Any] = [*self._bounds(), key, seen.token, token + data, seen.end]
        done = (await self._asked(self._write(keys=[PREFIX + key, INDEX], args=args)))[0]
        return Place(token, TOKEN_BYTES + len(data)) if done else None

    async def close(self) -> None:
        """As `AwaitedJournals.close`."""
        await self._redis.connection_pool.disconnect()

    async def _asked(self, question: Awaitable[Any]) -> Any:
        """The answer, in time. A client that minds the time itself gives way at each step to do so."""
        try:
            async with asyncio.timeout(self._wait):
                return await question
        except (redis.RedisError, OSError) as error:  # a `TimeoutError` is an `OSError`
            raise fault(error) from error
