"""`loopwarden install` and `uninstall`: the guard in a coding agent, and out of it."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from loopwarden.hooks.installing import Change
    from loopwarden.hooks.settings import Scope, Settings

Host = Annotated[
    str,
    typer.Argument(
        metavar="HOST", help="claude-code, codex, gemini, qwen, kimi, copilot, cursor, or hermes."
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
    from loopwarden.hooks.installing import carry_out, hook_program, plan_install, settings_path
    from loopwarden.hooks.places import state_folder

    settings, scope, state = host_settings(host), _scope(project), state_folder()
    path = settings_path(settings, scope, os.environ, _project())
    change = plan_install(settings, scope, path, hook_program(scope), state)
    backup = None if dry_run else carry_out(change, state, installs=True)
    if as_json:
        _print_json(change, dry_run, {"backup": None if backup is None else str(backup)})
    elif dry_run:
        _print_diff(change)
    elif change.after == change.before:
        typer.echo(f"{_title(settings)}: the hooks are in {path} already")
    else:
        typer.echo(f"{_title(settings)}: hooks for {len(settings.registered())} events are in {path}")
        if backup is not None:
            typer.echo(f"What it said before: {backup}")
        typer.echo(settings.next)
        typer.echo(f"To see that it works: loopwarden doctor {host}")


def uninstall(
    host: Host, project: InProject = False, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Take the guard out of a coding agent.

    Where nobody has changed the settings file since, it is again as it was, to the byte; else only the
    guard's own entries go.
    """
    from loopwarden.hooks.installing import carry_out, plan_uninstall, settings_path
    from loopwarden.hooks.places import state_folder

    settings, scope, state = host_settings(host), _scope(project), state_folder()
    path = settings_path(settings, scope, os.environ, _project())
    change = plan_uninstall(settings, scope, path, state)
    if not dry_run:
        carry_out(change, state, installs=False)
    if as_json:
        _print_json(change, dry_run, {})
    elif dry_run:
        _print_diff(change)
    elif change.after == change.before:
        typer.echo(f"{_title(settings)}: no hooks of loopwarden in {path}")
    else:
        what = "is gone, as it was made for them" if change.after is None else "is without them"
        typer.echo(f"{_title(settings)}: the hooks are out, {path} {what}")


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
    from loopwarden.hooks.hosts import HOSTS

    return HOSTS[settings.host].title


def _print_json(change: Change, dry_run: bool, more: dict[str, Any]) -> None:
    data = {
        "host": change.settings.host,
        "scope": change.scope,
        "path": str(change.path),
        "changed": change.after != change.before,
        "dry_run": dry_run,
        "exists": (change.before if dry_run else change.after) is not None,
        "diff": _diff(change),
        **more,
    }
    typer.echo(json.dumps(data, indent=2))


def _print_diff(change: Change) -> None:
    typer.echo(_diff(change) or f"nothing would change in {change.path}", nl=not _diff(change))


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
