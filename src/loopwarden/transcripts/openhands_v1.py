"""Events of the OpenHands V1 SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.transcripts.fields import mapping, whole, word
from loopwarden.transcripts.shape import arguments, command_result, seconds, text_of, tool_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.stream import Stream

SILENT_KINDS = frozenset({
    "SystemPromptEvent", "CondensationRequest", "CondensationSummaryEvent", "ConversationStateUpdateEvent",
    "ConversationErrorEvent", "ConversationIterationLimitEvent", "PauseEvent", "InterruptEvent", "TokenEvent",
    "LLMCompletionLogEvent", "StreamingDeltaEvent", "HookExecutionEvent", "ACPToolCallEvent",
})  # fmt: skip
"""Kinds that hold no event; a request to condense is followed by the condensation."""

V1_KINDS = SILENT_KINDS | {
    "ActionEvent", "ObservationEvent", "MessageEvent", "AgentErrorEvent", "UserRejectObservation",
    "Condensation",
}  # fmt: skip

EXPLANATIONS = ("summary", "security_risk")
"""What the SDK asks the model to say about each call beside the tool's own arguments."""

NOT_FINISHED = -1
"""Exit code of a command that goes on when its observation is made."""


class EventsV1:
    """Turns the events of one conversation into items."""

    def __init__(self, stream: Stream, notes: ReadNotes) -> None:
        self._stream = stream
        self._notes = notes

    def event(self, event: dict[str, Any], line: int | None) -> Iterator[Item]:
        """The items of one event."""
        kind = event.get("kind")
        at = seconds(event.get("timestamp"))
        call_id = word(event.get("tool_call_id"))
        tool = word(event.get("tool_name"))
        if kind == "ActionEvent":
            yield from self._action(event, at, line)
        elif kind == "ObservationEvent":
            result = _result(event.get("observation"))
            yield from self._stream.result(call_id, result, tool=tool, at=at, line=line)
        elif kind in ("AgentErrorEvent", "UserRejectObservation"):
            error = word(event.get("error")) or word(event.get("rejection_reason")) or "rejected"
            if call_id is not None:  # else it is about no call
                yield from self._stream.result(call_id, error=error, tool=tool, at=at, line=line)
        elif kind == "Condensation":
            yield self._stream.compaction(at)
        elif kind == "MessageEvent":
            if event.get("source") == "user":
                yield self._stream.user(at)
        elif not isinstance(kind, str) or kind not in SILENT_KINDS:
            self._notes.add("unknown_record", line)

    def finish(self) -> None:
        """The conversation is over."""
        self._stream.finish()

    def _action(self, event: dict[str, Any], at: float | None, line: int | None) -> Iterator[Item]:
        told = mapping(event.get("tool_call"))
        tool = word(event.get("tool_name")) or word(told.get("name"))
        if tool is None:
            self._notes.add("bad_line", line)
            return
        asked = arguments(told.get("arguments"))
        if isinstance(asked, dict):
            asked = {
                name: value
                for name, value in asked.items()
                if name not in EXPLANATIONS or event.get(name) != value
            }
        elif asked is None:
            action = mapping(event.get("action"))
            asked = {name: value for name, value in action.items() if name != "kind"}
        call_id = word(event.get("tool_call_id")) or word(told.get("id"))
        turn = word(event.get("llm_response_id")) or word(event.get("id"))
        yield self._stream.call(tool, asked, given=call_id, turn=turn, at=at, line=line)


def _result(value: object) -> dict[str, Any]:
    observation = mapping(value)
    content = observation.get("content", observation.get("output"))
    failed = observation.get("is_error") is True
    if "exit_code" in observation:
        code = whole(observation["exit_code"])
        running = code == NOT_FINISHED
        return command_result(
            text_of(content),
            exit_code=code,
            timed_out=observation.get("timeout") is True,
            running=running,
            is_error=failed,
        )
    if not isinstance(content, str | list):  # older observations have fields of their own
        content = [{name: part for name, part in observation.items() if name not in ("kind", "is_error")}]
    return tool_result(content, is_error=failed)
