"""The arguments of a call as the page may show them: a small copy now, masked when somebody looks."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from loopwarden.masking import shorten

_TEXT: Final = 600
"""Characters kept of one text; more than `masking` reads of it, so that it sees where it was cut."""

_ALL_TEXT: Final = 1800
_NODES: Final = 48
_ITEMS: Final = 9
_DEPTH: Final = 5
_SHOWN: Final = 160


def look(tool: str, arguments: object, size: int) -> bytes:
    """A digest of what would be kept of a call; calls that differ far inside may share one."""
    text = f"{tool[:_TEXT]}\0{_Copy().of(arguments, 0)!r}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


class Glimpse:
    """Arguments, cut down to at most about 2 kB in a time that does not depend on their size.

    Masking takes long beside a verdict and most calls are never looked at, so that it is done on demand.
    """

    __slots__ = ("_kept", "_text")

    def __init__(self, arguments: object) -> None:
        self._kept: object = _Copy().of(arguments, 0)
        self._text: str | None = None

    @property
    def text(self) -> str:
        """One line of at most 160 characters: see `masking.shorten`."""
        if self._text is None:
            self._text, self._kept = shorten(self._kept, _SHOWN), None
        return self._text


class _Copy:
    """Copies a value until its share is used up."""

    __slots__ = ("_nodes", "_text")

    def __init__(self) -> None:
        self._nodes = _NODES
        self._text = _ALL_TEXT

    def of(self, value: object, depth: int) -> object:
        self._nodes -= 1
        if isinstance(value, str):
            return self._cut(value)
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return value if value.bit_length() < 256 else "(a huge number)"  # noqa: PLR2004 - as in masking
        if self._nodes <= 0 or depth >= _DEPTH:
            return "…"
        if isinstance(value, dict):
            return self._mapping(value, depth)
        if isinstance(value, list | tuple):
            return [self.of(item, depth + 1) for item in value[:_ITEMS]]
        return f"({type(value).__name__[:40]})"

    def _mapping(self, value: dict[object, object], depth: int) -> dict[str, object]:
        copied: dict[str, object] = {}
        for number, (name, item) in enumerate(value.items()):
            if number == _ITEMS:
                break
            label = name if isinstance(name, str) else f"({type(name).__name__[:40]})"
            copied[self._cut(label)] = self.of(item, depth + 1)
        return copied

    def _cut(self, text: str) -> str:
        """Whole, its first part where that is long, or nothing: never a piece that hides a credential."""
        if min(len(text), _TEXT) > self._text:
            return "…"
        self._text -= min(len(text), _TEXT)
        return text[:_TEXT]
