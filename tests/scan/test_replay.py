"""One file: what is read, what is left out, and what can't be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.config import load_config
from loopwarden.scan.json_report import report_document
from loopwarden.scan.replay import ScanOptions, scan_file
from loopwarden.scan.summary import Report
from loopwarden.transcripts.registry import by_name
from loopwarden.transcripts.source import Source
from tests.scan.recordings import lines, write
from tests.scan.strips import SMALL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from loopwarden.scan.summary import FileReport
    from loopwarden.transcripts.model import Item, ReadNotes


def scan(path: Path, **given: Any) -> FileReport:
    options = ScanOptions(config=load_config(SMALL), **given)
    return scan_file(Source(path), by_name("events"), options)


def test_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", "xyaaaaaa")
    report = scan(path)
    assert (report.path, report.format, report.error, report.size) == (
        str(path), "events", None, path.stat().st_size,
    )  # fmt: skip
    (run,) = report.runs
    (loop,) = run.loops
    assert loop.steps[0].arguments == 'q: "a", token: ***'
    assert loop.first.at == 1_800_000_002


def test_the_worst_run_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        lines("abcd", stream="fine") + lines("a" * 5, stream="mild") + lines("a" * 9, stream="bad")
    )
    assert [run.stream for run in scan(path).runs] == ["bad", "mild", "fine"]


def test_older_runs_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines("abcd", stream="old") + lines("abcd", stream="new", begin=1000))
    assert [run.stream for run in scan(path, since=1_800_000_500).runs] == ["new"]
    assert len(scan(path, since=1_700_000_000).runs) == 2


def test_bad_lines_are_noted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines("aaa") + "{broken\n" + lines("aaa", begin=3))
    report = scan(path)
    assert report.notes == {"bad_line": 1}
    assert report.runs[0].calls == 6


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    report = scan(tmp_path / "none.jsonl")
    assert (report.error, report.why) == ("No such file or directory", "unreadable")


class Breaking:
    """A reader that fails half-way."""

    name = "breaking"
    title = "Breaking session"

    def sniff(self, source: Source) -> bool:
        return source.path is not None

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        yield from by_name("events").read(source, notes)
        raise RuntimeError("\x1b[31mwhat")


def test_what_was_read_before_a_fault_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", "aaaaaa")
    report = scan_file(Source(path), Breaking(), ScanOptions(config=load_config(SMALL)))
    assert report.error == "could not be read as Breaking session: RuntimeError: \\u{1b}[31mwhat"
    assert len(report.runs[0].loops) == 1


@pytest.mark.parametrize(("enabled", "loops"), [(None, 1), (True, 1), (False, 0)])
def test_detectors_look_unless_they_are_off(tmp_path: Path, enabled: bool | None, loops: int) -> None:
    written = {} if enabled is None else {"enabled": enabled}
    path = write(tmp_path / "a.jsonl", "a" * 30)
    report = scan_file(Source(path), by_name("events"), ScanOptions(config=load_config(written)))
    assert len(report.runs[0].loops) == loops


def test_an_agent_s_own_settings(tmp_path: Path) -> None:
    block = {"agents": {"list": [{"id": "keen", "tools": {"loopDetection": SMALL}}]}}
    path = write(tmp_path / "a.jsonl", "aaaaaa")
    for agent, loops in ((None, 0), ("keen", 1)):
        options = ScanOptions(config=load_config(block), agent_id=agent)
        assert len(scan_file(Source(path), by_name("events"), options).runs[0].loops) == loops


def test_results_never_reach_the_report(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", "aaaaaaaa")
    assert "result of" not in str(report_document(Report(files=(scan(path),))))
