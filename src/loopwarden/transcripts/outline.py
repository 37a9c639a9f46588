"""What a JSON document looks like, told from its first bytes alone.

A large document does not lie within the head of a file, so it can't be parsed there. Its keys can be
read all the same, in whatever order and layout they were written.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]
"""Keys from the root; `[]` stands for any element of a list."""

OUTLINE_BYTES = 256 * 1024
"""How much of a head is looked at."""

_DEPTH = 6  # keys that lie deeper are left out
_PATHS = 20_000
_VALUE_BYTES = 200

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+("?)|[{}\[\],:]', re.DOTALL)


def outline(head: bytes) -> dict[Path, str | None]:
    """The keys of the first JSON document in `head`, which may be cut anywhere.

    Returns:
        By path the first text that stands there, `None` where no short text does. Empty if `head`
        begins with neither an object nor a list.
    """
    return _outline(head[:OUTLINE_BYTES])


@lru_cache(maxsize=4)
def _outline(head: bytes) -> dict[Path, str | None]:
    head = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    found: dict[Path, str | None] = {}
    if head[:1] not in (b"{", b"["):
        return found
    path: list[str] = []  # one key a container that is open; of an object the present one
    objects: list[bool] = []
    at_key = False
    for token in _TOKEN.finditer(head):
        mark = token[0]
        if mark in (b"{", b"["):
            path.append("" if mark == b"{" else "[]")
            objects.append(mark == b"{")
            at_key = objects[-1]
            if not at_key and len(path) <= _DEPTH:
                found.setdefault(tuple(path), None)
        elif mark in (b"}", b"]"):
            path.pop()
            objects.pop()
            at_key = False
            if not path:
                break
        elif mark == b",":
            at_key = objects[-1]
        elif mark != b":":
            if not token[1] or len(found) > _PATHS:
                break
            if len(path) <= _DEPTH:
                text = mark[1:-1].decode(errors="replace")
                if at_key:
                    path[-1] = text
                    found.setdefault(tuple(path), None)
                elif len(mark) <= _VALUE_BYTES and found.get(tuple(path)) is None:
                    found[tuple(path)] = text
            at_key = False
    return found
