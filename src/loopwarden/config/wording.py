"""How messages name places and values of a configuration."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from loopwarden.config.document import Path

LARGEST: Final = 2**53 - 1
"""The largest whole number that every JSON reader keeps exact."""

SHOWN: Final = 60
"""Longest piece of a given value that a message repeats."""

_PLAIN_KEY = re.compile(r"[\w$*?!:@/-]+")
_NEAR = 0.6  # difflib's own measure of "close"


def dotted(path: Path) -> str:
    """The path as a person writes it: `agents.list[2].tools.loopDetection.historySize`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif len(part) <= SHOWN and _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{shown(part)}]"
    return text


def shown(value: object) -> str:
    """The value as it would stand in the file, shortened; never fails and never calls foreign code."""
    if isinstance(value, dict):
        return "an object" if value else "{}"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "[]"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST:
        return "a number beyond 2^53"
    if isinstance(value, (str, int, float)) or value is None:
        cut = value[: SHOWN + 1] if isinstance(value, str) else value
        text = json.dumps(cut, ensure_ascii=isinstance(cut, str) and not cut.isprintable())
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    return f"a Python {type(value).__name__}"


def named(name: str) -> str:
    """A name from the file as it stands in a sentence: as it is, if it is short and can be printed."""
    return name if len(name) <= SHOWN and name.isprintable() else shown(name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, if one is; case and underscores do not matter."""
    folded = {_fold(one): one for one in known}
    from difflib import get_close_matches  # only where something is wrong

    found = get_close_matches(_fold(name)[:100], folded, n=1, cutoff=_NEAR)
    return folded[found[0]] if found else None


def _fold(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def line_of(path: Path, lines: Mapping[Path, int]) -> int | None:
    """Line of the key at `path`, or of the nearest thing around it that has one."""
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return None
