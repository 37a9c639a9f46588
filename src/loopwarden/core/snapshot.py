"""A run's state as plain data and back: what a store keeps and a restarted program goes on from.

The data are JSON values: digests as base64, counters, tool names and call ids; no arguments, no results.
Only the classes named here come back, by filling their fields; nothing in the data is ever executed.

Values stand as they are where JSON has them, else as an object with one key that says what they are:
`b` bytes, `c` a column of bytes of one length, `i` a list of integers, `o` an object by its place in the
table of objects, `p` a list of such places, `a` an array, `l` `t` `s` list, tuple and set, `d` a dict.
"""

from __future__ import annotations

import json
from array import array
from base64 import b64decode, b64encode
from itertools import chain
from struct import error as StructError  # noqa: N812 - it is a class
from struct import iter_unpack
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import orjson

from loopwarden.core.answer import Announcements
from loopwarden.core.detectors.cycle import Cycle
from loopwarden.core.detectors.failure_streak import FailureStreak
from loopwarden.core.detectors.ping_pong import Alternation
from loopwarden.core.detectors.post_compaction import CompactionGuard
from loopwarden.core.detectors.repeated_failure import Failures, Row
from loopwarden.core.detectors.stagnation import Stagnation
from loopwarden.core.detectors.unknown_tool_churn import Churn
from loopwarden.core.detectors.unknown_tool_repeat import UnknownRow
from loopwarden.core.evidence import Evidence
from loopwarden.core.finding import Finding
from loopwarden.core.fingerprint import Observed
from loopwarden.core.ladder import Held, Ladder
from loopwarden.core.log import Entry, Log, Repeats
from loopwarden.core.profile import ToolUse, ToolUses
from loopwarden.core.rows import Rows
from loopwarden.core.run_state import RunState
from loopwarden.errors import StoreError
from loopwarden.events import Verdict

if TYPE_CHECKING:
    from collections.abc import Hashable

    from loopwarden.core.settings import Settings

_CLASSES: Final[dict[str, type]] = {
    one.__name__: one
    for one in (
        Alternation, Announcements, Churn, CompactionGuard, Cycle, Entry, Evidence, Failures, FailureStreak,
        Finding, Held, Ladder, Log, Observed, Repeats, Row, Rows, RunState, Stagnation, UnknownRow,
    )
}  # fmt: skip

_GIVEN: Final = frozenset({"_settings", "_uses", "_acts"})
"""Fields that are not part of the state: whoever loads it gives them."""

_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    name: tuple(field for field in vars(one)["__slots__"] if field not in _GIVEN)
    for name, one in (*_CLASSES.items(), ("Verdict", Verdict))
}
"""By class what is written of it, in this order."""

VERSION: Final = f"1.{crc32(repr(_FIELDS).encode()):08x}"
"""Version of the layout; a state of another one is refused. The second part follows the fields by itself,
the first one is raised when what they mean changes."""

_PLAIN: Final = frozenset({type(None), bool, int, float, str})
_TAGS: Final[dict[type, str]] = {list: "l", tuple: "t", set: "s"}
_MAKERS: Final[dict[str, type]] = {"l": list, "t": tuple, "s": set}
_DEPTH: Final = 50
_DAMAGE: Final = (
    ArithmeticError, AttributeError, LookupError, RecursionError, StructError, TypeError, ValueError
)  # fmt: skip


def pack(state: RunState) -> bytes:
    """The state as JSON text; `unpack` makes a run of it that goes on alike."""
    data = dump(state)
    try:
        return orjson.dumps(data)
    except TypeError:  # lone surrogates in names and ids
        return json.dumps(data, separators=(",", ":")).encode()


def unpack(saved: bytes, settings: Settings, uses: ToolUses) -> RunState:
    """A run from what `pack` gave; arguments and faults as for `load`."""
    try:
        data = orjson.loads(saved)
    except orjson.JSONDecodeError:
        try:
            data = json.loads(saved)
        except (RecursionError, ValueError) as error:
            raise StoreError(f"a saved run is damaged: {error}") from error
    return load(data, settings, uses)


def dump(state: RunState) -> dict[str, Any]:
    """The state as JSON values; `load` makes a run of it that goes on alike."""
    writer = _Writer()
    root = writer.write(state)
    return {"version": VERSION, "root": root, "objects": writer.objects}


def load(data: object, settings: Settings, uses: ToolUses) -> RunState:
    """A run from what `dump` gave.

    Args:
        data: What `dump` gave, after a trip through JSON if need be.
        settings: The settings of the run; they may differ from those it was saved under.
        uses: As for `RunState`.

    Raises:
        StoreError: The data are of another version, or damaged.
    """
    if not isinstance(data, dict) or data.get("version") != VERSION:
        found = data.get("version") if isinstance(data, dict) else None
        raise StoreError(f"a saved run of version {found!r:.40} can't be read; this is version {VERSION!r}")
    try:
        state = _Reader(data["objects"], settings, uses).read(data["root"], 0)
    except _DAMAGE as error:
        raise StoreError(f"a saved run is damaged: {type(error).__name__}: {error}") from error
    if not isinstance(state, RunState):
        raise StoreError("a saved run is damaged: it holds something else")
    return state


