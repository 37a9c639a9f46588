"""The events of one stream: calls and results paired, and the calls of a reply before their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.events import Compaction, Outcome, ToolCall, UserMessage
from loopwarden.transcripts.model import Recorded
from loopwarden.transcripts.pairing import Pairing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import ReadNotes


class Calls:
    """Makes the events of one stream.

    Attributes:
        stream: Id of the stream.
    """

    def __init__(self, stream: str, notes: ReadNotes) -> None:
        self.stream = stream
        self._pairing = Pairing(notes)
        self._held: list[Outcome] = []

    def call(
        self,
        tool: str,
        arguments: object,
        call_id: object = None,
        *,
        turn_id: str | None = None,
        at: float | None = None,
        line: int | None = None,
    ) -> Recorded:
        """A call; one without an id gets an id of its own."""
        given = self._pairing.call(call_id, tool, line)
        return self._recorded(ToolCall(tool=tool, arguments=arguments, call_id=given, turn_id=turn_id, at=at))

    def outcome(
        self,
        call_id: object,
        *,
        tool: str | None = None,
        result: object = None,
        error: str | None = None,
        at: float | None = None,
        line: int | None = None,
    ) -> Iterator[Recorded]:
        """The result of an open call; nothing, counted, if there is no such call.

        Without an id it belongs to the oldest open call of `tool`.
        """
        given = self._pairing.result(call_id, tool, line)
        if given is not None:
            yield self._recorded(Outcome(call_id=given, result=result, error=error, at=at))

    def hold(
        self, call: Recorded, *, result: object = None, error: str | None = None, at: float | None = None
    ) -> None:
        """Keep a result that the file tells with its call, until all calls of the reply are out."""
        if isinstance(call.event, ToolCall):
            self._held.append(Outcome(call_id=call.event.call_id, result=result, error=error, at=at))

    def release(self) -> Iterator[Recorded]:
        """The results that were kept, in the order in which they came in, as far as times tell."""
        held, self._held = self._held, []
        for outcome in sorted(held, key=lambda outcome: outcome.at or 0.0):
            self._pairing.withdraw(outcome.call_id)
            yield self._recorded(outcome)

    def compaction(self, at: float | None = None) -> Recorded:
        """The history was summarised."""
        return self._recorded(Compaction(at=at))

    def user_message(self, at: float | None = None) -> Recorded:
        """A person wrote."""
        return self._recorded(UserMessage(at=at))

    def finish(self) -> None:
        """The stream has ended: count the calls without a result."""
        self._pairing.finish()

    def _recorded(self, event: ToolCall | Outcome | Compaction | UserMessage) -> Recorded:
        return Recorded(self.stream, event)
