"""Leaves fields out of a value, or keeps only some, by name at any depth or by JSON pointer."""

from __future__ import annotations

from functools import lru_cache

_MAX_DEPTH = 100
"""Deeper fields are compared as they are."""


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
    head, rest = steps[0], steps[1:]
    if type(value) is dict and head in value:
        copy = dict(value)
        if rest:
            copy[head] = _drop_at(copy[head], rest)
        else:
            del copy[head]
        return copy
    if type(value) is list and head.isdecimal() and int(head[:9]) < len(value):
        items = list(value)
        index = int(head[:9])
        if rest:
            items[index] = _drop_at(items[index], rest)
        else:
            del items[index]
        return items
    return value


def _at(value: object, steps: tuple[str, ...]) -> tuple[bool, object]:
    for step in steps:
        if type(value) is dict and step in value:
            value = value[step]
        elif type(value) is list and step.isdecimal() and int(step[:9]) < len(value):
            value = value[int(step[:9])]
        else:
            return False, None
    return True, value
