"""A store in Redis or Valkey: many machines. Needs the extra `redis`.

An update reads, changes, and writes only if nobody wrote in between, else it tries again: no lock that
somebody could die with. What is written begins with a random token, which with the length tells whether
somebody wrote: a journal keeps its token while it grows. The write and what belongs to it (expiry, index,
bounds) is one script, so it happens as a whole or not at all, and it is never sent twice: where its answer is
lost, nobody knows whether it happened.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import MissingExtraError, StoreError
from loopwarden.stores import IDLE_SECONDS, MAX_RUNS, check_bounds
from loopwarden.stores.journal import Place
from loopwarden.stores.redis_scripts import (
    APPEND,
    INDEX,
    MOVE,
    PREFIX,
    TOKEN_BYTES,
    WRITE,
    Tokens,
    append_answers,
    append_words,
    fault,
)

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    from loopwarden.stores.redis_awaited import AwaitedRedis
except ImportError as error:
    raise MissingExtraError("redis", "redis") from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loopwarden.stores import Answer, Change
    from loopwarden.stores.journal import Entry, Found

WAIT_SECONDS: Final = 2.0
"""How long an answer of the server is waited for by default."""

TRY_SECONDS: Final = 10.0
"""How long an update goes on trying by default while other programs are faster."""

_LONGEST_PAUSE: Final = 0.02


class RedisStore:
    """Keeps bytes under keys that expire.

    Args:
        url: `redis://`, `rediss://` or `unix://`, as redis-py takes it.
        idle_seconds: What nobody changed for this long is forgotten.
        max_runs: Most keys that are kept.
        wait_seconds: How long an answer of the server is waited for; `socket_timeout` in the address wins.
        try_seconds: How long an update goes on trying while other programs are faster.

    Raises:
        StoreError: The address is wrong, or nothing answers there.
        ValueError: `idle_seconds` or `max_runs` is out of range.
    """

    def __init__(
        self,
        url: str,
        *,
        idle_seconds: float = IDLE_SECONDS,
        max_runs: int = MAX_RUNS,
        wait_seconds: float = WAIT_SECONDS,
        try_seconds: float = TRY_SECONDS,
    ) -> None:
        check_bounds(idle_seconds, max_runs)
        self._idle_ms = max(1, int(idle_seconds * 1000))
        self._most = max_runs
        self._try = try_seconds
        self._url, self._wait = url, wait_seconds
        self._awaited: tuple[object, AwaitedRedis] | None = None
        self._tokens = Tokens()
        try:
            self._redis: Any = redis.Redis.from_url(
                url,
                socket_timeout=wait_seconds,
                socket_connect_timeout=wait_seconds,
                retry=Retry(NoBackoff(), 0),
            )
            self._write = self._redis.register_script(WRITE)
            self._move = self._redis.register_script(MOVE)
            self._append = self._redis.register_script(APPEND)
            self._redis.ping()
        except (redis.RedisError, OSError, ValueError) as error:
            raise fault(error) from error

    def update(self, key: str, change: Change[Answer]) -> Answer:
        """As `Store.update`."""
        found = self._get(key)
        until = time.monotonic() + self._try
        pause = 0.0005
        while True:
            data, answer = change(found[TOKEN_BYTES:] if found else None)
            done, *now = self._put(key, found[:TOKEN_BYTES] if found else b"", len(found or b""), data)
            if done:
                return answer
            if time.monotonic() >= until:
                raise StoreError(f"redis: other programs were faster for {self._try:g} seconds")
            found = now[0] if now else None
            time.sleep(pause * random.random())  # noqa: S311 - so that waiting programs don't meet
            pause = min(2 * pause, _LONGEST_PAUSE)

    def read(self, key: str) -> bytes | None:
        """As `Store.read`."""
        found = self._get(key)
        return found[TOKEN_BYTES:] if found else None

    def move(self, key: str, to: str) -> None:
        """As `Store.move`."""
        if key == to:
            return
        keys = [PREFIX + key, PREFIX + to, INDEX]
        try:
            self._move(keys=keys, args=[self._idle_ms, int(time.time() * 1000), key, to])
        except (redis.RedisError, OSError) as error:
            raise fault(error) from error

    def delete(self, key: str) -> None:
        """As `Store.delete`."""
        try:
            with self._redis.pipeline(transaction=True) as both:
                both.delete(PREFIX + key)
                both.zrem(INDEX, key)
                both.execute()
        except (redis.RedisError, OSError) as error:
            raise fault(error) from error

    def append(self, entries: Sequence[Entry]) -> list[Found | StoreError]:
        """As `JournalStore.append`; all entries in one round trip."""
        token = self._tokens.next()
        keys, args = append_words(entries, self._bounds(), token)
        try:
            answers = self._append(keys=keys, args=args)
        except (redis.RedisError, OSError) as error:
            raise fault(error) from error
        return list(append_answers(entries, token, answers))

    def rewrite(self, key: str, seen: Place, data: bytes) -> Place | None:
        """As `JournalStore.rewrite`."""
        token = self._tokens.next()
        done = self._put(key, seen.token, seen.end, data, token)[0]
        return Place(token, TOKEN_BYTES + len(data)) if done else None

    def awaited(self) -> AwaitedRedis:
        """As `AwaitableStore.awaited`: one for each event loop."""
        loop = asyncio.get_running_loop()
        if self._awaited is None or self._awaited[0] is not loop:
            self._awaited = loop, AwaitedRedis(self._url, self._wait, self._bounds, self._tokens)
        return self._awaited[1]

    def close(self) -> None:
        """As `Store.close`."""
        self._redis.close()

    def _put(self, key: str, seen: bytes, size: int, data: bytes | None, token: bytes | None = None) -> Any:
        """Write if what is stored has this token and size; whether it was, and else what is stored."""
        written = (token or self._tokens.next()) + data if data is not None else b""
        try:
            return self._write(keys=[PREFIX + key, INDEX], args=[*self._bounds(), key, seen, written, size])
        except (redis.RedisError, OSError) as error:
            raise fault(error) from error

    def _bounds(self) -> tuple[int, int, int]:
        return self._idle_ms, int(time.time() * 1000), self._most

    def _get(self, key: str) -> bytes | None:
        """What is stored, with its token. A connection that was lost while idle is made again once."""
        try:
            try:
                found: bytes | None = self._redis.get(PREFIX + key)
            except redis.ConnectionError:
                found = self._redis.get(PREFIX + key)
        except (redis.RedisError, OSError) as error:
            raise fault(error) from error
        return found
