"""`loopwarden runs`: read the run record."""

from __future__ import annotations

import csv
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from loopwarden.cli.options import Group, since_time
from loopwarden.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.records import Entry, RunSummary

app = typer.Typer(cls=Group, help="Read the record that guards keep of their runs (LoopGuard(record=...)).")

RecordFile = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FILE",
        help="The record: JSON lines or SQLite. Without it: LOOPWARDEN_RECORD, then runs.jsonl in the user's "
        "state folder.",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="7d", help="Only what was recorded since: 30m, 12h, 7d, 2w, or a date.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object with everything.")]

_ID_CHARACTERS: Final = 4
_NAME: Final = 40
_COLUMNS: Final = (
    "id",
    "kind",
    "time",
    "session",
    "run",
    "at",
    "calls",
    "agent",
    "mode",
    "level",
    "detector",
    "count",
    "threshold",
    "action",
    "would",
    "announced",
    "tool",
    "paired_tools",
    "key",
    "call_id",
    "turn_id",
    "error",
    "message",
    "arguments",
    "result",
    "compaction",
    "next_calls",
    "repeats",
    "why",
    "outcomes",
    "refusals",
    "warnings",
)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would take a cell for a formula by."""


@app.command(name="list", short_help="One line a run.")
def list_runs(record: RecordFile = None, since: Since = None, as_json: AsJson = False) -> None:
    """List the runs, the newest last: calls, warnings, refusals, and how each ended.

    Re-reads are calls after a compaction that repeat a call from before it, out of so many that were looked
    at. A run that is open may have made more calls than its newest entry says, so a + stands there.
    """
    from loopwarden.records import summaries

    path, first = _path(record), _first(since)
    runs = [run for run in summaries(_entries(path)) if run.last >= first]
    if as_json:
        _print_json({"record": str(path), "runs": [run.as_dict() for run in runs]})
        return
    if not runs:
        typer.echo("no runs")
        return
    head = ("ID", "BEGUN", "RUN", "CALLS", "WARNINGS", "REFUSALS", "RE-READS", "END", "DETECTORS")
    rows = [head, *(_row(run) for run in runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


@app.command(short_help="Everything that happened in one run.")
def show(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Id as list shows it, its beginning, or the host's run id.")
    ],
    record: RecordFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what happened in a run, line by line: time, number of calls so far, what.

    Where the host used a run id several times the newest of these runs is shown.
    """
    from loopwarden.records import summaries

    path = _path(record)
    found = _pick(run, summaries(_entries(path)))
    entries = [entry for entry in _entries(path) if entry.id == found.id]
    if as_json:
        _print_json({"run": found.as_dict(), "entries": [entry.as_dict() for entry in entries]})
        return
    typer.echo(_title(found))
    if found.reason:
        typer.echo(found.reason)
    for entry in entries:
        typer.echo(f"{entry.time[11:23]}  {entry.calls:>6}  {_what(entry)}")


@app.command(short_help="Every entry, for other programs.")
def export(
    record: RecordFile = None,
    since: Since = None,
    form: Annotated[
        Literal["jsonl", "json", "csv"],
        typer.Option("--format", metavar="NAME", help="jsonl (an entry a line), json (one array), or csv."),
    ] = "jsonl",
) -> None:
    """Write all entries to standard output, the oldest first.

    In csv a text that a spreadsheet would take for a formula has a ' before it.
    """
    path, first = _path(record), _first(since)
    entries = (entry for entry in _entries(path) if entry.time >= first)
    if form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for entry in entries:
            values = entry.as_dict()
            writer.writerow([_cell(values.get(column)) for column in _COLUMNS])
    elif form == "json":
        _print_json([entry.as_dict() for entry in entries])
    else:
        for entry in entries:
            sys.stdout.write(json.dumps(entry.as_dict(), separators=(",", ":")) + "\n")


def _path(record: Path | None) -> Path:
    from loopwarden.records import default_path

    return record if record is not None else default_path()


