"""Hook entries in a settings file, whatever its form: what is there of ours, put them in, take them out.

All of it works on text. Whoever changes one reads it again afterwards and compares: what is there then must
be what was there before, and ours.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import LoopwardenError
from loopwarden.hooks.hosts import HOSTS
from loopwarden.hooks.settings import SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopwarden.hooks.settings import Settings

PROGRAM: Final = "loopwarden-hook"
"""The hook command; an entry that starts it is ours."""

NEEDED_SECONDS: Final = SECONDS / 2
"""After which a hook gives up by itself; one that has less time may be ended before it has answered."""

_MOST_WORDS: Final = 3
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*=")
_ALL: Final = frozenset({"", "*", ".*", "None"})
_NARROW: Final = ("matcher", "if")
_ASYNC: Final = ("async", "asyncRewake")


class SettingsError(LoopwardenError):
    """A settings file can't be read or changed; it was left as it is."""


class NotUnderstoodError(SettingsError):
    """A settings file may be as it should be, but is written in a way that is not read here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """An entry of ours.

    Attributes:
        event: Its event.
        command: What it starts.
        entry: All of it.
        group: What else the group says that it is in.
    """

    event: str
    command: str
    entry: Mapping[str, Any] = field(default_factory=dict)
    group: Mapping[str, Any] = field(default_factory=dict)


def words(command: object) -> list[str]:
    """The program and the arguments of a command of ours, without variables; empty for any other."""
    return _split(command)[1]


def ours(settings: Settings, command: object) -> bool:
    """Whether a command is ours and for this host, as far as it names one that is known."""
    found = words(command)
    return bool(found) and (found[1:2] in ([], [settings.host]) or found[1] not in HOSTS)


def variables(command: object) -> list[str]:
    """The variables that people have set before a command of ours."""
    return _split(command)[0]


def _split(command: object) -> tuple[list[str], list[str]]:
    if not isinstance(command, str) or PROGRAM not in command:
        return [], []
    try:
        found = shlex.split(command)
    except ValueError:
        return [], []
    start = 1 if found and PurePath(found[0]).name == "env" else 0
    at = start
    while at < len(found) and _VARIABLE.match(found[at]):
        at += 1
    rest = found[at:]
    if not rest or len(rest) > _MOST_WORDS or PurePath(rest[0]).name.removesuffix(".exe") != PROGRAM:
        return [], []
    return found[start:at], rest


def wanted(settings: Settings, program: str) -> list[Hook]:
    """What an installation puts in.

    Args:
        settings: Of the host.
        program: The hook command, quoted for a shell.
    """
    rows = ((event, settings.hook(event, program)) for event in settings.registered())
    return [Hook(event=event, command=entry[settings.command], entry=entry) for event, entry in rows]


def complete(settings: Settings, there: list[Hook], hooks: list[Hook]) -> bool:
    """Whether these very hooks are there, each once; what people changed beside the command may stay.

    That is, variables before the command, and what does not keep the hook from its work.
    """
    same = sorted((hook.event, words(hook.command)) for hook in there) == sorted(
        (hook.event, words(hook.command)) for hook in hooks
    )
    return same and not any(faults(settings, hook) for hook in there)


def faults(settings: Settings, hook: Hook) -> list[str]:
    """What keeps a hook from its work, each to be read after its event; empty for a good one."""
    found = []
    everything = {**hook.group, **hook.entry}
    for key in _NARROW:
        narrow = everything.get(key)
        if str(narrow) not in _ALL:
            found.append(f"is only for some calls: {key} is {narrow!r}")
    found += [
        f"is not waited for, so that it can't refuse: {key} is true"
        for key in _ASYNC
        if str(hook.entry.get(key, "")).lower() == "true"
    ]
    if settings.time in hook.entry:
        unit = HOSTS[settings.host].timeout_unit
        needed = NEEDED_SECONDS * (1000 if unit == "ms" else 1)
        time = getattr(hook.entry[settings.time], "text", hook.entry[settings.time])
        if not _number(time) >= needed:
            found.append(f"has too short a time: {settings.time} is {time!s:.20}, it needs {needed:g} {unit}")
    kind = settings.entry.get("type")
    if settings.form in {"groups", "list"} and kind is not None and hook.entry.get("type") != kind:
        found.append(f"is not started: type is not {kind!r}")
    return found


def _number(value: object) -> float:
    """A number that is written in a file; not a number for everything else."""
    try:
        return float("nan" if isinstance(value, bool) else str(value))
    except ValueError:
        return float("nan")
