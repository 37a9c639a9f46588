"""Whether the guard is in a coding agent as it should be: what `loopwarden doctor` says of a host."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from loopwarden.hooks import json_form
from loopwarden.hooks.answering import MODE
from loopwarden.hooks.entries import PROGRAM, NotUnderstoodError, SettingsError, faults, variables, words
from loopwarden.hooks.forms import FORMS, others
from loopwarden.hooks.hosts import HOSTS
from loopwarden.hooks.installing import read_settings
from loopwarden.hooks.limits import limits
from loopwarden.hooks.self_test import self_test
from loopwarden.hooks.settings import SCOPES
from loopwarden.hooks.switches import switched_off
from loopwarden.hooks.trust import distrusted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from loopwarden.hooks.entries import Hook
    from loopwarden.hooks.settings import Scope, Settings

Level: TypeAlias = Literal["ok", "note", "wrong"]
"""`wrong` is what a person should do something about."""


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
    for scope in SCOPES:
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
    for text, todo in switched_off(settings, environment, project):
        report.findings.append(Finding(level="wrong", text=text, todo=todo))
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
        if text is not None and settings.form in {"groups", "list"}:
            json_form.check(settings, text)
        held = others(settings, text) if text is not None else []
    except NotUnderstoodError as error:
        said = f"{path}: {error}; whether the hooks are in it can't be told"
        found.append(Finding(level="wrong", text=said, todo=again))
        return []
    except (SettingsError, OSError) as error:
        reason = str(error).removeprefix(f"{path}: ")
        said = f"{path}: {reason}; {report.title} reads nothing of it"
        found.append(Finding(level="wrong", text=said, todo="repair the file, or remove it"))
        return []
    for other in held:
        said = f"{path}: the hooks for {HOSTS[other].title} are in it, which {report.title} runs too"
        todo = f"give {report.title} a file of its own, or take the entries {PROGRAM} {other} out of this one"
        found.append(Finding(level="wrong", text=said, todo=todo))
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
    kinds: dict[str, list[str]] = {}
    for hook in hooks:
        for fault in faults(settings, hook):
            kinds.setdefault(fault, []).append(hook.event)
    for fault, events in kinds.items():
        yield Finding(level="wrong", text=f"the hook for {', '.join(events)} {fault}", todo=again)


def _command(
    settings: Settings, scope: Scope, command: str, again: str, environment: Mapping[str, str]
) -> Iterator[Finding]:
    said = words(command)
    named = said[0]
    if before := variables(command):
        text = f"variables stand before the command: {', '.join(name.split('=')[0] for name in before)}"
        if f"{MODE}=observe" in before:
            text = f"{MODE} is observe before the command: loops are counted, nothing is refused"
        yield Finding(level="note", text=text)
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


def _which(name: str, environment: Mapping[str, str]) -> str | None:
    return shutil.which(name, path=environment.get("PATH"))
