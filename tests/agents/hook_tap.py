"""Stands between a coding agent and the hook, and writes down what goes through: one JSON line an event.

Run as: hook_tap.py FOLDER COMMAND... The file is FOLDER/events.jsonl.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Pass the event on; the answer and the exit code are those of the hook."""
    folder, *command = sys.argv[1:]
    event = sys.stdin.buffer.read()
    ended = subprocess.run(command, input=event, capture_output=True, check=False)
    answer = json.loads(ended.stdout or "null")
    line = {"event": json.loads(event), "answer": answer, "code": ended.returncode}
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    descriptor = os.open(Path(folder) / "events.jsonl", flags, 0o600)
    os.write(descriptor, f"{json.dumps(line)}\n".encode())
    os.close(descriptor)
    sys.stdout.buffer.write(ended.stdout)
    sys.stderr.buffer.write(ended.stderr)
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
