"""A file beside a plug-in, such as its manifest: written and removed as a whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from loopwarden.hooks.entries import PROGRAM, Hook, SettingsError
from loopwarden.hooks.plugins import PLUGINS

if TYPE_CHECKING:
    from loopwarden.hooks.settings import Settings

_NAME: Final = "loopwarden"


def find(settings: Settings, text: str) -> list[Hook]:
    """The file, if it names our plug-in."""
    return [Hook(event="", command=f"{PROGRAM} {settings.host}")] if _is_ours(text) else []


def put(settings: Settings, text: str, hooks: list[Hook]) -> str:  # noqa: ARG001 - as in the other forms
    """Our file.

    Raises:
        SettingsError: The file is of another plug-in.
    """
    if text.strip() and not _is_ours(text):
        raise SettingsError("is of another plug-in; move it away first")
    return PLUGINS[settings.host].contents([PROGRAM])[settings.file]


def drop(settings: Settings, text: str, base: str | None = None) -> str:  # noqa: ARG001 - the same
    """Nothing in place of our file; anything else as it is."""
    return "" if _is_ours(text) else text


def _is_ours(text: str) -> bool:
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and _NAME in (data.get("id"), data.get("name"))
