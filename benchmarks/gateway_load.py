"""The gateway under load: verdicts per second beside the same app without a guard.

200 agents ask at once, each over a connection of its own, one request an event. Two services run all the
time: the gateway, and the gateway with a guard that always allows. They are asked in turns, so that whatever
else the machine does slows down both; the ratio is the median over the turns. In every run some calls are
the same, and some requests are sent twice as after a lost connection: at the end of a run the guard is asked
how many calls it has counted. The same for two gateways that share a Redis server, where each event goes to
the other one, and what is sent twice to both; it is left out where there is none.

    python benchmarks/gateway_load.py [--calls N] [--agents N] [--check] [--json]
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from report import Line, parser, show

from stores import redis_server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

CALLS, AGENTS, TURNS = 100_000, 200, 20
RUN = 28
"""Calls of a run, after which the agent begins another one; the default window holds them all."""
SAME, TWICE = 7, 25
"""Each so many calls one is the same as before; each so many requests one is sent twice."""
RATIO, GROWTH = 0.7, 1.15
CONFIG = {
    "tools": {
        "loopDetection": {"enabled": True, "warningThreshold": RUN // SAME}
    },  # told at the end of a run
    "gateway": {"limits": {"requestsPerSecond": 10**9}},
}
NO_GUARD = """
import loopwarden.gateway.desk as desk
from loopwarden.events import ALLOW
desk._tell = lambda verbs, asked: ALLOW
"""
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass
class Service:
    """Gateways that agents can ask: where they are, and what was seen of them.

    Attributes:
        ports: Of each gateway.
        tokens: Of each gateway.
        pids: Of each gateway.
        rates: Verdicts per second in each turn.
        seconds: How long each request took.
        sent: Requests for verdicts that were answered.
        miscounted: Runs at whose end the guard had counted another number of calls.
        memory: Bytes of all gateways after each turn.
        counted: Verdicts that the gateways say they gave.
    """

    ports: list[int] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    sent: int = 0
    miscounted: int = 0
    memory: list[int] = field(default_factory=list)
    counted: int = 0

    def note_memory(self) -> None:
        """What the processes hold at the moment, where the system says so."""
        files = [Path(f"/proc/{pid}/statm") for pid in self.pids]
        if all(file.exists() for file in files):
            self.memory.append(sum(int(file.read_text().split()[1]) * PAGE for file in files))

    def ask_counted(self) -> int:
        """Verdicts that the gateways say they gave."""
        total = 0.0
        for port, token in zip(self.ports, self.tokens, strict=True):
            request = Request(
                f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"}
            )
            with urlopen(request) as answer:  # noqa: S310 - the same
                lines = answer.read().decode().splitlines()
            total += sum(
                float(line.split()[-1])
                for line in lines
                if line.startswith("loopwarden_gateway_verdicts_total")
            )
        return int(total)


@contextmanager
def service(folder: Path, number: int, first: str, *options: str) -> Iterator[Service]:
    """Gateways in processes of their own, ended afterwards.

    Args:
        folder: For their state.
        number: How many.
        first: Python that each runs first.
        options: More words of their command line.
    """
    found = Service()
    with ExitStack() as stack:
        for place in range(number):
            state = folder / str(place)
            state.parent.mkdir(parents=True, exist_ok=True)
            config = folder / "config.json5"
            config.write_text(json.dumps(CONFIG))
            words = ["gateway", "--port", "0", "--state", str(state), "--config", str(config), *options]
            code = (
                f"{first}\nimport sys\nsys.argv[1:] = {words!r}\nfrom loopwarden.cli.main import run\nrun()\n"
            )
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )
            )
            stack.callback(process.kill)
            if process.stdout is None:
                raise RuntimeError
            found.ports.append(int(process.stdout.readline().rsplit(b":", 1)[1]))
            process.stdout.readline()
            found.tokens.append((state / "token").read_text().strip())
            found.pids.append(process.pid)
        yield found


class Connection(asyncio.Protocol):
    """One connection that is kept: a request at a time, as fast as Python can."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._data = b""
        self._waiting: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: Any) -> None:
        """See `asyncio.Protocol`."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._data += data
        head, gap, body = self._data.partition(b"\r\n\r\n")
        if not gap or self._waiting is None:
            return
        at = head.lower().index(b"content-length:") + 15
        if len(body) >= int(head[at:].split(b"\r\n", 1)[0]):
            self._data = b""
            waiting, self._waiting = self._waiting, None
            if head.startswith(b"HTTP/1.1 200"):
                waiting.set_result(body)
            else:
                waiting.set_exception(RuntimeError(f"{head!r} {body!r}"))

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        if self._waiting is not None:
            self._waiting.set_exception(error or ConnectionError("the gateway is gone"))

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        """Send a request; the body of the answer."""
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def close(self) -> None:
        """Close it."""
        self._transport.close()


class Agent:
    """An agent that works: each event a request, runs of `RUN` calls.

    Args:
        name: Its session.
        place: What it asks.
        judges: Whether the service counts.
    """

    def __init__(self, name: str, place: Service, *, judges: bool) -> None:
        self._name = name
        self._place = place
        self._judges = judges
        self._connections: list[Connection] = []
        self._heads = [
            f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
            for port, token in zip(place.ports, place.tokens, strict=True)
        ]
        self._run = 0
        self._call = 0
        self._asked = 0

    async def open(self) -> None:
        """Connect to all gateways."""
        loop = asyncio.get_running_loop()
        for port in self._place.ports:
            _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
            self._connections.append(connection)

    async def work(self, calls: int) -> None:
        """Make some calls, one after the other."""
        for _ in range(calls):
            number = self._call
            same = number % SAME == 0
            arguments = {"path": "README.md" if same else f"src/part_{number}.py", "start": 1, "limit": 200}
            await self._tell("before", call_id=f"c{number}", tool="read", arguments=arguments)
            text = f"line {number} of the file\nand another"
            await self._tell(
                "after", call_id=f"c{number}", result={"content": [{"type": "text", "text": text}]}
            )
            self._call += 1
            if self._call == RUN:
                await self._end()

    async def _end(self) -> None:
        """Ask what was counted, and begin another run."""
        verdict = await self._tell(
            "before", call_id="last", tool="read", arguments={"path": "README.md", "start": 1, "limit": 200}
        )
        if self._judges and verdict["count"] != RUN // SAME:
            self._place.miscounted += 1
        await self._tell("forget")
        self._run += 1
        self._call = 0

    async def _tell(self, kind: str, **fields: Any) -> Any:
        self._asked += 1
        body = json.dumps({"session": self._name, "event_id": str(self._asked), **fields}).encode()
        answers = []
        for again in range(2 if self._asked % TWICE == 0 else 1):
            which = (self._asked + again) % len(self._connections)
            head = f"POST /v1/runs/run-{self._run}/{kind} HTTP/1.1\r\n{self._heads[which]}"
            request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
            began = perf_counter()
            answers.append(await self._connections[which].ask(request))
            self._place.seconds.append(perf_counter() - began)
            self._place.sent += 1
        if answers[0] != answers[-1]:
            self._place.miscounted += 1
        return json.loads(answers[0])

    def close(self) -> None:
        """Close its connections."""
        for connection in self._connections:
            connection.close()


async def load(services: Sequence[Service], calls: int, agents: int) -> None:
    """Ask all services in turns; the first one judges."""
    teams = [
        [Agent(f"agent-{number}", one, judges=one is services[0]) for number in range(agents)]
        for one in services
    ]
    for team in teams:
        for agent in team:
            await agent.open()
    each = max(calls // agents // TURNS, 1)
    for turn in range(TURNS):
        for place in sorted(range(len(teams)), key=lambda place: (place + turn) % len(teams)):
            one = services[place]
            before, began = one.sent, perf_counter()
            await asyncio.gather(*(agent.work(each) for agent in teams[place]))
            one.rates.append((one.sent - before) / (perf_counter() - began))
            one.note_memory()
    for team in teams:
        for agent in team:
            agent.close()


def lines_of(name: str, judged: Service, bare: Service, bound: float | None) -> Iterator[Line]:
    """What is to be said of a gateway and the same without a guard."""
    ratios = [one / other for one, other in zip(judged.rates, bare.rates, strict=True)]
    note = f"{median(judged.rates):.0f} verdicts a second over {median(bare.rates):.0f}"
    yield Line(
        name=f"{name}: throughput over no guard",
        value=median(ratios),
        bound=bound,
        side="at least",
        note=note,
    )
    for part, share in (("half", 50), ("99 %", 99)):
        at, other = (quantiles(one.seconds, n=100)[share - 1] for one in (judged, bare))
        note = f"{at * 1000:.1f} ms over {other * 1000:.1f} ms"
        yield Line(name=f"{name}: {part} of requests within", value=at / other, note=note)
    wrong = judged.miscounted + abs(judged.counted - judged.sent)
    yield Line(
        name=f"{name}: lost or counted twice", value=wrong, unit="of", bound=0, note=f"{judged.sent} requests"
    )
    if judged.memory:
        at = [judged.memory[len(judged.memory) * part // 4 - 1] for part in (1, 2, 3, 4)]
        note = ", ".join(f"{size / 2**20:.0f}" for size in at) + " MB at 25, 50, 75, 100 %"
        yield Line(
            name=f"{name}: memory at the end over a quarter", value=at[3] / at[0], bound=GROWTH, note=note
        )


def measured(folder: Path, options: argparse.Namespace, number: int, *words: str) -> list[Service]:
    """Gateways, and as many without a guard, after the load."""
    with (
        service(folder / "guard", number, "", *words) as judged,
        service(folder / "bare", number, NO_GUARD) as bare,
    ):
        gc.collect()
        gc.freeze()
        asyncio.run(load([judged, bare], options.calls, options.agents))
        judged.counted = judged.ask_counted()
        return [judged, bare]


def main() -> int:
    """Measure and print."""
    options_of = parser(__doc__ or "")
    options_of.add_argument("--calls", type=int, default=CALLS, help=f"calls in all; by default {CALLS}")
    options_of.add_argument("--agents", type=int, default=AGENTS, help=f"agents at once; by default {AGENTS}")
    options = options_of.parse_args()
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as name, redis_server(Path(name)) as address:
        folder = Path(name)
        lines += lines_of("one gateway, SQLite", *measured(folder / "one", options, 1), RATIO)
        if address is not None:
            found = measured(folder / "two", options, 2, "--store", address)
            lines += lines_of("two gateways, Redis", *found, None)
    return show(lines, options)


if __name__ == "__main__":
    sys.exit(main())
