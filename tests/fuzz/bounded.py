"""Reads a file in a process that may take only so much memory; run as a program by the tests.

Arguments: the file, the name of its format (`-` tells it from the content), and a bound in MiB on the
address space (0 for none). Prints one JSON object: the number of items, the notes, the error (its text),
and the peak of resident memory in KiB.
"""

from __future__ import annotations

import json
import resource
import sys
from collections import Counter
from pathlib import Path

from loopwarden.errors import TranscriptError
from loopwarden.transcripts import ReadNotes, read


def main(name: str, form: str, bound: str) -> None:
    """Read and say how it went."""
    if int(bound):
        resource.setrlimit(resource.RLIMIT_AS, (int(bound) << 20, int(bound) << 20))
    notes = ReadNotes()
    kinds: Counter[str] = Counter()
    error = None
    try:
        for item in read(Path(name), format=None if form == "-" else form, notes=notes).items:
            kinds[type(item).__name__] += 1
    except TranscriptError as fault:
        error = str(fault)
    peak = peak_memory()
    answer = {"items": kinds, "notes": notes.counts, "error": error, "peak": peak}
    sys.stdout.write(json.dumps(answer))


def peak_memory() -> int:
    """The most memory this program had, in KiB; `ru_maxrss` would count the one that started it too."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (line,) = [one for one in status.read_text(encoding="ascii").splitlines() if one.startswith("VmHWM:")]
    return int(line.split()[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
