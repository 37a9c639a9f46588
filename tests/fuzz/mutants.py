"""Mutants of recorded files: the same base and seed give the same bytes, on every machine.

A mutant is damaged in one to four ways, each picked by the seed: in its bytes, in its lines, or in the
JSON values that it holds.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from tests.fuzz.bases import bases, by_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fuzz.bases import Base

LONGEST_RUN: Final = 50_000
DEEPEST: Final = 3_000

STRANGE: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 7, -(2**63), 2**64, 10**40, -(10**40), 1e308, -1e308, 0.1, -0.0,
    float("nan"), float("inf"), float("-inf"), "", " ", "x", "\n", "\0", "\x1b[31m\r\n", "\ud800", "é",
    "1", "-1", "1e999", "NaN", "9" * 4_500, "1.7e12", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59+14:00",
    "9999-12-31T23:59:59-14:00", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00.123456789Z", "W" * 300,
    "{", "{}", "[]", "null", "[1, 2]",
    '{"a": {"b": [1, null]}}', "<x>", "Traceback", "data: {}\n\n", [], {}, [None], [[]], [{}], {"": None},
    {"type": None}, {"type": "text", "text": None}, {"a": [{"b": {}}]}, ["a", 1, None, {}], [[[[]]]],
)  # fmt: skip
"""Values that nobody expects somewhere."""

BYTES: Final = (
    b"", b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xc0\xaf", b"\xed\xa0\x80", b"\r", b"\n",
    b"\r\n", b"\n\n",
    b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"null", b"NaN", b"-Infinity", b"1e999", b"\\ud800",
    b"\\u0000", b"PK\x03\x04", b"\x1f\x8b\x08", b"SQLite format 3\0", b"\xe2\x80\xa8", b"{}{}", b'{"a":',
)  # fmt: skip
"""Bytes that mean something to a parser."""


def mutant(name: str, seed: int) -> bytes:
    """The mutant of the base `name` with this seed."""
    base = by_name()[name]
    chance = random.Random(f"{name} {seed}")
    data = _archive(base, chance) if base.form == "archive" else _inside(base, chance)
    if base.form == "archive" or chance.random() < 0.4:
        for _ in range(chance.choice((0, 1, 1, 2, 3) if base.form == "archive" else (1, 1, 2, 4))):
            data = damaged(data, chance)
    if chance.random() < 0.03:
        data = gzip.compress(data, 1, mtime=0)
        if chance.random() < 0.5:
            data = damaged(data, chance)
    return data


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes, damaged once."""
    return chance.choice(_ON_BYTES)(data, chance)


def _inside(base: Base, chance: random.Random) -> bytes:
    """Damage to lines and values."""
    if base.form == "document":
        return _document(base.data, chance) if chance.random() < 0.85 else base.data
    lines = base.data.split(b"\n")
    for _ in range(chance.choice((1, 1, 2, 4))):
        if base.form == "lines" and chance.random() < 0.7:
            place = chance.randrange(len(lines))
            lines[place] = _document(lines[place], chance)
        else:
            chance.choice(_ON_LINES)(lines, chance)
    return b"\n".join(lines)


def _archive(base: Base, chance: random.Random) -> bytes:
    members = list(base.members)
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        place = chance.randrange(len(members))
        name, data = members[place]
        act = chance.random()
        if act < 0.75:
            members[place] = (name, _document(data, chance))
        elif act < 0.85:
            members[place] = (name, damaged(data, chance))
        elif act < 0.9:
            del members[place]
        else:
            other = chance.choice(
                (chance.choice(members)[0] if members else "x", "samples/é_epoch_1.json", "../x", "a" * 200)
            )
            members.append((other, data))
        if not members:
            break
    packed = io.BytesIO()
    method = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(packed, "w", method) as archive:
        written = set()
        for name, data in members:
            if name not in written:
                written.add(name)
                archive.writestr(zipfile.ZipInfo(name), data, method)
    return packed.getvalue()


# Bytes


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 4, 32)) if changed else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut(data: bytes, chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:start] + data[end:]


def _keep(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data) + 1)
    return data[:place] if chance.random() < 0.7 else data[place:]


