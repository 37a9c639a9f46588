"""JSON with comments as a tree that knows where everything stands, so that a text can be edited in place.

Read is what agents read of their settings: JSON, with `//` and `/* */` comments and a comma after the last
entry where somebody wrote them, and JSON5 where that is asked for. Whether an agent takes these is its own
matter.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from loopwarden.config import json5_reader

MAX_DEPTH: Final = 200
"""Deepest nesting that is read."""

BLANK: Final = re.compile(r"(?:[\t\n\r ]+|//[^\n\r]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*")
_STRING: Final = re.compile(r'"[^"\\\x00-\x1f]*(?:\\["\\/bfnrtu][^"\\\x00-\x1f]*)*"')
_PLAIN: Final = re.compile(
    r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)(?![\w.+-])"
)
_SEEN: Final = re.compile(r"[\w$.+-]{1,20}")
_LINE: Final = re.compile(r"\r\n|\n|\r")


class JsonTextError(ValueError):
    """The text is no JSON; the message names the line."""


@dataclass(slots=True)
class Node:
    """A value.

    Attributes:
        kind: `object`, `list`, or `plain` for everything else.
        start: Where it begins.
        end: Where it ends, exclusive.
        items: What is in it, in the order of the text.
    """

    kind: str
    start: int
    end: int = 0
    items: list[Item] = field(default_factory=list)

    def get(self, key: str) -> Node | None:
        """The value of a key of an object; the last one counts."""
        return next((item.node for item in reversed(self.items) if item.key == key), None)


@dataclass(slots=True)
class Item:
    """An entry of an object or a list.

    Attributes:
        key: Its key; empty in a list.
        start: Where it begins: with its key, if it has one.
        node: Its value.
        comma: Where the comma after it stands.
    """

    key: str
    start: int
    node: Node
    comma: int | None = None


def read_tree(text: str, *, json5: bool = False) -> Node:
    """Read one value; only blanks and comments may follow.

    Args:
        text: The text.
        json5: Whether all of JSON5 is read.

    Raises:
        JsonTextError: It is no JSON, or nested deeper than `MAX_DEPTH`.
    """
    reader = _Json5Reader(text) if json5 else _Reader(text)
    node = reader.value(0)
    if reader.peek():
        reader.fail(f"{reader.seen()} after the end")
    return node


def value_of(text: str, node: Node) -> Any:
    """What a node says; numbers stay as they are written, of keys that come twice the last counts."""
    if node.kind == "object":
        return {item.key: value_of(text, item.node) for item in node.items}
    if node.kind == "list":
        return [value_of(text, item.node) for item in node.items]
    raw = text[node.start : node.end]
    if raw[0] in "\"'":
        return _string(raw)
    return json.loads(raw) if raw in {"true", "false", "null"} else Number(raw)


def _string(raw: str) -> str:
    """What a string says that was read already."""
    try:
        return str(json.loads(raw))
    except ValueError:  # JSON5
        return str(json5_reader.read_json5(raw).value)


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written."""

    text: str


class _Reader:
    """A cursor over the text; `at` stands where the next thing begins."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, reason: str) -> NoReturn:
        starts = [match.end() for match in _LINE.finditer(self.text)]
        raise JsonTextError(f"line {bisect_right(starts, self.at) + 1}: {reason}")

    def peek(self) -> str:
        match = BLANK.match(self.text, self.at)
        if match is not None:  # it matches the empty text too
            self.at = match.end()
        return self.text[self.at : self.at + 1]

    def seen(self) -> str:
        if self.at >= len(self.text):
            return "the end of the file"
        match = _SEEN.match(self.text, self.at)
        return repr(match.group() if match else self.text[self.at])

    def value(self, depth: int) -> Node:
        first = self.peek()
        if first in {"{", "["}:
            if depth >= MAX_DEPTH:
                self.fail(f"nested deeper than {MAX_DEPTH} levels")
            return self.container(first, depth + 1)
        end = self.plain(first)
        if end is None:
            self.fail(f"{self.seen()} where a value is expected")
        node = Node("plain", self.at, end)
        self.at = end
        return node

    def plain(self, first: str) -> int | None:
        """Where the value that begins here ends, if it is neither an object nor a list."""
        match = (_STRING if first == '"' else _PLAIN).match(self.text, self.at)
        if match is not None and first == '"':
            self.string(match.group())
        return None if match is None else match.end()

    def container(self, opening: str, depth: int) -> Node:
        node = Node("object" if opening == "{" else "list", self.at)
        closing = "}" if opening == "{" else "]"
        self.at += 1
        while self.peek() != closing:
            start = self.at
            key = self.key() if opening == "{" else ""
            item = Item(key, start, self.value(depth))
            node.items.append(item)
            found = self.peek()
            if found == ",":
                item.comma = self.at
                self.at += 1
            elif found != closing:
                self.fail(f"{self.seen()} where ',' or {closing!r} is expected")
        self.at += 1
        node.end = self.at
        return node

    def key(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            self.fail(f"{self.seen()} where a key in double quotes is expected")
        key = self.string(match.group())
        self.at = match.end()
        if self.peek() != ":":
            self.fail(f"{self.seen()} where ':' is expected")
        self.at += 1
        return key

    def string(self, raw: str) -> str:
        if "\\u" not in raw:
            return str(json.loads(raw)) if "\\" in raw else raw[1:-1]
        try:
            return str(json.loads(raw))
        except ValueError:
            self.fail("a \\u without four hexadecimal digits")


class _Json5Reader(_Reader):
    """A cursor over JSON5."""

    def peek(self) -> str:
        match = json5_reader.BLANK.match(self.text, self.at)
        if match is not None:  # it matches the empty text too
            self.at = match.end()
        return self.text[self.at : self.at + 1]

    def plain(self, first: str) -> int | None:
        match = (json5_reader.STRING if first in {'"', "'"} else json5_reader.NUMBER).match(
            self.text, self.at
        )
        match = match or json5_reader.NAME.match(self.text, self.at)
        if match is None:
            return None
        try:
            json5_reader.read_json5(match.group())
        except json5_reader.Json5Error:
            return None
        return match.end()

    def key(self) -> str:
        found = (pattern.match(self.text, self.at) for pattern in (json5_reader.STRING, json5_reader.NAME))
        match = next(filter(None, found), None)
        if match is None:
            self.fail(f"{self.seen()} where a key is expected")
        try:
            (key,) = json5_reader.read_json5(f"{{{match.group()}: 0}}").value
        except json5_reader.Json5Error as error:
            self.fail(error.reason)
        self.at = match.end()
        if self.peek() != ":":
            self.fail(f"{self.seen()} where ':' is expected")
        self.at += 1
        return str(key)
