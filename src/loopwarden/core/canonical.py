"""One form of bytes for every value, and short digests of it.

Two values that are equal as JSON give equal bytes, whatever the order of their keys and however their
numbers were written. Values that JSON does not know are marked by a `!`, with which no JSON value
begins, so they never equal one.

Nearly all arguments and results are plain data, and `orjson` writes them. It is asked only when a walk
over the types has shown that the value holds nothing else: it prints NaN as `null` and 1.0 unlike 1,
writes enums and UUIDs by running attributes of the value (a property that raises there ends the
process), and knows no bound for containers that share their members. Everything else is written by a
walk without recursion, which gives the same bytes for plain data.
"""

from __future__ import annotations

from hashlib import blake2b
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import orjson

from loopwarden.core.opaque import class_name, describe, own_attributes

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

NODE_LIMIT: Final = 500_000
"""Items of one value, all levels together, that are looked at, or twice the items that its plain containers
really hold if that is more: a large value is read whole, while one that holds itself over and over soon
ends. Of what lies beyond only the sizes of the containers count."""

DEPTH_LIMIT: Final = 200_000
"""Containers inside each other that are looked into, with the same consequence."""

OBJECT_COST: Final = 10
"""Items that an object which is no plain data counts for: it may hold a whole program by its attributes."""

DIGEST_BYTES: Final = 15
"""Length of a digest: 120 bits, the most that fits in a Python `bytes` object of 48 bytes."""

_FAST_LEVELS: Final = 250  # orjson refuses more than 254
_INT64: Final = range(-(2**63), 2**64)  # what orjson writes as a number
_OPTIONS: Final = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_SCALARS: Final = frozenset({str, int, bool, type(None)})
_ALL: Final = slice(None)
_ONE_PART: Final = (1).to_bytes(8, "big")
_PIECE_LIMIT: Final = 40  # longer members of sets and longer odd keys stand as their digest

_dumps = orjson.dumps
_all_scalars = _SCALARS.issuperset


def canonical(value: object) -> bytes:
    """Give the bytes that stand for a value.

    Equal JSON values give equal bytes, unequal ones unequal bytes. Tuples are lists, and subclasses of
    the JSON types are what they hold (their own attributes, if any, count too). Any other object is its
    class and its attributes; `core.opaque` says what stands for one that shows none.

    Never raises; not bounded by the recursion limit. `NODE_LIMIT`, `DEPTH_LIMIT` and `OBJECT_COST` bound
    the work.
    """
    kind = type(value)
    try:
        if kind is dict:
            if _all_scalars(map(type, value.values())):  # type: ignore[attr-defined]  # a dict
                return _dumps(value, None, _OPTIONS)
        elif kind is list or kind is tuple:
            if _all_scalars(map(type, value)):  # type: ignore[call-overload]  # a list or tuple
                return _dumps(value, None, _OPTIONS)
        elif kind in _SCALARS:
            return _dumps(value, None, _OPTIONS)
        else:
            return walked(value)
        plain = _as_plain(value)
        if plain is not None:
            return _dumps(plain[0], None, _OPTIONS)
    except Exception:  # noqa: BLE001, S110 - whatever orjson or a metaclass does, the walk can write it
        pass
    return walked(value)


def digest(*parts: bytes) -> bytes:
    """Give the digest of some parts, `DIGEST_BYTES` long; other parts or another split give another."""
    if len(parts) == 1:
        return blake2b(parts[0] + _ONE_PART, digest_size=DIGEST_BYTES).digest()
    # The number of parts stands last, before it the lengths of all but the first.
    lengths = [len(part).to_bytes(8, "big") for part in parts[1:]]
    framed = b"".join((*parts, *lengths, len(parts).to_bytes(8, "big")))
    return blake2b(framed, digest_size=DIGEST_BYTES).digest()


def fingerprint(value: object) -> bytes:
    """Give the digest of the canonical bytes of a value."""
    return digest(canonical(value))


