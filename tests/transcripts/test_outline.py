from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.transcripts.outline import outline

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('ab"\\{', max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (
            b'{"a": "x", "b": [{"c": 1}, {"d": "y"}]}',
            {"a": "x", "b": None, "b.[]": None, "b.[].c": None, "b.[].d": "y"},
        ),
        (b'\xef\xbb\xbf\n {\n"a"\t:\n1}', {"a": None}),
        (b'[1, {"a": {}}]', {"[]": None, "[].a": None}),
        (b'["x", "y"]', {"[]": "x"}),
        # cut anywhere
        (b'{"a": {"b": "cut he', {"a": None, "a.b": None}),
        (b'{"a": 1, "cut', {"a": None}),
        (b'{"a": "\\', {"a": None}),
        # brackets and quotes inside of texts are text
        (b'{"a": "}{\\"b\\": 1", "c": 1}', {"a": '}{\\"b\\": 1', "c": None}),
        # only the first document
        (b'{"a": 1}\n{"b": 1}', {"a": None}),
        (b'{"a": 1}}}]{"b": 1}', {"a": None}),
        (b"no json", {}),
        (b'"text"', {}),
        (b"", {}),
    ],
)
def test_outline(head: bytes, expected: dict[str, str | None]) -> None:
    assert {".".join(path): text for path, text in outline(head).items()} == expected


@given(JSON.filter(lambda value: isinstance(value, dict)), st.integers(0, 300))
def test_a_cut_head_shows_a_part_of_the_whole(value: object, cut: int) -> None:
    whole = json.dumps(value).encode()
    assert outline(whole[:cut]).keys() <= outline(whole).keys()
    assert {path[0] for path in outline(whole) if len(path) == 1} == {
        json.dumps(key)[1:-1]
        for key in value  # type: ignore[attr-defined]  # an object, as filtered
    }


@given(st.binary(max_size=60), st.sampled_from([b"{", b"[", b'{"a":']))
def test_any_bytes_have_an_outline(data: bytes, start: bytes) -> None:
    outline(start + data)


@pytest.mark.parametrize("unit", [b"[", b"{", b'{"a":', b'"', b"\\", b'"a":{"b":'])
def test_large_heads_take_little(unit: bytes) -> None:
    assert len(outline(b"[" + unit * 200_000)) <= 20_002
