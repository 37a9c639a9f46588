"""What is found and what is left alone: the cases of public fault reports, and the sample recordings.

A case (`tests/data/cases.jsonl`) holds if every bound on its verdicts does; the kinds are `fine` (good work
that must not be stopped), `loop` (must be found) and `handling` (what happens after). A recorded situation of
the reference (`seed_detectors.jsonl`) holds if every verdict is the recorded one.

`SOURCES.md` tells of each sample recording how often its calls repeat. One with more than ten equal calls in
a window, ten that take turns, or three laps and ten calls of a round has to be found at the default
thresholds; one with fewer than eight of each has to be left alone. What lies between, or has no facts, is
left out.

    python benchmarks/detection_quality.py [--check] [--json] [--verbose]
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from report import Line, parser, show

from loopwarden.config import load_config
from loopwarden.scan.replay import ScanOptions, scan_file
from loopwarden.scan.situations import load_situations, play
from loopwarden.transcripts.registry import detect
from loopwarden.transcripts.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1] / "tests"
SAMPLES = TESTS / "transcripts" / "samples"
BENIGN_BELOW = 8

_ROW = re.compile(r"^\| (?P<path>\S+) \| \w+ \| (?P<facts>calls [^|]+?) \|", re.MULTILINE)
_FACT = re.compile(r"(?P<name>win|alt|cycle) (?P<count>\d+)(?:/\d+)?(?: \(period (?P<period>\d+)\))?")


def told() -> Iterator[tuple[Path, bool | None]]:
    """The samples with facts, and whether a loop has to be found; `None` where that is open."""
    for row in _ROW.finditer((SAMPLES / "SOURCES.md").read_text(encoding="utf-8")):
        most, loops = 0, False
        for fact in _FACT.finditer(row["facts"]):
            count = int(fact["count"])
            most = max(most, count)
            least = {"win": 11, "alt": 10, "cycle": max(10, 3 * int(fact["period"] or 0))}[fact["name"]]
            loops = loops or count >= least
        yield SAMPLES / row["path"], True if loops else False if most < BENIGN_BELOW else None


def share(name: str, results: list[bool]) -> Line:
    """How many of them are true, in percent; all have to be."""
    percent = round(100 * sum(results) / len(results), 1)
    note = f"{sum(results)} of {len(results)}"
    return Line(name=name, value=percent, unit="%", bound=100, side="at least", note=note)


def situations(name: str, failures: list[str]) -> list[Line]:
    """The share of situations that hold, by kind."""
    path = TESTS / "data" / name
    kinds = [orjson.loads(line).get("kind", "recorded") for line in path.read_bytes().splitlines()]
    held: defaultdict[str, list[bool]] = defaultdict(list)
    for kind, situation in zip(kinds, load_situations(path), strict=True):
        result = play(situation)
        held[kind].append(result.held)
        if not result.held:
            failures.append(f"{situation.id} {situation.title}: {'; '.join(result.failures)}")
    return [share(f"situations that hold, {kind}", results) for kind, results in sorted(held.items())]


def samples(failures: list[str]) -> list[Line]:
    """Which sample recordings with a loop are found, and which without are left alone."""
    scan = ScanOptions(config=load_config({}))
    found: list[bool] = []
    silent: list[bool] = []
    for path, loops in told():
        source = Source(path)
        reader = detect(source)
        if reader is None or loops is None:
            continue
        report = scan_file(source, reader, scan)
        keys = [loop.key for run in report.runs for loop in run.loops]
        (found if loops else silent).append(bool(keys) == loops)
        if bool(keys) != loops:
            failures.append(f"{path.relative_to(SAMPLES)}: {', '.join(keys) or 'nothing'} found")
    return [share("samples with a loop, found", found), share("benign samples, left alone", silent)]


def main() -> int:
    """Play, scan and print."""
    options_of = parser(__doc__ or "")
    options_of.add_argument("--verbose", action="store_true", help="name what failed, on standard error")
    options = options_of.parse_args()
    failures: list[str] = []
    lines = situations("cases.jsonl", failures) + situations("seed_detectors.jsonl", failures)
    lines += samples(failures)
    if options.verbose:
        print(*failures, sep="\n", file=sys.stderr)
    return show(lines, options)


if __name__ == "__main__":
    sys.exit(main())
