"""Settings by which a coding agent runs no hooks, or not ours."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from loopwarden.hooks.entries import SettingsError, ours
from loopwarden.hooks.installing import read_settings
from loopwarden.hooks.json_tree import read_tree, value_of
from loopwarden.hooks.settings import SCOPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from loopwarden.hooks.settings import Settings


def switched_off(
    settings: Settings, environment: Mapping[str, str], project: Path
) -> Iterator[tuple[str, str]]:
    """Look into all files that can switch hooks off.

    Args:
        settings: Of the host.
        environment: Variables.
        project: The project that people are in.

    Yields:
        What a file says, and what to do about it.
    """
    files = [one.path(scope, environment, project) for one in (settings, *settings.parts) for scope in SCOPES]
    files += [project / name for name in settings.also]
    if settings.switch_file is not None:
        files.append(settings.user_folder(environment) / settings.switch_file)
    for file in dict.fromkeys(filter(None, files)):
        value = _value(file)
        for keys, off in settings.switches:
            if _at(value, keys) is off:
                name = ".".join(keys)
                text = f"{settings.host} does not run these hooks: {name} is {str(off).lower()} in {file}"
                yield text, f"remove {name} there"
        for keys in settings.disabled:
            listed = _at(value, keys)
            for one in listed if isinstance(listed, list) else ():
                if isinstance(one, str) and (one == settings.entry.get("name") or ours(settings, one)):
                    name = ".".join(keys)
                    text = f"{settings.host} does not run these hooks: {name} names {one!r} in {file}"
                    yield text, f"take {one!r} out of {name} there"


def _at(value: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _value(path: Path) -> Any:
    """What a settings file says; nothing for one that can't be read."""
    try:
        text = read_settings(path) or "{}"
        return tomllib.loads(text) if path.suffix == ".toml" else value_of(text, read_tree(text, json5=True))
    except (SettingsError, ValueError, RecursionError, OSError):
        return None
