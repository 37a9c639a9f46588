"""Hook entries in a settings file, whatever its form: what is there of ours, put them in, take them out.

All of it works on text. Whoever changes one reads it again afterwards and compares: what is there then must
be what was there before, and ours.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import LoopwardenError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopwarden.hooks.settings import Settings

PROGRAM: Final = "loopwarden-hook"
"""The hook command; an entry that starts it is ours."""

_MOST_WORDS: Final = 3


class SettingsError(LoopwardenError):
    """A settings file can't be read or changed; it was left as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """An entry of ours.

    Attributes:
        event: Its event.
        command: What it starts.
        entry: All of it.
    """

    event: str
    command: str
    entry: Mapping[str, Any] = field(default_factory=dict)


def words(command: object) -> list[str]:
    """The program and the arguments of a command of ours; empty for any other."""
    if not isinstance(command, str) or PROGRAM not in command:
        return []
    try:
        found = shlex.split(command)
    except ValueError:
        return []
    if not found or len(found) > _MOST_WORDS:
        return []
    return found if PurePath(found[0]).name.removesuffix(".exe") == PROGRAM else []


def wanted(settings: Settings, program: str) -> list[Hook]:
    """What an installation puts in.

    Args:
        settings: Of the host.
        program: The hook command, quoted for a shell.
    """
    rows = ((event, settings.hook(event, program)) for event in settings.registered())
    return [Hook(event=event, command=entry[settings.command], entry=entry) for event, entry in rows]


def complete(there: list[Hook], hooks: list[Hook]) -> bool:
    """Whether these very hooks are there, each once; what people changed beside the command may stay."""
    return sorted((hook.event, hook.command) for hook in there) == sorted(
        (hook.event, hook.command) for hook in hooks
    )
