"""What the guard costs: time per call and memory, held to what no guard could do without.

The floor of a call is one sorted JSON text and one digest each of its arguments and of its result, made by
the same libraries that the guard uses. The guard and the floor are timed on the same values in turns of
20 calls, so that whatever else the machine does slows down both; each number is the median over the turns.

    python benchmarks/cost_per_call.py [--check] [--json] [--quick]
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any, TypeAlias

import orjson
from report import Line, parser, show

from loopwarden import LoopGuard
from loopwarden.core.canonical import DIGEST_BYTES

Step: TypeAlias = tuple[str, dict[str, Any], dict[str, Any]]
"""Tool, arguments and result of one call."""

SMALL, LARGE, FLAT = 6.0, 1.6, 1.3
HISTORIES = (30, 300, 30_000)
BATCH = 20
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
TEXT = "    total = total + weigh(item, scale)  # as the table says\n" * 200


def text_result(text: str) -> dict[str, Any]:
    """A result as most tools give it."""
    return {"content": [{"type": "text", "text": text}]}


def small(number: int) -> Step:
    """Five plain arguments."""
    arguments = {"path": f"src/part_{number}.py", "start": number, "limit": 200, "mode": "text", "wrap": True}
    return "read", arguments, text_result(f"line {number} of the file\nand another")


def nested(number: int) -> Step:
    """Arguments of two levels, with lists and a fraction, and a structured result."""
    arguments = {
        "query": f"orders of week {number}",
        "filters": {"status": ["open", "late"], "shop": number},
        "limit": 25,
        "threshold": 0.75,
        "fields": ["id", "price"],
    }
    return "search", arguments, text_result(f"{number} orders found\nthe first is {number * 7}")


def large(number: int) -> Step:
    """10 kB of arguments and 10 kB of result."""
    text = f"{number}\n{TEXT}"[:10_000]
    return "store", {"path": f"src/part_{number}.py", "content": text}, text_result(f"done: {text}")


def mix(number: int) -> Step:
    """Work as it is: a look at the state every 5 calls, edits, tests that fail, files read again."""
    match number % 20:
        case 0 | 5 | 10 | 15:
            return "exec", {"command": "git status"}, text_result(f"on branch main, {number // 30} changes")
        case 3 | 8 | 13:
            change = {"path": f"src/part_{number % 70}.py", "old": f"value {number}", "new": f"{number + 1}"}
            return "edit", change, text_result("1 place changed")
        case 18:
            details = {"status": "completed", "exitCode": 1, "aggregated": f"FAILED test_part_{number % 9}"}
            return "exec", {"command": "pytest -q"}, {"content": [], "details": details}
        case 2 | 7 | 14:
            return small(number % 100)
        case _:
            return small(number)


def repeat(_: int) -> Step:
    """The same call with the same result."""
    return small(1)


def ping_pong(number: int) -> Step:
    """Two calls that take turns."""
    return small(number % 2)


def cycle(number: int) -> Step:
    """Five calls that go round."""
    return small(number % 5)


Timed: TypeAlias = Callable[[list[Step], int], None]


def floor(steps: list[Step], _: int) -> None:
    """The least that telling calls and results apart can cost."""
    dumps, option = orjson.dumps, orjson.OPT_SORT_KEYS
    for _tool, arguments, result in steps:
        blake2b(dumps(arguments, option=option), digest_size=DIGEST_BYTES).digest()
        blake2b(dumps(result, option=option), digest_size=DIGEST_BYTES).digest()


def guarded(history: int, observe: bool, warm: Callable[[int], Step]) -> Timed:
    """A guard that is fed calls of one run; its window is full already."""
    guard = LoopGuard(
        {"enabled": True, "historySize": history}, mode="observe" if observe else "enforce", on_error="raise"
    )
    before, after = guard.before, guard.after

    def feed(steps: list[Step], first: int) -> None:
        number = first
        for tool, arguments, result in steps:
            name = f"call-{number}"
            before(tool, arguments, call_id=name, run_id="run")
            after(name, result=result, run_id="run")
            number += 1

    feed([warm(-1 - number) for number in range(max(history, 400))], 10_000_000)
    return feed


def timed(steps: list[Step], runners: list[Timed]) -> list[float]:
    """Median nanoseconds per step of each runner, in turns over the same steps."""
    spent: list[list[float]] = [[] for _ in runners]
    order = list(range(len(runners)))
    gc.collect()
    gc.freeze()
    for first in range(0, len(steps), BATCH):
        batch = steps[first : first + BATCH]
        order.append(order.pop(0))
        for place in order:
            start = perf_counter_ns()
            runners[place](batch, first)
            spent[place].append((perf_counter_ns() - start) / len(batch))
    gc.unfreeze()
    return [median(times[len(times) // 10 :]) for times in spent]


def cost(name: str, make: Callable[[int], Step], calls: int, bound: float | None) -> list[Line]:
    """The ratio to the floor at every history size, and how flat it is."""
    loop = make in {repeat, ping_pong, cycle}
    warm = make if loop else small
    steps = [make(number) for number in range(calls)]
    base, *times = timed(steps, [floor, *(guarded(history, loop, warm) for history in HISTORIES)])
    lines = [
        Line(
            name=f"{name}, history {history}",
            value=time / base,
            bound=bound,
            note=f"{time / 1000:.2f} us over a floor of {base / 1000:.2f} us",
        )
        for history, time in zip(HISTORIES, times, strict=True)
    ]
    flat = times[-1] / times[0]
    lines.append(
        Line(name=f"{name}, {HISTORIES[-1]} over {HISTORIES[0]}", value=flat, bound=FLAT if bound else None)
    )
    return lines


def resident() -> float:
    """Megabytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


