"""`loopwarden status`: the live sessions of coding agents, and what the guard did today."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwarden.cli.install import AsJson  # noqa: TC001 - typer reads it

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from loopwarden.hooks.sessions import Seen, Status

_WHAT = ("warned", "refused", "ended", "let_pass", "observed")


def status(
    minutes: Annotated[
        int, typer.Option(min=1, help="A session is live when its last event is not older than this.")
    ] = 30,
    as_json: AsJson = False,
) -> None:
    """Show the live sessions of coding agents, and what was warned and refused today, by project.

    The key of a loop is for loopwarden allow, the id of a session for loopwarden pause.
    """
    from loopwarden.hooks.places import state_folder
    from loopwarden.hooks.sessions import Sessions

    now = time.time()
    sessions = Sessions(state_folder(), now, minutes)
    try:
        found = sessions.status()
    finally:
        sessions.close()
    if as_json:
        typer.echo(json.dumps(_object(found), indent=2))
        return
    from rich.text import Text

    from loopwarden.cli.screen import Screen

    console = Screen(soft_wrap=True, highlight=False)
    _table(
        console,
        f"Live sessions (an event in the last {minutes} minutes)",
        ("AGENT", "SESSION", "LAST EVENT", "GUARD", "PROJECT"),
        [_session(one, now) for one in found.sessions],
    )
    for one in found.sessions:
        if one.session.unguarded:
            text = f"  {one.session.name} is not guarded: {one.session.unguarded}"
            console.print(Text(plain(text), style="bold red"))
    _table(
        console,
        "Today",
        ("PROJECT", "WARNED", "REFUSED", "ENDED", "LET PASS", "OBSERVED"),
        [
            (project or "-", *(str(counts[word]) for word in _WHAT))
            for project, counts in found.by_project().items()
        ],
    )
    _table(
        console,
        "Loops that were refused today",
        ("KEY", "TIMES", "AGENT", "SESSION", "TOOL", "DETECTOR"),
        [
            (
                row["key"],
                str(row["times"]),
                row["host"],
                row["session"],
                row["tool"] or "-",
                row["detector"] or "-",
            )
            for row in found.refused()
        ],
    )


def _session(one: Seen, now: float) -> tuple[str, ...]:
    minutes = max(int((now - one.seen) / 60), 0)
    guard = "paused" if one.session.paused else "off" if one.session.unguarded else "on"
    return one.session.host, one.session.name, f"{minutes} min ago", guard, one.session.project or "-"


def _object(found: Status) -> dict[str, Any]:
    return {
        "sessions": [
            {
                "host": one.session.host,
                "session": one.session.name,
                "project": one.session.project,
                "begun": one.begun,
                "seen": one.seen,
                "paused": one.session.paused,
                "allowed": one.session.released,
                "fault": one.session.unguarded or None,
            }
            for one in found.sessions
        ],
        "since": found.since,
        "projects": {
            project: {word: counts[word] for word in _WHAT} for project, counts in found.by_project().items()
        },
        "refused": found.refused(),
    }


def _table(console: Console, title: str, head: Sequence[str], rows: list[tuple[str, ...]]) -> None:
    from rich.text import Text

    console.print(Text(title, style="bold"))
    if not rows:
        console.print(Text("  none"))
        return
    every = [tuple(head), *(tuple(plain(cell) for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    for row in every:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        console.print(Text(f"  {line.rstrip()}"))


def plain(text: str) -> str:
    """An agent's words can't write to the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
