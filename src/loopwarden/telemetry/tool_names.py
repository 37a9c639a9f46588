"""Names of tools as values of a metric: a model may make up any number of them."""

from __future__ import annotations

import threading
from typing import Final

from loopwarden.masking import clean

OTHER: Final = "other"
"""Stands for every tool beyond the number that is kept apart."""

MAX_TOOLS: Final = 100
_LONGEST: Final = 100


class ToolNames:
    """Keeps the first names apart and calls all others `other`. Safe to share between threads.

    Args:
        most: Names that are kept apart.

    Raises:
        ValueError: `most` is below 0.
    """

    __slots__ = ("_known", "_lock", "_most")

    def __init__(self, most: int) -> None:
        if most < 0:
            raise ValueError(f"max_tools={most}; allowed: 0 or more")
        self._most = most
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def label(self, tool: str) -> str:
        """The name, cleaned and cut; or `other`."""
        name = clean(tool, _LONGEST)
        with self._lock:
            if name not in self._known:
                if len(self._known) >= self._most:
                    return OTHER
                self._known.add(name)
        return name
