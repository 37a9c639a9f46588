"""`loopwarden pause`, `resume` and `allow`: what a person at the keyboard decides about the guard.

They are not for the agent itself, which could silence its guard by them: they ask for a terminal.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loopwarden.cli.status import plain
from loopwarden.errors import LoopwardenError

if TYPE_CHECKING:
    from loopwarden.hooks.sessions import Sessions

Session = Annotated[
    str | None,
    typer.Argument(
        metavar="SESSION",
        help="Id as status shows it, or its beginning. Without it: the only live session in this folder.",
    ),
]


def pause(session: Session = None) -> None:
    """Have the guard keep quiet in a session of a coding agent: no call is counted, warned of or refused."""
    _switch(session, "pause")


def resume(session: Session = None) -> None:
    """Have the guard go on in a session that was paused."""
    _switch(session, "resume")


def allow(
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="Of a loop, as the refusal and status show it, or its beginning."),
    ],
) -> None:
    """Let a loop pass in the sessions where it was refused. Of everything else the guard still takes care."""
    _for_people("allow")
    with closing(_sessions()) as sessions:
        for session in sessions.allow(key):
            typer.echo(f"{session.host}, session {plain(session.name)}: this loop passes from now on")


def _switch(name: str | None, command: str) -> None:
    _for_people(command)
    with closing(_sessions()) as sessions:
        found = sessions.find(name, Path())
        new = sessions.pause(found, paused=command == "pause")
    now = "is quiet" if command == "pause" else "is on"
    already = "" if new else " already"
    typer.echo(f"{found.session.host}, session {plain(found.session.name)}: the guard {now}{already}")
    if command == "pause" and new:
        typer.echo(f"To have it on again: loopwarden resume {plain(found.session.name)}")


def _sessions() -> Sessions:
    from loopwarden.hooks.places import state_folder
    from loopwarden.hooks.sessions import Sessions

    return Sessions(state_folder())


def _for_people(command: str) -> None:
    """An agent's shell tool has no terminal.

    Raises:
        LoopwardenError: There is none.
    """
    if not sys.stdin.isatty():
        raise LoopwardenError(f"{command} is for a person at a terminal; run it in one, not from a program")
