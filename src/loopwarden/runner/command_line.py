"""Takes a shell command line apart into the single commands that it would run, as far as that can be told.

This is no shell. It knows quotes, `;`, `&`, `|`, newlines, parentheses, redirections and substitutions; of
the rest it only says that it is there (`Line.opaque`), so that what wasn't read is never taken for harmless.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

LONGEST: Final = 100_000
"""Characters of a line that are read; a longer one is opaque."""

_DEEPEST: Final = 8
_MOST: Final = 2000
_NO_GLOBS: Final = frozenset({"{", "[", "[["})

_REDIRECTION = re.compile(r"<<<|<<-|<<|<&|<>|>>|>&|>\||>|<")
_HARMLESS = re.compile(r"(?:>|>>|<)[ \t]*/dev/null(?![^ \t\n;&|()<>])|[<>]&[0-9-](?![^ \t\n;&|()<>])")
_ESCAPED = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_WORD = re.compile(r"[ \t]*[\\'\"]?([\w.-]+)")
_VARIABLE = re.compile(r"\{[A-Za-z0-9_]+\}|[A-Za-z0-9_?#$!@*-]")


@dataclass(slots=True)
class Part:
    """One simple command.

    Attributes:
        text: As it is written, with runs of blanks outside of quotes as one.
        words: Without quotes and redirections.
        open: For each word whether the shell makes something else of it (a variable, a substitution, a glob,
            braces). Never in the text of a here-document.
        redirected: Whether it reads or writes a file by a redirection (`/dev/null` is none).
    """

    text: str = ""
    words: list[str] = field(default_factory=list)
    open: list[bool] = field(default_factory=list)
    redirected: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A command line.

    Attributes:
        parts: Its commands in order, those of substitutions too.
        opaque: Whether it has something in it that this module does not read.
        cut: Whether it is too long or too deep to be read to the end.
    """

    parts: tuple[Part, ...]
    opaque: bool
    cut: bool


def read_line(text: str) -> Line:
    """Take a command line apart; never raises."""
    reader = _LineReader()
    reader.read(text[:LONGEST], 0)
    cut = reader.cut or len(text) > LONGEST
    return Line(tuple(part for part in reader.parts if part.text), reader.opaque or cut, cut)


