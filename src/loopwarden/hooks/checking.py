"""Whether the guard is in a coding agent as it should be: what `loopwarden doctor` says of a host."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from loopwarden.hooks.entries import PROGRAM, SettingsError, words
from loopwarden.hooks.forms import FORMS
from loopwarden.hooks.hosts import HOSTS
from loopwarden.hooks.installing import read_settings
from loopwarden.hooks.json_tree import JsonTextError, read_tree, value_of
from loopwarden.hooks.limits import limits
from loopwarden.hooks.self_test import self_test
from loopwarden.hooks.trust import distrusted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from loopwarden.hooks.entries import Hook
    from loopwarden.hooks.settings import Scope, Settings

Level: TypeAlias = Literal["ok", "note", "wrong"]
"""`wrong` is what a person should do something about."""

_SCOPES: Final[tuple[Scope, ...]] = ("user", "project")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: How it is.
        text: What was found.
        todo: What to do about it.
    """

    level: Level
    text: str
    todo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """How it stands with one coding agent.

    Attributes:
        name: As in `HOSTS`.
        title: As people write it.
        program: Where its program is; `None`: it was not found.
        installed: Files with hooks of ours.
        findings: What was looked at.
        limits: What can't be done in it.
    """

    name: str
    title: str
    program: str | None
    installed: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)


def check_host(
    settings: Settings, environment: Mapping[str, str], project: Path, *, wanted: bool
) -> HostReport | None:
    """Look at a host.

    Args:
        settings: Of the host.
        environment: Variables.
        project: The project that people are in.
        wanted: Whether it was asked for by name, so that it should be there.

    Returns:
        `None` for a host that is not on this machine and was not asked for.
    """
    host = HOSTS[settings.host]
    program = next(filter(None, (_which(name, environment) for name in settings.programs)), None)
    folder = settings.user_folder(environment)
    report = HostReport(name=host.name, title=host.title, program=program, limits=limits(host))
    there: dict[Scope, list[Hook]] = {}
    for scope in _SCOPES:
        path = settings.path(scope, environment, project)
        if path is not None and (scope == "user" or path != settings.path("user", environment, project)):
            hooks = _look(settings, scope, path, folder, environment, report)
            if hooks:
                there[scope] = hooks
                report.installed.append(str(path))
    if not there:
        if not wanted and program is None and not folder.is_dir() and not report.findings:
            return None
        level: Level = "wrong" if wanted else "note"
        todo = f"loopwarden install {host.name}"
        report.findings.append(Finding(level=level, text="the guard is not installed", todo=todo))
        return report
    if "user" in there:
        report.findings.extend(_parts(settings, environment, project))
    report.findings.extend(_switches(settings, environment, project))
    if len(there) > 1 and not host.fields.call:
        text = "the hooks are in both files, so that each call counts twice"
        todo = f"loopwarden uninstall {host.name} --project"
        report.findings.append(Finding(level="wrong", text=text, todo=todo))
    return report


def _look(
    settings: Settings,
    scope: Scope,
    path: Path,
    folder: Path,
    environment: Mapping[str, str],
    report: HostReport,
) -> list[Hook]:
    """Our hooks in a file; what there is to say about them is in the report."""
    again = f"loopwarden install {settings.host}" + (" --project" if scope == "project" else "")
    found = report.findings
    try:
        text = read_settings(path)
        hooks = FORMS[settings.form].find(settings, text) if text is not None else []
        if text is not None and not settings.comments and text.strip():
            json.loads(text)
    except (SettingsError, OSError, ValueError) as error:
        reason = str(error).removeprefix(f"{path}: ")
        said = f"{path}: {reason}; {report.title} reads nothing of it"
        found.append(Finding(level="wrong", text=said, todo="repair the file, or remove it"))
        return []
    if not hooks:
        return []
    problems = [*_entries(settings, hooks, again)]
    problems += [
        Finding(level="wrong", text=f"{path}: {reason}", todo=settings.next)
        for reason in distrusted(settings, folder, path, hooks)
    ]
    for command in sorted({hook.command for hook in hooks}):
        problems += _command(settings, scope, command, again, environment)
    if not any(problem.level == "wrong" for problem in problems):
        count = len({hook.event for hook in hooks})
        found.append(Finding(level="ok", text=f"hooks for {count} events in {path}"))
    found += problems
    return hooks


