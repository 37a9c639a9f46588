"""Whatever happens becomes JSON of bounded size, and as much of it as there is room for is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.runner import plain_json
from loopwarden.runner.plain_json import from_json, to_json

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_json_of_ordinary_size_is_kept_as_it_is(data: dict[str, Any]) -> None:
    text = to_json(data)
    assert text.isascii()
    assert from_json(text) == data


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (float("inf"), "inf"),
        (2**60, str(2**60)),
        pytest.param(10**5000, "<int>", id="digits"),
        (b"bytes", "<bytes>"),
        ({1: "a"}, {"<int>": "a"}),
        ((1, 2), [1, 2]),
        (True, True),
        ("\ud800", "\ud800"),
    ],
)
def test_what_is_no_json_is_said_in_words(value: object, kept: object) -> None:
    assert from_json(to_json({"value": value})) == {"value": kept}


def test_long_texts_are_cut_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_json, "LONGEST_TEXT", 5)  # characters
    assert from_json(to_json({"text": "123456"})) == {"text": "12345... [cut]"}
    assert from_json(to_json({"text": "12345"})) == {"text": "12345"}


def test_of_a_large_one_the_short_values_are_kept() -> None:
    data = {"call_id": "c1", "ok": True, "arguments": [["x" * 60_000] * 10] * 10, "text": "y" * 60_000}
    kept = from_json(to_json(data))
    assert (kept["call_id"], kept["ok"], kept["cut"]) == ("c1", True, True)
    assert kept["text"].startswith("yyy")
    assert len(to_json(data)) < 10_000


def test_deep_and_wide_values_are_left_out_below_a_bound() -> None:
    deep: Any = "bottom"
    for _ in range(10_000):
        deep = {"a": deep}
    assert len(to_json({"value": deep})) < 1000
    wide = to_json({"value": [0] * 1_000_000})
    assert len(wide) < 200_000


@pytest.mark.parametrize("text", ["", "[1]", "{", "null", "[" * 100_000])
def test_what_is_none_of_ours_is_empty(text: str) -> None:
    assert from_json(text) == {}


def test_it_is_one_line() -> None:
    assert "\n" not in to_json({"text": "a\nb\u2028c"})
    assert json.loads(to_json({"text": "a\nb"})) == {"text": "a\nb"}