def walked(value: object) -> bytes:
    """Give the same bytes as `canonical` without the short cut through `orjson`."""
    return _Walk().write(value)


def _as_plain(value: Any) -> tuple[object] | None:
    """Give an equal dict or list that `orjson` writes as it should, in a tuple; None where the walk must."""
    level: list[Any] = [value]
    budget = NODE_LIMIT
    looked_again = whole = False
    for _ in range(_FAST_LEVELS):
        deeper: list[Any] = []
        for container in level:
            for member in container.values() if type(container) is dict else container:
                kind = type(member)
                if kind in _SCALARS:
                    continue
                if kind is dict:
                    members = member.values()
                elif kind is list or kind is tuple:
                    members = member
                elif kind is float and isfinite(member):
                    whole = whole or member.is_integer()
                    continue
                else:
                    return None
                budget -= len(member)
                if budget < 0:
                    budget += _allowance(value)
                    if budget < 0 or looked_again:
                        return None
                    looked_again = True
                if not _all_scalars(map(type, members)):
                    deeper.append(member)
        if not deeper:
            return (_with_whole_numbers(value) if whole else value,)
        level = deeper
    return None


def _allowance(value: Any) -> int:
    """Twice the items of a value's plain containers, each container taken once, where that is a lot."""
    seen: set[int] = set()
    pending = [value] if _is_container(value) else []
    items = 0
    while pending:
        container = pending.pop()
        if id(container) in seen:
            continue
        seen.add(id(container))
        items += len(container)
        members = container.values() if type(container) is dict else container
        pending.extend(member for member in members if _is_container(member))
    return 2 * items


def _is_container(value: object) -> bool:
    kind = type(value)  # compared by identity: a metaclass may have a hash that raises
    return kind is dict or kind is list or kind is tuple


def _with_whole_numbers(value: object) -> object:
    """Copy plain data of at most `_FAST_LEVELS` levels with 1 in place of 1.0."""
    if type(value) is dict:
        return {key: _with_whole_numbers(item) for key, item in value.items()}
    if type(value) is list or type(value) is tuple:
        return [_with_whole_numbers(item) for item in value]
    if type(value) is float and value.is_integer():
        return int(value)
    return value


def _text(text: str) -> bytes:
    try:
        return _dumps(text)
    except TypeError:  # lone surrogates
        raw = text.encode("utf-8", "surrogatepass")
        return b"!s%d:%b" % (len(raw), raw)


def _integer(number: int) -> bytes:
    # Decimal digits of a huge number cost quadratic time and are limited by the interpreter.
    return b"%d" % number if number in _INT64 else b"!i" + hex(number).encode()


def _real(number: float) -> bytes:
    if number.is_integer():
        return _integer(int(number))
    return _dumps(number) if isfinite(number) else b"!f%b" % repr(number).encode()


def _atom(value: Any) -> bytes | None:
    """Write a value without members; None for a value to look into. Runs no code of the value."""
    kind = type(value)
    if kind is str:
        return _text(value)
    if kind is dict or kind is list or kind is tuple:
        return None
    if value is None:
        return b"null"
    if kind is bool:
        return b"true" if value else b"false"
    if issubclass(kind, int):
        return _integer(int.__index__(value))
    if issubclass(kind, float):
        return _real(float.__float__(value))
    if issubclass(kind, str):
        return _text(str.__str__(value))
    if issubclass(kind, bytes):
        raw = bytes.__getitem__(value, _ALL)
    elif issubclass(kind, bytearray):
        raw = bytes(bytearray.__getitem__(value, _ALL))
    elif issubclass(kind, type):
        return b"!c" + _text(class_name(value))
    else:
        return None
    return b"!b%d:%b" % (len(raw), raw)


