"""The part of YAML that settings are written in, read with the line of everything; all else is refused.

Read is one document whose root is a block mapping in column 0, with mappings and lists in blocks or in
brackets, plain, quoted and block scalars, comments, anchors and aliases. Not read are tags, merges at the
top, keys of more than a line, tabs between things, directives and further documents: a text that uses these,
and one that is broken, raises an error, so that nobody changes what was not understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NoReturn

from loopwarden.hooks.yaml_scalars import FLOW, SPACE, YamlTextError, block_text, flow, quoted

MAX_DEPTH: Final = 60
"""Deepest nesting that is read."""

_ODD: Final = re.compile(
    "[^\t\n\r -~\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|\r(?!\n)|[\u2028\u2029]"
)
_KEY: Final = re.compile(
    r"""(?:"(?P<double>(?:[^"\\\n]|\\[^\n])*)"|'(?P<single>(?:[^'\n]|'')*)'"""
    r"""|(?P<plain>(?:[^\s\-?:,\[\]{}#&*!|>'"%@`]|[\-?:](?=\S))(?:[^\n\t:#]|:(?=[^\s])|(?<![ ])\#)*?))"""
    r"""[ ]*:(?=[ \n]|$)""",
)
_PLAIN: Final = re.compile(
    r"""(?:[^\s\-?:,\[\]{}#&*!|>'"%@`]|[\-?:](?=[^\s]))(?:[^\n\t:#]|:(?=[^\s])|(?<![ ])\#)*"""
)
_MORE: Final = re.compile(r"[^\s#](?:[^\n\t:#]|:(?=[^\s])|(?<![ ])\#)*")
_BLOCK: Final = re.compile(
    r"[|>](?:(?P<digit>[1-9])?(?P<chomp>[+-]?)|(?P<chomp2>[+-])(?P<digit2>[1-9]))(?=[ \n]|$)"
)
_NAME: Final = re.compile(r"[&*](?P<name>[A-Za-z0-9_-]+)(?=[ \n]|$)")
_MARKER: Final = re.compile(r"(?:---|\.\.\.)(?=[ \t\n]|$)")
_TAIL: Final = re.compile(r"[ ]*(?:(?<=[ ])#[^\n]*)?(?=\n|$)")
_DASH: Final = re.compile(r"-(?=[ \n]|$)")
_MOST_KEY: Final = 1000


@dataclass(slots=True)
class Node:
    """A value.

    Attributes:
        kind: `mapping`, `list`, `scalar`, `flow`, `alias` or `nothing`.
        start: Where it begins.
        row: Its first line.
        end: The line after its last.
        column: Where the entries of a block stand.
        raw: What is written, from the first to the last character.
        text: What a scalar says.
        anchor: Whether it has one.
        keys: Of a mapping, with the line of each key.
        items: Of a mapping or list, in the order of the text.
    """

    kind: str
    start: int
    row: int
    end: int
    column: int = 0
    raw: str = ""
    text: str = ""
    anchor: bool = False
    keys: list[tuple[str, int]] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)

    def get(self, key: str) -> Node | None:
        """The value of a key of a mapping."""
        return next(
            (item for (name, _), item in zip(self.keys, self.items, strict=False) if name == key), None
        )

    def said(self) -> object:
        """What it says, to be compared: blocks as they are built, everything else as it is written."""
        if self.kind == "mapping":
            return [(key, item.said()) for (key, _), item in zip(self.keys, self.items, strict=True)]
        if self.kind == "list":
            return [item.said() for item in self.items]
        return self.raw


def read_yaml(text: str) -> Node | None:
    """Read a text; `None`: nothing but comments is in it.

    Raises:
        YamlTextError: It is not understood; the message names the line.
    """
    return _Reader(text.replace("\r\n", "\n") if _ODD.search(text) is None else _odd(text)).document()


def _odd(text: str) -> NoReturn:
    match = _ODD.search(text)
    at = match.start() if match else 0
    line = text.count("\n", 0, at) + 1
    raise YamlTextError(f"line {line}: a character that does not belong in YAML")


