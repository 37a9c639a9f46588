"""JSON5 text to values, with the line of every key.

The `json5` package reads about 50 kB a second, recurses as deep as its input and tells no places, so a
file with a wrong field could only be answered with the field's name. This reader follows the same grammar
(https://spec.json5.org), is bounded in depth, and remembers lines and duplicate keys; the tests compare
what it reads with that package.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final, NoReturn

from loopwarden.config.document import Document

if TYPE_CHECKING:
    from loopwarden.config.document import Path

MAX_DEPTH: Final = 64
"""Deepest nesting of objects and lists that is read."""

_LINES_DEPTH = 10  # deeper keys belong to other programs' settings; their lines would only take memory
_MAX_DIGITS = 400  # longer numbers are no settings, and Python refuses to convert them at 4,300


class Json5Error(ValueError):
    """The text is no JSON5.

    Attributes:
        reason: What is wrong, one line.
        line: Line counted from 1.
    """

    def __init__(self, reason: str, line: int) -> None:
        self.reason = reason
        self.line = line
        super().__init__(f"line {line}: {reason}")


_NEWLINE = re.compile(r"\r\n|[\n\r\u2028\u2029]")
BLANK = re.compile(
    r"(?:[\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+"
    r"|//[^\n\r\u2028\u2029]*"
    r"|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*"
)
STRING = re.compile(
    r'"[^"\\\n\r]*(?:\\(?:\r\n|[\s\S])[^"\\\n\r]*)*"'
    r"|'[^'\\\n\r]*(?:\\(?:\r\n|[\s\S])[^'\\\n\r]*)*'"
)
NUMBER = re.compile(
    r"[+-]?(?:(?P<hex>0[xX][0-9a-fA-F]+)"
    r"|(?P<float>(?:0|[1-9][0-9]*)\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?"
    r"|(?:0|[1-9][0-9]*)[eE][+-]?[0-9]+|Infinity|NaN)"
    r"|(?P<int>0|[1-9][0-9]*))(?![\w$.])"
)
NAME = re.compile(r"(?:[^\W\d]|[$_]|\\u[0-9a-fA-F]{4})(?:[\w$\u200c\u200d]|\\u[0-9a-fA-F]{4})*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|0(?![0-9])|[^0-9ux])|\\.")
_SIMPLE = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_SIMPLE |= dict.fromkeys(("\r\n", "\n", "\r", "\u2028", "\u2029"), "")
_WORDS = {"true": True, "false": False, "null": None}


def read_json5(text: str) -> Document:
    """Read one JSON5 value; anything after it but blanks and comments is an error.

    Of duplicate keys the last counts, as everywhere; they are listed in the document.

    Raises:
        Json5Error: No JSON5, or nested deeper than `MAX_DEPTH`.
    """
    reader = _Reader(text)
    reader.document.value = reader.value((), 0)
    reader.skip()
    if reader.at < len(text):
        reader.fail(f"{reader.seen()} after the end of the value")
    return reader.document


class _Reader:
    """A cursor over the text; `at` always stands where the next thing begins."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.document = Document()
        self._line_starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]

    def line(self) -> int:
        return bisect_right(self._line_starts, self.at)

    def fail(self, reason: str) -> NoReturn:
        raise Json5Error(reason, self.line())

    def skip(self) -> None:
        match = BLANK.match(self.text, self.at)
        if match is not None:  # it matches the empty text too
            self.at = match.end()

    def peek(self) -> str:
        """The next character after blanks and comments; empty at the end."""
        self.skip()
        return self.text[self.at : self.at + 1]

    def seen(self) -> str:
        """What stands at the cursor, for a message."""
        if self.at >= len(self.text):
            return "the end of the file"
        if self.text.startswith("/*", self.at):
            return "a comment that is not closed"
        if self.text[self.at] in "\"'":
            return "a string that is not closed"
        match = re.compile(r"[\w$.+-]{1,20}").match(self.text, self.at)
        return repr(match.group() if match else self.text[self.at])

    def value(self, path: Path, depth: int) -> Any:
        start = self.peek()
        if start and start in "{[":
            if depth >= MAX_DEPTH:
                self.fail(f"nested deeper than {MAX_DEPTH} levels")
            return self.object(path, depth + 1) if start == "{" else self.list(path, depth + 1)
        if start and start in "\"'" and (match := STRING.match(self.text, self.at)):
            result: Any = self.unescape(match.group()[1:-1])
        elif match := NUMBER.match(self.text, self.at):
            result = self.number(match)
        elif (match := NAME.match(self.text, self.at)) and match.group() in _WORDS:
            result = _WORDS[match.group()]
        else:
            self.fail(f"{self.seen()} where a value is expected")
        self.at = match.end()
        return result

    def object(self, path: Path, depth: int) -> dict[str, Any]:
        self.at += 1
        result: dict[str, Any] = {}
        while self.peek() != "}":
            line = self.line()
            key = self.key()
            inner = (*path, key)
            if key in result:
                self.document.duplicates.append((inner, line))
            if len(inner) <= _LINES_DEPTH:
                self.document.lines[inner] = line
            if self.peek() != ":":
                self.fail(f"{self.seen()} where ':' is expected after the key {key[:40]!r}")
            self.at += 1
            result[key] = self.value(inner, depth)
            self.separator("}")
        self.at += 1
        return result

    def list(self, path: Path, depth: int) -> list[Any]:
        self.at += 1
        result: list[Any] = []
        while self.peek() != "]":
            inner = (*path, len(result))
            if len(inner) <= _LINES_DEPTH:
                self.document.lines[inner] = self.line()
            result.append(self.value(inner, depth))
            self.separator("]")
        self.at += 1
        return result

    def separator(self, closing: str) -> None:
        found = self.peek()
        if found == ",":
            self.at += 1
        elif found != closing:
            self.fail(f"{self.seen()} where ',' or {closing!r} is expected")

    def key(self) -> str:
        if match := STRING.match(self.text, self.at):
            key = self.unescape(match.group()[1:-1])
        elif match := NAME.match(self.text, self.at):
            key = self.unescape(match.group())
        else:
            self.fail(f"{self.seen()} where a key is expected")
        self.at = match.end()
        return key

    def unescape(self, raw: str) -> str:
        if "\\" not in raw:
            return raw

        def replace(match: re.Match[str]) -> str:
            code = match.group(1)
            if code is None:
                self.fail(f"{match.group()!r} is no escape sequence")
            if code[0] in "ux" and len(code) > 1:
                return chr(int(code[1:], 16))
            return _SIMPLE.get(code, code)

        plain = _ESCAPE.sub(replace, raw)
        # two escapes may spell one character beyond U+FFFF
        return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    def number(self, match: re.Match[str]) -> int | float:
        text = match.group()
        if len(text) > _MAX_DIGITS:
            self.fail(f"a number of more than {_MAX_DIGITS} digits")
        if match["hex"]:
            value = int(match["hex"], 16)
            return -value if text.startswith("-") else value
        return float(text) if match["float"] else int(text)
