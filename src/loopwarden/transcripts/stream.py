"""One stream as a reader gives it: calls with their results, in the order in which they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.events import Compaction, Outcome, ToolCall, UserMessage
from loopwarden.transcripts.fields import headline
from loopwarden.transcripts.model import Recorded, StreamStart
from loopwarden.transcripts.pairing import Pairing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import ReadNotes


class StreamNames:
    """Stream ids of one file, each given once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wanted: str) -> str:
        """`wanted`, or with a number behind it if it was given before."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}~{number}"
        self._taken.add(name)
        return name


class Stream:
    """Events of one stream, for formats without run ids.

    Attributes:
        id: Id of the stream.
        calls: How many calls it has so far.
    """

    def __init__(self, stream: str, notes: ReadNotes) -> None:
        self.id = stream
        self.calls = 0
        self._pairing = Pairing(notes)

    def start(
        self,
        title: str,
        *,
        parent: str | None = None,
        agent: str | None = None,
        model: str | None = None,
    ) -> StreamStart:
        """The item that must come first; `title` is cut to one line."""
        title = headline(title) or self.id
        return StreamStart(stream=self.id, title=title, parent=parent, agent=agent, model=model)

    def call(
        self,
        tool: str,
        arguments: object,
        *,
        given: object = None,
        turn: str | None = None,
        at: float | None = None,
    ) -> Recorded:
        """A call; `given` is its id in the file, if it has one."""
        self.calls += 1
        call_id = self._pairing.call(given, tool)
        return Recorded(
            self.id, ToolCall(tool=tool, arguments=arguments, call_id=call_id, turn_id=turn, at=at)
        )

    def result(
        self, given: object, result: object, *, at: float | None = None, tool: str | None = None
    ) -> Iterator[Recorded]:
        """The result of the call with the id `given` (see `Pairing.result`); none if no call is open."""
        call_id = self._pairing.result(given, tool)
        if call_id is not None:
            yield Recorded(self.id, Outcome(call_id=call_id, result=result, at=at))

    def user(self, at: float | None = None) -> Recorded:
        """A person wrote."""
        return Recorded(self.id, UserMessage(at=at))

    def compaction(self, at: float | None = None) -> Recorded:
        """The history was summarised."""
        return Recorded(self.id, Compaction(at=at))

    def finish(self) -> None:
        """Count the calls that have no result."""
        self._pairing.finish()
