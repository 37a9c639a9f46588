"""The engine gives the model's answers to long streams, goes on alike from any moment, and stays small."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from loopwarden.core.profile import ToolUses
from loopwarden.core.run_state import RunState
from loopwarden.core.snapshot import pack, unpack
from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage
from tests.laws.history import OPEN, WAITING, Said, depth
from tests.laws.long_streams import NEWS, Step, long_stream
from tests.laws.model import Model
from tests.laws.streams import RESULTS, TOOLS

if TYPE_CHECKING:
    from loopwarden.core.settings import Settings
    from loopwarden.events import Event, Verdict

FIELDS: Final = tuple(Said.__dataclass_fields__)


@dataclass
class Play:
    """Plays a stream to the model, to an engine, and to one that is saved and restored by the way.

    The host doesn't run what the engine refuses. Where the run is ended it begins another one.
    """

    rules: Settings
    compares: bool
    run: int = 0
    moves: int = 0
    played: int = 0
    running: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.uses = ToolUses(self.rules)
        self.begin()

    def begin(self) -> None:
        self.run += 1
        self.running.clear()
        self.model = Model(self.rules)
        self.one = RunState(self.rules, self.uses, scoped=True)
        self.other = RunState(self.rules, self.uses, scoped=True)

    @property
    def name(self) -> str:
        return f"run {self.moves}"

    def event(self, step: Step) -> Event | None:
        if step.what in ("again", "end") and step.number not in self.running:
            return None
        if step.what in ("call", "again"):
            return ToolCall(
                tool=TOOLS[step.tool],
                arguments=step.argument,
                call_id=f"c{step.number}",
                run_id=self.name,
                turn_id=step.turn,
            )
        if step.what == "end":
            ending = RESULTS[step.result] if step.result < NEWS else {"result": f"news {step.argument}"}
            return Outcome(call_id=f"c{step.number}", run_id=self.name, **ending)
        if step.what == "retract":
            return Retraction(call_ids=tuple(f"c{number}" for number in step.calls), run_id=self.name)
        if step.what == "move":
            continued, self.moves = self.name, self.moves + 1
            return Compaction(run_id=self.name, continues=continued)
        if step.what == "save":
            self.other = unpack(pack(self.other), self.rules, ToolUses(self.rules))
            assert pack(self.other) == pack(self.one)
            return None
        return Compaction(run_id=self.name) if step.what == "compact" else UserMessage(run_id=self.name)

    def step(self, step: Step) -> None:
        event = self.event(step)
        if event is None:
            return
        said = self.one.apply(event)
        assert self.other.apply(event) == said
        if self.compares:
            got = Said(**{field: getattr(said, field) for field in FIELDS})
            expected = self.model.feed(event)
            assert got == expected, f"{got} where {expected} was expected, at {event}"
        self.note(step, said)
        self.played += 1
        if self.played % 64 == 0:
            stays_small(self.one, self.rules)

    def note(self, step: Step, said: Verdict) -> None:
        if said.action == "abort":
            self.begin()
        elif step.what == "call" and said.action != "block":
            self.running.add(step.number)
        elif step.what == "end":
            self.running.discard(step.number)
        self.running.difference_update(step.calls)


def stays_small(state: RunState, rules: Settings) -> None:
    """Nothing is kept of what is forgotten."""
    evidence = state._evidence
    log, rows = evidence.log, evidence.rows
    most = depth(rules)
    oldest = log.end - most
    columns = {len(column) for column in (log.signatures, log.outcomes, log.uses, log.turns, log.ids)}
    assert columns == {log.end - log.base}
    assert log.end - log.base <= most + max(64, most // 4) + 1
    assert len(log.known) <= most
    assert all(position >= oldest for position in (*log.open, *log.marked))
    assert rows.waiting <= WAITING
    assert len(state._open) <= OPEN


def play(rules: Settings, steps: list[Step], *, compares: bool) -> None:
    game = Play(rules, compares)
    for step in steps:
        game.step(step)


def failing(rules: Settings, steps: list[Step], *, compares: bool) -> list[Step] | None:
    """The stream up to the step at which it fails, `None` for one that doesn't."""
    game = Play(rules, compares)
    for number, step in enumerate(steps):
        try:
            game.step(step)
        except Exception:  # noqa: BLE001 - whatever it is
            return steps[: number + 1]
    return None


def shortest(rules: Settings, steps: list[Step], *, compares: bool) -> list[Step]:
    """A failing stream without the steps that it doesn't need to fail."""
    steps = failing(rules, steps, compares=compares) or steps
    size = len(steps) // 2
    while size:
        place = 0
        while place < len(steps):
            fewer = failing(rules, steps[:place] + steps[place + size :], compares=compares)
            if fewer is None:
                place += size
            else:
                steps = fewer
        size //= 2
    return steps


STREAMS: Final = int(os.environ.get("LOOPWARDEN_LONG_STREAMS", "120"))
"""Streams that are played; more of them for a long search by hand."""

TOGETHER: Final = 4
"""Streams of one test."""


@pytest.mark.parametrize("first", range(0, STREAMS, TOGETHER))
def test_long_streams(first: int) -> None:
    for number in range(first, first + TOGETHER):
        rules, steps = long_stream(number)
        compares = number % 2 == 0 or all(step.what != "retract" for step in steps)
        if failing(rules, steps, compares=compares):
            play(rules, shortest(rules, steps, compares=compares), compares=compares)
            pytest.fail(f"stream {number} fails, but not twice")
