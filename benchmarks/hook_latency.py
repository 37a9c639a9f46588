"""How long a coding agent waits for a hook, beside `python3 -c pass` started in turn with it.

Measured are whole processes, as the agent starts them: with the service that a hook starts for the next ones,
and by itself, as for the first event after a reboot. The state holds the given number of runs.

    python benchmarks/hook_latency.py [--check] [--json] [--runs 0 10000]
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from statistics import median

from report import Line, parser, show

from loopwarden.hooks.answering import Answering
from loopwarden.hooks.places import LOCK_FILE, SOCKET_FILE

OVER_PYTHON_MS = 30.0
FIRST_MS = 150.0
TURNS = 60
PATIENCE_SECONDS = 30.0

_numbers = count()


def event(name: str, session: str, call: int) -> bytes:
    """An event of Claude Code: one of many unlike calls."""
    data = {"session_id": session, "prompt_id": "p", "cwd": "/", "hook_event_name": name, "tool_name": "Bash"}
    data |= {"tool_input": {"command": f"make target-{call}"}, "tool_use_id": f"c{call}"}
    if name == "PostToolUse":
        data["tool_response"] = {"stdout": f"built {call}\n" * 20, "stderr": "", "interrupted": False}
    return json.dumps(data).encode()


def fill(folder: Path, runs: int) -> None:
    """That many sessions of a call each, as other agents leave them."""
    answering = Answering(folder)
    for number in range(runs):
        for name in ("PreToolUse", "PostToolUse"):
            answering.answer("claude-code", event(name, f"old-{number}", 0), {})
    answering.close()


def milliseconds(command: list[str], payload: bytes, environment: dict[str, str]) -> float:
    """One process from its start to its end."""
    began = time.perf_counter_ns()
    subprocess.run(command, input=payload, env=environment, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter_ns() - began) / 1e6


def measured(command: list[str], environment: dict[str, str], turns: int) -> tuple[float, float]:
    """Medians of Python alone and of the hook, in turns."""
    bare, hook = [], []
    for _ in range(turns):
        for name in ("PreToolUse", "PostToolUse"):
            payload = event(name, "mine", next(_numbers) // 2)
            bare.append(milliseconds([sys.executable, "-c", "pass"], payload, environment))
            hook.append(milliseconds(command, payload, environment))
    return median(bare), median(hook)


def stop(folder: Path) -> None:
    """End the service of a folder."""
    if (folder / LOCK_FILE).exists():
        os.kill(int((folder / LOCK_FILE).read_text()), signal.SIGTERM)


def lines(runs: int) -> list[Line]:
    """What is measured with that many runs in the state."""
    folder = Path(tempfile.mkdtemp(prefix="lw-"))
    program = Path(sys.executable).with_name("loopwarden-hook")
    command = [str(program), "claude-code"]
    environment = {**os.environ, "LOOPWARDEN_STATE": str(folder)}
    alone = {**environment, "LOOPWARDEN_SERVICE": "off"}
    try:
        fill(folder, runs)
        bare_first, first = measured(command, alone, TURNS // 6)
        milliseconds(command, event("PreToolUse", "mine", 0), environment)
        end = time.monotonic() + PATIENCE_SECONDS
        while not (folder / SOCKET_FILE).exists() and time.monotonic() < end:
            time.sleep(0.01)
        bare, hook = measured(command, environment, TURNS)
    finally:
        stop(folder)
        shutil.rmtree(folder, ignore_errors=True)
    return [
        Line(
            name=f"hook, {runs} runs, over Python",
            value=round(hook - bare, 1),
            unit="ms",
            bound=OVER_PYTHON_MS,
            note=f"{hook:.1f} ms beside {bare:.1f} ms",
        ),
        Line(
            name=f"first hook, {runs} runs",
            value=round(first, 1),
            unit="ms",
            bound=FIRST_MS,
            note=f"beside {bare_first:.1f} ms",
        ),
    ]


def main() -> int:
    """Measure and print."""
    options_of = parser(__doc__ or "")
    options_of.add_argument("--runs", type=int, nargs="+", default=[0, 10_000], help="runs in the state")
    options = options_of.parse_args()
    return show([line for runs in options.runs for line in lines(runs)], options)


if __name__ == "__main__":
    sys.exit(main())
