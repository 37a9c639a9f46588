"""What ships with the package: the presets, and the tool profiles of well-known hosts."""

from __future__ import annotations

from functools import cache
from pkgutil import get_data
from typing import Any, cast

from loopwarden.config.json5_reader import read_json5


def _read(name: str) -> dict[str, Any]:
    data = get_data("loopwarden.config", f"presets/{name}.json5") or b""  # `importlib.resources` takes longer
    block: dict[str, Any] = read_json5(data.decode()).value  # which tests hold against the models
    return block


@cache
def preset(name: str) -> dict[str, Any]:
    """The values of a preset as a block; `reference` has every field. Not to be changed by callers."""
    return _read(name)


@cache
def tool_profiles() -> dict[str, dict[str, Any]]:
    """The shipped tool profiles by pattern, as blocks. Not to be changed by callers."""
    return cast("dict[str, dict[str, Any]]", _read("tool-profiles")["toolProfiles"])
