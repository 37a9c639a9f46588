"""Blocks laid over each other field by field, each value with the place it comes from.

What was written is merged before defaults: an agent's block lies over the global one, both over the
preset that was chosen, and that over the documented defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from loopwarden.config.builtin import preset, tool_profiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from loopwarden.config.document import Path


class Layer(IntEnum):
    """Who said it, from the bottom up."""

    DEFAULT = 0
    GLOBAL = 1
    AGENT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A checked block.

    Attributes:
        layer: `GLOBAL` or `AGENT`.
        origin: Name of its place in messages: `global` or `agent ID`.
        path: Where it stands in the file.
        values: What was written, under the documented names.
    """

    layer: Layer
    origin: str
    path: Path
    values: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value and who said it.

    Attributes:
        value: The value as it is used.
        origin: `default`, `preset NAME`, `global`, `agent ID` or `repaired (given ...)`.
        layer: Who chose it; a preset counts as chosen by the block that names it.
        path: Where it was written; `None` for defaults and presets.
    """

    value: Any
    origin: str
    layer: Layer = Layer.DEFAULT
    path: Path | None = None


Fields: TypeAlias = dict[str, Value]
"""Values by field, those of inner blocks under dotted names: `detectors.cycle`."""

Profiles: TypeAlias = dict[str, dict[str, Value]]
"""Values of tool profiles by pattern and field. A `kindByArgument` of `None` says: for all calls alike."""

_INNER = ("detectors", "postCompactionGuard")
_APART = ("preset", "toolProfiles")


def merge(blocks: Sequence[Written]) -> tuple[Fields, Profiles]:
    """Lay the blocks over each other, the later over the earlier, and all over preset and defaults.

    Returns:
        Every field but the profiles; and the profiles of the patterns that the blocks name, shipped ones
        under them. Shipped profiles of other patterns are not among them.
    """
    fields: Fields = {
        name: Value(value=value, origin="default") for name, value in _flat(preset("reference"))
    }
    fields["preset"] = Value(value="reference", origin="default")
    for block in blocks:
        if "preset" in block.values:
            path = (*block.path, "preset")
            fields["preset"] = Value(
                value=block.values["preset"], origin=block.origin, layer=block.layer, path=path
            )
    chosen = fields["preset"]
    if chosen.value != "reference":
        for name, value in _flat(preset(chosen.value)):
            fields[name] = Value(value=value, origin=f"preset {chosen.value}", layer=chosen.layer)
    profiles: Profiles = {}
    for block in blocks:
        for name, value in _flat(block.values):
            path = (*block.path, *name.split("."))
            fields[name] = Value(value=value, origin=block.origin, layer=block.layer, path=path)
        for pattern, profile in block.values.get("toolProfiles", {}).items():
            _lay_profile(profiles.setdefault(pattern, _shipped(pattern)), profile, pattern, block)
    return fields, profiles


def _flat(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if name in _INNER:
            yield from ((f"{name}.{inner}", one) for inner, one in value.items())
        elif name not in _APART:
            yield name, value


def _shipped(pattern: str) -> dict[str, Value]:
    return {
        name: Value(value=value, origin="default") for name, value in tool_profiles().get(pattern, {}).items()
    }


def _lay_profile(under: dict[str, Value], profile: dict[str, Any], pattern: str, block: Written) -> None:
    if "kind" in profile and "kindByArgument" not in profile:
        profile = profile | {"kindByArgument": None}  # a kind that is written holds for all calls
    for name, value in profile.items():
        path = (*block.path, "toolProfiles", pattern, name)
        under[name] = Value(value=value, origin=block.origin, layer=block.layer, path=path)
