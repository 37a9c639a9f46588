"""A store in Redis or Valkey: many machines. Needs the extra `redis`.

An update reads, changes, and writes only if nobody wrote in between, else it tries again: no lock that
somebody could die with. What is written begins with a random token, which with the length tells whether
somebody wrote: a journal keeps its token while it grows. The write and what belongs to it (expiry, index,
bounds) is one script, so it happens as a whole or not at all, and it is never sent twice: where its answer is
lost, nobody knows whether it happened.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import MissingExtraError, StoreError
from loopwarden.stores import IDLE_SECONDS, MAX_RUNS, check_bounds
from loopwarden.stores.journal import Found, Place

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as error:
    raise MissingExtraError("redis", "redis") from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loopwarden.stores import Answer, Change
    from loopwarden.stores.journal import Entry

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
_NOWHERE: Final = (b"", 0)

_BOUND: Final = """
local function bound(key, index, idle, now, most, name)
    redis.call('ZREMRANGEBYSCORE', index, '-inf', '(' .. (now - idle))
    local beyond = redis.call('ZCARD', index) - most
    if beyond > 0 then
        local names = redis.call('ZRANGE', index, 0, beyond - 1)
        redis.call('ZREMRANGEBYRANK', index, 0, beyond - 1)
        for _, one in ipairs(names) do redis.call('DEL', string.sub(key, 1, #key - #name) .. one) end
    end
end
"""

_WRITE: Final = (
    _BOUND
    + """
local key, index = KEYS[1], KEYS[2]
local idle, now, most, name, seen, data, size = unpack(ARGV)
local same = redis.call('STRLEN', key) == tonumber(size)
if not same or redis.call('GETRANGE', key, 0, math.max(#seen - 1, 0)) ~= seen then
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
if seen == '' then bound(key, index, idle, now, most, name) end
return {1}
"""
)

_APPEND: Final = (
    _BOUND
    + """
local idle, now, most, before, token = unpack(ARGV)
local index, answers, made = KEYS[1], {}, nil
for number = 2, #KEYS do
    local key, seen, data = KEYS[number], ARGV[3 * number], ARGV[3 * number + 2]
    local at = tonumber(ARGV[3 * number + 1])
    local alone = at % 2 == 1
    local size, state, news = redis.pcall('STRLEN', key), 0, ''
    at = math.floor(at / 2)
    if type(size) == 'table' then
        state, news = -1, size.err
    else
        if seen == '' or size < at or redis.call('GETRANGE', key, 0, #seen - 1) ~= seen then
            state, at = 2, 0
        end
        if size > at then news = redis.call('GETRANGE', key, at, -1) end
        if data ~= '' and not (alone and (size > at or (state == 2 and seen ~= ''))) then
            state = state + 1
            if size == 0 then
                data = token .. data
                made = key
            end
            redis.call('APPEND', key, data)
            redis.call('PEXPIRE', key, idle)
            redis.call('ZADD', index, now, string.sub(key, before + 1))
        end
    end
    answers[2 * number - 3], answers[2 * number - 2] = state, news
end
redis.call('PEXPIRE', index, idle)
if made then bound(made, index, idle, now, most, string.sub(made, before + 1)) end
return answers
"""
)
"""For each key three arguments: the token that was seen; twice the place up to where, and 1 if the entry
counts only where nothing else came; the entry. Two answers each: 1 if it was put there, and 2 if all is told
anew, or -1 for a fault; what is news, or the fault."""

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
        self._tokens = _Tokens()
        try:
            self._redis: Any = redis.Redis.from_url(
                url,
                socket_timeout=wait_seconds,
                socket_connect_timeout=wait_seconds,
                retry=Retry(NoBackoff(), 0),
            )
            self._write = self._redis.register_script(_WRITE)
            self._move = self._redis.register_script(_MOVE)
            self._append = self._redis.register_script(_APPEND)
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
            done, *now = self._put(key, found[:_TOKEN_BYTES] if found else b"", len(found or b""), data)
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

    def append(self, entries: Sequence[Entry]) -> list[Found | StoreError]:
        """As `JournalStore.append`; all entries in one round trip."""
        token = self._tokens.next()
        keys: list[str] = [_INDEX]
        args: list[Any] = [*self._bounds(), len(PREFIX), token]
        for key, seen, data, alone in entries:
            was, end = seen or _NOWHERE
            keys.append(PREFIX + key)
            args += (was, 2 * end + alone, data)
        try:
            answers = self._append(keys=keys, args=args)
        except (redis.RedisError, OSError) as error:
            raise _fault(error) from error
        return [
            _found(entry, token, state, news)
            for entry, state, news in zip(entries, answers[::2], answers[1::2], strict=True)
        ]

    def rewrite(self, key: str, seen: Place, data: bytes) -> Place | None:
        """As `JournalStore.rewrite`."""
        token = self._tokens.next()
        done = self._put(key, seen.token, seen.end, data, token)[0]
        return Place(token, _TOKEN_BYTES + len(data)) if done else None

    def close(self) -> None:
        """As `Store.close`."""
        self._redis.close()

    def _put(self, key: str, seen: bytes, size: int, data: bytes | None, token: bytes | None = None) -> Any:
        """Write if what is stored has this token and size; whether it was, and else what is stored."""
        written = (token or self._tokens.next()) + data if data is not None else b""
        try:
            return self._write(keys=[PREFIX + key, _INDEX], args=[*self._bounds(), key, seen, written, size])
        except (redis.RedisError, OSError) as error:
            raise _fault(error) from error

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
            raise _fault(error) from error
        return found


class _Tokens:
    """Tokens like random ones, also after a fork. The system is asked once: that lets go of the thread."""

    def __init__(self) -> None:
        self._process: int | None = None
        self._secret = b""
        self._numbers = itertools.count()

    def next(self) -> bytes:
        """Another one."""
        if self._process != os.getpid():
            self._secret, self._process = os.urandom(32), os.getpid()
        number = next(self._numbers).to_bytes(8, "big")
        return blake2b(number, digest_size=_TOKEN_BYTES, key=self._secret).digest()


def _found(entry: Entry, made: bytes, state: int, news: bytes) -> Found | StoreError:
    if state < 0:
        return StoreError(f"redis: {news.decode(errors='replace')}")
    done, afresh = bool(state & 1), bool(state & 2)
    token, end = entry.seen or _NOWHERE
    if afresh:
        token, end = news[:_TOKEN_BYTES], 0
    end += len(news)
    if done:
        if not end:
            token, end = made, len(made)
        end += len(entry.data)
    if afresh:
        news = news[_TOKEN_BYTES:]
    return Found(done, Place(token, end) if end else None, afresh, news)


def _fault(error: Exception) -> StoreError:
    return StoreError(f"redis: {error or type(error).__name__}")