def _insert(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data) + 1)
    return data[:place] + chance.choice(BYTES) + data[place:]


def _noise(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data) + 1)
    return data[:place] + chance.randbytes(chance.choice((1, 2, 8, 200))) + data[place:]


def _double(data: bytes, chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:end] + data[start:end] * chance.choice((1, 1, 2, 5)) + data[end:]


def _run(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data) + 1)
    return data[:place] + chance.choice(BYTES) * chance.choice((10, 1_000, LONGEST_RUN // 8)) + data[place:]


def _splice(data: bytes, chance: random.Random) -> bytes:
    other = chance.choice(bases()).data
    start, end = sorted((chance.randrange(len(other) + 1), chance.randrange(len(other) + 1)))
    place = chance.randrange(len(data) + 1)
    return (
        data[:place]
        + other[start : min(end, start + 20_000)]
        + (data[place:] if chance.random() < 0.5 else b"")
    )


def _span(data: bytes, chance: random.Random) -> tuple[int, int]:
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.choice((1, 2, 10, 100, 2_000)))


_ON_BYTES: Final[tuple[Callable[[bytes, random.Random], bytes], ...]] = (
    _flip, _cut, _keep, _insert, _noise, _double, _run, _splice,
)  # fmt: skip


# Lines


def _swap(lines: list[bytes], chance: random.Random) -> None:
    one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]


def _drop(lines: list[bytes], chance: random.Random) -> None:
    if len(lines) > 1:
        del lines[chance.randrange(len(lines))]


def _again(lines: list[bytes], chance: random.Random) -> None:
    start = chance.randrange(len(lines))
    again = lines[start : start + chance.choice((1, 1, 3, 20))]
    place = chance.randrange(len(lines) + 1)
    lines[place:place] = again * chance.choice((1, 1, 2, 10))


def _join(lines: list[bytes], chance: random.Random) -> None:
    place = chance.randrange(len(lines))
    lines[place : place + 2] = [chance.choice((b"", b" ", b",", b"\r")).join(lines[place : place + 2])]


def _shuffle(lines: list[bytes], chance: random.Random) -> None:
    chance.shuffle(lines)


def _turn_round(lines: list[bytes], _: random.Random) -> None:
    lines.reverse()


def _from_elsewhere(lines: list[bytes], chance: random.Random) -> None:
    other = chance.choice(bases())
    if other.form in ("lines", "text"):
        strange = other.data.split(b"\n")
        start = chance.randrange(len(strange))
        place = chance.randrange(len(lines) + 1)
        lines[place:place] = strange[start : start + chance.choice((1, 3))]
    else:
        lines.insert(chance.randrange(len(lines) + 1), json.dumps(chance.choice(STRANGE)).encode())


def _halve(lines: list[bytes], chance: random.Random) -> None:
    place = chance.randrange(len(lines))
    lines[place] = _keep(lines[place], chance)


def _blank(lines: list[bytes], chance: random.Random) -> None:
    lines[chance.randrange(len(lines))] = chance.choice(BYTES)


_ON_LINES: Final[tuple[Callable[[list[bytes], random.Random], None], ...]] = (
    _swap, _drop, _again, _join, _shuffle, _turn_round, _from_elsewhere, _halve, _blank,
)  # fmt: skip


# JSON values


def _document(data: bytes, chance: random.Random) -> bytes:
    """JSON with one to eight of its values damaged; what is no JSON stays as it is."""
    if any(opening * 50 in data for opening, _ in _DEEP):  # how deep Python can go depends on its caller
        return data
    try:
        value = [json.loads(data)]
    except (ValueError, RecursionError):  # damaged before
        return data
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        mutate(value, chance)
    if chance.random() < 0.04:
        return _deep(value[0], chance)
    return json.dumps(
        value[0], indent=chance.choice((None, None, 1)), ensure_ascii=chance.random() < 0.5
    ).encode("utf-8", "surrogatepass")


