"""One gateway and one scripted model for many tests: each has its own play, told by its name.

The name stands in what the agent is told, so that agents with the same settings can be in several plays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.runner.model_server import DONE, SUMMARY, Call, Reply, Request, asks

if TYPE_CHECKING:
    from tests.e2e.gateway import Gateway

Lines: TypeAlias = Sequence[Reply] | Callable[[Request, int], Reply]
"""Replies in order, or what is said to a request, with its number in the play from 1."""


@dataclass
class Play:
    """What one model says, and what it was asked.

    Attributes:
        name: Stands in the task.
        lines: What the model says.
        requests: What it was asked, those for summaries not included.
        summaries: Those.
    """

    name: str
    lines: Lines
    requests: list[Request] = field(default_factory=list)
    summaries: list[Request] = field(default_factory=list)

    def answer(self, request: Request) -> Reply:
        """What the model says to a request."""
        if request.asks_for_summary:
            self.summaries.append(request)
            return Reply(f"{SUMMARY} {self.name}")
        self.requests.append(request)
        number = len(self.requests)
        if callable(self.lines):
            return self.lines(request, number)
        return self.lines[number - 1] if number <= len(self.lines) else Reply(DONE)


@dataclass(frozen=True, slots=True)
class Told:
    """A verdict that was more than leave to go on, and the place of its call in the run, from 1."""

    call: int
    action: str
    detector: str
    count: int


@dataclass(frozen=True, slots=True)
class Played:
    """A run that is over.

    Attributes:
        run: What the gateway knows of it.
        events: All that happened in it.
    """

    run: dict[str, Any]
    events: list[dict[str, Any]]

    @property
    def told(self) -> list[Told]:
        """What the guard said, in order."""
        places: dict[str, int] = {}
        found = []
        for event in self.events:
            data = event["data"]
            if event["kind"] == "call":
                places[data["call_id"]] = len(places) + 1
            elif event["kind"] == "verdict":
                place = places.get(data["call_id"], 0)
                found.append(Told(place, data["action"], data["detector"], data["count"]))
        return found

    def of(self, action: str) -> list[Told]:
        """What the guard said of one kind."""
        return [told for told in self.told if told.action == action]

    def kinds(self, kind: str) -> list[dict[str, Any]]:
        """The data of what happened of one kind."""
        return [event["data"] for event in self.events if event["kind"] == kind]


@dataclass
class Plays:
    """All plays, by name; the script of one model server."""

    known: dict[str, Play] = field(default_factory=dict)

    def stage(self, lines: Lines) -> Play:
        """A new play."""
        name = f"[play-{len(self.known)}]"
        play = self.known[name] = Play(name, lines)
        return play

    def answer(self, request: Request) -> Reply:
        """What the model says; the play that was named last is the one."""
        text = "\n".join(request.said)
        name = max((name for name in list(self.known) if name in text), key=text.rindex)
        return self.known[name].answer(request)


@dataclass(frozen=True, slots=True)
class Stage:
    """A gateway and the plays of its model."""

    gateway: Gateway
    plays: Plays

    def play(self, agent: str, lines: Lines, session: str | None = None) -> tuple[Play, Played]:
        """A new play to its end, and what became of it; in a new session, if none is given."""
        play = self.plays.stage(lines)
        run = self.gateway.say(session or self.gateway.session(agent), f"Please do {play.name}.")
        return play, self.seen(run)

    def seen(self, run: str) -> Played:
        """A run, once it is over."""
        return Played(self.gateway.ended(run), self.gateway.events(run))


def forever(*calls: Call) -> Callable[[Request, int], Reply]:
    """Asks for these in turn and never stops."""
    return lambda _, number: asks(calls[(number - 1) % len(calls)])
