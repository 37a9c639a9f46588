"""`loopwarden`: the commands, and how every fault ends (one clear message, a documented exit code)."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwarden.cli import (
    config,
    doctor,
    explain,
    gateway,
    install,
    mcp,
    replay,
    run_agent,
    runs,
    scan,
    sessions,
    status,
    verify,
)
from loopwarden.cli.options import Group
from loopwarden.cli.streams import drop_output, flush_output, open_streams
from loopwarden.errors import LoopwardenError

if TYPE_CHECKING:
    from collections.abc import Iterator

EXIT_FAULT = 2
"""Wrong use, a wrong configuration, or a file without which nothing can be done."""

_NARROW = 52

EXIT_INTERRUPTED = 130
EXIT_CLOSED = 141
"""The reader of the output went away, as `head` does."""


class Commands(Group):
    """The group of commands; the one place where faults become messages."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the arguments; help is printed here."""
        with _faults():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; faults of the tool end with a message on standard error."""
        with _faults():
            return super().invoke(ctx)


@contextmanager
def _faults() -> Iterator[None]:
    """Turns what goes wrong inside into a message and an exit code; all output is out at the end."""
    try:
        try:
            yield
        finally:
            flush_output()
    except typer.BadParameter as error:
        error.message = error.message.removeprefix("Value error, ")  # what pydantic puts before typer's words
        raise
    except LoopwardenError as error:
        typer.echo(f"loopwarden: {error}", err=True)
        raise typer.Exit(EXIT_FAULT) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(EXIT_INTERRUPTED) from error
    except BrokenPipeError as error:
        drop_output()
        raise typer.Exit(EXIT_CLOSED) from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"loopwarden: {where}{error.strerror or error}", err=True)
        raise typer.Exit(EXIT_FAULT) from error


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Notices when an AI agent goes round in circles with its tools.\n\n"
    "Without a command this help is shown.",
)
app.command(name="scan")(scan.scan)
app.command(name="explain")(explain.explain)
app.command(name="verify")(verify.verify)
app.command(name="replay")(replay.replay)
app.command(name="mcp", context_settings={"allow_interspersed_args": False})(mcp.mcp)
app.command(name="run")(run_agent.run_agent)
app.command(name="gateway")(gateway.gateway)
app.command(name="install")(install.install)
app.command(name="uninstall")(install.uninstall)
app.command(name="doctor")(doctor.doctor)
app.command(name="status")(status.status)
app.command(name="pause")(sessions.pause)
app.command(name="resume")(sessions.resume)
app.command(name="allow")(sessions.allow)
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
    open_streams()
    columns = shutil.get_terminal_size().columns
    narrow = max(columns, 20) - 2 if columns < _NARROW else None  # help is not told of such screens otherwise
    try:
        app(prog_name="loopwarden", terminal_width=narrow)
    except BrokenPipeError:  # while a message about wrong use was printed
        drop_output()
        sys.exit(EXIT_CLOSED)
