"""How fast recorded runs are scanned, held to the time that parsing them takes.

The corpus (see `corpus.py`) is written to a temporary folder, or to `--corpus DIR`, where it stays and is
used again. Each format's files are scanned and parsed in turns, file by file, so that whatever else the
machine does slows down both. The ratio is that of processor times: one process at work, nothing that waits.
The two-process scan is judged by the wall clock where two processors are idle; anywhere by its processor
time, of which half is what it would take there.

    python benchmarks/scan_throughput.py [--check] [--json] [--corpus DIR] [--megabytes N]
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from time import perf_counter, process_time

import orjson
from corpus import FORMATS, write
from report import Line, parser, show

from loopwarden.config import load_config
from loopwarden.scan.parallel import scan_files
from loopwarden.scan.replay import ScanOptions, scan_file
from loopwarden.transcripts.discover import Candidate, discover

PARSING, TWO_JOBS, MORE_TIME, LEAST_MEGABYTES = 3.0, 1.6, 1.25, 200
BUSY = 0.5
"""Load beyond which processors count as taken."""


def parse(path: Path) -> None:
    """Parse each line of a file: the least that reading it can cost."""
    with path.open("rb") as stream:
        for line in stream:
            orjson.loads(line)


def one_process(found: list[Candidate], options: ScanOptions) -> list[Line]:
    """Scan time over parse time, by format and for all."""
    scanned: defaultdict[str, float] = defaultdict(float)
    parsed: defaultdict[str, float] = defaultdict(float)
    walls = [0.0, 0.0]
    size = loops = calls = 0
    for candidate in found:
        path = candidate.source.path
        if path is None:
            continue
        wall, start = perf_counter(), process_time()
        parse(path)
        middle_wall, middle = perf_counter(), process_time()
        report = scan_file(candidate.source, candidate.reader, options)
        end_wall, end = perf_counter(), process_time()
        if report.error is not None:
            raise SystemExit(f"{path}: {report.error}")
        parsed[candidate.reader.name] += middle - start
        scanned[candidate.reader.name] += end - middle
        walls[0] += middle_wall - wall
        walls[1] += end_wall - middle_wall
        size += candidate.size
        calls += sum(run.calls for run in report.runs)
        loops += sum(len(run.loops) for run in report.runs)
    total, least = sum(scanned.values()), sum(parsed.values())
    note = f"{size / 1e6:.0f} MB, {calls} calls, {loops} loops: {size / 1e6 / total:.0f} MB/s"
    lines = [Line(name="scan over parse, all formats", value=total / least, bound=PARSING, note=note)]
    lines.append(Line(name="scan over parse, wall clock", value=walls[1] / walls[0]))
    lines += [Line(name=f"scan over parse, {name}", value=scanned[name] / parsed[name]) for name in FORMATS]
    return lines


def two_processes(found: list[Candidate], options: ScanOptions, *, idle: bool) -> list[Line]:
    """How much faster two processes are than one, and how much more processor time they take."""
    start, used = perf_counter(), spent()
    scan_files(found, options, jobs=1)
    middle, used_by_one = perf_counter(), spent()
    scan_files(found, options, jobs=2)
    end, used_by_both = perf_counter(), spent()
    faster = Line(
        name="two processes, times as fast as one",
        value=(middle - start) / (end - middle),
        bound=TWO_JOBS if idle else None,
        side="at least",
        note=f"load {os.getloadavg()[0]:.1f}"
        + ("" if idle else ": no two processors are idle, so not judged"),
    )
    more = (used_by_both - used_by_one) / (used_by_one - used)
    return [faster, Line(name="two processes, processor time over one's", value=more, bound=MORE_TIME)]


def spent() -> float:
    """Seconds of processor time of this process and of those that it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def main() -> int:
    """Write the corpus, measure and print."""
    options_of = parser(__doc__ or "")
    options_of.add_argument("--corpus", type=Path, help="folder of the corpus; kept and used again")
    options_of.add_argument("--megabytes", type=int, default=LEAST_MEGABYTES, help="size of the corpus")
    options = options_of.parse_args()
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    idle = processors - os.getloadavg()[0] >= 2 - BUSY
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.corpus or Path(temporary)
        write(folder, options.megabytes)
        found = [one for one in discover([str(folder)]) if isinstance(one, Candidate)]
        scan = ScanOptions(config=load_config({}))
        lines = one_process(found, scan)
        lines += two_processes(found, scan, idle=idle)
    return show(lines, options)


if __name__ == "__main__":
    sys.exit(main())