def _parts(settings: Settings, environment: Mapping[str, str], project: Path) -> Iterator[Finding]:
    """What else has to be there, beside the hooks."""
    again = f"loopwarden install {settings.host}"
    for part in settings.parts:
        path = part.path("user", environment, project)
        if path is None:
            continue
        form = FORMS[part.form]
        try:
            text = read_settings(path)
            if text is None or not form.find(part, text):
                yield Finding(level="wrong", text=f"{path} says nothing of the plug-in", todo=again)
            elif form.put(part, text, []) != text:
                yield Finding(level="wrong", text=f"{path} does not say what it should", todo=again)
        except (SettingsError, OSError) as error:
            reason = str(error).removeprefix(f"{path}: ")
            yield Finding(level="wrong", text=f"{path}: {reason}", todo=f"repair the file, then: {again}")


def _entries(settings: Settings, hooks: list[Hook], again: str) -> Iterator[Finding]:
    counts = Counter(hook.event for hook in hooks)
    missing = [event for event in settings.registered() if event not in counts]
    if missing:
        yield Finding(level="wrong", text=f"no hook for {', '.join(missing)}", todo=again)
    other = [event for event in counts if event not in settings.registered()]
    if other:
        yield Finding(level="wrong", text=f"a hook for {', '.join(other)}, which is of no use", todo=again)
    twice = [event for event, count in counts.items() if count > 1]
    if twice:
        yield Finding(level="wrong", text=f"more than one hook for {', '.join(twice)}", todo=again)
    for hook in hooks:
        said = words(hook.command)[1:]
        right = [settings.host, hook.event] if settings.says_event else [settings.host]
        if said != right:
            text = f"the hook for {hook.event} says {' '.join(said) or 'no host'!r}, not {' '.join(right)!r}"
            yield Finding(level="wrong", text=text, todo=again)


def _command(
    settings: Settings, scope: Scope, command: str, again: str, environment: Mapping[str, str]
) -> Iterator[Finding]:
    said = words(command)
    named = said[0]
    program = _which(named, environment)
    if program is None:
        bare = "/" not in named and "\\" not in named
        where = "on the search path" if bare else "there"
        todo = "uv tool install loopwarden" if bare else again
        yield Finding(level="wrong", text=f"it starts {named}, which is not {where}", todo=todo)
        return
    if scope == "project" and named != PROGRAM:
        text = f"it starts {named}, which a project's file should not name; it was not tested"
        yield Finding(level="wrong", text=text, todo=again)
        return
    if settings.says_event and said[2:] != [settings.registered()[0]]:
        return  # one command for each event; the test goes through all of them
    if len(said) < 2 or said[1] != settings.host:  # noqa: PLR2004 - program and host; it was said already
        return
    fault = self_test(settings, [program, *said[1:]], environment)
    if fault is None:
        yield Finding(level="ok", text=f"self-test: {named} refuses a loop")
    else:
        yield Finding(level="wrong", text=f"self-test of {named}: {fault}", todo=again)


def _switches(settings: Settings, environment: Mapping[str, str], project: Path) -> Iterator[Finding]:
    """Settings by which the host runs no hooks at all."""
    files = [
        one.path(scope, environment, project) for one in (settings, *settings.parts) for scope in _SCOPES
    ]
    files += [project / name for name in settings.also]
    if settings.switch_file is not None:
        files.append(settings.user_folder(environment) / settings.switch_file)
    for file in dict.fromkeys(filter(None, files)):
        value = _value(file)
        for keys, off in settings.switches:
            here: Any = value
            for key in keys:
                here = here.get(key) if isinstance(here, dict) else None
            if here is off:
                name = ".".join(keys)
                text = f"{settings.host} does not run these hooks: {name} is {str(off).lower()} in {file}"
                yield Finding(level="wrong", text=text, todo=f"remove {name} there")


def _value(path: Path) -> Any:
    """What a settings file says; nothing for one that can't be read."""
    try:
        text = read_settings(path) or "{}"
        return tomllib.loads(text) if path.suffix == ".toml" else value_of(text, read_tree(text, json5=True))
    except (SettingsError, JsonTextError, tomllib.TOMLDecodeError, RecursionError, OSError):
        return None


def _which(name: str, environment: Mapping[str, str]) -> str | None:
    return shutil.which(name, path=environment.get("PATH"))
