"""What `loopwarden mcp` costs: calls of a tool over stdio, through the proxy beside a direct connection.

The server is this script itself with `--serve`: it answers at once, so that nothing but the way counts. Both
are called in turns of 20, so that whatever else the machine does slows down both.

    python benchmarks/mcp_overhead.py [--check] [--json] [--quick]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import IO

from report import Line, parser, show

TURN = 20
SIZES = {"small results": 200, "results of 100 kB": 100_000}
BIG = 50 * 1024 * 1024
BOUNDS = {"small results": 8.0, "results of 100 kB": 4.0}


def serve() -> None:
    """Answer every call with as many letters as it asks for."""
    texts: dict[int, str] = {}
    for line in sys.stdin.buffer:
        message = json.loads(line)
        size = message["params"]["arguments"]["size"]
        text = texts.setdefault(size, "x" * size)
        result = {"content": [{"type": "text", "text": text}]}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


class Connection:
    """A process that is called over stdio."""

    def __init__(self, command: list[str], stack: ExitStack) -> None:
        process = stack.enter_context(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        )
        stack.callback(process.kill)
        assert process.stdin is not None  # noqa: S101 - they are pipes
        assert process.stdout is not None  # noqa: S101 - the same
        self._into: IO[bytes] = process.stdin
        self._out: IO[bytes] = process.stdout
        self._number = 0

    def call(self, size: int) -> int:
        """One call; nanoseconds until its result is read."""
        self._number += 1
        params = {"name": "letters", "arguments": {"size": size, "call": self._number}}
        request = {"jsonrpc": "2.0", "id": self._number, "method": "tools/call", "params": params}
        line = json.dumps(request).encode() + b"\n"
        start = perf_counter_ns()
        self._into.write(line)
        self._into.flush()
        answer = self._out.readline()
        spent = perf_counter_ns() - start
        if len(answer) < size:
            raise RuntimeError("the process ended")
        return spent


def medians(connections: list[Connection], size: int, turns: int) -> list[float]:
    """Median time of a call of each connection."""
    spent: list[list[int]] = [[] for _ in connections]
    for connection in connections:
        for _ in range(TURN):
            connection.call(size)
    for turn in range(turns):
        for place in sorted(range(len(connections)), key=lambda place: (place + turn) % len(connections)):
            spent[place] += [connections[place].call(size) for _ in range(TURN)]
    return [median(times) for times in spent]


def main() -> int:
    """Measure and print."""
    options_of = parser(__doc__ or "")
    options_of.add_argument("--quick", action="store_true", help="a fifth of the turns")
    options_of.add_argument("--serve", action="store_true", help="be the server")
    options = options_of.parse_args()
    if options.serve:
        serve()
        return 0
    server = [sys.executable, __file__, "--serve"]
    lines = []
    with ExitStack() as stack:
        config = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "loopwarden.json5"
        config.write_text("{ enabled: true, detectors: { stagnation: false } }", encoding="utf-8")
        proxy = [sys.executable, "-m", "loopwarden", "mcp", "--config", str(config), "--"]
        connections = [Connection(server, stack), Connection([*proxy, *server], stack)]
        for name, size in SIZES.items():
            direct, through = medians(connections, size, 10 if options.quick else 50)
            rates = f"{1e9 / through:,.0f} calls a second over {1e9 / direct:,.0f}"
            note = f"{through / 1000:.0f} us a call over {direct / 1000:.0f} us, {rates}"
            lines.append(Line(name=name, value=through / direct, bound=BOUNDS[name], note=note))
        direct, through = (median([one.call(BIG) for _ in range(3)]) for one in connections)
        note = f"{through / 1e9:.2f} s a call over {direct / 1e9:.2f} s"
        lines.append(Line(name="results of 50 MB", value=through / direct, note=note))
    return show(lines, options)


if __name__ == "__main__":
    sys.exit(main())
