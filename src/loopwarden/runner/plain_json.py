"""What happened, as JSON of bounded size and depth, whatever a model or a tool put into it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

LONGEST_TEXT: Final = 64_000
"""Characters of one text that are kept; what is beyond is cut, and said to be."""

MOST_BYTES: Final = 1_000_000
"""Size of one happening; of a larger one only short texts and numbers are kept."""

DEEPEST: Final = 24
"""Values nested deeper are left out."""

MOST_VALUES: Final = 20_000
"""Values of one happening; further ones are left out."""

_SHORT: Final = 2_000
_CUT: Final = "... [cut]"
_LEFT_OUT: Final = "[left out]"


def to_json(data: Mapping[str, Any]) -> str:
    """The data as ASCII JSON; never fails."""
    text = _dumps(_Plain(LONGEST_TEXT).value(dict(data), 0))
    if len(text) <= MOST_BYTES:
        return text
    short = _Plain(_SHORT)
    kept = {
        key: short.value(value, DEEPEST - 1)
        for key, value in list(data.items())[:64]
        if value is None or isinstance(value, str | int | float)
    }
    return _dumps(kept | {"cut": True})


def from_json(text: str) -> dict[str, Any]:
    """What `to_json` wrote; an empty mapping for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


class _Plain:
    """Makes a value plain: of JSON types only, and bounded."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._left = MOST_VALUES

    def value(self, value: object, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            return _LEFT_OUT
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            return int(value) if value.bit_length() <= 53 else self._text(_digits(value))  # noqa: PLR2004 - what every reader of JSON can hold
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(float(value))
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, list | tuple):
            return [self.value(part, depth + 1) for part in value[: self._left + 1]]
        return f"<{type(value).__name__}>"

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, part in value.items():
            if self._left < 0:
                break
            found[self._text(key) if isinstance(key, str) else f"<{type(key).__name__}>"] = self.value(
                part, depth + 1
            )
        return found

    def _text(self, text: str) -> str:
        return text if len(text) <= self._longest else text[: self._longest] + _CUT


def _digits(value: int) -> str:
    """An integer in words; one with more digits than Python writes is only named."""
    try:
        return str(value)
    except ValueError:
        return "<int>"
