"""`loopwarden scan`: finds loops in recorded runs."""

from __future__ import annotations

import os
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from loopwarden.cli.options import load, since_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import Console
    from rich.text import Text

    from loopwarden.scan.follow import Notice
    from loopwarden.scan.replay import ScanOptions
    from loopwarden.scan.summary import FileReport, Report
    from loopwarden.transcripts.discover import Candidate, Skipped

EXIT_FOUND = 1
"""A loop of the level given with --fail-on, or worse, was found."""

EXIT_WRONG = 2
"""Wrong use."""

EXIT_UNREADABLE = 3
"""At least one file could not be read."""

_REFRESH_SECONDS = 0.1
_POLL_SECONDS = 1.0
_PATIENCE = 4.0
_LONGEST_COMMAND = 100
_PIPED_WIDTH = 400
"""Columns where there is no screen: paths stay in one piece for other programs."""


def scan(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH",
            help="Files, folders, patterns, or - for standard input. Without any, the session folders of "
            "Claude Code, Codex CLI, Gemini CLI, OpenClaw, pi, opencode, Hermes and Qwen Code on this "
            "machine.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="7d", help="Only runs whose last event is not older: 30m, 12h, 7d, 2w, or a date."
        ),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help="Format of all files, instead of telling it by content."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Configuration to judge by. All detectors look, as with enabled: true, unless it says "
            "enabled: false. Without it: LOOPWARDEN_CONFIG, ./loopwarden.json5, then the user's "
            "configuration folder.",
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="ID", help="Use the settings of this agent in the configuration.")
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", metavar="N", min=1, max=256, help="Processes at work.")
    ] = 1,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Watch the files and print a loop when it begins; ends with Ctrl-C."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on standard output; see --json-schema.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one offline page with every run.")
    ] = None,
    fail_on: Annotated[
        Literal["warning", "critical"] | None,
        typer.Option(
            "--fail-on",
            metavar="LEVEL",
            help="Exit with 1 if a loop of this level or worse was found: warning or critical.",
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many loops and runs are listed, the worst first.")
    ] = 10,
    json_schema: Annotated[
        bool, typer.Option("--json-schema", help="Print the JSON Schema of --json and do nothing else.")
    ] = False,
) -> None:
    """Find loops in recorded runs, and what they cost.

    Says where the guard would have warned, refused and ended the run, and what was spent after that. Nothing
    is changed or sent anywhere; results of tools are not shown, and credentials in arguments are masked.

    Exit code: 0 nothing to report, 1 a loop was found (only with --fail-on), 2 wrong use, 3 a file could not
    be read or is of no known format (all others were). 1 comes before 3.
    """
    if json_schema:
        _print_schema()
        return
    from loopwarden.scan.replay import ScanOptions
    from loopwarden.transcripts.registry import by_name

    if file_format is not None:
        by_name(file_format)
    if follow and (as_json or html is not None or fail_on is not None or paths == ["-"]):
        raise typer.BadParameter("goes on for ever: not with --json, --html, --fail-on or standard input",
                                 param_hint="--follow")  # fmt: skip
    if html is not None and not html.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {html.parent}", param_hint="--html")
    options = ScanOptions(config=load(config, agent), agent_id=agent, since=since_time(since, time.time()))
    if fail_on is not None and options.switched_off:
        where = options.config.source or "the configuration"
        raise typer.BadParameter(
            f"cannot fail: {where} switches all detectors off (enabled: false)", param_hint="--fail-on"
        )
    if follow:
        _follow(paths, file_format, options)
        return
    report = _report(paths, file_format, options, jobs, quiet=as_json)
    if html is not None:
        _write_page(report, html)
    if as_json:
        from loopwarden.scan.json_report import report_json

        sys.stdout.buffer.write(report_json(report))
    else:
        from loopwarden.scan.terminal import print_report

        given = {"--since": since, "--format": file_format, "--config": config, "--agent": agent}
        page = None if html is None else str(html)
        print_report(_console(), report, top=top, html=page, command=_command(paths or [], given))
    code = _exit_code(report, fail_on, paths)
    if code:
        raise typer.Exit(code)


