"""Leaves fields out of a value, or keeps only some, by name at any depth or by JSON pointer."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

_MAX_DEPTH = 100
"""Deeper fields are compared as they are."""

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def without(value: object, names: tuple[str, ...]) -> object:
    """A copy of `value` without the named fields.

    Args:
        value: Any value; only its dicts and lists are looked into.
        names: Field names, left out at any depth, and JSON pointers (`/a/0/b`), left out at that place.
    """
    if not names:
        return value
    plain, pointers = _split(names)
    if plain:
        value = _drop(value, plain, {}, 0)
    for pointer in pointers:
        value = _drop_at(value, pointer)
    return value


def only(value: object, names: tuple[str, ...]) -> object:
    """The parts of `value` that are named, at the top level or by JSON pointer, as a new dict.

    A value that is no dict is returned as it is: it has no other parts.
    """
    if type(value) is not dict:
        return value
    kept: dict[str, object] = {name: value[name] for name in names if name in value}
    for name in names:
        if name.startswith("/"):
            found, part = _at(value, _pointer(name))
            if found:
                kept[name] = part
    return kept


@lru_cache(maxsize=1024)
def _split(names: tuple[str, ...]) -> tuple[frozenset[str], tuple[tuple[str, ...], ...]]:
    plain = frozenset(name for name in names if not name.startswith("/"))
    return plain, tuple(_pointer(name) for name in names if name.startswith("/"))


@lru_cache(maxsize=1024)
def _pointer(text: str) -> tuple[str, ...]:
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])


def _drop(value: object, names: frozenset[str], copies: dict[int, object], depth: int) -> object:
    if depth > _MAX_DEPTH or type(value) not in (dict, list):
        return value
    known = copies.get(id(value))
    if known is not None:
        return known
    if type(value) is dict:
        fields: dict[object, object] = {}
        copies[id(value)] = fields
        for key, item in value.items():
            if not (type(key) is str and key in names):
                fields[key] = _drop(item, names, copies, depth + 1)
        return fields
    items: list[object] = []
    copies[id(value)] = items
    if type(value) is list:
        items.extend(_drop(item, names, copies, depth + 1) for item in value)
    return items


def _drop_at(value: object, steps: tuple[str, ...]) -> object:
    top: list[Any] = [value]
    holder: Any = top
    place: str | int = 0
    for step in steps:
        inner = holder[place]
        found = _place(inner, step)
        if found is None:
            return value
        holder[place] = inner.copy()
        holder, place = holder[place], found
    del holder[place]
    return top[0]


def _at(value: Any, steps: tuple[str, ...]) -> tuple[bool, object]:
    for step in steps:
        place = _place(value, step)
        if place is None:
            return False, None
        value = value[place]
    return True, value


def _place(value: object, step: str) -> str | int | None:
    """Where a step of a pointer leads in a dict or list, `None` where there is nothing."""
    if type(value) is dict:
        return step if step in value else None
    if type(value) is list and _INDEX.fullmatch(step) and int(step) < len(value):
        return int(step)
    return None
