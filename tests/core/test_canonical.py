"""The canonical form: equal JSON values give equal bytes, nothing else does, and nothing breaks it."""

from __future__ import annotations

import collections
import enum
import itertools
import json
import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.core import canonical as module
from loopwarden.core.canonical import DIGEST_BYTES, canonical, digest, fingerprint, walked

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

NUMBERS = (
    st.integers(-3, 3)
    | st.integers()
    | st.sampled_from([2**53, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**16, 10**22])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.0, -0.0, 1.0, 1e15, 1e16, 1e22, 1e300, 1e-7, 5e-324, 0.1, 2.0**63, 2.0**64])
)
TEXTS = st.text(max_size=5) | st.sampled_from(
    ["", "1", "1.0", "null", "true", "\u00e9", "e\u0301", '"', "\\"]
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def equal(a: Any, b: Any) -> bool:
    """Compare as JSON values: Python's equality, but for booleans, which are no numbers."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


def twisted(value: Any, rng: random.Random) -> Any:
    """Write an equal value differently: keys in another order, whole numbers as the other type."""
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: twisted(value[key], rng) for key in keys}
    if isinstance(value, list):
        made = [twisted(item, rng) for item in value]
        return tuple(made) if rng.random() < 0.3 else made
    if type(value) is int and abs(value) < 2**1000 and int(float(value)) == value:
        return float(value)
    if type(value) is float and value.is_integer():
        return int(value)
    return value


@given(JSON)
def test_the_walk_and_the_short_cut_give_the_same_bytes(value: Any) -> None:
    assert walked(value) == canonical(value)


@given(JSON, JSON)
def test_bytes_are_equal_exactly_when_the_values_are(a: Any, b: Any) -> None:
    assert (canonical(a) == canonical(b)) is equal(a, b)


@given(st.lists(SCALARS, max_size=2), st.lists(SCALARS, max_size=2))
def test_bytes_of_small_values_are_equal_exactly_when_the_values_are(a: Any, b: Any) -> None:
    assert (canonical(a) == canonical(b)) is equal(a, b)


@given(JSON, st.randoms(use_true_random=False))
def test_how_an_equal_value_is_written_does_not_matter(value: Any, rng: random.Random) -> None:
    other = twisted(value, rng)
    assert canonical(other) == canonical(value)
    assert walked(other) == canonical(value)


@given(JSON)
def test_a_value_read_back_from_its_text_is_equal(value: Any) -> None:
    escaped = json.loads(json.dumps(value, ensure_ascii=True))
    assert canonical(escaped) == canonical(value)


@given(JSON)
def test_one_odd_neighbour_does_not_change_how_plain_data_is_written(value: Any) -> None:
    assert canonical([value, b""]) == b"[" + canonical(value) + b",!b0:]"


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


class Pair(NamedTuple):
    left: object
    right: object


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    RED = "red"


EQUAL: dict[str, tuple[object, object]] = {
    "key order": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "exponent": (json.loads("[1, 1.0, 1e0, 10e-1]"), [1, 1, 1, 1]),
    "minus zero": (-0.0, 0),
    "1e16": (1e16, 10**16),
    "1e300": ({"a": [1e300]}, {"a": [int(1e300)]}),
    "2**63": (2.0**63, 2**63),
    "2**64": (2.0**64, 2**64),
    "escapes": (json.loads('"\\u0041\\/"'), "A/"),
    "tuple": ((1, (2,)), [1, [2]]),
    "named tuple": (Pair(1, 2), [1, 2]),
    "str subclass": ({Text("a"): Text("b")}, {"a": "b"}),
    "number subclasses": ([Number(3), Real(3.0), Real(0.5)], [3, 3, 0.5]),
    "ordered": (collections.OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
    "default": (collections.defaultdict(list, a=1), {"a": 1}),
    "counter": (collections.Counter("aab"), {"a": 2, "b": 1}),
    "enums that are text or numbers": ([Level.LOW, Word.RED], [1, "red"]),
    "set order": ({1, 2, "a"}, frozenset(("a", 2, 1))),
    "odd key order": ({1: 1, "1": 2, None: 3, (1, 2): 4}, {(1, 2): 4, None: 3, "1": 2, 1: 1}),
    "NaN": ([math.nan], [-math.nan]),
    "surrogates": ({"\ud800": "\udfff"}, {"\ud800": "\udfff"}),
    "bytes": (b"ab", bytearray(b"ab")),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal(name: str) -> None:
    a, b = EQUAL[name]
    assert canonical(a) == canonical(b)
    assert walked(a) == walked(b)
    assert fingerprint([a]) == fingerprint([b])


def test_text_that_looks_like_odd_numbers_is_plain() -> None:
    value = {"output": "1.0 null NaN 1e16 [1.0, null]" * 300, "other": None}
    assert canonical(value) == orjson.dumps(value, option=orjson.OPT_SORT_KEYS) == walked(value)


class Thing:
    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


def nested(depth: int, wrap: Callable[[Any], Any], core: Any = 1) -> Any:
    for _ in range(depth):
        core = wrap(core)
    return core


DEEP: dict[str, Callable[[Any], Any]] = {
    "lists": lambda inner: [inner],
    "mappings": lambda inner: {"a": inner},
    "tuples": lambda inner: (inner,),
    "objects": lambda inner: Thing(x=inner),
    "mixed": lambda inner: [{"b": (inner, 1.0)}],
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_values(name: str) -> None:
    depth = 20_000 if name in ("objects", "mixed") else 100_000
    forms = {canonical(nested(depth, DEEP[name], core)) for core in (1, 2)}
    assert len(forms) == 2


def test_deep_sets_are_not_quadratic() -> None:
    assert canonical(nested(300, lambda inner: frozenset({inner}))) != canonical(
        nested(300, lambda inner: frozenset({inner}), 2)
    )


def test_the_bound_of_depth_does_not_show_at_the_edge_of_the_short_cut() -> None:
    for depth in range(245, 260):
        value = nested(depth, lambda inner: [inner, 1.0])
        assert canonical(value) == walked(value)


def cycles() -> list[object]:
    a: list[object] = []
    a.append(a)
    b: dict[str, object] = {}
    b["b"] = [b]
    c = Thing()
    c.__dict__["c"] = {"c": c}
    d: list[object] = [0]
    d[0] = [d]
    e = Thing()
    e.__dict__["e"] = e.__dict__
    return [a, b, c, d, e]


def test_cycles() -> None:
    forms = [canonical(value) for value in cycles()]
    assert len(set(forms)) == len(forms)
    assert forms == [canonical(value) for value in cycles()]


def test_a_member_that_is_shared_is_no_cycle() -> None:
    shared = [1, b"x"]
    assert canonical([shared, shared]) == canonical([[1, b"x"], [1, b"x"]])


def test_huge_values() -> None:
    text = "1.0 null " * 1_000_000
    assert canonical({"a": text}) != canonical({"a": text + " "})
    wide: list[object] = [0.5] * 300_000
    assert canonical([*wide, b"x"]) != canonical([*wide, b"y"])
    assert canonical([*wide, 1.0]) == canonical([*wide, 1])
    assert canonical(dict.fromkeys(range(100_000), 1)) != canonical(dict.fromkeys(range(100_000), 2))


def test_beyond_the_limit_sizes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NODE_LIMIT", 10_000)
    bomb: list[object] = [1]
    for _ in range(60):
        bomb = [bomb, bomb]
    assert len(canonical(bomb)) < 1_000_000
    assert canonical({frozenset({(1, 2)}): bomb})
    assert canonical([bomb, b"", *range(20_000)]) != canonical([bomb, b"", *range(20_001)])
    assert canonical({"a": b"", **dict.fromkeys(map(str, range(20_000)))})
    assert canonical(set(range(20_000)))


def test_a_large_value_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NODE_LIMIT", 100)
    rows: list[object] = [[number, [0.5]] for number in range(1000)]
    for last in ([b"x"], ["x"]):
        assert canonical([*rows, last]) != canonical([*rows, [*last, 1]])
        assert canonical([*rows, last]) == canonical((*rows, last))


def test_digests_tell_parts_apart() -> None:
    parts = [b"", b"a", b"b", b"ab", (1).to_bytes(8, "big")]
    made = [combo for size in range(4) for combo in itertools.product(parts, repeat=size)]
    digests = {digest(*combo) for combo in made}
    assert len(digests) == len(made)
    assert {len(one) for one in digests} == {DIGEST_BYTES}
    assert sys.getsizeof(digest(b"")) == 48
    assert fingerprint({"a": 1}) == digest(canonical({"a": 1.0}))
