"""Entries put into a JSON text and taken out again; the rest of the text stays as it is, to the byte."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from loopwarden.hooks.json_tree import BLANK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.hooks.json_tree import Node

Edit: TypeAlias = tuple[int, int, str]
"""What stands from one place to another is to be this."""

_SAME_LINE: Final = re.compile(r"(?:[\t ]|/\*[^*\n\r]*\*+(?:[^/*\n\r][^*\n\r]*\*+)*/)*(?://[^\n\r]*)?")
_INDENT: Final = "  "


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits, which must not overlap."""
    pieces, at = [], 0
    # Of two at one place the first comes first.
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        pieces += [text[at:start], new]
        at = end
    return "".join([*pieces, text[at:]])


def line_end(text: str) -> str:
    """How lines of the text end."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def indent_unit(text: str, root: Node) -> str:
    """How much deeper a level stands, taken from the first entry."""
    for item in root.items:
        found = _own_line(text, item.start)
        if found:
            return found
    return _INDENT


def added(text: str, root: Node, container: Node, entries: list[tuple[str, Any]]) -> list[Edit]:
    """Edits that put entries at the end of an object or a list.

    Args:
        text: The whole text.
        root: Its tree.
        container: Where to put them.
        entries: Each with its key, which is of no use in a list.
    """
    inside = text[container.start + 1 : container.end - 1]
    if container.items and "\n" not in inside and "\r" not in inside:
        return _beside(container, entries)
    unit, newline = indent_unit(text, root), line_end(text)
    base = _line_indent(text, container.start)
    indent = base + unit
    if container.items:
        own = _own_line(text, container.items[-1].start)
        indent = indent if own is None else own
    wanted = [_written(container, key, value, indent, unit, newline) for key, value in entries]
    block = f",{newline}{indent}".join(wanted)
    if not container.items:
        kept = inside.rstrip()
        place = container.start + 1 + len(kept)
        return [(place, container.end - 1, f"{newline}{indent}{block}{newline}{base}")]
    last = container.items[-1]
    edits = [] if last.comma is not None else [(last.node.end, last.node.end, ",")]
    place = last.node.end if last.comma is None else last.comma + 1
    rest = _SAME_LINE.match(text, place)
    if rest is not None and text[rest.end() : rest.end() + 1] in {"\n", "\r"}:
        place = rest.end()
    comma = "" if last.comma is None else ","
    return [*edits, (place, place, f"{newline}{indent}{block}{comma}")]


def removed(text: str, container: Node, gone: set[int]) -> list[Edit]:
    """Edits that take entries out of an object or a list.

    Args:
        text: The whole text.
        container: Where they are.
        gone: Their places in it.
    """
    items = container.items
    if len(gone) == len(items):
        first, last = items[0], items[-1]
        end = last.node.end if last.comma is None else last.comma + 1
        start = _before(text, first.start, container.start + 1)
        if not text[container.start + 1 : start].strip() and not text[end : container.end - 1].strip():
            return [(container.start + 1, container.end - 1, "")]
        return [(start, end, "")]
    edits: list[Edit] = []
    for start, stop in _stretches(gone):
        begin = _before(text, items[start].start, container.start + 1)
        last = items[stop]
        if last.comma is not None:
            end = last.comma + 1
            if begin == container.start + 1 == items[start].start:  # the first one, on the same line
                end += len(text[end:]) - len(text[end:].lstrip(" \t"))
            edits.append((begin, end, ""))
        else:
            comma = items[start - 1].comma
            if comma is not None:
                edits.append((comma, comma + 1, ""))
            edits.append((begin, last.node.end, ""))
    return edits


def _stretches(places: set[int]) -> list[tuple[int, int]]:
    """Neighbours together: the first and the last place of each stretch."""
    found: list[tuple[int, int]] = []
    for place in sorted(places):
        if found and found[-1][1] == place - 1:
            found[-1] = (found[-1][0], place)
        else:
            found.append((place, place))
    return found


def _before(text: str, start: int, lowest: int) -> int:
    """Where the blanks of an entry begin: those on its line, and the end of the line above."""
    while start > lowest and text[start - 1] in " \t":
        start -= 1
    if start > lowest and text[start - 1] == "\n":
        start -= 1
    if start > lowest and text[start - 1] == "\r":
        start -= 1
    return start


def _beside(container: Node, entries: list[tuple[str, Any]]) -> list[Edit]:
    """Everything on one line stays on it."""
    last = container.items[-1]
    block = ", ".join(
        (f"{json.dumps(key)}: " if container.kind == "object" else "") + json.dumps(value, ensure_ascii=False)
        for key, value in entries
    )
    if last.comma is not None:
        return [(last.comma + 1, last.comma + 1, f" {block},")]
    return [(last.node.end, last.node.end, f", {block}")]


def _written(container: Node, key: str, value: Any, indent: str, unit: str, newline: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    name = f"{json.dumps(key)}: " if container.kind == "object" else ""
    return name + f"{newline}{indent}".join(lines)


def _own_line(text: str, place: int) -> str | None:
    """What stands before something that begins its line; `None` if it does not."""
    start = max(text.rfind("\n", 0, place), text.rfind("\r", 0, place)) + 1
    before = text[start:place]
    return before if start and not before.strip(" \t") else None


def _line_indent(text: str, place: int) -> str:
    start = max(text.rfind("\n", 0, place), text.rfind("\r", 0, place)) + 1
    line = text[start:place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def empty(text: str) -> bool:
    """Whether there is nothing but blanks and comments."""
    match = BLANK.match(text)
    return match is not None and match.end() == len(text)
