"""Verdicts as JSON objects: on recorded events, and on events that come in line by line."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

from loopwarden.events import Compaction, Outcome, ToolCall, UserMessage
from loopwarden.transcripts.events import FIELDS, Decoder
from loopwarden.transcripts.model import ReadNotes, Recorded
from loopwarden.transcripts.parsing import exact, parse_line
from loopwarden.transcripts.source import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.events import Event, Verdict
    from loopwarden.guard import LoopGuard

_GIVEN: Final = (
    "action", "would", "level", "detector", "count", "threshold", "tool", "paired_tools", "key"
)  # fmt: skip
_PIECE: Final = 65536
_REFUSED: Final = {
    "bad_line": "no valid JSON",
    "too_deep": "nested deeper than the limit",
    "too_many_values": "more values than the limit for a line",
}
_NEEDED: Final = {
    "call": "`id` and `tool`, both a text that is not empty",
    "outcome": "`id`, a text that is not empty",
    "retract": "`ids`, a list of texts",
}


def answer(recorded: Recorded, verdict: Verdict) -> dict[str, Any]:
    """The answer to one event: what it was about, then the verdict without what is empty."""
    event = recorded.event
    given: dict[str, Any] = {"stream": recorded.stream, "type": _type(event)}
    if isinstance(event, ToolCall | Outcome):
        given["id"] = event.call_id
    if event.run_id is not None:
        given["run"] = event.run_id
    for name in _GIVEN:
        value = getattr(verdict, name)
        if value or name == "action":
            given[name] = value
    if verdict.detector is not None:
        given |= {"announce": verdict.announce, "error": verdict.error, "message": verdict.message}
    return given


def _type(event: Event) -> str:
    match event:
        case ToolCall():
            return "call"
        case Outcome():
            return "outcome"
        case Compaction():
            return "compaction"
        case UserMessage():
            return "user"
        case _:
            return "retract"


class Answering:
    """Answers events in the project's own format, one line each.

    Args:
        guard: Who answers; each stream gets a session of its own.
        line_bytes: Longest line that is taken.
    """

    def __init__(self, guard: LoopGuard, *, line_bytes: int = DEFAULT_LIMITS.line_bytes) -> None:
        self._guard = guard
        self._line_bytes = line_bytes
        self._decoder = Decoder("standard input")

    def answers(self, stream: IO[bytes]) -> Iterator[dict[str, Any]]:
        """One answer for each line that is not blank, as soon as the line is there.

        A line that is no event is answered with `{"error": ..., "line": N}`, and what follows goes on as
        if it had not come.
        """
        number = 0
        while line := stream.readline(self._line_bytes + 1):
            number += 1
            if len(line) > self._line_bytes and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = stream.readline(_PIECE)
                yield {"error": f"longer than {self._line_bytes} bytes, the limit for a line", "line": number}
            elif line := line.strip(b"\xef\xbb\xbf \t\r\n" if number == 1 else b" \t\r\n"):
                yield self._answer(line, number)

    def _answer(self, line: bytes, number: int) -> dict[str, Any]:
        values, fault = parse_line(line, exact)
        if len(values) != 1 or fault not in (None, "not_utf8"):
            return {"error": _REFUSED.get(fault or "", "an event is one JSON object"), "line": number}
        record = values[0]
        if not isinstance(record, dict):
            return {"error": "an event is one JSON object", "line": number}
        notes = ReadNotes()
        said = [
            answer(item, self._guard.session(item.stream).examine(item.event)[0])
            for item in self._decoder.items(record, notes, number)
            if isinstance(item, Recorded)
        ]
        # A retraction of calls in several runs is several events, all with the same answer.
        return said[0] if said else {"error": _fault(record, notes), "line": number}


def _fault(record: dict[str, Any], notes: ReadNotes) -> str:
    kind = record.get("type")
    if "unknown_record" in notes.counts:
        return f"`type` is {_shown(kind)}; allowed are {', '.join(FIELDS)}"
    if "result_without_call" in notes.counts:
        return f"no call with the id {_shown(record.get('id'))} is open"
    return f"a line of type {kind} must have {_NEEDED[str(kind)]}"


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - a message stays a line
