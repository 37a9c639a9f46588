"""`loopwarden explain`: what a detector sees, why, and what to do about it."""

from __future__ import annotations

import difflib
from typing import Annotated, get_args

import typer

from loopwarden.events import DetectorId

_BESIDE = 13
"""Columns of an example's line that are not the example."""


def explain(
    detector: Annotated[str, typer.Argument(metavar="DETECTOR|all", help="Name of a detector, or all.")],
) -> None:
    """Explain a detector.

    What it sees, why it matters, an example with its verdicts, what the model is told, its options, when it
    stays silent and what it does not catch.
    """
    names: tuple[str, ...] = get_args(DetectorId)
    if detector != "all" and detector not in names:
        near = difflib.get_close_matches(detector, names, 1, cutoff=0.4)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise typer.BadParameter(f"{detector!r} is no detector.{hint} Known: all, {', '.join(names)}.")
    from rich.markdown import Markdown

    from loopwarden.cli.pages import STRIP, page
    from loopwarden.cli.screen import Screen

    console = Screen()
    for place, name in enumerate(names if detector == "all" else (detector,)):
        if console.is_terminal:
            console.print(Markdown(page(name, max(min(STRIP, console.width - _BESIDE), 10))))
        else:
            text = page(name)
            typer.echo(("\n" if place else "") + text.rstrip("\n"))
