"""Values of YAML that may go over lines whatever their indent: in quotes, in brackets, and in blocks."""

from __future__ import annotations

import re
from typing import Final, NoReturn

SPACE: Final = re.compile(r"[ ]*")
FLOW: Final = "[{"

_BLANK: Final = re.compile(r"(?:[ \n]|(?:(?<=[ \n])|^)#[^\n]*)*")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_SINGLE: Final = re.compile(r"'((?:[^']|'')*)'")
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<break>\n[ \t]*)|(?P<code>x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})|(?P<other>.))",
    re.DOTALL,
)
_FOLD: Final = re.compile(r"[ \t]*\n[ \t\n]*")
_MARKER: Final = re.compile(r"\n(?:---|\.\.\.)(?=[ \t\n]|$)")
_WORD: Final = re.compile(
    r"""(?:[^\s\-?:,\[\]{}#&*!|>'"%@`]|[\-](?=[^\s,\[\]{}]))"""
    r"""(?:[^\n\t:#,\[\]{}]|:(?=[^\s,\[\]{}])|(?<![ ])\#)*"""
)
_ALIAS: Final = re.compile(r"\*([A-Za-z0-9_-]+)(?=[ \n,\]}])")
_COLON: Final = re.compile(r"[ ]*:(?=[ \n,\]}])")
_MAX_DEPTH: Final = 60
_LETTERS: Final = {
    **dict(zip("0abtnvfre", "\0\a\b\t\n\v\f\r\x1b", strict=True)),
    **dict(zip(' "/\\N_LP\t', ' "/\\\x85\xa0\u2028\u2029\t', strict=True)),
}
_LAST: Final = 0x10FFFF


class YamlTextError(ValueError):
    """The text is not understood; the message names the line."""


def quoted(text: str, at: int) -> tuple[int, str]:
    """Where a scalar in quotes ends, and what it says.

    Raises:
        YamlTextError: It does not end, or has an escape that is none.
    """
    match = (_DOUBLE if text[at] == '"' else _SINGLE).match(text, at)
    if match is None:
        _fail(text, at, "quotes that are not closed")
    if _MARKER.search(match.group()):
        _fail(text, at, "quotes around the end of a document")
    if text[at] == "'":
        return match.end(), _FOLD.sub(_folded, match[1]).replace("''", "'")
    said, last = [], 0
    for escape in _ESCAPE.finditer(match[1]):
        said.append(_FOLD.sub(_folded, match[1][last : escape.start()]))
        last = escape.end()
        if escape["break"] is not None:
            continue
        if escape["code"] is not None:
            number = int(escape["code"][1:], 16)
            if number > _LAST:
                _fail(text, at, "an escape that is none")
            said.append(chr(number))
        elif escape["other"] in _LETTERS:
            said.append(_LETTERS[escape["other"]])
        else:
            _fail(text, at, "an escape that is none")
    return match.end(), "".join([*said, _FOLD.sub(_folded, match[1][last:])])


def _folded(match: re.Match[str]) -> str:
    return "\n" * (match.group().count("\n") - 1) or " "


def flow(text: str, at: int, names: set[str], depth: int = 0) -> int:
    """Where a mapping or list in brackets ends.

    Args:
        text: The text.
        at: Where its bracket stands.
        names: Anchors that were seen.
        depth: How deep it is nested in others.

    Raises:
        YamlTextError: It is not understood.
    """
    if depth >= _MAX_DEPTH:
        _fail(text, at, f"nested deeper than {_MAX_DEPTH} levels")
    closing = "]" if text[at] == "[" else "}"
    at = _blank(text, at + 1)
    while text[at : at + 1] != closing:
        if closing == "}":
            at = _flow_key(text, at)
            if text[at : at + 1] not in {",", "}"}:
                at = _blank(text, _flow_value(text, at, names, depth))
        else:
            at = _blank(text, _flow_value(text, at, names, depth))
        if text[at : at + 1] == ",":
            at = _blank(text, at + 1)
        elif text[at : at + 1] != closing:
            _fail(text, at, f"no comma and no {closing} where one is expected")
    return at + 1


def _flow_key(text: str, at: int) -> int:
    """Where the value of a key begins."""
    if text[at : at + 1] in {'"', "'"}:
        end, _ = quoted(text, at)
    else:
        match = _WORD.match(text, at)
        end = match.end() if match else at
    colon = _COLON.match(text, end)
    if colon is None or end == at or "\n" in text[at:end]:
        _fail(text, at, "no key with a colon in braces")
    return _blank(text, colon.end())


def _flow_value(text: str, at: int, names: set[str], depth: int) -> int:
    first = text[at : at + 1]
    if first and first in FLOW:
        return flow(text, at, names, depth + 1)
    if first and first in "\"'":
        return quoted(text, at)[0]
    alias = _ALIAS.match(text, at)
    if alias is not None and alias[1] in names:
        return alias.end()
    match = _WORD.match(text, at)
    if match is None:
        _fail(text, at, "something in brackets that is no value")
    return match.end()


def _blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    end = match.end() if match else at
    if _MARKER.search(text, max(at - 1, 0), min(len(text), end + 4)):
        _fail(text, at, "brackets around the end of a document")
    return end


def block_text(text: str, at: int, column: int, digit: int) -> tuple[int, int, str]:
    """The lines of a block scalar.

    Args:
        text: The text.
        at: The beginning of the line after its head.
        column: That of the entry whose value it is.
        digit: How much deeper its lines stand, if its head says so; else 0.

    Returns:
        Where it ends with the blank lines after it, where without, and what it says, each line break a blank.

    Raises:
        YamlTextError: A line stands less deep than those before.
    """
    indent = column + digit if digit else 0
    last, words, blanks = at, [], 0
    while at < len(text):
        end = text.find("\n", at)
        stop = len(text) if end < 0 else end + 1
        line = text[at:stop].rstrip("\n")
        depth = len(line) - len(line.lstrip(" "))
        if not line.strip(" "):
            blanks = max(blanks, depth if not indent else 0)
            at = stop
            continue
        if depth <= column or (indent and depth < indent):
            if depth > column and line[depth] != "#":
                _fail(text, at, "a line that is less deep than its block")
            break
        if not indent:
            indent = depth
            if blanks > indent:
                _fail(text, at, "a blank line that is deeper than its block")
        words.append(line.strip())
        at = last = stop
    return at, last, " ".join(words)


def _fail(text: str, at: int, reason: str) -> NoReturn:
    raise YamlTextError(f"line {text.count(chr(10), 0, at) + 1}: {reason}")
