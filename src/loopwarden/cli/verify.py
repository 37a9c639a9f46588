"""`loopwarden verify`: a user's own regression tests for their tuning."""

from __future__ import annotations

from functools import cache
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated, Any

import typer

from loopwarden.cli.options import load

EXIT_FAILED = 1
"""At least one situation does not hold."""

_NAMED = 5


def verify(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Situations, one JSON object a line.")],
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Play every situation against this configuration instead of its own.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a situation.")] = False,
    show_all: Annotated[bool, typer.Option("--all", help="List the situations that hold, too.")] = False,
) -> None:
    """Run your own regression cases.

    Plays recorded situations and says whether the guard's answers are those that are expected.

    A line has `events`, an optional `config` (a tools.loopDetection block; without it the configuration that
    is found as for scan) and `expect`: an object of bounds, as {"first_warn": 11, "never": "block"}, or a
    list with null or [level, detector, count] for each call, which is played in observe mode with the
    detectors beyond OpenClaw's off.

    Exit code: 0 all hold, 1 some do not, 2 wrong use or a file that can't be read.
    """
    import orjson

    from loopwarden.errors import ConfigError
    from loopwarden.scan.situations import load_situations, play

    found = cache(load)
    held = total = 0
    idle: list[str] = []
    for file in files:
        for situation in load_situations(file):
            total += 1
            override = found(config) if config is not None or situation.config is None else None
            try:
                result = play(situation, override)
                good, failures = result.held, result.failures
                if result.idle:
                    idle.append(situation.id)
            except ConfigError as error:
                good, failures = False, str(error).splitlines()
            held += good
            if as_json:
                record: dict[str, Any] = {
                    "file": str(file),
                    "id": situation.id,
                    "held": good,
                    "failures": failures,
                }
                typer.echo(orjson.dumps(record))
            elif not good or show_all:
                title = f" {situation.title}" if situation.title else ""
                typer.echo(_printable(f"{'holds' if good else 'FAILS'}  {situation.id}{title}"))
                for failure in failures:
                    typer.echo(_printable(f"       {failure}"))
    if not as_json:
        typer.echo(f"{held:,} of {total:,} situations hold")
    if idle:
        _warn(idle)
    if held < total:
        raise typer.Exit(EXIT_FAILED)


def _warn(idle: list[str]) -> None:
    """Say that these cases hold whatever is tuned."""
    named = ", ".join(idle[:_NAMED]) + (f" and {len(idle) - _NAMED:,} more" if len(idle) > _NAMED else "")
    typer.echo(
        _printable(
            f"warning: cannot fail: {named}. They only say what must not happen, and the detectors do not act"
            " in them, since `enabled` is not true"
        ),
        err=True,
    )


def _printable(text: str) -> str:
    from loopwarden.masking import clean

    return clean(text, 1000)
