"""A configuration as it was written: values, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the top of the file."""


@dataclass(slots=True, kw_only=True)
class Document:
    """One file, read.

    Attributes:
        value: What it holds.
        lines: Line (from 1) of keys and list entries, by path.
        duplicates: Paths of keys that came a second time, with the line of that second time.
    """

    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    duplicates: list[tuple[Path, int]] = field(default_factory=list)
