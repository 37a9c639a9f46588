"""Many files, in one process and in several."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import TYPE_CHECKING

import pytest

from loopwarden.config import load_config
from loopwarden.scan import parallel
from loopwarden.scan.parallel import scan_files
from loopwarden.scan.replay import ScanOptions
from loopwarden.transcripts.discover import Candidate, discover
from loopwarden.transcripts.registry import by_name
from tests.scan.recordings import write
from tests.scan.strips import SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from loopwarden.scan.summary import FileReport
    from loopwarden.transcripts.model import Reader

OPTIONS = ScanOptions(config=load_config(SMALL))


def candidates(folder: Path) -> list[Candidate]:
    return [found for found in discover([folder]) if isinstance(found, Candidate)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, strip in enumerate(("abcdefgh", "aaaaaaaa", "abababababab", "x", "abcabcabcabcabc")):
        write(tmp_path / f"{number}.jsonl", strip)
    return tmp_path


@pytest.mark.parametrize("jobs", [2, 3, 50])
def test_several_processes_say_the_same_in_the_same_order(folder: Path, jobs: int) -> None:
    told: list[FileReport] = []
    ticks: list[None] = []
    alone = scan_files(candidates(folder), OPTIONS)
    shared = scan_files(
        candidates(folder), OPTIONS, jobs=jobs, on_file=told.append, tick=lambda: ticks.append(None)
    )
    assert shared == alone
    assert sorted(file.path for file in told) == [file.path for file in alone]
    assert [len(file.runs[0].loops) for file in alone] == [0, 1, 1, 0, 1]
    assert ticks


def test_no_files() -> None:
    assert scan_files([], OPTIONS, jobs=4) == []


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers have to inherit the trap")
def test_a_worker_that_dies_costs_one_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = os.getpid()

    class Trap:
        name = "events"
        title = "loopwarden events"

        def sniff(self, source: object) -> bool:
            return source is not None

        def read(self, source: object, notes: object) -> object:
            if "2.jsonl" in source.label and os.getpid() != parent:  # type: ignore[attr-defined]  # a Source
                os.kill(os.getpid(), signal.SIGKILL)
            return by_name("events").read(source, notes)  # type: ignore[arg-type]  # as in Reader

    def trap(_: str) -> Reader:
        return Trap()  # type: ignore[return-value]  # as far as it is used

    monkeypatch.setattr(parallel, "by_name", trap)
    # Threads that other tests have left in this process would have it spawn, without the trap.
    monkeypatch.setattr(parallel, "_context", lambda: multiprocessing.get_context("fork"))
    reports = scan_files(candidates(folder), OPTIONS, jobs=2)
    assert [file.error for file in reports] == [
        None,
        None,
        "the process that read it was ended (out of memory?)",
        None,
        None,
    ]
    assert [len(file.runs) for file in reports] == [1, 1, 0, 1, 1]
