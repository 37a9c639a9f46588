"""A process that owns a journal, to be killed: `python journal_owner.py FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from loopwarden import LoopGuard
from loopwarden.runner.journal import Journal
from tests.runner.telling import Told


def main() -> None:
    """Begin a run, save what the guard knows of it, say so, and wait."""
    journal = Journal(Path(sys.argv[1]))
    guard = LoopGuard({"enabled": True}).session("s1")
    told = Told("r1")
    journal.add(told("began", trigger="user", task="loop", parent=None))
    for number in range(12):
        call_id = f"c{number}"
        guard.before("read", {"path": "a"}, call_id=call_id, run_id="r1")
        journal.add(told("call", tool="read", arguments={"path": "a"}, call_id=call_id))
        guard.after(call_id, result="the same", run_id="r1")
        journal.add(told("outcome", call_id=call_id, ok=True, text="the same"))
        journal.put_evidence("r1", guard.save(run_id="r1") or b"")
    journal.save_history("s1", "a1", b"[]")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
