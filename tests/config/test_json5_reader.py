"""The reader against the json5 package, and what only it does: lines, duplicates, bounds."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwarden.config.json5_reader import MAX_DEPTH, Json5Error, read_json5

json5 = pytest.importorskip("json5", reason="the package that the reader is compared with is not here")

SAME_AS_PACKAGE = [
    "{}",
    "[]",
    "null",
    " true // yes",
    "{a: 1, 'b': \"2\", $c_1: .5, d: 5., e: +5, f: -0x1F, g: 1e3, h: [1, 2, 3,],}",
    "/* a * b ** */ {/**/ a /* x */ : /* y */ 1 // z\n}",
    r"""{"a\u0062": 'it\'s \x41 \n \q', "new\
line": ''}""",
    "\ufeff{\u00a0a\u2028:\u20291}",
    "{\\u0061b: 1}",
    "{caf\u00e9: -Infinity}",
    "[0, -0, 0.0, 1E-2, 10.25e+1]",
]

NO_JSON5 = {
    "": "the end of the file where a value is expected",
    "{": "the end of the file where a key is expected",
    "{a:1}}": "'}' after the end of the value",
    "{a 1}": "'1' where ':' is expected after the key 'a'",
    "[1 2]": "'2' where ',' or ']' is expected",
    "[,]": "',' where a value is expected",
    "{,}": "',' where a key is expected",
    "{a: 012}": "'012' where a value is expected",
    "{1: 1}": "'1' where a key is expected",
    "tru": "'tru' where a value is expected",
    "'ab": "a string that is not closed where a value is expected",
    '"a\nb"': "a string that is not closed where a value is expected",
    "/* a": "a comment that is not closed where a value is expected",
    r'"\1"': r"'\\1' is no escape sequence",
    r'"\u12"': r"'\\u' is no escape sequence",
    "9" * 500: "a number of more than 400 digits",
}


@pytest.mark.parametrize("text", SAME_AS_PACKAGE)
def test_reads_what_the_package_reads(text: str) -> None:
    assert read_json5(text).value == json5.loads(text)


@pytest.mark.parametrize(("text", "reason"), NO_JSON5.items())
def test_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(Json5Error) as raised:
        read_json5(text)
    assert raised.value.reason == reason


def test_two_escapes_spell_one_character_as_in_javascript() -> None:
    assert read_json5(r'"\ud83d\ude00 \ud83d"').value == "\U0001f600 \ud83d"


def test_numbers_beyond_json() -> None:
    values = read_json5("[NaN, Infinity, 1e999]").value
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, math.inf]


def test_lines_of_keys_and_entries() -> None:
    document = read_json5("// first\r\n{\n  a: {\r    b: [\n1,\n{c: 2}] },\n}")
    assert document.lines == {
        ("a",): 3,
        ("a", "b"): 4,
        ("a", "b", 0): 5,
        ("a", "b", 1): 6,
        ("a", "b", 1, "c"): 6,
    }


def test_line_of_a_fault() -> None:
    with pytest.raises(Json5Error) as raised:
        read_json5("{\n a: 1,\n b: }")
    assert raised.value.line == 3


def test_duplicates_are_listed_and_the_last_counts() -> None:
    document = read_json5("{a: 1,\n b: {c: 1, c: 2},\n a: 3}")
    assert document.value == {"a": 3, "b": {"c": 2}}
    assert document.duplicates == [(("b", "c"), 2), (("a",), 3)]


@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_depth_is_bounded(brackets: str) -> None:
    step = "[" if brackets == "[]" else "{a:"
    end = brackets[1]
    assert read_json5(step * (MAX_DEPTH - 1) + brackets + end * (MAX_DEPTH - 1)).value
    with pytest.raises(Json5Error, match="nested deeper"):
        read_json5(step * 100_000)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, st.booleans())
def test_every_json_text_is_read_as_json_reads_it(value: object, ascii_only: bool) -> None:
    assert read_json5(json.dumps(value, ensure_ascii=ascii_only)).value == value


@settings(max_examples=300)
@given(st.text(alphabet="{}[]:,'\"\\/*\n ab01.eEx+-$uIN", max_size=25))
def test_any_text_is_read_as_by_the_package_or_refused(text: str) -> None:
    try:
        value = read_json5(text).value
    except Json5Error:
        return  # the package takes more than the grammar in places; what we take, it has to take alike
    assert repr(value) == repr(json5.loads(text))