def _command(paths: list[str], given: Mapping[str, object]) -> str:
    """The command that scans the same again, for a hint; long or odd paths are left out."""
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    whole = shlex.join(["loopwarden", "scan", *paths, *options])
    if len(whole) <= _LONGEST_COMMAND and whole.isprintable():
        return whole
    short = " ".join(["loopwarden scan ...", *map(shlex.quote, options)])
    return short if len(short) <= _LONGEST_COMMAND and short.isprintable() else "loopwarden scan ..."


def _print_schema() -> None:
    import orjson

    from loopwarden.scan.json_report import report_schema

    sys.stdout.buffer.write(
        orjson.dumps(report_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    )


def _console(*, stderr: bool = False) -> Console:
    from loopwarden.cli.screen import Screen

    console = Screen(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPED_WIDTH
    return console


def _exit_code(report: Report, fail_on: str | None, paths: list[str] | None) -> int:
    if (fail_on is not None and report.loops) or (fail_on == "warning" and report.repetitions):
        return EXIT_FOUND
    if report.unreadable:
        nothing_there = (
            paths
            and len(report.unreadable) == len(report.files)
            and all(file.why == "missing" for file in report.files)
        )
        return EXIT_WRONG if nothing_there else EXIT_UNREADABLE
    return 0


def _find(
    paths: list[str] | None, file_format: str | None
) -> tuple[Callable[[], Iterator[Candidate | Skipped]], list[tuple[str, str]]]:
    """How to list the files, and where sessions are looked for if no path was given."""
    from loopwarden.transcripts.discover import discover
    from loopwarden.transcripts.locations import known_locations

    if paths:
        stdin = sys.stdin.buffer
        return lambda: discover(paths, format=file_format, stdin=stdin), []
    places = known_locations()
    there = [place.pattern for place in places if place.exists]
    return lambda: discover(there, format=file_format), [(place.program, place.pattern) for place in places]


def _report(
    paths: list[str] | None, file_format: str | None, options: ScanOptions, jobs: int, *, quiet: bool
) -> Report:
    from loopwarden.scan.summary import Report
    from loopwarden.transcripts.discover import Candidate, printable

    find, places = _find(paths, file_format)
    named = {printable(path) for path in paths or ()}
    candidates: list[Candidate] = []
    left_out: list[FileReport] = []
    unchanged = 0
    for found in find():
        if not isinstance(found, Candidate):
            left_out.append(_left_out(found, named=found.label in named))
        elif options.since is None or found.modified is None or found.modified >= options.since:
            candidates.append(_fresh(found))
        else:
            unchanged += 1
    files = _scan_with_progress(candidates, options, jobs, quiet=quiet)
    return Report(
        files=(*files, *left_out),
        config=options.config.source or "built-in defaults",
        config_warnings=tuple(str(warning) for warning in options.config.warnings),
        since=options.since,
        looked_in=tuple((program, place, _below(place, files)) for program, place in places),
        switched_off=options.switched_off,
        unchanged=unchanged,
    )


def _fresh(candidate: Candidate) -> Candidate:
    """The candidate without what was read to tell its format: there may be a hundred thousand."""
    from dataclasses import replace

    from loopwarden.transcripts.source import Source

    source = candidate.source
    if source.path is None:
        return candidate
    return replace(candidate, source=Source(source.path, label=source.label, limits=source.limits))


def _below(pattern: str, files: list[FileReport]) -> int:
    """How many of the files lie at or below the pattern."""
    from fnmatch import fnmatchcase

    return sum(fnmatchcase(file.path, pattern) or fnmatchcase(file.path, f"{pattern}/*") for file in files)


def _left_out(found: Skipped, *, named: bool) -> FileReport:
    from loopwarden.masking import clean
    from loopwarden.scan.summary import FileReport

    why = "unknown_format" if named and found.why == "empty" else found.why
    return FileReport(path=clean(found.label, 1000), error=clean(found.detail, 300), why=why)


def _scan_with_progress(
    candidates: list[Candidate], options: ScanOptions, jobs: int, *, quiet: bool
) -> list[FileReport]:
    from loopwarden.scan.parallel import scan_files

    if quiet or not candidates or not (sys.stdout.isatty() and sys.stderr.isatty()):
        return scan_files(candidates, options, jobs=jobs)
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    narrow = _console(stderr=True).width < 60  # noqa: PLR2004 - what the wide columns need
    wide = () if narrow else (DownloadColumn(), TransferSpeedColumn())
    columns = (TextColumn("{task.description}"), BarColumn(None), *wide, TimeRemainingColumn())
    with Progress(*columns, console=_console(stderr=True), transient=True, auto_refresh=False) as progress:
        shown = 0.0
        task = progress.add_task("Scanning", total=sum(max(candidate.size, 1) for candidate in candidates))

        def done(file: FileReport) -> None:
            progress.update(task, advance=max(file.size, 1))
            tick()

        def tick() -> None:
            nonlocal shown
            if time.monotonic() - shown >= _REFRESH_SECONDS:
                shown = time.monotonic()
                progress.refresh()

        return scan_files(candidates, options, jobs=jobs, on_file=done, tick=tick)


def _write_page(report: Report, path: Path) -> None:
    from loopwarden.scan.html_report import report_html

    path.write_text(report_html(report), encoding="utf-8")


def _check_there(paths: list[str]) -> None:
    """Say which files are not there; to wait for a pattern is no fault.

    Raises:
        typer.BadParameter: None of them is.
    """
    from glob import has_magic

    from loopwarden.transcripts.discover import printable

    missing = [
        path
        for path in paths
        if not has_magic(path) and not os.path.lexists(os.path.expanduser(path))  # noqa: PTH111 - as in `discover`
    ]
    named = [f"{printable(path)}: no such file or folder" for path in missing]
    if missing and len(missing) == len(paths):
        raise typer.BadParameter("; ".join(named), param_hint="PATH")
    for line in named:
        typer.echo(f"loopwarden: {line}", err=True)


def notice_line(notice: Notice) -> Text:
    """What `--follow` prints about a loop."""
    from rich.text import Text

    from loopwarden.scan import words

    loop = notice.loop
    step = loop.steps[0] if loop.steps else None
    called = f" {step.tool}({step.arguments})" if step else ""
    line = Text(f"{words.moment(loop.last.at) or datetime.now(UTC).strftime('%Y-%m-%d %H:%M:%S')} ")
    line.append(f"{loop.level} {loop.detectors[0]}", style="red" if loop.level == "critical" else "yellow")
    title = "" if notice.run.title in notice.file else f" of {notice.run.title}"
    line.append(f" {notice.stage}: {words.how(loop)}:{called}; {words.place(loop.last)}{title}")
    line.append(f" in {notice.file}", style="dim")
    return line


def _follow(paths: list[str] | None, file_format: str | None, options: ScanOptions) -> None:
    from rich.text import Text

    from loopwarden.scan import words
    from loopwarden.scan.follow import Follower

    _check_there(paths or [])
    find, places = _find(paths, file_format)
    console = _console()
    for program, place in places:
        console.print(Text(f"Looking for {program} in {place}"), soft_wrap=True)
    follower = Follower(find, options, clock=time.monotonic, now=time.time)
    first = True
    while True:
        begun = time.monotonic()
        for notice in follower.look():
            console.print(notice_line(notice), soft_wrap=True)
        if first:
            watched = words.plural(follower.files, "file")
            console.print(Text(f"Watching {watched} and new ones; Ctrl-C ends.", style="dim"), soft_wrap=True)
            first = False
        # Listing many thousand sessions takes a while; most of the time is left to others.
        time.sleep(max(_POLL_SECONDS, _PATIENCE * (time.monotonic() - begun)))
