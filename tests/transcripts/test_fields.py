from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.transcripts.fields import (
    elements,
    headline,
    mapping,
    money,
    numbered,
    shares,
    title_of,
    whole,
    word,
)
from loopwarden.transcripts.model import ReadNotes


@pytest.mark.parametrize("value", [None, 1, 1.5, "x", True, [], {}, [1], {"a": 1}])
def test_containers(value: object) -> None:
    assert mapping(value) == (value if isinstance(value, dict) else {})
    assert elements(value) == (value if isinstance(value, list) else [])


@pytest.mark.parametrize(
    ("value", "expected"),
    [("x", "x"), ("", None), (3, "3"), (True, None), (1.5, None), (None, None), ([], None), ("\ud83d", "?")],
)
def test_word(value: object, expected: str | None) -> None:
    assert word(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (0.25, 0.25),
        (True, None),
        (-1, None),
        ("1", None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
    ],
)
def test_money(value: object, expected: float | None) -> None:
    assert money(value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb", "a"),
        ("\n\n  a b \n", "a b"),
        ("x" * 500, "x" * 117 + "..."),
        ("", ""),
        ("a\x1b[31mb\x07\u202e", "a [31mb"),
        ("\ud83d", "?"),
    ],
)
def test_headline(text: str, expected: str) -> None:
    assert headline(text) == expected


@pytest.mark.parametrize(("value", "expected"), [(3, 3), (0, 0), (True, None), (1.0, None), ("1", None)])
def test_whole(value: object, expected: int | None) -> None:
    assert whole(value) == expected


def test_the_first_text_is_the_title() -> None:
    assert title_of(None, 3, " \n", "a\nb", "c") == "a"
    assert title_of() == "(no name)"


def test_objects_of_a_list_with_their_place() -> None:
    notes = ReadNotes()
    assert list(numbered([{"a": 1}, 7, {}], notes)) == [(1, {"a": 1}), (3, {})]
    assert notes.counts == {"bad_line": 1}


@given(st.integers(0, 10**9), st.integers(1, 100))
def test_shares_add_up(total: int, parts: int) -> None:
    split = shares(total, parts)
    assert len(split) == parts
    assert sum(split) == total
    assert max(split) - min(split) <= 1
