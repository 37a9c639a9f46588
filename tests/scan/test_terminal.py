"""The report as text."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from loopwarden.scan.summary import FileReport, Report, Run
from loopwarden.scan.terminal import print_report
from loopwarden.scan.words import names
from tests.scan.strips import report_of, scan_strip


def text(report: Report, *, width: int = 100, colour: bool = False, top: int = 10, **given: Any) -> str:
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, highlight=False, markup=False, legacy_windows=False
    )
    print_report(console, report, top=top, **given)
    return out.getvalue()


def test_the_answer_stands_at_the_top() -> None:
    lines = text(report_of(scan_strip("xy" + "a" * 12, seconds=5.0, tokens=1000))).splitlines()
    assert lines[:3] == [
        "1 file, 1 run, 14 calls",
        "1 loop in 1 run; 12 calls in loops (86 %)",
        "Spent in loops after the guard would have warned: 8 calls, 40 s, 8.8k tokens, $0.08",
    ]


def test_a_loop_says_everything() -> None:
    found = text(report_of(scan_strip("xy" + "a" * 9)), width=200)
    for part in (
        "critical generic_repeat: one call, 9 times; the same results each time",
        'look(q: "a")',
        "from call 3 to call 11",
        "the guard would have warned at call 6, refused call 8",
        "spent after that: 5 calls; after the refusal: 3 calls",
        "run run s in runs.jsonl",
        "loopwarden explain generic_repeat",
        "loopwarden scan --html report.html",
    ):
        assert part in found


def test_what_is_only_warned_about_has_a_line_of_its_own() -> None:
    found = text(report_of(scan_strip("P" * 30, tokens=1000), scan_strip("a" * 9, tokens=10)))
    assert found.splitlines()[1:4] == [
        "1 loop in 1 run; 9 calls in loops (23 %)",
        "Spent in loops after the guard would have warned: 5 calls, 55 tokens, $0.05",
        "1 repetition with news would only have been warned about: 26 calls, 28.6k tokens, $0.26",
    ]
    assert "Repetitions, only warned about\n 1 warning generic_repeat: one call, 30 times; results" in found
    alone = text(report_of(scan_strip("aaaa"), scan_strip("bbbb")))
    assert "No loops found.\n2 repetitions would only have been warned about: 0 calls\n" in alone
    assert "explain generic_repeat" in alone


def test_runs_of_one_title_are_told_apart() -> None:
    run = scan_strip("a" * 9)
    files = [FileReport(path=path, format="events", runs=(run,)) for path in ("a/x.json", "a/y.json")]
    other = FileReport(path="b/z.json", format="events", runs=(replace(run, title="other"),))
    assert set(names(Report(files=(*files, other))).values()) == {"x.json: run s", "y.json: run s", "other"}
    same = [replace(file, path=f"{folder}/x.json") for folder, file in zip("ab", files, strict=True)]
    twice = replace(files[0], runs=(run, replace(run, stream="t")))
    assert set(names(Report(files=tuple(same))).values()) == {"a/x.json: run s", "b/x.json: run s"}
    assert set(names(Report(files=(twice,))).values()) == {"a/x.json s: run s", "a/x.json t: run s"}
    found = text(Report(files=(*files, other)))
    assert "x.json: run s" in found
    assert "y.json: run s" in found


def test_one_time_and_more() -> None:
    run = scan_strip("ab" * 8)
    (loop,) = run.loops
    steps = (replace(loop.steps[0], calls=1), *loop.steps[1:])
    found = text(report_of(replace(run, loops=(replace(loop, steps=steps),))))
    assert "  1 time\n" in found
    assert "  8 times\n" in found


def test_a_configuration_that_finds_nothing_is_named_first() -> None:
    report = report_of(scan_strip("abcd"), switched_off=True)
    assert text(report).startswith(
        "The configuration switches all detectors off (enabled: false)\n1 file, 1 run"
    )


def test_what_only_holds_older_runs() -> None:
    old = FileReport(path="a", format="events", older=2)
    assert "\n3 files hold only older runs.\n" in text(Report(files=(old,), since=9.0, unchanged=2))
    assert "\n1 file holds only older runs.\n" in text(Report(files=(), since=9.0, unchanged=1))


def test_nothing_found() -> None:
    assert "No loops found." in text(report_of(scan_strip("abcd")))
    found = text(Report(files=(), looked_in=(("Codex CLI", "/there", 0), ("pi", "/here", 2))))
    assert "Codex CLI: /there: nothing" in found
    assert "pi: /here: 2 files" in found
    assert "No recorded runs found." in found
    assert "loopwarden scan PATH" in found


def test_what_could_not_be_read_has_a_line_each() -> None:
    files = tuple(FileReport(path=f"f{n}", error="no known format", why="unknown_format") for n in range(25))
    found = text(Report(files=files))
    assert "Not read: 25 files" in found
    assert "  f3: no known format\n" in found
    assert "and 5 more" in found
    assert "Not read" not in text(
        Report(files=(FileReport(path="e", error="the file is empty", why="empty"),))
    )


def test_only_the_worst_are_listed() -> None:
    report = report_of(*(scan_strip("a" * (6 + n)) for n in range(6)))
    found = text(report, top=2)
    assert "Worst 2 of 6 loops" in found
    assert found.count("the guard would have") == 3


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_every_line_fits_but_names_to_copy_are_whole(width: int) -> None:
    run: Run = replace(scan_strip("abab|ababababab", seconds=4000.0, tokens=90_000), title="t" * 90)
    path, other, page, place = "/long" * 30, "/o t h e r" * 20, "p" * 230, "/place" * 40
    file = FileReport(path=path, size=10, format="events", runs=(run,))
    bad = FileReport(path=other, error="no known format " * 8, why="unknown_format")
    looked = (("Codex CLI", place, 3),)
    report = Report(files=(file, bad), config_warnings=("w " * 90,), looked_in=looked)
    found = text(report, width=width, html=page, colour=True)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", found).splitlines()
    for name in (path, f"{other}:", page, f"{place}:"):
        (alone,) = (line for line in shown if line.strip() == name or line.strip().startswith(name + " "))
        shown.remove(alone)
    assert all(shown[place] or shown[place + 1] for place in range(len(shown) - 1))
    measure = Console(width=1000)
    for line in shown:
        assert measure.measure(line).maximum <= width, line


def test_the_hint_repeats_the_command() -> None:
    report, command = report_of(scan_strip("a" * 9)), "loopwarden scan 'my runs' --agent ada"
    assert f"To see every call of the runs: {command} --html report.html\n" in text(report, command=command)
    assert f"\n  {command} --html report.html\n" in text(report, command=command, width=40)


def test_no_colour_unless_there_is_a_screen() -> None:
    report = report_of(scan_strip("a" * 9))
    assert "\x1b" not in text(report)
    assert "\x1b[" in text(report, colour=True)


def test_markup_from_outside_is_only_text() -> None:
    found = text(report_of(replace(scan_strip("a" * 9), title="[red]x[/red] [/nope]")))
    assert "[red]x[/red] [/nope]" in found
