"""Long streams: hundreds of calls, many of them open, outcomes late and out of order, replies rolled back.

Hypothesis is not for streams of this length, so they follow from a number. A stream is a list of steps that
name calls by number, so that one from which steps are left out is a stream too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any, Final

from loopwarden.core.settings import Detectors, Settings
from tests.laws.streams import PROFILES, RESULTS, TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable

NEVER: Final = 10**9
NEWS: Final = len(RESULTS)
"""Number of a result that is new each time."""

DEEPEST: Final = 250
"""Calls of one round: fewer than the memory for rounds holds."""


@dataclass(frozen=True)
class Step:
    """One thing that happens.

    Attributes:
        what: `call`, `again` (the event of an open call once more), `end` (of a call), `retract` (of calls),
            `user`, `compact`, `move` (goes on under another run id), `save` (and go on from what was saved).
        number: Of the call; of a result that is new each time.
        tool: Index into `TOOLS`.
        argument: The only argument.
        turn: Name of the reply, `None` for a call without.
        result: Index into `RESULTS`; one past the end is a new result.
        calls: What is rolled back.
    """

    what: str
    number: int = 0
    tool: int = 0
    argument: int = 0
    turn: str | None = None
    result: int = 0
    calls: tuple[int, ...] = ()


@dataclass
class Stream:
    """Writes a stream.

    Attributes:
        splits: Whether a part of the identical calls of one reply may be rolled back, and they may end apart.
    """

    random: Random
    splits: bool
    steps: list[Step] = field(default_factory=list)
    made: list[Step] = field(default_factory=list)
    due: list[tuple[int, int]] = field(default_factory=list)
    given: dict[tuple[int, int], int] = field(default_factory=dict)
    of_reply: dict[tuple[str | None, int, int], int] = field(default_factory=dict)
    turn: int = 0

    def __post_init__(self) -> None:
        random = self.random
        self.tools = random.sample(range(len(TOOLS)), random.randint(1, 5))
        self.results = random.sample(range(NEWS + 1), random.randint(1, 4))
        self.changes = random.choice((0.0, 0.02, 0.02, 0.2))
        self.arguments = random.choice((1, 3, 10, 60))
        self.others = random.choice((0.0, 0.01, 0.05))
        self.rollbacks = random.choice((0.0, 0.0, 0.01, 0.05))
        self.late: Callable[[], int] = random.choice(
            (
                lambda: 0,
                lambda: random.choice((0, 0, 0, 0, 5)),
                lambda: random.randint(0, 12),
                lambda: NEVER,
                lambda: random.randint(0, 150),
                lambda: random.choice((0, 0, random.randint(0, 1500))),
                lambda: random.choice((0, 1, 70, 400, NEVER)),
                lambda: 0 if random.random() < 0.98 else random.choice((60, 70, 350, NEVER)),
            )
        )

    def write(self, size: int) -> list[Step]:
        """About `size` calls, and what happens between them."""
        parts = (self.round, self.round, self.noise, self.flight, self.replies)
        while len(self.made) < size:
            self.random.choice(parts)()
        while self.due and self.due[0][0] < NEVER:
            self.end(heappop(self.due)[1])
        return self.steps

    def word(self, size: int) -> list[tuple[int, int]]:
        random = self.random
        return [(random.choice(self.tools), random.randrange(self.arguments)) for _ in range(size)]

    def round(self) -> None:
        """The same calls again and again."""
        random = self.random
        period = random.choice((1, 1, 2, 2, 3, 3, 4, 5, 7, 16, 33, 63, 64, random.randint(3, 64)))
        if period > self.arguments * len(self.tools):
            self.arguments = random.choice((self.arguments, 60))
        word = self.word(period)
        calls = min(period * random.randint(2, 30), DEEPEST)
        each = random.choice((1, 1, 1, period, 2))
        for place in range(calls):
            if place % each == 0:
                self.turn += 1
            self.call(*word[place % period], alone=each == 1)
            if random.random() < 0.005:
                self.call(*self.word(1)[0], alone=True)

    def noise(self) -> None:
        """Any calls."""
        for tool, argument in self.word(self.random.randint(1, 30)):
            self.call(tool, argument, alone=True)

    def flight(self) -> None:
        """Many calls at once, of which nothing is known for a while."""
        random = self.random
        late, self.late = self.late, lambda: random.choice((random.randint(50, 900), NEVER))
        word = self.word(random.randint(1, 5))
        for _ in range(random.choice((3, 20, 70, 200)) // len(word) + 1):
            for tool, argument in word:
                self.call(tool, argument, alone=True)
        self.late = late

    def replies(self) -> None:
        """Replies that ask for several calls, some of them identical."""
        random = self.random
        for _ in range(random.randint(1, 10)):
            self.turn += 1
            word = self.word(random.randint(1, 3))
            for tool, argument in random.choices(word, k=random.randint(1, 6)):
                self.call(tool, argument, alone=False)

    def call(self, tool: int, argument: int, *, alone: bool) -> None:
        """A call, what is due after it, and at times something else."""
        random = self.random
        turn = None if alone and random.random() < 0.5 else f"t{self.turn}"
        if alone:
            self.turn += 1
        step = Step("call", len(self.made), tool, argument, turn)
        self.made.append(step)
        self.steps.append(step)
        heappush(self.due, (min(len(self.made) + self.late(), NEVER), step.number))
        while self.due and self.due[0][0] <= len(self.made) and random.random() < 0.98:
            self.end(heappop(self.due)[1])
        if random.random() < self.others:
            what = random.choice(("user", "compact", "compact", "move", "save", "again"))
            seen = random.choice(self.made[-200:]) if what == "again" else Step(what)
            self.steps.append(replace(seen, what=what))
        if random.random() < self.rollbacks:
            self.retract()

    def end(self, number: int) -> None:
        call = self.made[number]
        key = call.tool, call.argument
        if key not in self.given or self.random.random() < self.changes:
            self.given[key] = self.random.choice(self.results)
        result = self.given[key]
        if not self.splits and call.turn is not None:
            result = self.of_reply.setdefault((call.turn, *key), result)
            if result == NEWS:
                number = self.of_reply.setdefault((f"{call.turn} news", *key), number)
        self.steps.append(Step("end", call.number, result=result, argument=number))

    def retract(self) -> None:
        """Roll back the newest replies, a part of one, or any call."""
        random = self.random
        newest = random.choice((len(self.made) - 1, random.randrange(len(self.made))))
        first = max(0, newest + 1 - random.choice((1, 2, 5, 40)))
        few = self.made[first : newest + 1]
        gone = random.choice((few, random.sample(few, random.randint(1, len(few)))))
        if not self.splits:
            like = {(call.turn, call.tool, call.argument) for call in gone if call.turn is not None}
            around = self.made[max(0, first - 600) : newest + 600]
            gone = [c for c in around if c in gone or (c.turn, c.tool, c.argument) in like]
        self.steps.append(Step("retract", calls=tuple(call.number for call in gone)))


def long_stream(seed: int) -> tuple[Settings, list[Step]]:
    """The stream of a number, and the settings that it is played with; see `Stream` for every second one."""
    random = Random(seed)
    rules = settings(random)
    stream = Stream(random, splits=seed % 2 == 1)
    return rules, stream.write(6_000 if seed % 50 == 0 else random.choice((100, 300, 600, 1_200)))


def settings(random: Random) -> Settings:
    """Mostly settings under which a run goes on for long."""
    warning = random.choice((1, 2, 3, 5, 10))
    critical = warning + random.choice((1, 2, 5, 10))
    endless = random.random() < 0.8
    others: dict[str, Any] = {
        "refused_call_limit": 10**6 if endless else random.choice((1, 5, 15, 50)),
        "global_circuit_breaker_threshold": 10**6 if endless else critical + random.choice((1, 5, 20)),
        "on_critical": random.choice(("block", "block", "block", "warn", "ask" if endless else "abort")),
        "mode": random.choice(("enforce", "enforce", "observe")),
    }
    return Settings(
        enabled=True,
        warning_threshold=warning,
        critical_threshold=critical,
        history_size=random.choice((3, 8, 30, 30, 60, 200)),
        unknown_tool_threshold=random.randint(1, 6),
        detectors=Detectors(**{name: random.random() < 0.85 for name in Detectors.__slots__}),
        post_compaction_window=random.randint(2, 4),
        reset_on_write=random.random() < 0.7,
        profiles=PROFILES,
        **others,
    )