class _Walk:
    """Writes one value; every container is a generator that yields its members for writing."""

    __slots__ = ("budget", "out")

    def __init__(self) -> None:
        self.budget = 0
        self.out = bytearray()

    def write(self, root: object) -> bytes:
        """Write a value and all that it holds; used once."""
        self.budget = NODE_LIMIT + _allowance(root)
        stack: list[tuple[Iterator[object], object]] = [(iter((root,)), None)]
        above: dict[int, int] = {}  # id of each container that is being written to its place in `stack`
        while stack:
            members, owner = stack[-1]
            for member in members:
                self.budget -= 1
                atom = _atom(member)
                if atom is not None:
                    self.out += atom
                elif id(member) in above:
                    self.out += b"!^%d" % (len(stack) - above[id(member)])
                elif self.budget <= 0 or len(stack) > DEPTH_LIMIT:
                    self.out += b"!~%d" % _size(member)
                else:
                    above[id(member)] = len(stack)
                    stack.append((self.open(member), member))
                    break
            else:
                stack.pop()
                above.pop(id(owner), None)
        return bytes(self.out)

    def open(self, value: Any) -> Iterator[object]:
        """Start to write a container or an object."""
        kind = type(value)
        content: Generator[object, None, None]
        if issubclass(kind, dict):
            content = self.mapping([*dict.items(value)])
        elif issubclass(kind, list):
            content = self.sequence(list.__iter__(value), list.__len__(value))
        elif issubclass(kind, tuple):
            content = self.sequence(tuple.__iter__(value), tuple.__len__(value))
        elif issubclass(kind, (set, frozenset)):
            content = self.unordered([*frozenset(value)])
        else:
            return self.opaque(value)
        if kind is dict or kind is list or kind is tuple:
            return content
        return self.extended(value, content)

    def sequence(self, members: Iterator[object], size: int) -> Generator[object, None, None]:
        self.out += b"["
        between = b""
        for member in members:
            self.out += between
            if self.budget <= 0:
                self.out += b"!~%d" % size
                break
            yield member
            between = b","
        self.out += b"]"

    def mapping(self, pairs: list[tuple[object, object]]) -> Generator[object, None, None]:
        rows: list[tuple[int, bytes, bytes, object]] = []
        for key, member in pairs:
            if issubclass(type(key), str):
                text = str.__str__(key)
                rows.append((0, text.encode("utf-8", "surrogatepass"), _text(text), member))
            else:
                name = yield from self.apart(key)
                rows.append((1, name, b"!k" + name, member))
        rows.sort(key=itemgetter(0, 1))
        self.out += b"{"
        between = b""
        for _, _, name, member in rows:
            self.out += between
            if self.budget <= 0:
                self.out += b"!~%d" % len(rows)
                break
            self.out += name + b":"
            yield member
            between = b","
        self.out += b"}"

    def unordered(self, members: list[object]) -> Generator[object, None, None]:
        pieces = []
        for member in members:
            if self.budget <= 0:
                break
            pieces.append((yield from self.apart(member)))
        pieces.sort()
        self.out += b"!u%d{%b}" % (len(members), b",".join(pieces))

    def extended(
        self, value: object, content: Generator[object, None, None]
    ) -> Generator[object, None, None]:
        """Write an instance of a subclass: as its content, unless it has attributes besides."""
        attributes = own_attributes(value)
        if attributes:
            self.out += b"!x"
            yield class_name(type(value))
        yield from content
        if attributes:
            yield attributes

    def opaque(self, value: object) -> Generator[object, None, None]:
        self.budget -= OBJECT_COST
        self.out += b"!o"
        yield describe(value)

    def apart(self, member: object) -> Generator[object, None, bytes]:
        """Write a member whose place is known only after all of its siblings are written."""
        outer, self.out = self.out, bytearray()
        yield member
        piece, self.out = bytes(self.out), outer
        return piece if len(piece) <= _PIECE_LIMIT else b"!h" + digest(piece)


def _size(value: Any) -> int:
    for kind in (dict, list, tuple, set, frozenset):
        if issubclass(type(value), kind):
            return int(kind.__len__(value))
    return 0
