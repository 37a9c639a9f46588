"""What people decided, as cells that merge one by one, and as the bytes that are kept of them.

A cell is one decision: the guard is paused in a run, or lets a loop of it through. It is there or not, so two
gateways that change different cells at once don't undo each other, and a change that is made twice is made.
Only names are kept (see `names`), with the time of the decision.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import orjson

from loopwarden.gateway.wire import dump
from loopwarden.stores import IDLE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

RUNS: Final = 10_000
"""Runs that may be paused, and runs that may have loops that are let through."""

LOOPS: Final = 64
"""Loops of one run that may be let through."""

ALL_LOOPS: Final = 20_000
"""The same of all runs together."""

SECONDS: Final = IDLE_SECONDS
"""A decision that is older counts no more: a store forgets an idle run then, too."""

_BYTES: Final = 4_000_000  # more than all that is allowed takes
_NAME: Final = re.compile("[0-9a-f]{16}")

Cell: TypeAlias = "tuple[str, str]"
"""Name of a run, and of the loop that is let through; an empty one: the guard is paused."""

Cells: TypeAlias = "dict[Cell, float]"
"""Decisions that hold, each with its time in seconds since the epoch."""

Changes: TypeAlias = "Mapping[Cell, float | None]"
"""Cells that came, with their time, and those that went (`None`)."""


class Decided(NamedTuple):
    """What is kept.

    Attributes:
        name: Drawn anew where nothing was kept, so that who kept something sees that it was lost meanwhile.
        cells: The decisions.
    """

    name: str
    cells: Cells


def changed(cells: Cells, changes: Changes) -> Cells:
    """A copy with the changes in it."""
    fresh = dict(cells)
    for cell, at in changes.items():
        if at is None:
            fresh.pop(cell, None)
        else:
            fresh[cell] = at
    return fresh


def bounded(cells: Cells, now: float) -> Cells:
    """Without those that are too old, or too many; the oldest first.

    Args:
        cells: Decisions.
        now: Seconds since the epoch. What is from later than clocks are apart (as long as it would hold) is
            not believed.
    """
    newest = sorted(
        ((at, cell) for cell, at in cells.items() if abs(now - at) <= SECONDS),
        key=lambda pair: pair[0],
        reverse=True,
    )
    paused, released, all_loops, kept = 0, dict[str, int](), 0, []
    for at, (run, loop) in newest:
        if not loop:
            paused += 1
            if paused > RUNS:
                continue
        else:
            loops = released.get(run, 0)
            if all_loops >= ALL_LOOPS or loops >= LOOPS or (not loops and len(released) >= RUNS):
                continue
            released[run] = loops + 1
            all_loops += 1
        kept.append(((run, loop), at))
    return dict(reversed(kept))


def packed(decided: Decided) -> bytes:
    """The bytes to be kept."""
    paused: dict[str, float] = {}
    released: dict[str, dict[str, float]] = {}
    for (run, loop), at in decided.cells.items():
        if loop:
            released.setdefault(run, {})[loop] = round(at, 3)
        else:
            paused[run] = round(at, 3)
    return dump({"name": decided.name, "paused": paused, "released": released})


def unpacked(data: bytes) -> Decided:
    """What the bytes say. What is no decision among them is left out.

    Raises:
        ValueError: They say nothing of the kind.
    """
    if len(data) > _BYTES:
        raise ValueError(f"{len(data)} bytes; allowed: {_BYTES}")
    found = orjson.loads(data)
    if type(found) is not dict or not _is_name(found.get("name")):
        raise ValueError("no decisions")
    cells: Cells = {}
    for run, at in _times(found.get("paused")):
        cells[run, ""] = at
    released = found.get("released")
    for run, loops in released.items() if type(released) is dict else ():
        if _is_name(run):
            for loop, at in _times(loops):
                cells[run, loop] = at
    return Decided(found["name"], cells)


def _times(found: Any) -> list[tuple[str, float]]:
    if type(found) is not dict:
        return []
    return [(name, float(at)) for name, at in found.items() if _is_name(name) and type(at) in {int, float}]


def _is_name(found: Any) -> bool:
    return type(found) is str and _NAME.fullmatch(found) is not None
