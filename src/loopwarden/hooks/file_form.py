"""A hook that is a file of its own: the plug-in of a host, written and removed as a whole."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Final

from loopwarden.hooks.entries import PROGRAM, Hook, SettingsError, words
from loopwarden.hooks.plugins import PLUGINS

if TYPE_CHECKING:
    from loopwarden.hooks.settings import Settings

_HOST: Final = re.compile(r'^const HOST = "(.+)";$', re.MULTILINE)
_COMMAND: Final = re.compile(rf"^const COMMAND = (\[.*{PROGRAM}.*\]);$", re.MULTILINE)


def find(settings: Settings, text: str) -> list[Hook]:
    """Our plug-in as one entry for each event; for the first one only, where it is not this version's."""
    program = _program(settings, text)
    if program is None:
        return []
    command = f"{shlex.quote(program)} {settings.host}"
    events = settings.registered() if text == _plugin(settings, program) else settings.registered()[:1]
    return [Hook(event=event, command=command) for event in events]


def put(settings: Settings, text: str, hooks: list[Hook]) -> str:
    """Our plug-in.

    Raises:
        SettingsError: The file is something else.
    """
    if text.strip() and _program(settings, text) is None:
        raise SettingsError("is another plug-in; move it away first")
    return _plugin(settings, words(hooks[0].command)[0])


def drop(settings: Settings, text: str, base: str | None = None) -> str:  # noqa: ARG001 - as in the other forms
    """Nothing in place of our plug-in; anything else as it is."""
    return text if _program(settings, text) is None else ""


def _program(settings: Settings, text: str) -> str | None:
    """The hook command in a plug-in of ours for this host; `None`: it is none."""
    host = _HOST.search(text)
    if host is not None and host[1] != settings.host and host[1] in PLUGINS:
        return None
    found = _COMMAND.search(text)
    try:
        named = json.loads(found[1]) if found else None
    except ValueError:
        return None
    return named[0] if isinstance(named, list) and len(named) == 1 and isinstance(named[0], str) else None


def _plugin(settings: Settings, program: str) -> str:
    plugin = PLUGINS[settings.host]
    return plugin.contents([program])[plugin.target]