def mutate(root: list[Any], chance: random.Random) -> None:
    """Damage one place within `root`, a list of one."""
    places = [*_places(root)]
    if len(places) > 1 and chance.random() < 0.9:
        places = places[1:]  # seldom the whole
    container, key = chance.choice(places)
    chance.choice(_ON_VALUES)(container, key, chance, places)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [value]
    while waiting:
        container = waiting.pop()
        pairs = container.items() if isinstance(container, dict) else enumerate(container)
        for key, inner in pairs:
            yield container, key
            if isinstance(inner, dict | list) and inner:
                waiting.append(inner)


def _strange(container: Any, key: Any, chance: random.Random, _: list[tuple[Any, Any]]) -> None:
    container[key] = deepcopy(chance.choice(STRANGE))


def _delete(container: Any, key: Any, _: random.Random, places: list[tuple[Any, Any]]) -> None:
    if container is not places[0][0] or len(container) > 1:
        del container[key]


def _retype(container: Any, key: Any, chance: random.Random, _: list[tuple[Any, Any]]) -> None:
    value = container[key]
    wrapped = ([value], {"type": value}, {"content": value}, str(value)[:2_000], [value, value], {"0": value})
    container[key] = chance.choice((*wrapped, list(value.values()) if isinstance(value, dict) else None))


def _other_value(container: Any, key: Any, chance: random.Random, places: list[tuple[Any, Any]]) -> None:
    """The value of another place: ids that repeat, parents in circles, times out of order."""
    same = [place for place in places if place[1] == key]
    other, name = chance.choice(same if len(same) > 1 and chance.random() < 0.7 else places)
    container[key] = deepcopy(other[name])


def _exchange(container: Any, key: Any, chance: random.Random, places: list[tuple[Any, Any]]) -> None:
    same = [place for place in places if place[1] == key and not isinstance(place[0][key], dict | list)]
    if same and not isinstance(container[key], dict | list):
        other, _ = chance.choice(same)
        container[key], other[key] = other[key], container[key]


def _rename(container: Any, key: Any, chance: random.Random, _: list[tuple[Any, Any]]) -> None:
    if isinstance(container, dict):
        name = chance.choice(("", key.upper(), f"{key} ", "type", "id", "k" * 20_000, "\ud800", "\0"))
        container[name] = container.pop(key)


def _many(container: Any, key: Any, chance: random.Random, _: list[tuple[Any, Any]]) -> None:
    value = container[key]
    if isinstance(value, list) and value:
        value[:] = value * chance.choice((2, 2, 5))
        chance.shuffle(value)
    elif isinstance(value, str):
        container[key] = value * chance.choice((2, 50)) if len(value) < 2_000 else value[:3]
    elif isinstance(value, dict):
        value |= {f"k{number}": number for number in range(chance.choice((1, 300)))}
    elif isinstance(value, int | float):
        container[key] = chance.choice((value * 1000, -value, value * 1e300, str(value), value + 0.5))


def _empty(container: Any, key: Any, _: random.Random, __: list[tuple[Any, Any]]) -> None:
    value = container[key]
    container[key] = type(value)() if value is not None else 0


def _text(container: Any, key: Any, chance: random.Random, _: list[tuple[Any, Any]]) -> None:
    """Damage within a text: it may hold JSON, headers, tags."""
    value = container[key]
    if isinstance(value, str) and len(value) < LONGEST_RUN:
        data = chance.choice(_ON_BYTES[:-2])(value.encode("utf-8", "surrogatepass"), chance)
        container[key] = data.decode(errors="replace")


_ON_VALUES: Final = (
    _strange, _strange, _strange, _delete, _delete, _retype, _other_value, _other_value, _exchange,
    _rename, _many,
    _empty, _text,
)  # fmt: skip


_DEEP: Final = ((b"[", b"]"), (b'{"a":', b"}"), (b'{"content":[', b"]}"), (b'{"children":[', b"]}"))


def _deep(value: Any, chance: random.Random) -> bytes:
    """The value with a very deep one put in the place of a text of it."""
    depth = chance.choice((100, 500, 950, 985, 1_000, 1_015, DEEPEST))
    opening, closing = chance.choice(_DEEP)
    deep = opening * depth + b"1" + closing * depth
    place: list[Any] = [value]
    container, key = chance.choice([*_places(place)])
    container[key] = "here it is deep"
    return json.dumps(place[0]).encode().replace(b'"here it is deep"', deep)
