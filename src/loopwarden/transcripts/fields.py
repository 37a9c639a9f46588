"""Values out of parsed JSON that nobody has checked: what has the wrong type counts as missing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.transcripts.model import ReadNotes

TITLE_LENGTH = 120


def mapping(value: object) -> dict[str, Any]:
    """The object, empty if `value` is none."""
    return value if isinstance(value, dict) else {}


def elements(value: object) -> list[Any]:
    """The list, empty if `value` is none."""
    return value if isinstance(value, list) else []


def numbered(values: Iterable[Any], notes: ReadNotes) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a list, with their place from 1; other elements are counted as bad lines."""
    for place, value in enumerate(values, 1):
        if isinstance(value, dict):
            yield place, value
        else:
            notes.add("bad_line")


def word(value: object) -> str | None:
    """A name or id: a text that is not empty, or a whole number written out; else `None`."""
    if isinstance(value, str):
        return (value if value.isascii() else printable(value)) or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def whole(value: object) -> int | None:
    """A whole number, as an exit code; else `None`."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def money(value: object) -> float | None:
    """An amount of US dollars, `None` if `value` is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        amount = float(value)
    except OverflowError:
        return None
    return amount if math.isfinite(amount) and amount >= 0 else None


def printable(text: str) -> str:
    """`text` with `?` in place of lone surrogates, which can't be written anywhere."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def headline(text: str) -> str:
    """`text` as a title: its first line that is not blank, cut to `TITLE_LENGTH` characters.

    Control characters (a terminal would obey them) become spaces.
    """
    line = text.lstrip()[: TITLE_LENGTH * 2].partition("\n")[0]
    line = "".join(letter if letter.isprintable() else " " for letter in printable(line)).strip()
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 3] + "..."


def title_of(*candidates: object) -> str:
    """The first candidate that is a text with something in it, as a title of one line."""
    for candidate in candidates:
        if isinstance(candidate, str) and (title := headline(candidate)):
            return title
    return "(no name)"


def shares(total: int, parts: int) -> list[int]:
    """`total` split into `parts` numbers that differ by 1 at most and add up to it."""
    return [total * (part + 1) // parts - total * part // parts for part in range(parts)]
