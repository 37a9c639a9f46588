"""`loopwarden replay`: events in, one verdict a line out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from loopwarden.events import Event, Verdict


def replay(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Events or any known transcript; - reads events.")
    ],
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Configuration; without it as for scan.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="ID", help="Use the settings of this agent in the configuration.")
    ] = None,
    mode: Annotated[
        Literal["enforce", "observe"],
        typer.Option(help="enforce: outcomes of refused calls are left out. observe: everything ran."),
    ] = "enforce",
    file_format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Format of the file, if not told from it.")
    ] = None,
) -> None:
    """Print a verdict for each recorded event.

    Feeds the events to a fresh guard and prints what it says to each, one JSON object a line.

    Exit code: 0 all was read, 2 wrong use or a file that can't be read.
    """
    import json

    from loopwarden.config import load_config
    from loopwarden.guard import LoopGuard
    from loopwarden.transcripts.model import Recorded
    from loopwarden.transcripts.registry import read
    from loopwarden.transcripts.source import Source

    source = Source(None, data=sys.stdin.buffer) if file == "-" else Source(Path(file))
    wanted = file_format or ("events" if file == "-" else None)
    guard = LoopGuard(load_config(config), agent_id=agent, mode=mode)
    for item in read(source, format=wanted).items:
        if isinstance(item, Recorded):
            verdict, _ = guard.session(item.stream).examine(item.event)
            record = {"stream": item.stream} | _line(item.event, verdict)
            # ASCII, so that whatever stands in an id or a name can be written anywhere
            sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")
            sys.stdout.flush()


def _line(event: Event, verdict: Verdict) -> dict[str, Any]:
    from loopwarden.events import Compaction, Outcome, ToolCall, UserMessage

    line: dict[str, Any] = {}
    match event:
        case ToolCall():
            line |= {"type": "call", "id": event.call_id}
        case Outcome():
            line |= {"type": "outcome", "id": event.call_id}
        case Compaction():
            line["type"] = "compaction"
        case UserMessage():
            line["type"] = "user"
        case _:
            line["type"] = "retract"
    if event.run_id is not None:
        line["run"] = event.run_id
    for name in ("action", "would", "level", "detector", "count", "threshold", "tool", "paired_tools", "key"):
        value = getattr(verdict, name)
        if value or name == "action":
            line[name] = value
    if verdict.detector is not None:
        line |= {"announce": verdict.announce, "error": verdict.error, "message": verdict.message}
    return line