class _Reader:
    """A cursor over the text; `at` stands where the next thing begins."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.row = 0
        self.names: set[str] = set()
        self.commented = False

    def fail(self, reason: str) -> NoReturn:
        raise YamlTextError(f"line {self.row + 1}: {reason}")

    def move(self, at: int) -> None:
        self.row += self.text.count("\n", self.at, at)
        self.at = at

    def column(self) -> int:
        return self.at - self.text.rfind("\n", 0, self.at) - 1

    def document(self) -> Node | None:
        self.next_line()
        if self.text.startswith("---", self.at) and self.column() == 0 and _MARKER.match(self.text, self.at):
            self.move(self.at + 3)
            self.rest_is_blank()
        if self.at >= len(self.text):
            return None
        if self.column():
            self.fail("the first key does not begin the line")
        if self.dash() or _KEY.match(self.text, self.at) is None:
            self.fail("no key with a colon where one is expected")
        root = self.mapping(0, 0)
        if self.at < len(self.text):
            self.fail("something that belongs to no key")
        return root

    def next_line(self) -> None:
        """To what comes next, over blank lines and comments; the cursor stands at the end of something."""
        self.commented = False
        while self.at < len(self.text):
            match = SPACE.match(self.text, self.at)
            at = match.end() if match else self.at
            if self.text[at : at + 1] == "#":
                end = self.text.find("\n", at)
                at = len(self.text) if end < 0 else end
                self.commented = True
            if self.text[at : at + 1] == "\n":
                self.move(at + 1)
                continue
            if self.text[at : at + 1] == "\t":
                self.move(at)
                self.fail("a tab where blanks are expected")
            self.move(at)
            break
        if self.column() == 0 and (self.text.startswith("%", self.at)):
            self.fail("a directive")

    def rest_is_blank(self) -> int:
        """Nothing else is on the line; the answer is the line after it."""
        match = _TAIL.match(self.text, self.at)
        end = self.text.find("\n", self.at)
        if match is None or match.end() != (len(self.text) if end < 0 else end):
            self.fail("something after the end of a value")
        row = self.row + 1
        self.move(match.end())
        self.next_line()
        if self.column() == 0 and _MARKER.match(self.text, self.at):
            self.fail("the end of a document or the start of another")
        return row

    def mapping(self, column: int, depth: int) -> Node:
        node = Node("mapping", self.at, self.row, self.row + 1, column)
        seen: set[str] = set()
        while self.at < len(self.text) and self.column() == column:
            key = self.key()
            if key is None:
                self.fail("no key with a colon where one is expected")
            if key == "<<" and depth == 0:
                self.fail("a merge at the top")
            if key in seen:
                self.fail(f"the key {key[:40]!r} for the second time")
            seen.add(key)
            node.keys.append((key, self.row))
            item = self.value(column, depth + 1, in_mapping=True)
            node.items.append(item)
            node.end = item.end
        if self.at < len(self.text) and self.column() > column:
            self.fail("an indent that fits nothing before")
        node.raw = self.text[node.start : self.at].rstrip()
        return node

    def key(self) -> str | None:
        """The key here; the cursor is after its colon then."""
        match = _KEY.match(self.text, self.at)
        if match is None or match.end() - self.at > _MOST_KEY:
            return None
        if match["plain"] is not None:
            key = match["plain"].rstrip(" ")
        else:
            end, key = quoted(self.text, self.at)
            if self.text[end : match.end()].strip(" ") != ":":
                return None
        self.move(match.end())
        return key

    def sequence(self, column: int, depth: int) -> Node:
        node = Node("list", self.at, self.row, self.row + 1, column)
        while self.at < len(self.text) and self.column() == column and self.dash():
            start, row = self.at, self.row
            self.move(self.at + 1)
            item = self.value(column, depth + 1, in_mapping=False)
            item.start, item.row = start, row
            node.items.append(item)
            node.end = item.end
        if self.at < len(self.text) and self.column() > column:
            self.fail("an indent that fits nothing before")
        node.raw = self.text[node.start : self.at].rstrip()
        return node

    def dash(self) -> bool:
        return _DASH.match(self.text, self.at) is not None

    def value(self, column: int, depth: int, *, in_mapping: bool) -> Node:
        """What follows a colon or a dash, whose entry stands in this column."""
        if depth > MAX_DEPTH:
            self.fail(f"nested deeper than {MAX_DEPTH} levels")
        row = self.row
        self.skip_spaces()
        named = self.name("&")
        if named:
            self.skip_spaces()
        here = self.text[self.at : self.at + 1]
        if here in {"", "\n"} or (here == "#" and self.text[self.at - 1] == " "):
            node = self.below(column, depth, row, in_mapping=in_mapping)
        elif not in_mapping and not named and self.dash():
            node = self.sequence(self.column(), depth)
        elif not in_mapping and not named and _KEY.match(self.text, self.at):
            node = self.mapping(self.column(), depth)
        else:
            node = self.scalar(column)
        node.anchor = named
        return node

    def below(self, column: int, depth: int, row: int, *, in_mapping: bool) -> Node:
        """A value on the lines after its key or dash, or none."""
        start = self.at
        end = self.rest_is_blank()
        at = self.column() if self.at < len(self.text) else -1
        if at > column or (in_mapping and at == column and self.dash()):
            if self.dash():
                return self.sequence(at, depth)
            if at > column and self.text[self.at] in "&*|>!":
                self.fail("a value that does not stand behind its key")
            if _KEY.match(self.text, self.at):
                return self.mapping(at, depth)
            return self.scalar(column)
        return Node("nothing", start, row, end)

    def name(self, mark: str) -> bool:
        """Over an anchor or an alias, if one is here."""
        if not self.text.startswith(mark, self.at):
            return False
        match = _NAME.match(self.text, self.at)
        if match is None:
            self.fail(f"a name after {mark} that is none")
        if mark == "&":
            if match["name"] in self.names:
                self.fail(f"the anchor {match['name'][:40]} for the second time")
            self.names.add(match["name"])
        elif match["name"] not in self.names:
            self.fail(f"an alias of nothing: {match['name'][:40]}")
        self.move(match.end())
        return True

    def skip_spaces(self) -> None:
        match = SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def scalar(self, column: int) -> Node:
        node = Node("scalar", self.at, self.row, self.row + 1)
        first = self.text[self.at]
        block = _BLOCK.match(self.text, self.at)
        if block is not None:
            return self.block(node, block, column)
        if first == "*":
            node.kind = "alias"
            self.name("*")
        elif first in "\"'":
            end, node.text = quoted(self.text, self.at)
            self.move(end)
        elif first in FLOW:
            node.kind = "flow"
            self.move(flow(self.text, self.at, self.names))
        else:
            self.plain(node, column)
            return node
        node.raw = self.text[node.start : self.at]
        node.end = self.rest_is_blank()
        self.stays(column)
        return node

    def plain(self, node: Node, column: int) -> None:
        """A scalar without quotes, with the lines that go on with it."""
        match = _PLAIN.match(self.text, self.at)
        if match is None:
            self.fail("something that is no value")
        words = []
        while match is not None:
            words.append(match.group().rstrip(" "))
            self.move(match.start() + len(words[-1]))
            node.raw = self.text[node.start : self.at]
            said = self.text[self.at : None if (end := self.text.find("\n", self.at)) < 0 else end]
            node.end = self.rest_is_blank()
            match = None
            if (
                not said.strip()
                and not self.commented
                and self.at < len(self.text)
                and self.column() > column
            ):
                match = _MORE.match(self.text, self.at)
        self.stays(column)
        node.text = " ".join(words)

    def stays(self, column: int) -> None:
        """What comes next is no deeper than the entry whose value has ended."""
        if self.at < len(self.text) and self.column() > column:
            self.fail("something after the end of a value")

    def block(self, node: Node, head: re.Match[str], column: int) -> Node:
        """A scalar whose lines stand below a `|` or `>`."""
        self.move(head.end())
        digit = head["digit"] or head["digit2"]
        end = self.text.find("\n", self.at)
        line = self.text[self.at : end if end >= 0 else None]
        if re.fullmatch(r"[ ]*(?:[ ]#.*)?", line) is None:
            self.fail("something after the head of a block")
        keep = "+" in head.group()
        stop, last, node.text = block_text(
            self.text, len(self.text) if end < 0 else end + 1, column, int(digit or 0)
        )
        node.raw = self.text[node.start : stop if keep else last]
        node.end = self.row + self.text.count("\n", self.at, stop if keep else last)
        if not self.text[: stop if keep else last].endswith("\n"):
            node.end += 1
        self.move(stop)
        self.next_line()
        if self.column() == 0 and _MARKER.match(self.text, self.at):
            self.fail("the end of a document or the start of another")
        self.stays(column)
        return node
