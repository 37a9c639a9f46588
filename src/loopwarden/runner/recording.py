"""A recorded run, laid out to be played again: turn by turn what the agent asked for, and what it got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import TranscriptError
from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.transcripts import Recorded, StreamStart, read

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from loopwarden.events import Event
    from loopwarden.transcripts import Item

MOST_CALLS: Final = 10_000
"""Calls that are played; a longer recording ends there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedCall:
    """A call of the recording.

    Attributes:
        id: Unique within the recording.
        tool: Name of the tool.
        arguments: What it was asked; anything but a mapping stands in one under `input`.
    """

    id: str
    tool: str
    arguments: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Turn:
    """One reply of the recorded model.

    Attributes:
        calls: What it asks for, at least one.
        compacted: Whether the history was compacted just before.
        person: Whether a person wrote just before.
    """

    calls: list[PlayedCall] = field(default_factory=list)
    compacted: bool = False
    person: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One agent's run out of a file.

    Attributes:
        label: Name of the file, safe to print.
        turns: In order.
        outcomes: By the id of the call; a call whose result is not in the file has none.
        cut: Whether there is more than `MOST_CALLS`.
    """

    label: str
    turns: list[Turn]
    outcomes: dict[str, Outcome]
    cut: bool

    @property
    def tools(self) -> list[str]:
        """Names of the tools, without those that did not exist whenever they were called."""
        called = {call.tool: False for turn in self.turns for call in turn.calls}
        for turn in self.turns:
            for call in turn.calls:
                outcome = self.outcomes.get(call.id)
                called[call.tool] |= outcome is None or outcome.unknown_tool is None
        return [tool for tool, known in called.items() if known]


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Read the first agent of a file that calls tools, in any format that `loopwarden scan` knows.

    Raises:
        TranscriptError: The file can't be read, or there is no call in it.
    """
    transcript = read(Path(path))
    taken = _Taken()
    for said in _one_stream(transcript.items):
        if not taken.take(said):
            break
    taken.drop_retracted()
    if not taken.turns:
        raise TranscriptError(transcript.source.label, "there is no call of a tool in it to replay")
    return Recording(label=transcript.source.label, turns=taken.turns, outcomes=taken.outcomes, cut=taken.cut)


def _one_stream(items: Iterable[Item]) -> Iterator[Event]:
    """What happened in the first main stream that has a call, from that call on."""
    chosen = None
    sub_agents: set[str] = set()
    for item in items:
        if isinstance(item, StreamStart):
            if item.parent is not None:
                sub_agents.add(item.stream)
        elif item.stream not in sub_agents and chosen in (None, item.stream):
            if isinstance(item, Recorded) and isinstance(item.event, ToolCall):
                chosen = item.stream
            if chosen is not None and isinstance(item, Recorded):
                yield item.event


class _Taken:
    """Lays the events of one stream out."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.outcomes: dict[str, Outcome] = {}
        self.cut = False
        self._count = 0
        self._turn_id: str | None = None
        self._open: dict[str, str] = {}
        self._used: set[str] = set()
        self._retracted: set[str] = set()
        self._compacted = self._person = False

    def take(self, said: Event) -> bool:
        """One event; whether more may follow."""
        match said:
            case ToolCall():
                return self._call(said)
            case Outcome():
                call_id = self._open.pop(said.call_id, None)
                if call_id is not None:
                    self.outcomes[call_id] = said
            case Compaction():
                self._compacted = True
            case UserMessage():
                self._person = True
            case Retraction():
                self._retracted.update(self._open.pop(call_id, call_id) for call_id in said.call_ids)
        return True

    def _call(self, call: ToolCall) -> bool:
        if call.call_id in self._open:  # the same call, seen again
            return True
        if self._count >= MOST_CALLS:
            self.cut = True
            return False
        self._count += 1
        fresh = call.turn_id is None or call.turn_id != self._turn_id or self._compacted or self._person
        if fresh or not self.turns:
            self.turns.append(Turn(compacted=self._compacted, person=self._person))
            self._compacted = self._person = False
        self._turn_id = call.turn_id
        given = call.call_id if call.call_id not in self._used else f"{call.call_id}#{self._count}"
        self._used.add(given)
        self._open[call.call_id] = given
        self.turns[-1].calls.append(
            PlayedCall(id=given, tool=call.tool or "unnamed", arguments=_mapping(call.arguments))
        )
        return True

    def drop_retracted(self) -> None:
        """Calls that were taken back were made again afterwards, if at all."""
        for turn in self.turns:
            turn.calls = [call for call in turn.calls if call.id not in self._retracted]
        self.turns = [turn for turn in self.turns if turn.calls]


def _mapping(arguments: object) -> dict[str, Any]:
    if arguments is None:
        return {}
    if isinstance(arguments, Mapping) and all(isinstance(name, str) for name in arguments):
        return dict(arguments)
    return {"input": arguments}
