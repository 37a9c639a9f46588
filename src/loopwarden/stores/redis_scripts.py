"""What happens in Redis as a whole or not at all: the scripts, what they are given, and what they answer.

What is stored under a key begins with a token, which with the length tells whether somebody wrote.
"""

from __future__ import annotations

import itertools
import os
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import StoreError
from loopwarden.stores.journal import Found, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from loopwarden.stores.journal import Entry

PREFIX: Final = "loopwarden:{runs}:"
"""What our keys begin with, so that others in the same database are left alone. The part in braces keeps
them on one node of a cluster."""

INDEX: Final = "loopwarden:{runs}"
"""The sorted set of keys by the time of their last change."""

TOKEN_BYTES: Final = 8

_NOWHERE: Final = Place(bytes(TOKEN_BYTES), 0)

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

WRITE: Final = (
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

APPEND: Final = (
    _BOUND
    + """
local idle, now, most, before, token, heads = unpack(ARGV, 1, 6)
local index, answers, made, from = KEYS[1], {}, nil, 1
for number = 2, #KEYS do
    local key, data = KEYS[number], ARGV[number + 5]
    local seen, at, how
    seen, at, how, from = struct.unpack('>c8I8B', heads, from)
    local size, state, news = redis.pcall('STRLEN', key), 0, ''
    if type(size) == 'table' then
        state, news = 4, size.err
    elseif how == 2 then
        state = 1
        redis.call('DEL', key)
        redis.call('ZREM', index, string.sub(key, before + 1))
    else
        local new = at == 0
        if new or size < at or redis.call('GETRANGE', key, 0, 7) ~= seen then
            state, at = 2, 0
        end
        if size > at then news = redis.call('GETRANGE', key, at, -1) end
        if data ~= '' and not (how == 1 and (size > at or (state == 2 and not new))) then
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
    answers[2 * number - 3], answers[2 * number - 2] = struct.pack('>BI4', state, #news), news
end
redis.call('PEXPIRE', index, idle)
if made then bound(made, index, idle, now, most, string.sub(made, before + 1)) end
return table.concat(answers)
"""
)
"""For each key one argument, with the heads of all in one, and all answers in one: a client takes longer for
each argument and answer than the server for what it does."""

MOVE: Final = """
if redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('RENAME', KEYS[1], KEYS[2])
    redis.call('PEXPIRE', KEYS[2], ARGV[1])
    redis.call('ZADD', KEYS[3], ARGV[2], ARGV[4])
    redis.call('ZREM', KEYS[3], ARGV[3])
    redis.call('PEXPIRE', KEYS[3], ARGV[1])
end
"""

_HEAD: Final = Struct(f">{TOKEN_BYTES}sQB")
"""What is said of an entry: the token that was seen, the place up to where (0: nothing was
seen), and how it is meant."""
_PLAIN, _ALONE, _OVER = range(3)

_ANSWER: Final = Struct(">BI")
"""What comes before the news of a key: a sum of what follows, and the length of the news or of the fault."""
_DONE, _AFRESH, _FAULT = 1, 2, 4


def append_words(
    entries: Sequence[Entry], bounds: tuple[int, int, int], token: bytes
) -> tuple[list[str], list[Any]]:
    """Keys and arguments of `APPEND`.

    Args:
        entries: What is to be put where.
        bounds: Milliseconds that idle keys live, the time in milliseconds, and most keys that are kept.
        token: For journals that begin.
    """
    keys: list[str] = [INDEX]
    heads: list[bytes] = []
    lines: list[bytes] = []
    for key, seen, data, alone in entries:
        was, end = seen or _NOWHERE
        keys.append(PREFIX + key)
        heads.append(_HEAD.pack(was, end, _OVER if data is None else _ALONE if alone else _PLAIN))
        lines.append(data or b"")
    return keys, [*bounds, len(PREFIX), token, b"".join(heads), *lines]


def append_answers(entries: Sequence[Entry], token: bytes, answers: bytes) -> Iterator[Found | StoreError]:
    """What `APPEND` answered, for each entry; `token` as it was given."""
    at = 0
    for entry in entries:
        state, size = _ANSWER.unpack_from(answers, at)
        at += _ANSWER.size
        news = answers[at : at + size]
        at += size
        if state & _FAULT:
            yield StoreError(f"redis: {news.decode(errors='replace')}")
        elif entry.data is None:
            yield Found(True, None, False, b"")
        else:
            yield _found(entry, entry.data, token, state, news)


def _found(entry: Entry, data: bytes, made: bytes, state: int, news: bytes) -> Found:
    done, afresh = bool(state & _DONE), bool(state & _AFRESH)
    token, end = entry.seen or _NOWHERE
    if afresh:
        token, end = news[:TOKEN_BYTES], 0
    end += len(news)
    if done:
        if not end:
            token, end = made, len(made)
        end += len(data)
    if afresh:
        news = news[TOKEN_BYTES:]
    return Found(done, Place(token, end) if end else None, afresh, news)


def fault(error: Exception) -> StoreError:
    """What a client of Redis raised, as our own."""
    return StoreError(f"redis: {str(error) or type(error).__name__}")


class Tokens:
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
        return blake2b(number, digest_size=TOKEN_BYTES, key=self._secret).digest()
