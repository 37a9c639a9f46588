"""`loopwarden config`: look at a configuration."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwarden.cli.options import Group, load
from loopwarden.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.config import Config, Setting

app = typer.Typer(cls=Group, help="Check a configuration, show it, or print its schema.")

_BORDERS = 10

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="JSON5 file, loopwarden's own or OpenClaw's. Without it: LOOPWARDEN_CONFIG, ./loopwarden.json5, "
        "then the user's configuration folder.",
    ),
]

EXIT_ERROR = 2
"""The configuration cannot be used."""


@app.command(short_help="Say what is wrong or was repaired.")
def check(
    config: ConfigFile = None,
    agents: Annotated[
        bool,
        typer.Option("--agents", help="Also what `run` and `gateway` read: the agents and the service."),
    ] = False,
) -> None:
    """Say everything that is wrong or was repaired; exit with 2 if it cannot be used."""
    found = _load(config)
    if agents:
        _check_agents(found)
    warnings = found.warnings
    count = {0: "no warnings", 1: "1 warning"}.get(len(warnings), f"{len(warnings)} warnings")
    typer.echo(f"{_name(found)}: ok, {count}")
    for warning in warnings:
        typer.echo(f"  warning: {warning}")


@app.command(short_help="Show each value and where it came from.")
def show(
    config: ConfigFile = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Show the result for this agent.")
    ] = None,
    profiles: Annotated[
        bool, typer.Option("--profiles", help="With the tool profiles that ship with loopwarden.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with everything.")] = False,
) -> None:
    """Show the merged and repaired values, and where each of them came from."""
    found = _load(config, agent)
    settings = found.explain(agent)
    if as_json:
        typer.echo(json.dumps(_object(found, agent, settings), indent=2, ensure_ascii=False))
        return
    touched = {_profile_of(one) for one in settings if one.origin != "default"} | {None}
    shown = [one for one in settings if profiles or _profile_of(one) in touched]
    for warning in found.warnings:
        typer.echo(f"warning: {warning}", err=True)
    _table(shown, title=_name(found))
    if hidden := len(settings) - len(shown):
        typer.echo(f"and {hidden} values of tool profiles that ship with loopwarden (--profiles shows them)")


@app.command()
def schema() -> None:
    """Print the JSON Schema of a configuration file."""
    from loopwarden.config.json_schema import json_schema  # slow to import, and not needed by other commands

    typer.echo(json.dumps(json_schema(), indent=2))


def _load(path: Path | None, agent: str | None = None) -> Config:
    try:
        return load(path, agent)
    except ConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EXIT_ERROR) from error


def _check_agents(config: Config) -> None:
    from loopwarden.config.runtime import runtime_of

    try:
        runtime_of(config)
    except ConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EXIT_ERROR) from error


def _profile_of(setting: Setting) -> str | None:
    """The tool profile that the value belongs to; `None` for the fields of the block itself."""
    return setting.field.rpartition(".")[0] if setting.field.startswith("toolProfiles.") else None


def _name(config: Config) -> str:
    return config.source if config.source is not None else "no configuration file (all defaults)"


def _object(config: Config, agent: str | None, settings: Iterable[Setting]) -> dict[str, Any]:
    return {
        "source": config.source,
        "agent": agent,
        "agents": list(config.agent_ids),
        "warnings": [{"path": one.path, "line": one.line, "message": one.message} for one in config.warnings],
        "values": {one.field: {"value": one.value, "origin": one.origin} for one in settings},
    }


def _table(settings: Iterable[Setting], *, title: str) -> None:
    """A table on a terminal that is wide enough, aligned plain text where the output goes elsewhere."""
    rows = [(one.field, json.dumps(one.value, ensure_ascii=False), one.origin) for one in settings]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    if sys.stdout.isatty():
        from rich.table import Table
        from rich.text import Text

        from loopwarden.cli.screen import Screen

        console = Screen()
        if sum(widths) + _BORDERS > console.width:  # names would be broken, and could not be copied
            for field, value, origin in rows:
                typer.echo(f"{field}: {value} ({origin})")
            return
        table = Table("field", "value", "from", title=Text(title))
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
        return
    for field, value, origin in rows:
        typer.echo(f"{field:<{widths[0]}}  {value:<{widths[1]}}  {origin}")
