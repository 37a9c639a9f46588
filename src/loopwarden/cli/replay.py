"""`loopwarden replay`: events in, one verdict a line out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from loopwarden.cli.options import idle, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.guard import LoopGuard


def replay(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Events or any known transcript; - reads events from standard input, live."
        ),
    ],
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Configuration; without it as for scan.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="ID", help="Use the settings of this agent in the configuration.")
    ] = None,
    mode: Annotated[
        Literal["enforce", "observe"],
        typer.Option(
            metavar="MODE", help="enforce: outcomes of refused calls are left out. observe: everything ran."
        ),
    ] = "enforce",
    file_format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Format of the file, if not told from it.")
    ] = None,
) -> None:
    """Print a verdict for each recorded event.

    Feeds the events to a fresh guard and prints what it says to each, one JSON object a line.

    With - each line is answered as soon as it comes, so that a program may ask while its agent is at work. A
    line that is no event is answered with {"error": ..., "line": N}, and the next one is read.

    Exit code: 0 all was read, 2 wrong use or a file that can't be read.
    """
    from loopwarden.guard import LoopGuard

    loaded = load(config, agent)
    guard = LoopGuard(loaded, agent_id=agent, mode=mode)
    if mode == "enforce" and (reason := idle(loaded.settings(agent).enabled)) is not None:
        typer.echo(f"loopwarden: {reason}", err=True)
    if file == "-" and file_format in (None, "events"):
        from loopwarden.scan.answers import Answering

        _print(Answering(guard).answers(sys.stdin.buffer))
    else:
        _print(_recorded(file, file_format, guard))


def _print(answers: Iterable[dict[str, Any]]) -> None:
    for answer in answers:
        # ASCII, so that whatever stands in an id or a name can be written anywhere
        sys.stdout.write(json.dumps(answer, separators=(",", ":")) + "\n")
        sys.stdout.flush()


def _recorded(file: str, file_format: str | None, guard: LoopGuard) -> Iterator[dict[str, Any]]:
    from loopwarden.scan.answers import answer
    from loopwarden.transcripts.model import NOTE_KINDS, Recorded
    from loopwarden.transcripts.registry import read
    from loopwarden.transcripts.source import Source

    source = Source(None, data=sys.stdin.buffer) if file == "-" else Source(Path(file))
    transcript = read(source, format=file_format)
    for item in transcript.items:
        if isinstance(item, Recorded):
            yield answer(item, guard.session(item.stream).examine(item.event)[0])
    for kind, count in transcript.notes.counts.items():
        typer.echo(f"{count:,}: {NOTE_KINDS.get(kind, kind)}", err=True)