def feed_plain(guard: LoopGuard, run: int, calls: range) -> None:
    """Distinct calls of one run."""
    for number in calls:
        name = f"c{run}_{number}"
        guard.before("read", {"path": f"f{run}_{number}"}, call_id=name, run_id=f"r{run}")
        guard.after(name, result=f"content {run} {number}", run_id=f"r{run}")


def many_runs() -> float:
    """Megabytes that 10,000 open runs with full windows take."""
    guard = LoopGuard({"enabled": True})
    feed_plain(guard, 0, range(10))
    start = resident()
    for run in range(10_000):
        feed_plain(guard, run, range(30))
    gc.collect()
    return resident() - start


def long_run() -> float:
    """Megabytes that a run grows by from its call 10,000 to its call 100,000."""
    guard = LoopGuard({"enabled": True})
    feed_plain(guard, 0, range(10_000))
    gc.collect()
    start = resident()
    feed_plain(guard, 0, range(10_000, 100_000))
    gc.collect()
    return resident() - start


MEMORY = {
    "many_runs": ("10,000 open runs with full windows", many_runs, 100.0),
    "long_run": ("one run, growth from call 10,000 to 100,000", long_run, 1.0),
}


def memory() -> list[Line]:
    """What state weighs, each measured in a process of its own."""
    if not Path("/proc/self/statm").exists():
        return []
    lines = []
    for key, (name, _, bound) in MEMORY.items():
        answer = subprocess.run([sys.executable, __file__, "--measure", key], check=True, capture_output=True)
        lines.append(Line(name=name, value=max(0.0, float(answer.stdout)), unit="MB", bound=bound))
    return lines


def main() -> int:
    """Measure and print."""
    options_of = parser(__doc__ or "")
    options_of.add_argument("--quick", action="store_true", help="a fifth of the calls, no memory")
    options_of.add_argument("--measure", choices=sorted(MEMORY), help=argparse.SUPPRESS)
    options = options_of.parse_args()
    logging.disable(logging.CRITICAL)
    if options.measure:
        print(MEMORY[options.measure][1]())
        return 0
    calls = 2_000 if options.quick else 10_000
    lines = [
        *cost("small arguments, distinct", small, calls, SMALL),
        *cost("small arguments, mixed work", mix, calls, None),
        *cost("nested arguments, distinct", nested, calls, SMALL),
        *cost("10 kB arguments and results", large, calls // 5, LARGE),
        *cost("loop: one call, observed", repeat, calls, None),
        *cost("loop: ping-pong, observed", ping_pong, calls, None),
        *cost("loop: round of 5, observed", cycle, calls, None),
    ]
    if not options.quick:
        lines += memory()
    return show(lines, options)


if __name__ == "__main__":
    sys.exit(main())
