"""Which patterns are taken, and that those that are taken run fast."""

from __future__ import annotations

import pytest

from loopwarden.config.patterns import MAX_PATTERN, MAX_REPEATS, check_pattern

TAKEN = [
    r"took \d+ ms",
    r"(?i)wall time: [\d.]+ seconds",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?",
    r"\d{1,3}(?:\.\d{1,3}){3}",
    r"(?:[0-9a-f]{2}){16}",
    r"pid(?:=| )\d+",
    r"(a|b)*c",
    r"a++b*+c",
    r"(?>a+)b",
    r"^x+$",
    r"a(?=b+)",
]

REFUSED = {
    "(a+)+b": "inside a repeat",
    "(a|ab)+c": "inside a repeat",
    "((a?){30}){30}b": "inside a repeat",
    "(?:a{0,65535}){65535}b": "inside a repeat",
    "(?=(a+)+)b": "inside a repeat",
    ".*.*x": "side by side",
    "(.*)(.*)x": "side by side",
    r"(\w+)-\1": "look back",
    r"(a)?(?(1)b|c)": "look back",
    "a*": "empty text",
    "": "empty text",
    "(": "no regular expression",
    "[[a]b": "no regular expression",
    "a{9999999999}": "no regular expression",
    "a+b" * (MAX_REPEATS + 1): "more than",
    "a" * (MAX_PATTERN + 1): "longer than",
}


@pytest.mark.parametrize("pattern", TAKEN)
def test_taken(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


@pytest.mark.parametrize(("pattern", "why"), REFUSED.items())
def test_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_pattern(pattern)
