"""A journal on a disk that fills up, and has room again later: `python full_disk.py FILE`."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from loopwarden.runner.journal import Journal
from tests.runner.telling import Told


def main() -> None:
    """Write more than there is room for; then say what is kept once there is."""
    journal = Journal(Path(sys.argv[1]), pause=0.0)
    told = Told("r1")
    journal.add(told("began", trigger="user", task="fill", parent=None))
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, most))
    for _ in range(100):
        journal.add(told("text", text="x" * 10_000))
    sys.stdout.write(f"{len(journal.happenings('r1'))}\n")
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    journal.add(told("ended", reason="done"))
    sys.stdout.write(f"{len(journal.happenings('r1'))}\n")
    journal.close()


if __name__ == "__main__":
    main()
