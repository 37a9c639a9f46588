"""Mutants of every sample through the public door: sound items or one clear error, whatever the file holds.

A failure names base and seed: `mutant(base, seed)` of `tests.fuzz.mutants` makes the file again.
"""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING, Any, Final

import pytest
from rich.console import Console

from loopwarden.config import load_config
from loopwarden.errors import TranscriptError
from loopwarden.guard import LoopGuard
from loopwarden.scan.html_report import report_html
from loopwarden.scan.json_report import report_json
from loopwarden.scan.replay import ScanOptions, scan_file
from loopwarden.scan.summary import Report
from loopwarden.scan.terminal import print_report
from loopwarden.transcripts import FORMATS, Recorded, Source, by_name, read
from tests.fuzz.bases import bases
from tests.fuzz.judge import judged
from tests.fuzz.mutants import mutant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fuzz.bases import Base

CHUNKS: Final = 16
ROUNDS: Final = 160
"""Seeds that every base is mutated with, over all chunks; one in four for a base that is large."""

LARGE: Final = 30_000
"""Bytes from which on a base takes part in fewer rounds; its short form takes part in all."""

ENGINE_EVERY: Final = 12
"""One in so many mutants is fed to the guard and to the reports too."""

NAMES: Final = [reader.name for reader in FORMATS]


def turns(seeds: range) -> Iterator[tuple[Base, int]]:
    """Bases and seeds."""
    for seed in seeds:
        for base in bases():
            if len(base.data) < LARGE or seed % 4 == 0:
                yield base, seed


def seeds_of(chunk: int) -> range:
    """The seeds of one part of the work."""
    return range(chunk, ROUNDS, CHUNKS)


def test_there_are_enough_mutants() -> None:
    assert sum(1 for _ in turns(range(ROUNDS))) >= 10_000


def test_mutants_are_the_same_every_time() -> None:
    for base in bases()[::7]:
        assert mutant(base.name, 5) == mutant(base.name, 5) != mutant(base.name, 6)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_readers(chunk: int, tmp_path: Path) -> None:
    wrong: list[str] = []
    path = tmp_path / "mutant"
    for number, (base, seed) in enumerate(turns(seeds_of(chunk))):
        path.write_bytes(mutant(base.name, seed))
        other = random.Random(seed + number).choice(NAMES)
        for name in (None, base.reader, other):
            try:
                judged(path, format=name, streamed=seed % 4 == 1 and base.form != "archive")
            except Exception as error:  # noqa: BLE001 - what comes out is what is looked for
                wrong.append(said(base, seed, name, error))
        if (seed + number) % ENGINE_EVERY == 0:
            try:
                play(path, base.reader)
            except Exception as error:  # noqa: BLE001 - as above
                wrong.append(said(base, seed, "play", error))
    assert not wrong, "\n".join(wrong[:5])


def said(base: Base, seed: int, name: str | None, error: Exception) -> str:
    """What went wrong and how to make it again."""
    return f"mutant({base.name!r}, {seed}) read as {name}: {error!r} {error.__cause__!r}"[:800]


def play(path: Path, name: str) -> None:
    """The file through the guard, which must not fail, and through a scan with its reports."""
    guard = LoopGuard({"enabled": True}, mode="observe", on_error="raise")
    try:
        for item in read(path, format=name).items:
            if isinstance(item, Recorded):
                guard.session(item.stream).examine(item.event)
    except TranscriptError:
        pass
    file = scan_file(Source(path), by_name(name), OPTIONS)
    assert "could not be read as" not in (file.error or ""), file.error
    report = Report(files=(file,), config="fuzz", config_warnings=(), since=None, looked_in=())
    report_json(report)
    report_html(report)
    shown = io.StringIO()
    print_report(Console(file=shown, width=80), report, top=3)
    assert "\x1b" not in shown.getvalue()


OPTIONS: Any = ScanOptions(config=load_config({"enabled": True}))
