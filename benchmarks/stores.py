"""What a shared store costs: time per event for each store beside the guard that keeps its runs in memory.

All guards are fed the same calls in turns of 10, so that whatever else the machine does slows down all; each
number is the median over the turns. Redis is a server that this script starts on a free port and ends; it is
left out where there is none.

    python benchmarks/stores.py [--check] [--json] [--quick]
"""

from __future__ import annotations

import gc
import logging
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING

from report import Line, parser, show

from loopwarden import LoopGuard
from loopwarden.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH = 10
SHORT, LONG = 30, 1000
"""Calls of the runs that are measured; a run of 1,000 calls has a state that no longer grows."""
OPEN = 256
"""Calls without an outcome that a run keeps at most."""
BOUNDS = {("sqlite", SHORT): 150.0, ("sqlite", LONG): 250.0}


@contextmanager
def redis_server(folder: Path) -> Iterator[str | None]:
    """The address of a server that is ended afterwards; `None` where there is none."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    try:
        import redis  # noqa: F401 - only whether it is there
    except ImportError:
        program = None
    if program is None:
        yield None
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with subprocess.Popen([program, *options], cwd=folder, stdout=subprocess.PIPE) as process:
        try:
            started = process.stdout is not None and any(b"eady to accept" in line for line in process.stdout)
            yield f"redis://127.0.0.1:{port}" if started else None
        finally:
            process.kill()


def feed(guard: LoopGuard, numbers: range, loop: bool) -> None:
    """Calls of one run: all different, or three that take turns."""
    for number in numbers:
        which = number % 3 if loop else number
        arguments = {"path": f"src/part_{which}.py", "start": which, "limit": 200, "mode": "text"}
        guard.before("read", arguments, call_id=f"call-{number}", run_id="run")
        guard.after(f"call-{number}", result=f"line {which} of the file\nand another", run_id="run")


def timed(guards: list[LoopGuard], first: int, turns: int, loop: bool) -> list[float]:
    """Median nanoseconds per event of each guard, for runs of `first` calls and what follows."""
    spent: list[list[float]] = [[] for _ in guards]
    for guard in guards:
        guard.forget(run_id="run")
        feed(guard, range(first), loop)
    gc.collect()
    gc.freeze()
    end = first
    for turn in range(turns):
        if end >= 2 * first:  # keep to runs of about this length
            end = first
            for guard in guards:
                guard.forget(run_id="run")
                feed(guard, range(first), loop)
        numbers, end = range(end, end + BATCH), end + BATCH
        for place in sorted(range(len(guards)), key=lambda place: (place + turn) % len(guards)):
            start = perf_counter_ns()
            feed(guards[place], numbers, loop)
            spent[place].append((perf_counter_ns() - start) / (2 * BATCH))
    gc.unfreeze()
    return [median(times) for times in spent]


def timed_open(guards: list[LoopGuard], turns: int) -> list[float]:
    """Median nanoseconds per `before` of each guard, in runs with `OPEN` calls that have no outcome."""
    spent: list[list[float]] = [[] for _ in guards]
    for guard in guards:
        guard.forget(run_id="run")
    for number in range(OPEN + turns):
        for guard, times in zip(guards, spent, strict=True):
            start = perf_counter_ns()
            guard.before("read", {"path": f"src/part_{number}.py"}, call_id=f"call-{number}", run_id="run")
            if number >= OPEN:
                times.append(perf_counter_ns() - start)
    return [median(times) for times in spent]


def main() -> int:
    """Measure and print."""
    options_of = parser(__doc__ or "")
    options_of.add_argument("--quick", action="store_true", help="a fifth of the turns")
    options = options_of.parse_args()
    logging.disable(logging.CRITICAL)
    turns = 40 if options.quick else 200
    lines = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = stack.enter_context(redis_server(folder))
        stores = {"states in memory": MemoryStore(), "sqlite": f"sqlite:{folder / 'runs.db'}"}
        if address is not None:
            stores["redis"] = address
        guards = [
            LoopGuard({"enabled": True}, mode="observe", store=store, on_error="raise")
            for store in ("memory:", *stores.values())
        ]
        for guard in guards:
            stack.callback(guard.close)
        for calls, loop in ((SHORT, False), (SHORT, True), (LONG, False)):
            base, *times = timed(guards, calls, turns, loop)
            kind = "loop" if loop else "distinct"
            for name, time in zip(stores, times, strict=True):
                note = f"{time / 1000:.0f} us an event over {base / 1000:.1f} us in process"
                bound = None if loop else BOUNDS.get((name, calls))
                row = f"{name}, {calls} calls, {kind}"
                lines.append(Line(name=row, value=time / base, bound=bound, note=note))
        base, *times = timed_open(guards, turns)
        for name, time in zip(stores, times, strict=True):
            note = f"{time / 1000:.0f} us an event over {base / 1000:.1f} us in process"
            lines.append(Line(name=f"{name}, {OPEN} calls open", value=time / base, bound=None, note=note))
    return show(lines, options)


if __name__ == "__main__":
    sys.exit(main())
