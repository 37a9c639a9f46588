"""Leaving fields out, or keeping only some."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from loopwarden.core.fields import only, without

WITHOUT: dict[str, tuple[Any, tuple[str, ...], Any]] = {
    "no names": ({"a": 1}, (), {"a": 1}),
    "a name": ({"a": 1, "b": 2}, ("a",), {"b": 2}),
    "a name in depth": ({"x": [{"a": 1, "b": {"a": 2}}]}, ("a",), {"x": [{"b": {}}]}),
    "several": ({"a": 1, "b": 2, "c": 3}, ("a", "c"), {"b": 2}),
    "one that is missing": ({"a": 1}, ("b",), {"a": 1}),
    "a key that is no text": ({1: "x", "1": "y"}, ("1",), {1: "x"}),
    "a pointer": ({"a": {"b": 1, "c": 2}}, ("/a/b",), {"a": {"c": 2}}),
    "a pointer is for one place": ({"a": {"a": 1}, "b": {"a": 1}}, ("/b/a",), {"a": {"a": 1}, "b": {}}),
    "a pointer into a list": ({"a": [1, 2, 3]}, ("/a/1",), {"a": [1, 3]}),
    "a pointer through a list": ({"a": [{"b": 1}, {"b": 2}]}, ("/a/1/b",), {"a": [{"b": 1}, {}]}),
    "a pointer past the end": ({"a": [1]}, ("/a/5", "/a/-", "/a/x", "/a/-1"), {"a": [1]}),
    "a pointer through a text": ({"a": "text"}, ("/a/0",), {"a": "text"}),
    "a pointer to nothing": ({"a": 1}, ("/b/c/d",), {"a": 1}),
    "a key with a slash": ({"a/b": 1, "a": 2}, ("/a~1b",), {"a": 2}),
    "a key with a tilde": ({"a~b": 1, "a": 2}, ("/a~0b",), {"a": 2}),
    "a tilde and one": ({"~1": 1, "/": 2}, ("/~01",), {"/": 2}),
    "an empty key": ({"": 1, "a": 2}, ("/",), {"a": 2}),
    "an index with a zero before it": ({"a": [1, 2]}, ("/a/01", "/a/00"), {"a": [1, 2]}),
    "a huge index": ({"a": [1]}, ("/a/" + "9" * 5000,), {"a": [1]}),
    "a digit of another alphabet": ({"a": [1, 2]}, ("/a/\u0661",), {"a": [1, 2]}),
    "a name and a pointer": ({"a": 1, "b": {"c": 1}}, ("a", "/b/c"), {"b": {}}),
    "a text": ("a", ("a", "/a"), "a"),
    "a list": ([{"a": 1}], ("a",), [{}]),
    "nothing": (None, ("a",), None),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_without(name: str) -> None:
    value, names, expected = WITHOUT[name]
    before = copy.deepcopy(value)
    assert without(value, names) == expected
    assert value == before


ONLY: dict[str, tuple[Any, tuple[str, ...], Any]] = {
    "a name": ({"a": 1, "b": 2}, ("a",), {"a": 1}),
    "a name at the top only": ({"x": {"a": 1}}, ("a",), {}),
    "one that is missing": ({"a": 1}, ("b",), {}),
    "null is not missing": ({"a": None}, ("a",), {"a": None}),
    "a pointer": ({"a": {"b": 1, "c": 2}}, ("/a/b",), {"/a/b": 1}),
    "a pointer into a list": ({"a": [1, {"b": 2}]}, ("/a/1/b",), {"/a/1/b": 2}),
    "a pointer to nothing": ({"a": [1]}, ("/a/1", "/b", "/a/0/c"), {}),
    "a key that looks like a pointer": ({"/a": 1, "a": 2}, ("/a",), {"/a": 2}),
    "a text": ("a", ("a",), "a"),
    "a list": ([1], ("/0",), [1]),
}


@pytest.mark.parametrize("name", ONLY)
def test_only(name: str) -> None:
    value, names, expected = ONLY[name]
    assert only(value, names) == expected


def test_what_is_shared_and_what_goes_round_stays_so() -> None:
    shared = {"a": 1, "b": 2}
    assert without([shared, shared], ("a",)) == [{"b": 2}, {"b": 2}]
    circle: dict[str, Any] = {"a": 1}
    circle["self"] = circle
    made: Any = without(circle, ("a",))
    assert list(made) == ["self"]
    assert made["self"] is made


def test_below_a_hundred_levels_nothing_is_left_out() -> None:
    def nested(depth: int) -> Any:
        value: Any = {"a": 1}
        for _ in range(depth):
            value = [value]
        return value

    assert without(nested(99), ("a",)) != nested(99)
    assert without(nested(5000), ("a",)) is not None
    deep: Any = without(nested(150), ("a",))
    for _ in range(150):
        (deep,) = deep
    assert deep == {"a": 1}


def test_a_pointer_of_many_steps_does_not_run_out_of_stack() -> None:
    value: Any = 1
    for _ in range(5000):
        value = {"a": value}
    pointer = "/a" * 4000
    assert without(value, (pointer,)) is not None
    assert list(only(value, (pointer,))) == [pointer]  # type: ignore[call-overload]  # a dict
