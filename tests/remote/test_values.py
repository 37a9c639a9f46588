"""What is sent to a gateway compares there as the values compare in process."""

from __future__ import annotations

import json
from collections import OrderedDict
from enum import IntEnum, StrEnum
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("httpx2", reason="the extra client is not installed")

from loopwarden.core.canonical import canonical
from loopwarden.remote.values import DEEPEST, LARGEST, LONGEST_NAME, name, seconds, sendable, text

WHOLE_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WHOLE_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(WHOLE_TEXT, inner),
    max_leaves=20,
)
ODD = st.recursive(
    PLAIN | st.binary() | st.floats() | st.integers() | st.text() | st.complex_numbers() | st.datetimes(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
    max_leaves=20,
)


def written(value: object) -> bytes:
    return orjson.dumps(sendable(value))


def there(value: object) -> bytes:
    """What the gateway compares."""
    return canonical(orjson.loads(written(value)))


class Color(StrEnum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


class Thing:
    def __init__(self, size: int) -> None:
        self.size = size


def ring(size: int) -> list[Any]:
    first: list[Any] = [size]
    first.append(first)
    return first


def nested(levels: int, inner: object = 1) -> object:
    for _ in range(levels):
        inner = [inner]
    return inner


def tree(levels: int) -> object:
    shared: object = [1]
    for _ in range(levels):
        shared = [shared, shared]
    return shared


@given(PLAIN)
def test_a_json_value_is_sent_as_it_is(value: object) -> None:
    assert there(value) == canonical(value)


@given(ODD, ODD)
def test_equal_stays_equal_and_unlike_unlike(one: object, other: object) -> None:
    json.loads(written(one))
    assert (there(one) == there(other)) == (canonical(one) == canonical(other))


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (Color.RED, "red"),
        ({"color": Color.RED, "n": Number.ONE}, {"color": "red", "n": 1}),
        ((1, 2.0), [1, 2]),
        (2**70, float(2**70)),
        (-0.0, 0),
    ],
)
def test_what_equals_a_json_value_is_sent_as_that(value: object, same: object) -> None:
    assert there(value) == there(same) == canonical(same)


UNLIKE: list[object] = [
    None, "", 0, False, [], {}, b"", b"a", b"b", "a", float("nan"), float("inf"), 10**30, 10**30 + 1, 1e30,
    Thing(1), Thing(2), {1, 2}, {1, 3}, {1: "a"}, {"1": "a"}, {"k": b"a"}, {"k": b"b"}, "\ud800", "\\ud800",
    "\ud801", {"\ud800": 1}, ring(1), ring(2), nested(DEEPEST + 5, 1), nested(DEEPEST + 5, 2),
    nested(5000, 1), nested(5000, 2), tree(200), {"$loopwarden": "x"}, {"$loopwarden": "y"},
    "x" * 100_000, "x" * 100_001, "x" * 99_999 + "y", list(range(60_000)), list(range(60_001)),
    ["y" * 50] * 9000, ["y" * 50] * 9001, {"a": ["y" * 50] * 9000}, {"a": ["y" * 50] * 9001},
]  # fmt: skip


def test_unlike_values_are_sent_unlike_and_bounded() -> None:
    sent = [written(value) for value in UNLIKE]
    assert max(map(len, sent)) <= LARGEST
    assert len({there(value) for value in UNLIKE}) == len(UNLIKE)
    assert [written(value) for value in UNLIKE] == sent


def test_a_mark_can_not_be_forged() -> None:
    mark = orjson.loads(written(b"secret"))
    assert there(mark) != there(b"secret")
    assert there([mark]) != there([b"secret"])


def test_one_odd_member_leaves_the_rest_readable() -> None:
    sent = json.loads(written({"path": "a", "data": b"x", "deep": {"n": [1, float("nan")]}}))
    assert sent["path"] == "a"
    assert list(sent["data"]) == ["$loopwarden"]
    assert sent["deep"]["n"][0] == 1


def test_a_large_result_keeps_its_shape() -> None:
    sent = json.loads(
        written(
            {
                "content": [{"type": "text", "text": "t" * 10**6}],
                "details": list(range(10**5)),
                "isError": True,
            }
        )
    )
    assert sent["isError"] is True
    assert sent["content"][0]["text"].startswith("t" * 20_000)
    assert list(sent["details"]) == ["$loopwarden"]


def test_the_head_of_a_long_text_is_looked_at_apart_from_its_rest() -> None:
    assert text("1" * 20_000 + "x" * 20_000)[20_000:] == text("2" * 20_000 + "x" * 20_000)[20_000:]


def test_names_and_times() -> None:
    assert (name(None), name("r"), name(7)) == (None, "r", "7")
    assert name("")
    assert name("x" * LONGEST_NAME) == "x" * LONGEST_NAME
    assert name("x" * 5000 + "a") != name("x" * 5000 + "b")
    assert len(name("x" * 5000) or "") < 2 * LONGEST_NAME
    given: list[object] = [1, 2.5, None, True, "1", float("nan"), 10**400]
    assert [seconds(value) for value in given] == [1.0, 2.5, None, None, None, None, None]
