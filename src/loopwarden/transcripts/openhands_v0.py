"""Events of OpenHands V0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.transcripts.fields import elements, mapping, money, whole, word
from loopwarden.transcripts.shape import arguments, command_result, count, seconds, tool_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.stream import Stream

NO_CALL = frozenset({
    "message", "system", "null", "change_agent_state", "recall", "pause", "resume", "stop", "reject",
    "finish", "condensation", "condensation_request", "summarize", "start", "push", "send_pr",
    "loop_recovery",
})  # fmt: skip
"""Actions that run no tool."""

SILENT_OBSERVATIONS = frozenset({"null", "agent_state_changed", "recall", "condense", "loop_detection"})
"""Observations that answer no call."""

HOST_ARGUMENTS = frozenset({
    "thought", "confirmation_state", "security_risk", "hidden", "blocking", "is_confirmed", "keep_prompt",
    "impl_source", "view_range_source", "timeout", "static",
})  # fmt: skip
"""Arguments of an action that the model did not give for the tool (its thoughts) or the host added."""

NOT_FINISHED = -1
"""Exit code of a command that goes on when its observation is made."""


class EventsV0:
    """Turns the events of one history into items."""

    def __init__(self, stream: Stream, metrics: dict[str, Any], notes: ReadNotes) -> None:
        self._stream = stream
        self._notes = notes
        self._ids: dict[str, str] = {}  # id of an action: id of its call
        self._usage = {
            reply: usage
            for usage in map(mapping, elements(metrics.get("token_usages")))
            if (reply := word(usage.get("response_id"))) is not None
        }
        self._reply: str | None = None
        self._replies = 0
        self._at: float | None = None
        self._spending: dict[str, Any] = {}
        self._total = (0, 0, 0.0)

    def event(self, event: dict[str, Any]) -> Iterator[Item]:
        """The items of an action or an observation."""
        at = seconds(event.get("timestamp"))
        action, observation = word(event.get("action")), word(event.get("observation"))
        if action is not None:
            yield from self._action(action, event, at)
        elif observation is not None:
            yield from self._observation(observation, event, at)
        else:
            self._notes.add("unknown_record")

    def finish(self) -> Iterator[Item]:
        """The history is over."""
        yield from self._end_reply()
        self._stream.finish()

    def _action(self, action: str, event: dict[str, Any], at: float | None) -> Iterator[Item]:
        by = event.get("source")
        if by == "agent":
            yield from self._begin_reply(event, at)
        if action == "message" and by == "user":
            yield self._stream.user(at)
        elif action == "condensation":
            yield self._stream.compaction(at)
        elif by == "agent" and action not in NO_CALL:
            told = mapping(event.get("tool_call_metadata"))
            identity = word(event.get("id"))
            call_id = word(told.get("tool_call_id")) or (identity and f"event {identity}")
            tool = word(told.get("function_name")) or action
            if identity is not None and call_id is not None:
                self._ids[identity] = call_id
            asked = _asked(told, event.get("args"), call_id)
            yield self._stream.call(tool, asked, given=call_id, turn=self._reply, at=at)

    def _observation(self, kind: str, event: dict[str, Any], at: float | None) -> Iterator[Item]:
        told = mapping(event.get("tool_call_metadata"))
        cause = word(event.get("cause"))
        known = self._ids.get(cause or "")
        call_id = word(told.get("tool_call_id")) or (cause and f"event {cause}")
        call_id = known or call_id
        if call_id is None or kind in SILENT_OBSERVATIONS:
            return
        content = event.get("content")
        extras = mapping(event.get("extras"))
        result: dict[str, Any] | None = None
        error: str | None = None
        if kind in ("error", "user_rejected"):
            error = word(content) or kind
        elif kind == "run" and isinstance(content, str):
            code = whole(mapping(extras.get("metadata")).get("exit_code", extras.get("exit_code")))
            result = command_result(content, exit_code=code, running=code == NOT_FINISHED)
        else:
            result = tool_result(content if isinstance(content, str | list) else [content])
        yield from self._stream.result(call_id, result, error=error, at=at)

    def _begin_reply(self, event: dict[str, Any], at: float | None) -> Iterator[Item]:
        """Actions of one model reply share its id; an action without one is a reply of its own."""
        response = mapping(mapping(event.get("tool_call_metadata")).get("model_response"))
        reply = word(response.get("id"))
        if reply is None or reply != self._reply:
            yield from self._end_reply()
            self._replies += 1
            self._reply = reply or f"reply {self._replies}"
            self._spending = mapping(response.get("usage")) or self._usage.pop(reply or "", {})
            self._at = at
        self._accumulate(event, at)

    def _accumulate(self, event: dict[str, Any], at: float | None) -> None:
        """Some versions give the sum so far with each action; what was added is what the reply cost."""
        metrics = mapping(event.get("llm_metrics"))
        tokens = mapping(metrics.get("accumulated_token_usage"))
        if not metrics or self._spending:
            return
        before = self._total
        self._total = (
            max(before[0], count(tokens.get("prompt_tokens"))),
            max(before[1], count(tokens.get("completion_tokens"))),
            max(before[2], money(metrics.get("accumulated_cost")) or 0.0),
        )
        read, written, cost = (now - then for now, then in zip(self._total, before, strict=True))
        if read or written or cost:
            self._spending = {"prompt_tokens": int(read), "completion_tokens": int(written), "cost": cost}
            self._at = at

    def _end_reply(self) -> Iterable[Item]:
        read, written = (count(self._spending.get(f"{kind}_tokens")) for kind in ("prompt", "completion"))
        cost = money(self._spending.get("cost"))
        details = mapping(self._spending.get("prompt_tokens_details"))
        cached = count(self._spending.get("cache_read_tokens")) or count(details.get("cached_tokens"))
        self._spending = {}
        return self._stream.spent(read, written, cost, self._at, cached=cached)


def _asked(told: dict[str, Any], args: object, call_id: str | None) -> object:
    """The arguments as the model wrote them, where the reply is kept; else those of the action."""
    for choice in elements(mapping(told.get("model_response")).get("choices")):
        message = mapping(mapping(choice).get("message"))
        for call in map(mapping, elements(message.get("tool_calls"))):
            if call.get("id") == call_id and "arguments" in mapping(call.get("function")):
                return arguments(call["function"]["arguments"])
    if isinstance(args, dict):
        return {name: value for name, value in args.items() if name not in HOST_ARGUMENTS}
    return args
