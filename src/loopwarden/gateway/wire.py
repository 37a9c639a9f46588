"""JSON of strangers in, JSON out.

`orjson` reads and writes nearly everything. What it does not know (a string with half of a surrogate pair,
as JavaScript makes when it cuts a text) the standard library does.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final, NoReturn

import orjson

LEVELS: Final = 250
"""Containers inside each other that a body may have."""

_DEEP: Final = f"nested deeper than {LEVELS} levels"


def parse(body: bytes) -> Any:
    """The value of a body. Of keys that stand twice the last one counts.

    Raises:
        ValueError: It is no JSON in UTF-8, or nested too deep; the text quotes nothing of it.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        value = _parse_slowly(body, error)
    if body.count(b"[") + body.count(b"{") > LEVELS and isinstance(value, dict | list):
        _check_levels(value)
    return value


def _parse_slowly(body: bytes, error: orjson.JSONDecodeError) -> Any:
    fault = f"no JSON: {error.msg}, line {error.lineno} column {error.colno}"
    if b"\\u" not in body:  # the one thing that it would know better
        raise ValueError(fault) from None
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_refuse)
    except RecursionError:
        raise ValueError(_DEEP) from None
    except ValueError:
        raise ValueError(fault) from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def _check_levels(value: Any) -> None:
    level = [value]
    for _ in range(LEVELS):
        level = [
            member
            for one in level
            for member in (one.values() if type(one) is dict else one)
            if type(member) is dict or type(member) is list
        ]
        if not level:
            return
    raise ValueError(_DEEP)


def dump(value: Any) -> bytes:
    """A value as JSON; dataclasses are objects."""
    try:
        return orjson.dumps(value)
    except TypeError:  # half of a surrogate pair in a name
        return json.dumps(value, default=dataclasses.asdict, separators=(",", ":")).encode()


def ordered(value: Any) -> bytes:
    """The same bytes for the same value, whatever the order of its keys."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
