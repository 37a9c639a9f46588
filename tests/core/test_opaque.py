"""Objects that are no plain data: unlike ones do not collide, alike ones are equal, none breaks anything."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import io
import itertools
import json
import math
import pathlib
import re
import sys
import types
import uuid
from typing import TYPE_CHECKING, Any

import orjson
import pydantic
import pytest

from loopwarden.core.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Shape(enum.Enum):
    SQUARE = 1


@dataclasses.dataclass
class Point:
    x: object
    y: object = 0
    seen: object = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(slots=True)
class Slim:
    x: object


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: int = 0


class Thing:
    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("__private", "x")

    def __init__(self, x: object, private: object = 0) -> None:
        self.x = x
        self.__private = private


class Tagged(list[object]):
    def __init__(self, tag: object) -> None:
        super().__init__()
        self.tag = tag


def produce(query: object) -> Iterator[object]:
    yield query


def adder(amount: int) -> Callable[[int], int]:
    return lambda number: number + amount


def fragment(text: str) -> orjson.Fragment:
    return orjson.Fragment(text)


UTC = dt.UTC
NAIVE = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - a naive one is meant
BIG = 10**100_000
UNLIKE: list[object] = [
    None, True, False, 0, 1, -1, 0.5, "", "1", "1.0", "null", "true", "NaN", "!fnan", b"", b"1", b"null",
    math.nan, math.inf, -math.inf, "inf", BIG, -BIG, BIG + 1, 2**64, hex(2**64), "!i0x10000000000000000",
    [], {}, set(), [[]], [None], {"a": None}, {"": 1}, {1: "x"}, {"1": "x"}, {None: "x"}, {"null": "x"},
    {True: "x"}, {"true": "x"}, {1.5: "x"}, {"1.5": "x"}, {b"1": "x"}, {(1, 2): "x"}, {(1, "2"): "x"},
    {frozenset({1}): "x"}, {1, 2}, {1, "2"}, {(1,), (2,)}, {(1, 2)}, {"1,2"}, {"x" * 50}, {"x" * 51},
    "\ud800", "\ud801", "\\ud800", "\ufffd", ["\ud800"], {"\ud800": 1}, b"\xed\xa0\x80",
    Color.RED, Color.GREEN, Shape.SQUARE, uuid.UUID(int=1), uuid.UUID(int=2),
    NAIVE, NAIVE.replace(microsecond=1), NAIVE.replace(tzinfo=UTC), NAIVE.date(), NAIVE.time(),
    NAIVE.replace(tzinfo=dt.timezone(dt.timedelta(hours=1))), dt.timedelta(1), dt.timedelta(2), UTC,
    decimal.Decimal(1), decimal.Decimal(2), decimal.Decimal("1e999999"), decimal.Decimal("NaN"),
    fractions.Fraction(1, 2), fractions.Fraction(1, 3), 1j, 2j, range(3), range(4), slice(1), slice(2),
    Point(1), Point(2), Point(1, 1), Slim(1), Slim(2), Model(x=1), Model(x=2), Model(x=1, y=1),
    Thing(x=1), Thing(x=2), Thing(y=1), Thing(), Slotted(1), Slotted(2), Slotted(1, 1), Tagged(1), Tagged(2),
    pathlib.PurePosixPath("a"), pathlib.PurePosixPath("b"), pathlib.PureWindowsPath("a"),
    ValueError("a"), ValueError("b"), KeyError("a"), OSError(2, "gone", "a"), OSError(2, "gone", "b"),
    memoryview(b"abcd").cast("H"), memoryview(b"abcd").cast("I"), memoryview(b"abce").cast("I"),
    array.array("i", [1]), array.array("i", [2]), array.array("I", [1]),
    collections.deque([1]), collections.deque([2]), types.MappingProxyType({"a": 1}),
    io.BytesIO(b"a"), io.BytesIO(b"b"), io.StringIO("a"), io.StringIO("b"), re.compile("a"), re.compile("b"),
    produce("a"), produce("b"), iter([1]), iter([2]), map(str, [1]), map(str, [2]), itertools.count(1),
    adder(1), adder(2), lambda: 1, lambda: 2, print, len, "a".join, "b".join, [].append,
    functools.partial(adder, 1), functools.partial(adder, 2), Thing(x=1).__init__, Thing(x=2).__init__,
    Thing, Point, int, str, json, sys, types.SimpleNamespace(a=1), types.SimpleNamespace(a=2), list[int],
    list[str], fragment("[1]"), fragment("[2]"), fragment("null"), Ellipsis, NotImplemented, object(),
]  # fmt: skip


def test_unlike_values_do_not_collide() -> None:
    seen: dict[bytes, int] = {}
    for place, value in enumerate(UNLIKE):
        form = canonical(value)
        assert form not in seen, (place, seen[form], type(value))
        seen[form] = place
        assert canonical(value) == form
        assert canonical([value]) == b"[" + form + b"]"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Thing(x=[1], y=Thing()),
        lambda: Point(1, [2], seen=object()),
        lambda: Slim({"a": 1.0}),
        lambda: Model(x=1, y="z"),
        lambda: Slotted([1], {2}),
        lambda: NAIVE.replace(tzinfo=dt.timezone(dt.timedelta(hours=1))),
        lambda: decimal.Decimal("1.5"),
        lambda: OSError(2, "gone", "a"),
        lambda: object(),
        lambda: collections.deque([1, Thing()], maxlen=3),
        lambda: produce("a"),
        lambda: adder(1),
        lambda: {Thing(): 1},
        lambda: {frozenset(range(100)), (Thing(x=1),)},
        lambda: memoryview(bytearray(b"ab"))[::-1],
    ],
)
def test_alike_objects_made_apart_are_equal(make: Callable[[], object]) -> None:
    first, second = make(), make()
    assert canonical(first) == canonical(second)


def test_a_dataclass_and_a_path_do_not_change_by_being_used() -> None:
    point, path = Point(1), pathlib.PurePosixPath("a/b")
    before = canonical([point, path])
    point.seen = 5
    assert str(path)
    assert hash(path) is not None
    assert canonical([point, path]) == before


class Lying(dict[str, object]):
    def items(self) -> Any:
        raise ValueError("no items")

    keys = values = __iter__ = __len__ = __getitem__ = items

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]  # a mapping has none


@functools.cache
def hostile_class() -> Any:
    """Make the class out of the sight of pytest, which asks every name of a module for its class."""

    class Meta(type):
        def __hash__(cls) -> int:
            raise ValueError("no hash")

        def __eq__(cls, other: object) -> bool:
            raise ValueError("no equality")

        @property
        def __mro__(cls) -> Any:
            raise ValueError("no mro")

        def __getattribute__(cls, name: str) -> Any:
            raise ValueError(name)

    class Hostile(metaclass=Meta):
        def __init__(self, x: object) -> None:
            object.__setattr__(self, "x", x)

        def __getattribute__(self, name: str) -> Any:
            raise ValueError(name)

        def __eq__(self, other: object) -> bool:
            raise ValueError("no equality")

        def __hash__(self) -> int:
            return 1

        def __repr__(self) -> str:
            raise ValueError("no repr")

        def __reduce_ex__(self, protocol: object) -> Any:
            raise ValueError("no state")

        def __bool__(self) -> bool:
            raise ValueError("no truth")

        def __len__(self) -> int:
            raise ValueError("no length")

    return Hostile


class Hidden:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]  # a lie is meant
        raise ValueError("no dictionary")

    @property
    def __class__(self) -> Any:
        raise ValueError("no class")

    def __repr__(self) -> str:
        raise ValueError("no repr")


class Same:
    def __init__(self, x: object) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        raise AssertionError("not asked when there are attributes")


class BadValue(enum.Enum):
    A = 1
    B = 2

    @property
    def value(self) -> Any:
        raise ValueError("no value")


class Endless:
    def __reduce_ex__(self, protocol: object) -> Any:
        return (Endless, (Endless(),))


class BadText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError("no text")

    __len__ = __hash__ = encode = __repr__ = __str__  # type: ignore[assignment]  # broken on purpose


class FakeArray:
    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers

    @property
    def shape(self) -> Any:
        raise ValueError("no shape")

    @property
    def __array_interface__(self) -> Any:
        raise ValueError("no memory")

    def __array__(self) -> Any:
        raise ValueError("no array")

    def tolist(self) -> list[int]:
        raise ValueError("no list")

    def __eq__(self, other: object) -> Any:
        return [True, False]

    __hash__ = None  # type: ignore[assignment]  # as arrays are


@pytest.mark.parametrize(
    "make",
    [
        lambda x: hostile_class()(x),
        lambda x: {"x": [1.0, hostile_class()(x)]},
        Same,
        lambda x: {Same(x): 0},
        lambda x: {"x": {Same(x)}},
        BadValue,
        lambda x: [BadText(x)],
        lambda x: Lying(a=x),
        lambda x: FakeArray([x]),
    ],
)
def test_hostile_objects_neither_raise_nor_hide(make: Callable[[int], object]) -> None:
    assert canonical(make(1)) == canonical(make(1))
    assert canonical(make(1)) != canonical(make(2))


@pytest.mark.parametrize(
    "make", [Hidden, Endless, lambda: {Hidden(): Hidden()}, lambda: [hostile_class(), type(hostile_class())]]
)
def test_what_tells_nothing_still_gives_bytes(make: Callable[[], object]) -> None:
    assert canonical(make()) == canonical(make())


def test_released_memory() -> None:
    view = memoryview(b"ab")
    view.release()
    assert canonical([view])


def test_iterators_files_and_generators_are_left_alone() -> None:
    generator, numbers, text = produce("a"), iter([1, 2]), io.StringIO("ab")
    chained = itertools.chain(numbers)
    canonical([generator, numbers, chained, text])
    assert list(generator) == ["a"]
    assert list(chained) == [1, 2]
    assert text.read() == "ab"
    with pathlib.Path(__file__).open(encoding="utf-8") as file:
        assert str(pathlib.Path(__file__)).encode() in canonical(file)
        assert file.tell() == 0


def test_a_mapping_that_lies_about_its_items_is_what_it_holds() -> None:
    assert canonical(Lying(a=1)) == canonical({"a": 1})
