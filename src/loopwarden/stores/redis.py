"""A store in Redis or Valkey: many machines. Needs the extra `redis`.

An update reads, changes, and writes only if nobody wrote in between, else it tries again: no lock that
somebody could die with. What is written begins with a random token, which tells whether somebody wrote. The
write and what belongs to it (expiry, index, bounds) is one script, so it happens as a whole or not at all,
and it is never sent twice: where its answer is lost, nobody knows whether it happened.
"""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import MissingExtraError, StoreError
from loopwarden.stores import IDLE_SECONDS, MAX_RUNS, check_bounds

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as error:
    raise MissingExtraError("redis", "redis") from error

if TYPE_CHECKING:
    from loopwarden.stores import Answer, Change

PREFIX: Final = "loopwarden:{runs}:"
"""What our keys begin with, so that others in the same database are left alone. The part in braces keeps
them on one node of a cluster."""

WAIT_SECONDS: Final = 2.0
"""How long an answer of the server is waited for by default."""

_INDEX: Final = "loopwarden:{runs}"
"""The sorted set of keys by the time of their last change."""

TRY_SECONDS: Final = 10.0
"""How long an update goes on trying by default while other programs are faster."""

_TOKEN_BYTES: Final = 8
_LONGEST_PAUSE: Final = 0.02

_WRITE: Final = """
local key, index = KEYS[1], KEYS[2]
local seen, data, idle, now, most, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if redis.call('GETRANGE', key, 0, math.max(#seen - 1, 0)) ~= seen then
    return {0, redis.call('GET', key)}
end
if data == '' then
    redis.call('DEL', key)
    redis.call('ZREM', index, name)
    return {1}
end
redis.call('SET', key, data, 'PX', idle)
redis.call('ZADD', index, now, name)
redis.call('PEXPIRE', index, idle)
if seen == '' then
    redis.call('ZREMRANGEBYSCORE', index, '-inf', '(' .. (now - idle))
    local beyond = redis.call('ZCARD', index) - most
    if beyond > 0 then
        local names = redis.call('ZRANGE', index, 0, beyond - 1)
        redis.call('ZREMRANGEBYRANK', index, 0, beyond - 1)
        for _, one in ipairs(names) do redis.call('DEL', string.sub(key, 1, #key - #name) .. one) end
    end
end
return {1}
"""

_MOVE: Final = """
if redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('RENAME', KEYS[1], KEYS[2])
    redis.call('PEXPIRE', KEYS[2], ARGV[1])
    redis.call('ZADD', KEYS[3], ARGV[2], ARGV[4])
    redis.call('ZREM', KEYS[3], ARGV[3])
    redis.call('PEXPIRE', KEYS[3], ARGV[1])
end
"""


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
        try:
            self._redis: Any = redis.Redis.from_url(
                url,
                socket_timeout=wait_seconds,
                socket_connect_timeout=wait_seconds,
                retry=Retry(NoBackoff(), 0),
            )
            self._write = self._redis.register_script(_WRITE)
            self._move = self._redis.register_script(_MOVE)
            self._redis.ping()
        except (redis.RedisError, OSError, ValueError) as error:
            raise _fault(error) from error

    def update(self, key: str, change: Change[Answer]) -> Answer:
        """As `Store.update`."""
        found = self._get(key)
        until = time.monotonic() + self._try
        pause = 0.0005
        while True:
            data, answer = change(found[_TOKEN_BYTES:] if found else None)
            try:
                done, *now = self._write(
                    keys=[PREFIX + key, _INDEX],
                    args=[
                        found[:_TOKEN_BYTES] if found else b"",
                        os.urandom(_TOKEN_BYTES) + data if data is not None else b"",
                        self._idle_ms,
                        int(time.time() * 1000),
                        self._most,
                        key,
                    ],
                )
            except (redis.RedisError, OSError) as error:
                raise _fault(error) from error
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
        return found[_TOKEN_BYTES:] if found else None

    def move(self, key: str, to: str) -> None:
        """As `Store.move`."""
        if key == to:
            return
        keys = [PREFIX + key, PREFIX + to, _INDEX]
        try:
            self._move(keys=keys, args=[self._idle_ms, int(time.time() * 1000), key, to])
        except (redis.RedisError, OSError) as error:
            raise _fault(error) from error

    def delete(self, key: str) -> None:
        """As `Store.delete`."""
        try:
            with self._redis.pipeline(transaction=True) as both:
                both.delete(PREFIX + key)
                both.zrem(_INDEX, key)
                both.execute()
        except (redis.RedisError, OSError) as error:
            raise _fault(error) from error

    def close(self) -> None:
        """As `Store.close`."""
        self._redis.close()

    def _get(self, key: str) -> bytes | None:
        """What is stored, with its token. A connection that was lost while idle is made again once."""
        try:
            try:
                found: bytes | None = self._redis.get(PREFIX + key)
            except redis.ConnectionError:
                found = self._redis.get(PREFIX + key)
        except (redis.RedisError, OSError) as error:
            raise _fault(error) from error
        return found


def _fault(error: Exception) -> StoreError:
    return StoreError(f"redis: {error or type(error).__name__}")