class _LineReader:
    """Reads from left to right; what is in substitutions and double quotes again, as a line of its own."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.opaque = False
        self.cut = False

    def read(self, text: str, depth: int, *, past: bool = False) -> None:
        """Read a line; `past`: it stands behind a substitution, and was read before as what it is."""
        if depth > _DEEPEST or len(self.parts) > _MOST:
            self.cut = True
            return
        part = Part()
        word: list[str] = []
        shown: list[str] = []
        started = False  # whether a word has begun, be it an empty one in quotes
        changes = False  # whether the shell makes something else of the word
        target = False  # whether the next word is the file of a redirection
        inside = 0  # parentheses that are open
        here: list[str] = []  # how the here-documents end that begin with the next line
        text_end = 0  # where the last of them does
        place = 0

        def end_word() -> None:
            nonlocal started, changes, target
            if started and not target:
                part.words.append("".join(word))
                part.open.append(
                    changes and not past and place >= text_end and "".join(word) not in _NO_GLOBS
                )
            target = target and not started
            word.clear()
            started = changes = False

        def end_part() -> None:
            nonlocal part, target
            end_word()
            target = False
            part.text = "".join(shown).strip()
            self.parts.append(part)
            shown.clear()
            part = Part()

        while place < len(text):
            char = text[place]
            if text.startswith("\\\n", place):  # the line goes on
                place += 2
            elif char in " \t":
                end_word()
                if shown and shown[-1] != " ":
                    shown.append(" ")
                place += 1
            elif char in ";&|\n()":
                end_part()
                inside += (char == "(") - (char == ")")
                past = past or (depth > 0 and inside < 0)
                if char == "\n" and here:
                    text_end = _end_of(here, text, place)
                    here.clear()
                place += 1
            elif char == "#" and not started:
                self.opaque = True
                end = text.find("\n", place)
                place = len(text) if end < 0 else end
            elif found := _REDIRECTION.match(text, place):
                harmless = _HARMLESS.match(text, place)
                digits = "".join(word)
                plain = digits.isascii() and digits.isdecimal() and shown[len(shown) - len(word) :] == word
                number = len(word) if plain else 0
                if number:  # which stream is redirected
                    word.clear()
                    started = False
                end_word()
                if harmless:
                    del shown[len(shown) - number :]
                    place = harmless.end()
                else:
                    part.redirected = target = True
                    self.opaque = self.opaque or found[0] in {"<<", "<<-"}
                    if (word_of := _WORD.match(text, found.end())) and found[0] in {"<<", "<<-"}:
                        here.append(word_of[1])
                    shown.append(found[0])
                    place = found.end()
            elif found := _ESCAPED.match(text, place):
                self.opaque = True
                word.append(found[1])
                shown.append(found[0])
                changes = changes or "\\" in found[1]
                started, place = True, found.end()
            elif text.startswith('$"', place):  # quotes that are translated
                self.opaque = True
                shown.append(char)
                place += 1
            elif char == "'":
                end = text.find("'", place + 1)
                if end < 0:
                    self.opaque, end = True, len(text)
                word.append(text[place + 1 : end])
                shown.append(text[place : end + 1])
                started, place = True, end + 1
            elif char == '"':
                inner, end = self._quoted(text, place + 1, depth)
                word.append(inner)
                shown.append(text[place:end])
                started, place = True, end
                changes = changes or "$" in inner or "`" in inner
            elif char == "\\":
                word.append(text[place + 1 : place + 2])
                shown.append(text[place : place + 2])
                started, place = True, place + 2
            else:
                if char == "`":
                    self.opaque = True
                    end_part()
                    past = past or depth > 0
                    place += 1
                    continue
                if char == "$" and not _VARIABLE.match(text, place + 1):
                    self.opaque = True
                word.append(char)
                shown.append(char)
                started, place = True, place + 1
                changes = changes or char in "$*?[{"
        end_part()

    def _quoted(self, text: str, place: int, depth: int) -> tuple[str, int]:
        """What stands in double quotes, and where it ends; substitutions are read as lines."""
        inner: list[str] = []
        substitutes = False
        start = place
        while place < len(text) and text[place] != '"':
            if text.startswith("\\\n", place):
                place += 2
                continue
            if text[place] == "\\" and place + 1 < len(text):
                if text[place + 1] not in '$`"\\':
                    inner.append("\\")
                place += 1
            elif text[place] == "`" or (text[place] == "$" and not _VARIABLE.match(text, place + 1)):
                substitutes = substitutes or text[place] == "`" or text[place + 1 : place + 2] == "("
                self.opaque = self.opaque or substitutes or text[place + 1 : place + 2] == "{"
            inner.append(text[place])
            place += 1
        if place >= len(text):
            self.opaque = True
        if substitutes:  # quotes inside of it may end elsewhere: read on to the end, to miss nothing
            pieces = re.split(r"(\$\(|`)", text[start:])[1 : 2 * _MOST]
            ticks = 0
            for mark, begin in zip(pieces[::2], pieces[1::2], strict=False):
                ticks += mark == "`"
                self.read(begin, depth + 1, past=mark == "`" and ticks % 2 == 0)
        return "".join(inner), place + 1


def _end_of(here: list[str], text: str, place: int) -> int:
    """Where the here-documents end whose text begins at `place`."""
    for word in here:
        found = re.compile(rf"^\t*{re.escape(word)}$", re.MULTILINE).search(text, place)
        if found is None:
            return len(text) + 1
        place = found.end()
    return place
