"""`loopwarden`: the commands, and how every fault ends (one clear message, a documented exit code)."""

from __future__ import annotations

import io
import os
import shutil
import sys
from typing import Annotated, Any

import typer

from loopwarden.cli import config, explain, replay, runs, scan, verify
from loopwarden.cli.options import Group
from loopwarden.errors import LoopwardenError

EXIT_FAULT = 2
"""Wrong use, a wrong configuration, or a file without which nothing can be done."""

_NARROW = 52

EXIT_INTERRUPTED = 130
EXIT_CLOSED = 141
"""The reader of the output went away, as `head` does."""


class Commands(Group):
    """The group of commands; the one place where faults become messages."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; faults of the tool end with a message on standard error."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except LoopwardenError as error:
            typer.echo(f"loopwarden: {error}", err=True)
            raise typer.Exit(EXIT_FAULT) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(EXIT_INTERRUPTED) from error
        except BrokenPipeError as error:
            # Python would complain once more when it closes standard output at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(EXIT_CLOSED) from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            typer.echo(f"loopwarden: {where}{error.strerror or error}", err=True)
            raise typer.Exit(EXIT_FAULT) from error
        return result


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Notices when an AI agent goes round in circles with its tools.\n\n"
    "Without a command this help is shown.",
)
app.command(name="scan")(scan.scan)
app.command(name="explain")(explain.explain)
app.command(name="verify")(verify.verify)
app.command(name="replay")(replay.replay)
app.add_typer(config.app, name="config")
app.add_typer(runs.app, name="runs")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"loopwarden {version('loopwarden')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of loopwarden itself."""


def run() -> None:
    """Entry of the `loopwarden` script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a screen that can't show every character
    columns = shutil.get_terminal_size().columns
    narrow = max(columns, 20) - 2 if columns < _NARROW else None  # help is not told of such screens otherwise
    app(prog_name="loopwarden", terminal_width=narrow)
