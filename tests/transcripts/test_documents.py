from __future__ import annotations

import json
from typing import Any

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.documents import containers, opening
from loopwarden.transcripts.model import ReadNotes
from tests.transcripts.handmade import as_document, as_lines, source_of


def values(data: bytes) -> tuple[list[Any], dict[str, int]]:
    notes = ReadNotes()
    return [value for _, value in containers(source_of(data), notes)], dict(notes.counts)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (as_document({"a": [1]}), [{"a": [1]}]),
        (as_document([{"a": 1}]), [[{"a": 1}]]),
        (b'{"a":\n[{}]}', [{"a": [{}]}]),
        (b"[\n{}\n]", [[{}]]),
        (as_lines([{"a": 1}, [2]]), [{"a": 1}, [2]]),
        (b'\xef\xbb\xbf{"a":1}\n\n{"b":2}', [{"a": 1}, {"b": 2}]),
        (b'{"a":1}{"b":2}\n{"c":3}', [{"a": 1}, {"b": 2}, {"c": 3}]),
        (b'"cut":1}\n{"b":2}\n', [{"b": 2}]),
        (b"", []),
    ],
)
def test_documents_and_lines(data: bytes, expected: list[Any]) -> None:
    assert values(data)[0] == expected


def test_what_is_wrong_is_counted() -> None:
    assert values(b'{"a":1}\n{"b":\n7\n{"c":1}{"d":2}\n')[1] == {"bad_line": 2, "two_on_a_line": 1}


@pytest.mark.parametrize("data", [b'{\n"a":', b"{\n" + b'"a":[' * 2000])
def test_a_broken_document_is_one_error(data: bytes) -> None:
    with pytest.raises(TranscriptError):
        values(data)


LONG = {"head": {"kind": "x", "n": [1, {"deep": True}]}, "list": [{"text": 'a"\\' * 99}] * 999}


@pytest.mark.parametrize("cut", [70_000, 90_000, 130_000])
def test_the_opening_of_a_large_document(cut: int) -> None:
    data = json.dumps(LONG, indent=1).encode()[:cut]
    value = opening(source_of(data))
    assert value["head"] == LONG["head"]
    assert value["list"][0] == LONG["list"][0]  # type: ignore[index]  # a list by construction
    assert 1 < len(value["list"]) < 999


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a": 1, "b": [2, "cut', {"a": 1, "b": [2]}),
        (b'{"a": 1, "b": [2, 3', {"a": 1, "b": [2]}),
        (b'{"a": {"b": 1}, "c"', {"a": {"b": 1}}),
        (b"[[[", [[[]]]),
        (b"[1}", None),
        (b"{", {}),
        (b"plain text", None),
        (b"", None),
        (b'{"a": tru, "b": 1', None),
        (b'"text"', "text"),
    ],
)
def test_a_value_is_closed_where_it_is_cut(data: bytes, expected: object) -> None:
    assert opening(source_of(data)) == expected


def test_brackets_without_end_are_given_up() -> None:
    assert opening(source_of(b"[" * 100_000)) is None


def test_a_number_of_any_length_is_read() -> None:
    digits = "7" * 5000
    assert values(f'{{"a": {digits}}}\n{{"b": 1}}\n'.encode()) == ([{"a": digits}, {"b": 1}], {})