def _entries(path: Path) -> Iterator[Entry]:
    from loopwarden.records import read

    try:
        yield from read(path)
    except FileNotFoundError:
        hint = "nothing was recorded yet; LoopGuard(record=...) switches it on"
        raise StoreError(f"{path}: no such file ({hint})") from None


def _first(since: str | None) -> str:
    """The time of the first entry that counts, as it stands in entries; empty for all."""
    moment = since_time(since, time.time())
    if moment is None:
        return ""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _pick(wanted: str, runs: Iterable[RunSummary]) -> RunSummary:
    """The run that is meant.

    Raises:
        typer.BadParameter: There is none, or an id's beginning fits several.
    """
    from loopwarden.records.entry import name_of

    known = list(runs)
    by_run = [run for run in known if run.run is not None and run.run == name_of(wanted)]
    if by_run:
        if len(by_run) > 1:
            older = ", ".join(run.id for run in by_run[:-1][-5:])
            typer.echo(f"the newest of {len(by_run)} runs of this name; older: {older}", err=True)
        return by_run[-1]
    by_id = [run for run in known if len(wanted) >= _ID_CHARACTERS and run.id.startswith(wanted)]
    if len(by_id) == 1:
        return by_id[0]
    why = f"the beginning of {len(by_id)} ids" if by_id else "no run of this record"
    raise typer.BadParameter(f"{wanted!r} is {why}; see loopwarden runs list", param_hint="RUN")


def _row(run: RunSummary) -> tuple[str, ...]:
    name = _name(run)
    return (
        run.id,
        f"{run.begun[:10]} {run.begun[11:19]}",
        name if len(name) <= _NAME else name[: _NAME - 1] + "…",
        f"{run.calls}+" if run.end == "open" else str(run.calls),
        str(run.warnings),
        str(run.refusals),
        f"{run.rereads} of {run.next_calls}" if run.compactions else "-",
        run.end,
        ", ".join(run.detectors) or "-",
    )


def _name(run: RunSummary) -> str:
    return "/".join(part for part in (run.session, run.run) if part) or "-"


def _title(run: RunSummary) -> str:
    facts = [f"run {_name(run)}", f"id {run.id}"]
    facts += [f"agent {run.agent}"] if run.agent else []
    facts += [f"mode {run.mode}"] if run.mode else []
    facts += [f"begun {run.begun}", f"{run.calls} calls", run.end]
    return ", ".join(facts) + (f" ({run.error})" if run.error else "")


def _what(entry: Entry) -> str:
    """An entry in words."""
    details = entry.details
    match entry.kind:
        case "begun":
            return "begun"
        case "detection" | "refusal" | "abort":
            return _found(entry)
        case "compaction":
            continued = f", goes on from run {details['continues']}" if details.get("continues") else ""
            return f"compaction {details.get('compaction')}{continued}"
        case "rereads":
            return (
                f"after compaction {details.get('compaction')}: {details.get('repeats')} of the next "
                f"{details.get('next_calls')} calls repeat one from before"
            )
        case "user_message":
            return "a person wrote"
        case "retraction":
            return f"calls rolled back: {details.get('retracted')}"
        case "ended":
            return f"ended ({details.get('why')})"


def _found(entry: Entry) -> str:
    details = entry.details
    word = {"detection": str(details.get("level")), "refusal": "refused", "abort": "aborted"}[entry.kind]
    if details.get("would"):
        word += f" (observed; would {details['would']})"
    paired = details.get("paired_tools")
    tools = [str(details.get("tool") or "-"), *(paired if isinstance(paired, tuple) else ())]
    parts = [f"{word}: {details.get('detector')}, {' and '.join(tools)}"]
    parts.append(f"{details.get('count')} times (threshold {details.get('threshold')})")
    parts += [f"call {details['call_id']}"] if details.get("call_id") else []
    parts += ["the model was told"] if details.get("announced") and entry.kind == "detection" else []
    parts += [f"{name} {details[name]}" for name in ("arguments", "result") if details.get(name)]
    return ", ".join(parts)


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        value = " ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _print_json(value: Any) -> None:
    # ASCII, so that whatever stands in an id or a name can be written anywhere
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
