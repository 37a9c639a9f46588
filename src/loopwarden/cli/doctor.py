"""`loopwarden doctor`: whether the guard is in the coding agents of this machine as it should be."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from loopwarden.cli.install import AsJson, host_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from loopwarden.hooks.checking import Finding, HostReport

EXIT_WRONG: Final = 1
"""Something is wrong."""

_AT_ONCE: Final = 4
_STYLES: Final = {"ok": "green", "note": "yellow", "wrong": "bold red"}


def doctor(
    host: Annotated[
        str | None,
        typer.Argument(metavar="HOST", help="Only this one. Without it: every one that is found here."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at the coding agents of this machine: is the guard in them, and does it work?

    Each installed command is tested with a loop, in the words of its agent. Exit code 0: fine; 1: something
    is wrong, and it is said what to do.
    """
    from loopwarden.hooks.checking import Finding, check_host
    from loopwarden.hooks.machine import check_machine
    from loopwarden.hooks.places import state_folder
    from loopwarden.hooks.settings import SETTINGS, project_folder

    rows = [host_settings(host)] if host is not None else list(SETTINGS.values())
    project, state = project_folder(Path()), state_folder()
    with ThreadPoolExecutor(_AT_ONCE) as pool:  # each waits for the commands that it tests
        reports = list(
            pool.map(lambda row: check_host(row, os.environ, project, wanted=host is not None), rows)
        )
    hosts = [report for report in reports if report is not None]
    shared = check_machine(state, os.environ, project)
    if not any(report.installed for report in hosts) and host is None:
        text = "the guard is in no coding agent" if hosts else "no coding agent was found"
        shared.insert(0, Finding(level="wrong", text=text, todo="loopwarden install HOST"))
    wrong = any(one.level == "wrong" for one in [*shared, *(one for row in hosts for one in row.findings)])
    if as_json:
        data = {
            "ok": not wrong,
            "hosts": [asdict(report) for report in hosts],
            "shared": [asdict(one) for one in shared],
        }
        typer.echo(json.dumps(data, indent=2))
    else:
        _print(hosts, shared)
    if wrong:
        raise typer.Exit(EXIT_WRONG)


def _print(hosts: Iterable[HostReport], shared: Iterable[Finding]) -> None:
    from rich.text import Text

    from loopwarden.cli.screen import Screen

    console = Screen(soft_wrap=True, highlight=False)
    for report in hosts:
        where = report.program or "its program is not on the search path"
        console.print(Text.assemble((report.title, "bold"), f" ({where})"))
        _findings(console, report.findings)
        if report.installed:
            for limit in report.limits:
                console.print(Text(f"  limit  {limit}", style="dim"))
    console.print(Text("All of them", style="bold"))
    _findings(console, shared)


def _findings(console: Console, findings: Iterable[Finding]) -> None:
    from rich.text import Text

    for one in findings:
        console.print(Text.assemble("  ", (f"{one.level:<5}", _STYLES[one.level]), f"  {one.text}"))
        if one.todo:
            console.print(Text(f"         to do: {one.todo}"))
