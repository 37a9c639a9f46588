"""A run's state as plain data and back: what a store keeps and a restarted program goes on from.

The data are JSON values: digests as hex, counters, tool names and call ids; no arguments, no results.
Only the classes named here come back, by filling their fields; nothing in the data is ever executed.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

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
    from loopwarden.core.settings import Settings

VERSION: Final = 1
"""Version of the layout; a state of another version is refused."""

_CLASSES: Final[dict[str, type]] = {
    one.__name__: one
    for one in (
        Alternation, Announcements, Churn, CompactionGuard, Cycle, Entry, Evidence, Failures, FailureStreak,
        Finding, Held, Ladder, Log, Observed, Repeats, Row, Rows, RunState, Stagnation, UnknownRow,
    )
}  # fmt: skip

_GIVEN: Final = frozenset({"_settings", "_uses", "_acts"})
"""Fields that are not part of the state: whoever loads it gives them."""

_DEPTH: Final = 50


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
        raise StoreError(f"a saved run of version {found!r} can't be read; this is version {VERSION}")
    try:
        state = _Reader(data["objects"], settings, uses).read(data["root"], 0)
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise StoreError(f"a saved run is damaged: {type(error).__name__}: {error}") from error
    if not isinstance(state, RunState):
        raise StoreError("a saved run is damaged: it holds something else")
    return state


class _Writer:
    """Writes values; an object that is met again is only named."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._places: dict[int, int] = {}

    def write(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, bytes):
            return {"b": value.hex()}
        if isinstance(value, list | tuple | set | array):
            tag = {list: "l", tuple: "t", set: "s", array: "a"}[type(value)]
            return {tag: [self.write(item) for item in value]}
        if isinstance(value, dict):
            return {"d": [[self.write(key), self.write(item)] for key, item in value.items()]}
        place = self._places.get(id(value))
        if place is None:
            place = self._places[id(value)] = len(self.objects)
            self.objects.append(None)
            self.objects[place] = self._fields(value)
        return {"o": place}

    def _fields(self, value: Any) -> list[Any]:
        if isinstance(value, ToolUse):
            return ["ToolUse", {"tool": value.tool, "kind": value.kind}]
        names = value.__slots__
        name = type(value).__name__
        if name != "Verdict" and _CLASSES.get(name) is not type(value):
            raise TypeError(f"{name} is no part of a run's state")
        return [name, {field: self.write(getattr(value, field)) for field in names if field not in _GIVEN}]


class _Reader:
    """Reads what `_Writer` wrote."""

    def __init__(self, objects: list[Any], settings: Settings, uses: ToolUses) -> None:
        self._objects = objects
        self._made: dict[int, Any] = {}
        self._settings = settings
        self._uses = uses

    def read(self, value: Any, depth: int) -> Any:
        if not isinstance(value, dict):
            if isinstance(value, list):
                raise TypeError("a bare list")
            return value
        if depth > _DEPTH:
            raise ValueError("nested too deep")
        ((tag, content),) = value.items()
        if tag == "b":
            return bytes.fromhex(content)
        if tag == "o":
            return self._object(content, depth)
        if tag == "d":
            return {self.read(key, depth + 1): self.read(item, depth + 1) for key, item in content}
        items = [self.read(item, depth + 1) for item in content]
        if tag == "a":
            return array("I", items)
        return {"l": list, "t": tuple, "s": set}[tag](items)

    def _object(self, place: int, depth: int) -> Any:
        if place in self._made:
            return self._made[place]
        name, fields = self._objects[place]
        if name == "ToolUse":
            made: Any = self._uses.restore(fields["tool"], fields["kind"])
        elif name == "Verdict":
            made = Verdict(**{field: self.read(item, depth + 1) for field, item in fields.items()})
        else:
            cls = _CLASSES[name]
            made = self._made[place] = object.__new__(cls)
            slots = getattr(cls, "__slots__", ())
            for field in slots:
                if field not in _GIVEN:
                    setattr(made, field, self.read(fields[field], depth + 1))
            self._give(made)
        self._made[place] = made
        return made

    def _give(self, made: Any) -> None:
        if isinstance(made, RunState):
            made.take(self._settings, self._uses)
        elif isinstance(made, Evidence):
            made.take(self._settings)