class _Writer:
    """Writes values; an object that is met again, or one that says the same, is only named."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._places: dict[Hashable, int] = {}

    def write(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is bytes:
            return {"b": b64encode(value).decode()}
        if kind is list and len(value) > 1:
            return self._list(value)
        if kind is set:
            value = sorted(value)
        if kind in _TAGS:
            return {_TAGS[kind]: [self.write(item) for item in value]}
        if kind is dict:
            return {"d": [self.write(list(value)), self.write(list(value.values()))]}
        if kind is array:
            return {"a": value.tolist()}
        if isinstance(value, str | int):
            return value  # of a class of its own, which JSON doesn't keep
        if isinstance(value, float):
            return float(value)  # the same, but orjson doesn't take it
        return {"o": self._place(value)}

    def _list(self, items: list[Any]) -> dict[str, Any]:
        """A list; the long ones are columns, whose items are of one kind."""
        kinds = set(map(type, items))
        if kinds == {int}:
            return {"i": items}
        if kinds == {ToolUse}:
            return {"p": [self._place(item) for item in items]}
        if bytes in kinds and kinds <= {bytes, type(None)}:
            holes = [place for place, item in enumerate(items) if item is None] if len(kinds) > 1 else []
            filled = [item for item in items if item is not None] if holes else items
            sizes = set(map(len, filled))
            if len(sizes) == 1 and 0 not in sizes:
                return {"c": [sizes.pop(), b64encode(b"".join(filled)).decode(), holes]}
        return {"l": [self.write(item) for item in items]}

    def _place(self, value: Any) -> int:
        kind = type(value)
        same: Hashable = id(value)
        if kind is ToolUse:
            same = value.tool, value.kind
        elif kind is Verdict:
            same = value
        place = self._places.get(same)
        if place is None:
            place = self._places[same] = len(self.objects)
            self.objects.append(None)
            self.objects[place] = self._object(value)
        return place

    def _object(self, value: Any) -> list[Any]:
        name = type(value).__name__
        if name == "ToolUse":
            return [name, [value.tool, value.kind]]
        if name == "Log":
            repeated = [one for one in value.known.items() if type(one[1]) is Repeats]
            known = dict(sorted(repeated, key=lambda one: one[1].newest))
            return [
                name,
                [self.write(known if field == "known" else getattr(value, field)) for field in _FIELDS[name]],
            ]
        if name not in _FIELDS:
            raise TypeError(f"{name} is no part of a run's state")
        return [name, [self.write(getattr(value, field)) for field in _FIELDS[name]]]


class _Reader:
    """Reads what `_Writer` wrote."""

    def __init__(self, objects: list[Any], settings: Settings, uses: ToolUses) -> None:
        self._objects = objects
        self._made: dict[int, Any] = {}
        self._settings = settings
        self._uses = uses

    def read(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is not dict or len(value) != 1:
            raise TypeError("a value without its kind")
        if depth > _DEPTH:
            raise ValueError("nested too deep")
        ((tag, content),) = value.items()
        if tag == "o":
            return self._object(content, depth + 1)
        if tag == "b":
            return b64decode(content, validate=True)
        if tag == "c":
            return _column(*content)
        if tag == "d":
            keys, values = content
            return dict(zip(self.read(keys, depth + 1), self.read(values, depth + 1), strict=True))
        if tag == "p":
            return [self._object(place, depth + 1) for place in content]
        if tag == "i":
            if not set(map(type, content)) <= {int}:
                raise TypeError("integers are none")
            return list(content)
        if tag == "a":
            return array("I", content)
        return _MAKERS[tag]([self.read(item, depth + 1) for item in content])

    def _object(self, place: int, depth: int) -> Any:
        made = self._made.get(place)
        if made is not None:
            return made
        name, values = self._objects[place]
        if name == "ToolUse":
            made = self._uses.restore(*values)
        elif name == "Verdict":
            found = [self.read(value, depth) for value in values]
            made = Verdict(**dict(zip(_FIELDS[name], found, strict=True)))
        else:
            made = self._made[place] = object.__new__(_CLASSES[name])
            for field, value in zip(_FIELDS[name], values, strict=True):
                setattr(made, field, self.read(value, depth))
            self._complete(made)
        self._made[place] = made
        return made

    def _complete(self, made: Any) -> None:
        """Give what is not part of the state, and what follows from the rest."""
        if isinstance(made, RunState):
            made.take(self._settings, self._uses)
        elif isinstance(made, Evidence):
            made.take(self._settings)
        elif isinstance(made, Log):
            columns = (made.signatures, made.outcomes, made.uses, made.turns, made.ids)
            if {len(column) for column in columns} != {made.end - made.base}:
                raise ValueError("columns of different lengths")
            made.find_known()


def _column(size: int, packed: str, holes: list[int]) -> list[bytes | None]:
    if type(size) is not int:
        raise TypeError("a size that is none")
    items: list[bytes | None] = list(
        chain.from_iterable(iter_unpack(f"{size}s", b64decode(packed, validate=True)))
    )
    for place in holes:  # in ascending order
        items.insert(place, None)
    return items
