"""`loopwarden install` and `uninstall`: the guard in a coding agent, and out of it."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwarden.hooks.hosts import HOSTS

if TYPE_CHECKING:
    from loopwarden.hooks.installing import Change
    from loopwarden.hooks.settings import Scope, Settings

Host = Annotated[
    str,
    typer.Argument(
        metavar="HOST",
        help=f"One of {', '.join(HOSTS)}.",
    ),
]
InProject = Annotated[
    bool,
    typer.Option(
        "--project/--user",
        help="In the settings of the project that you are in, or in your own, which is the default.",
        show_default=False,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, as a diff; write nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


def install(host: Host, project: InProject = False, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Put the guard into a coding agent: its hooks into the agent's settings file.

    Nothing else in the file is touched, and what it said before is kept. Twice is as good as once.
    """
    from loopwarden.hooks.installing import carry_out, files_of, hook_program, plan_install
    from loopwarden.hooks.places import state_folder
    from loopwarden.hooks.switches import switched_off

    settings, scope, state = host_settings(host), _scope(project), state_folder()
    files = files_of(settings, scope, os.environ, _project())
    program = hook_program(scope)
    changes = [plan_install(one, scope, path, program, state) for one, path in files]
    backups = [None if dry_run else carry_out(change, state, installs=True) for change in changes]
    off = list(switched_off(settings, os.environ, _project()))
    if as_json:
        backup = next((str(one) for one in backups if one is not None), None)
        _print_json(changes, dry_run, {"backup": backup, "switched_off": [text for text, _ in off]})
    elif dry_run:
        _print_diff(changes)
    elif not _changed(changes):
        typer.echo(f"{_title(settings)}: the hooks are in {changes[0].path} already")
    else:
        typer.echo(
            f"{_title(settings)}: hooks for {len(settings.registered())} events are in {changes[0].path}"
        )
        if len(changes) > 1:
            typer.echo(f"Switched on in {changes[-1].path}")
        for kept in filter(None, backups):
            typer.echo(f"What it said before: {kept}")
        typer.echo(settings.next)
        typer.echo(f"To see that it works: loopwarden doctor {host}")
    if not as_json:
        for text, todo in off:
            typer.echo(f"But {text}; {todo}", err=True)


def uninstall(
    host: Host, project: InProject = False, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Take the guard out of a coding agent.

    Where nobody has changed the settings file since, it is again as it was, to the byte; else only the
    guard's own entries go.
    """
    from loopwarden.hooks.installing import carry_out, files_of, plan_uninstall
    from loopwarden.hooks.places import state_folder

    settings, scope, state = host_settings(host), _scope(project), state_folder()
    files = files_of(settings, scope, os.environ, _project())
    changes = [plan_uninstall(one, scope, path, state) for one, path in files]
    if not dry_run:
        for change in reversed(changes):  # a plug-in is switched off before it goes
            carry_out(change, state, installs=False)
    if as_json:
        _print_json(changes, dry_run, {})
    elif dry_run:
        _print_diff(changes)
    elif not _changed(changes):
        typer.echo(f"{_title(settings)}: no hooks of loopwarden for it in {changes[0].path}")
    else:
        first, *others = [change for change in changes if change.after != change.before]
        what = "is gone, as it was made for them" if first.after is None else "is without them"
        typer.echo(f"{_title(settings)}: the hooks are out, {first.path} {what}")
        if others and others[-1] is changes[-1]:
            typer.echo(f"Switched off in {others[-1].path}")


def host_settings(name: str) -> Settings:
    """The settings of a host.

    Raises:
        typer.BadParameter: There is no such host.
    """
    from loopwarden.hooks.settings import SETTINGS

    if name in SETTINGS:
        return SETTINGS[name]
    near = difflib.get_close_matches(name, SETTINGS, 1, cutoff=0.4)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise typer.BadParameter(f"{name!r} is no host.{hint} Known: {', '.join(SETTINGS)}.", param_hint="HOST")


def _scope(project: bool) -> Scope:
    return "project" if project else "user"


def _project() -> Path:
    from loopwarden.hooks.settings import project_folder

    return project_folder(Path())


def _title(settings: Settings) -> str:
    return HOSTS[settings.host].title


def _changed(changes: list[Change]) -> bool:
    return any(change.after != change.before for change in changes)


def _print_json(changes: list[Change], dry_run: bool, more: dict[str, Any]) -> None:
    first, *others = changes
    data = {
        "host": first.settings.host,
        "scope": first.scope,
        "path": str(first.path),
        "parts": [str(change.path) for change in others],
        "changed": _changed(changes),
        "dry_run": dry_run,
        "exists": (first.before if dry_run else first.after) is not None,
        "diff": "".join(map(_diff, changes)),
        **more,
    }
    typer.echo(json.dumps(data, indent=2))


def _print_diff(changes: list[Change]) -> None:
    diff = "".join(map(_diff, changes))
    typer.echo(diff or f"nothing would change in {changes[0].path}", nl=not diff)


def _diff(change: Change) -> str:
    """The change as a unified diff; empty for none."""
    old, new = (_lines(data) for data in (change.before, change.after))
    names = ["/dev/null" if data is None else str(change.path) for data in (change.before, change.after)]
    lines = []
    for line in difflib.unified_diff(old, new, names[0], names[1]):
        lines += [line] if line.endswith("\n") else [f"{line}\n", "\\ No newline at end of file\n"]
    return "".join(lines)


def _lines(data: bytes | None) -> list[str]:
    """Lines with their ends; only a newline ends one."""
    text = (data or b"").decode("utf-8", "replace")
    return [line for line in text.replace("\n", "\n\0").split("\0") if line]
