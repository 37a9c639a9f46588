"""One stream as a reader gives it: its start, calls with their results, and what its replies cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.transcripts.fields import printable, title_of
from loopwarden.transcripts.model import Recorded, Spent, StreamStart
from loopwarden.transcripts.pairing import Pairing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.transcripts.model import ReadNotes


class StreamNames:
    """Stream ids of one file, each given once."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}  # with the last number that stands behind it

    def take(self, wanted: str) -> str:
        """`wanted`, or with a number behind it if it was given before; lone surrogates become `?`."""
        wanted = printable(wanted)
        name, number = wanted, self._taken.get(wanted, 1)
        while name in self._taken:
            number += 1
            name = f"{wanted}~{number}"
        self._taken[wanted] = number
        self._taken[name] = self._taken.get(name, 1)
        return name


class Stream:
    """Makes the items of one stream, for formats without run ids.

    What may come to nothing (a result without a call, a reply without tokens) is given as a tuple of one
    item or none.

    Attributes:
        id: Id of the stream.
        calls: How many calls it has so far.
        latest: Id of the event of the last of them.
    """

    def __init__(self, stream: str, notes: ReadNotes) -> None:
        self.id = stream
        self.calls = 0
        self.latest = ""
        self._pairing = Pairing(notes)
        self._held: list[Outcome] = []

    def start(
        self,
        *titles: object,
        parent: str | None = None,
        agent: str | None = None,
        model: str | None = None,
    ) -> StreamStart:
        """The item that must come first; its title is the first of `titles` with text in it, else the id."""
        title = title_of(*titles, self.id)
        return StreamStart(stream=self.id, title=title, parent=parent, agent=agent, model=model)

    def call(
        self,
        tool: str,
        arguments: object,
        *,
        given: object = None,
        turn: str | None = None,
        at: float | None = None,
        line: int | None = None,
        answered: bool = True,
    ) -> Recorded:
        """A call.

        Args:
            tool: Name of the tool.
            arguments: What it is asked.
            given: Its id in the file, `None` if it has none.
            turn: The reply that it belongs to, `None` for one of its own.
            at: When, in seconds since the epoch.
            line: Where it stands, for the notes.
            answered: Whether the file should hold its result; else its absence is not counted.
        """
        self.calls += 1
        self.latest = call_id = self._pairing.call(given, tool, line)
        if not answered:
            self._pairing.withdraw(call_id)
        return Recorded(
            self.id,
            ToolCall(tool=printable(tool), arguments=arguments, call_id=call_id, turn_id=turn, at=at),
        )

    def tool_of(self, given: object) -> str | None:
        """Tool of the call that a result with the id `given` belongs to."""
        return self._pairing.tool_of(given)

    def result(
        self,
        given: object,
        result: object = None,
        *,
        error: str | None = None,
        tool: str | None = None,
        at: float | None = None,
        line: int | None = None,
    ) -> tuple[Recorded, ...]:
        """The result of the call with the id `given`; none, counted, if it is not open.

        Without an id it belongs to the oldest open call of `tool`.
        """
        call_id = self._pairing.result(given, tool, line)
        if call_id is None:
            return ()
        return (Recorded(self.id, Outcome(call_id=call_id, result=result, error=error, at=at)),)

    def end(
        self, call_id: str, result: object = None, *, error: str | None = None, at: float | None = None
    ) -> tuple[Recorded, ...]:
        """The result of a call, by the id of its event; none if it is not open."""
        if not self._pairing.withdraw(call_id):
            return ()
        return (Recorded(self.id, Outcome(call_id=call_id, result=result, error=error, at=at)),)

    def hold(self, result: object = None, *, error: str | None = None, at: float | None = None) -> None:
        """Keep a result that the file tells with its call, the latest, until all of the reply are out."""
        self._held.append(Outcome(call_id=self.latest, result=result, error=error, at=at))

    def release(self) -> list[Recorded]:
        """The results that were kept, in the order in which they came in, as far as times tell."""
        held, self._held = self._held, []
        if all(outcome.at is not None for outcome in held):
            held.sort(key=lambda outcome: outcome.at or 0.0)
        return [Recorded(self.id, outcome) for outcome in held if self._pairing.withdraw(outcome.call_id)]

    def retract(
        self, call_ids: Iterable[str], at: float | None = None, *, ended: bool = False
    ) -> tuple[Recorded, ...]:
        """Calls are taken back, by the ids of their events: those that are open, or (`ended`) all."""
        lost = tuple(call_id for call_id in call_ids if self._pairing.withdraw(call_id) or ended)
        return (Recorded(self.id, Retraction(call_ids=lost, at=at)),) if lost else ()

    def user(self, at: float | None = None) -> Recorded:
        """A person wrote."""
        return Recorded(self.id, UserMessage(at=at))

    def compaction(self, at: float | None = None) -> Recorded:
        """The history was summarised."""
        return Recorded(self.id, Compaction(at=at))

    def spent(
        self,
        read: int = 0,
        written: int = 0,
        cost: float | None = None,
        at: float | None = None,
        *,
        cached: int = 0,
    ) -> tuple[Spent, ...]:
        """Tokens read (`cached` of them from a cache) and written and US dollars of one reply.

        None if there are none.
        """
        if not (read or written or cost):
            return ()
        kept = min(cached, read)
        return (
            Spent(
                stream=self.id, input_tokens=read, output_tokens=written, cost=cost, at=at, cached_tokens=kept
            ),
        )

    def finish(self) -> None:
        """The stream has ended: count the calls that have no result."""
        self._pairing.finish()
