"""The report as text: the answer first, then the worst loops and runs, then what could not be read.

Everything is put out as `Text`, never as markup, since names and arguments come from outside.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from loopwarden.scan import words
from loopwarden.transcripts.model import NOTE_KINDS

if TYPE_CHECKING:
    from rich.console import Console

    from loopwarden.scan.summary import FileReport, Loop, Report, Run

_LEVEL_STYLE: Final = {"warning": "yellow", "critical": "bold red"}
_WIDE: Final = 72
_WIDEST: Final = 110
_NAMED: Final = 20
_STEPS_OF_REPETITION: Final = 2


def print_report(
    console: Console, report: Report, *, top: int, html: str | None = None, command: str = "loopwarden scan"
) -> None:
    """Write the report.

    Args:
        console: Where to.
        report: What was found.
        top: How many loops and runs are shown, the worst first.
        html: Name of the page that was written, `None` if there is none.
        command: The command that scans the same again.
    """
    _looked(console, report)
    _answer(console, report)
    loops, runs = report.loops, [pair for pair in report.runs if pair[1].stuck]
    names = words.names(report)
    if loops:
        _heading(
            console,
            f"Worst {top:,} of {len(loops):,} loops" if len(loops) > top else "Loops, the worst first",
        )
        for place, (file, run, loop) in enumerate(loops[:top], 1):
            _loop(console, place, file, run, loop)
        _heading(console, f"Worst {top:,} of {len(runs):,} runs" if len(runs) > top else "Runs with loops")
        _runs(console, runs[:top], names)
    _repetitions(console, report.repetitions, top)
    _unread(console, report)
    _notes(console, report)
    _next(console, report, html, command)


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def _line(console: Console, text: str, style: str = "", indent: int = 2) -> None:
    body = Text(text, style=style)
    for piece in body.wrap(console, max(console.width - indent, 10)):
        piece.rstrip()
        console.print(Text(" " * indent) + piece, soft_wrap=True)


def _whole(
    console: Console, before: str, name: str, after: str = "", style: str = "", indent: int = 2
) -> None:
    """A line with what one may want to copy. Where it is too long `name` stands alone, never broken."""
    if cell_len(before + name + after) + indent <= console.width:
        console.print(Text(" " * indent + before + name + after, style=style), soft_wrap=True)
        return
    if before:
        _line(console, before.rstrip(), style, indent)
    console.print(Text(" " * (indent + 2 * bool(before)) + name + after[:1], style=style), soft_wrap=True)
    if after:
        _line(console, after[1:].lstrip(), style, indent + 2)


def _looked(console: Console, report: Report) -> None:
    if not report.looked_in:
        return
    console.print(Text("Looked for sessions in", style="bold"))
    for product, place, count in report.looked_in:
        found = words.plural(count, "file") if count else "nothing"
        _whole(console, f"{product}: ", place, f": {found}", "" if count else "dim")
    console.print()


def _answer(console: Console, report: Report) -> None:
    totals = report.totals
    files = words.plural(totals.files, "file")
    runs, calls = words.plural(totals.runs, "run"), words.plural(totals.spent.calls, "call")
    if report.switched_off:
        _line(console, words.SWITCHED_OFF, "bold yellow", indent=0)
    _line(console, f"{files}, {runs}, {calls}", "bold", indent=0)
    if not totals.loops:
        well = totals.runs and not report.switched_off
        _line(console, words.nothing(report), "bold green" if well else "bold", indent=0)
    else:
        share = words.percent(totals.share_in_loops)
        inside = f"{words.plural(totals.calls_in_loops, 'call')} in loops ({share})"
        _line(console, f"{words.headline(totals)}; {inside}", "bold red", indent=0)
        waste = words.spend(totals.waste)
        _line(console, f"Spent in loops after the guard would have warned: {waste}", "bold", indent=0)
    if totals.repetitions:
        _line(console, words.repetitions(totals), "yellow", indent=0)
    for warning in report.config_warnings:
        _line(console, f"config: {warning}", "yellow", indent=0)


def _repetitions(console: Console, found: list[tuple[FileReport, Run, Loop]], top: int) -> None:
    """The repetitions, in fewer lines than loops."""
    if not found:
        return
    many = f"Longest {top:,} of {len(found):,} repetitions" if len(found) > top else "Repetitions"
    _heading(console, f"{many}, only warned about")
    for place, (file, run, loop) in enumerate(found[:top], 1):
        _head(console, place, loop)
        for step in loop.steps[:_STEPS_OF_REPETITION]:
            _line(console, f"{step.tool}({step.arguments})", "cyan", indent=5)
        _where(console, file, run)


def _where(console: Console, file: FileReport, run: Run) -> None:
    _whole(
        console,
        "in " if run.title == file.path else f"run {run.title} in ",
        file.path,
        style="dim",
        indent=3,
    )


def _head(console: Console, place: int, loop: Loop) -> None:
    head = Text(f"{place:>2} ")
    head.append(loop.level, style=_LEVEL_STYLE[loop.level])
    head.append(f" {loop.detectors[0]}", style="bold")
    if len(loop.detectors) > 1:
        head.append(f" (also {', '.join(loop.detectors[1:])})")
    head.append(f": {words.how(loop)}; {words.results(loop)}")
    for number, piece in enumerate(head.wrap(console, max(console.width - 3, 10))):
        piece.rstrip()
        console.print(piece if not number else Text("   ") + piece, soft_wrap=True)


def _loop(console: Console, place: int, file: FileReport, run: Run, loop: Loop) -> None:
    _head(console, place, loop)
    for step in loop.steps:
        times = f"  {words.plural(step.calls, 'time')}" if len(loop.steps) > 1 else ""
        _line(console, f"{step.tool}({step.arguments}){times}", "cyan", indent=5)
    if loop.more_steps:
        _line(console, f"and {loop.more_steps:,} more", "cyan", indent=5)
    across = f", across {words.plural(loop.compactions, 'compaction')}" if loop.compactions else ""
    _line(console, f"from {words.place(loop.first)} to {words.place(loop.last)}{across}", indent=3)
    _line(console, words.guard_line(loop), indent=3)
    after = f"spent after that: {words.spend(loop.after_warning)}"
    if loop.after_block is not None and loop.warned is not None:
        after += f"; after the refusal: {words.spend(loop.after_block)}"
    _line(console, after, indent=3)
    _where(console, file, run)


def _runs(console: Console, runs: list[tuple[FileReport, Run]], names: dict[tuple[str, str], str]) -> None:
    if console.width < _WIDE:
        for file, run in runs:
            share = words.percent(run.calls_in_loops / run.calls) if run.calls else "-"
            name = names[file.path, run.stream]
            _line(console, f"{name} ({file.format}): {words.plural(run.calls, 'call')}, {share} in loops")
            _line(console, f"after warnings: {words.spend(run.waste)}", indent=4)
        return
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("run", overflow="ellipsis", no_wrap=True, ratio=1)
    for name in ("calls", "loops", "in loops", "after warnings"):
        table.add_column(name, justify="left" if name == "after warnings" else "right")
    table.width = min(console.width, _WIDEST) if console.is_terminal else None
    for file, run in runs:
        share = words.percent(run.calls_in_loops / run.calls) if run.calls else "-"
        row = (
            names[file.path, run.stream],
            words.number(run.calls),
            words.number(run.stuck),
            share,
            words.spend(run.waste),
        )
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _unread(console: Console, report: Report) -> None:
    unread = report.unreadable
    if not unread:
        return
    _heading(console, f"Not read: {words.plural(len(unread), 'file')}")
    for file in unread[:_NAMED]:
        _whole(console, "", file.path, f": {file.error}", "red")
    if len(unread) > _NAMED:
        _line(console, f"and {len(unread) - _NAMED:,} more (--json names all)", "red")


def _notes(console: Console, report: Report) -> None:
    counts: Counter[str] = Counter()
    for file in report.files:
        counts.update(file.notes)
    if counts:
        _heading(console, "Met while reading")
        for kind, count in counts.most_common():
            _line(console, f"{count:,}: {NOTE_KINDS.get(kind, kind)}", "dim")


def _next(console: Console, report: Report, html: str | None, command: str) -> None:
    hints = []
    found = report.loops or report.repetitions
    if not report.files and not report.unchanged:
        hints.append(("To scan recorded runs elsewhere:", "loopwarden scan PATH"))
    if html is not None:
        hints.append(("The page, for your browser:", html))
    elif found:
        hints.append(("To see every call of the runs:", f"{command} --html report.html"))
    if found:
        hints.append(("What the worst one means:", f"loopwarden explain {found[0][2].detectors[0]}"))
    if hints:
        console.print()
        for what, name in hints:
            _whole(console, f"{what} ", name, style="dim", indent=0)
