"""AG2: the guard as a middleware of an agent.

    agent = Agent("name", config=..., tools=[...], middleware=[LoopGuardMiddleware(LoopGuard())])

An aborted run raises `LoopAborted` from the next request to the model, when every call of the reply has its
result: the host makes an error result of what is raised in a call. Outcomes are told when a reply's calls
are all done, so that a call which another middleware tries again counts once.
"""

from __future__ import annotations

import uuid
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from loopwarden.adapters import Abilities, with_note
from loopwarden.errors import LoopAborted, MissingExtraError

try:
    from ag2.events import (
        ClientToolCallEvent,
        CompactionCompleted,
        DataInput,
        TextInput,
        ToolCallsEvent,
        ToolErrorEvent,
        ToolNotFoundEvent,
        ToolResult,
        ToolResultEvent,
        ToolResultsEvent,
    )
    from ag2.exceptions import HumanInputError
    from ag2.middleware import BaseMiddleware
except ImportError as error:
    raise MissingExtraError("ag2", "ag2") from error

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ag2 import Context
    from ag2.events import BaseEvent, ModelResponse, ToolCallEvent
    from ag2.middleware import AgentTurn, LLMCall, ToolExecution, ToolResultType
    from ag2.stream import Stream

    from loopwarden.events import Verdict
    from loopwarden.guard import LoopGuard, Verbs

__all__ = ["ABILITIES", "LoopGuardMiddleware"]

ABILITIES: Final = Abilities(
    host="AG2",
    package="ag2>=1.2",
    warns="result",
    aborts="raises",
    unknown_tools="call",
    compaction="signal",
    call_ids=True,
    run_ids=False,
    turns=True,
)


class LoopGuardMiddleware:
    """Watches the tool calls that an agent's model asks for.

    A turn of the host (`ask`, `run`, `resume`) is a run, with an id that is made up, in the session whose id
    is the stream's. One that ends with calls for the client waits; a turn that brings their results on the
    same stream object is the same run.

    Args:
        guard: The guard; several agents may share it, and this middleware.
    """

    def __init__(self, guard: LoopGuard) -> None:
        self._guard = guard
        self._streams: WeakKeyDictionary[Stream, _Stream] = WeakKeyDictionary()

    def __call__(self, event: BaseEvent, context: Context) -> BaseMiddleware:
        """The host opens a turn."""
        stream = self._streams.get(context.stream)
        if stream is None:
            stream = self._streams[context.stream] = _Stream()
            # Not undone at the end of a turn: the host compacts after that. It goes with the stream.
            context.stream.where(CompactionCompleted).subscribe(stream.compacts)
        run = stream.resumed(event)
        if run is None:
            run = _Run(self._guard.session(str(context.stream.id)), uuid.uuid4().hex)
        return _Turn(event, context, run, stream)


@dataclass(slots=True)
class _Call:
    """A call of the newest reply: what the guard said, and what came of the newest attempt."""

    verdict: Verdict
    outcome: dict[str, Any] | None = None


@dataclass(slots=True)
class _Run:
    """What is known of a run.

    Attributes:
        replies: How often the model was asked.
        asked: The calls of the newest reply.
        open: Calls without an outcome that was told, by their id.
        ended: The verdict that ends the run when the model is to be asked again.
        raised: The run was ended; what comes out of it is not what the model wanted to say.
    """

    verbs: Verbs
    run_id: str
    replies: int = 0
    asked: dict[str, ToolCallEvent] = field(default_factory=dict)
    open: dict[str, _Call] = field(default_factory=dict)
    ended: Verdict | None = None
    raised: bool = False

    def before(self, call: ToolCallEvent) -> _Call:
        """Ask the guard, once for each call."""
        found = self.open.get(call.id)
        if found is None:
            verdict = self.verbs.before(
                call.name,
                _arguments(call),
                call_id=call.id,
                run_id=self.run_id,
                turn_id=f"{self.run_id}/{self.replies}" if self.replies else None,
            )
            found = self.open[call.id] = _Call(verdict)
            self._note(verdict)
        return found

    def warned(self, event: Any) -> Any:
        """The results that a client brings, with the warnings."""
        changed = copy(event)
        changed.results = [
            _noted(result, self.open[result.parent_id].verdict) if result.parent_id in self.open else result
            for result in event.results
        ]
        return changed

    def settle(self) -> None:
        """Tell the outcomes; calls that a client has to run stay open."""
        for call_id, call in list(self.open.items()):
            refused = call.verdict.action in {"block", "abort"}
            if refused or call.outcome is not None:
                del self.open[call_id]
            if not refused and call.outcome is not None:
                self._note(self.verbs.after(call_id, run_id=self.run_id, **call.outcome))

    def compacted(self) -> None:
        """The history was compacted."""
        self._note(self.verbs.compacted(run_id=self.run_id))

    def leave(self) -> None:
        """End the run if it is to be ended.

        Raises:
            LoopAborted: It is.
        """
        if self.ended is not None:
            self.raised = True
            raise LoopAborted(self.ended)

    def _note(self, verdict: Verdict) -> None:
        if verdict.action == "abort" and self.ended is None:
            self.ended = verdict


@dataclass(slots=True)
class _Stream:
    """What is known of a stream between and during its turns, of which there is one at a time.

    Attributes:
        waiting: A run that goes on when the client has run its calls.
        compacted: The history was compacted since a model was last asked.
    """

    waiting: _Run | None = None
    compacted: bool = False

    async def compacts(self, event: Any) -> None:
        """The host compacted, or found nothing to leave out."""
        if event.events_after < event.events_before:
            self.compacted = True

    def resumed(self, event: BaseEvent) -> _Run | None:
        """The run that waits for these results."""
        run = self.waiting
        if run is None or not isinstance(event, ToolResultsEvent):
            return None
        brought = {result.parent_id: result for result in event.results}
        if not brought.keys() & run.open.keys():
            return None
        for call_id, call in run.open.items():
            if call_id in brought:
                call.outcome = _outcome(brought[call_id])
        return run


class _Turn(BaseMiddleware):
    """One turn of an agent."""

    def __init__(self, event: BaseEvent, context: Context, run: _Run, stream: _Stream) -> None:
        super().__init__(event, context)
        self._run = run
        self._stream = stream

    async def on_turn(self, call_next: AgentTurn, event: BaseEvent, context: Context) -> ModelResponse:
        """The whole turn.

        Raises:
            LoopAborted: The guard ended the run.
        """
        run, stream = self._run, self._stream
        if stream.waiting is not None and stream.waiting is not run:
            stream.waiting.verbs.forget(run_id=stream.waiting.run_id)
        stream.waiting = None
        if run.open:
            event = run.warned(event)
        waits = False
        try:
            with context.stream.where(ToolCallsEvent | ToolNotFoundEvent).sub_scope(
                self._seen, interrupt=True
            ):
                response = await call_next(event, context)
            run.settle()
            if run.raised:  # another middleware caught it
                run.leave()
            waits = bool(run.open)
            return response
        finally:
            if waits:
                stream.waiting = run
            else:
                run.verbs.forget(run_id=run.run_id)

    async def on_llm_call(
        self, call_next: LLMCall, events: Sequence[BaseEvent], context: Context
    ) -> ModelResponse:
        """The model is asked: the calls of its last reply are done.

        Raises:
            LoopAborted: The guard ended the run.
        """
        run = self._run
        run.settle()
        if self._stream.compacted:
            self._stream.compacted = False
            run.compacted()
        run.leave()
        run.replies += 1
        return await call_next(events, context)

    async def on_tool_execution(
        self, call_next: ToolExecution, event: ToolCallEvent, context: Context
    ) -> ToolResultType:
        """One call."""
        call = self._run.before(event)
        if call.verdict.action in {"block", "abort"}:
            return ToolResultEvent.from_call(event, call.verdict.message or "refused")
        try:
            result = await call_next(event, context)
        except HumanInputError:  # nobody could be asked: no failure of the tool, and the end of the turn
            raise
        except BaseException as error:  # cancelled, too
            self._done(call, {"error": error})
            raise
        if isinstance(result, ClientToolCallEvent):
            return result
        self._done(call, _outcome(result))
        return _noted(result, call.verdict)

    def _done(self, call: _Call, outcome: dict[str, Any]) -> None:
        call.outcome = outcome
        if not self._run.replies:  # a live session, which asks its model in another way
            self._run.settle()

    async def _seen(self, event: Any) -> Any:
        """What the model asked for; what does not exist, before anyone else learns of it."""
        run = self._run
        if isinstance(event, ToolCallsEvent):
            run.asked = {call.id: call for call in event.calls}
            return event
        asked = run.asked.get(event.parent_id)
        if asked is None:
            return event
        call = run.before(asked)
        if call.verdict.action in {"block", "abort"}:
            return ToolResultEvent.from_call(asked, call.verdict.message or "refused")
        self._done(call, {**_outcome(event), "unknown_tool": asked.name})
        return _noted(event, call.verdict)


def _arguments(call: ToolCallEvent) -> object:
    """The arguments, as the model wrote them where that is no JSON."""
    try:
        return call.serialized_arguments
    except (ValueError, RecursionError):
        return call.arguments


def _outcome(result: ToolResultEvent) -> dict[str, Any]:
    """A result as the guard is told: as text where it is text only."""
    if isinstance(result, ToolErrorEvent):
        return {"error": result.error}
    parts = [_part(part) for part in result.result.parts]
    if parts and all(isinstance(part, str) for part in parts):
        return {"result": "\n".join(parts)}
    return {"result": parts[0] if len(parts) == 1 else parts}


def _part(part: Any) -> Any:
    if isinstance(part, TextInput):
        return part.content
    if isinstance(part, DataInput):
        return part.data
    return {"type": type(part).__name__, **_fields(part, ("url", "file_id", "media_type", "data"))}


def _fields(part: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(part, name) for name in names if getattr(part, name, None) is not None}


def _noted(result: ToolResultEvent, verdict: Verdict) -> ToolResultEvent:
    """A result with a warning at its end; not where it is the answer of the run."""
    if verdict.action != "warn" or not verdict.announce or result.result.final:
        return result
    note = verdict.message or ""
    *head, last = result.result.parts or [TextInput("")]
    if isinstance(last, TextInput):
        changed = copy(last)
        changed.content = with_note(last.content, note)
        parts = [*head, changed]
    else:
        parts = [*head, last, TextInput(note)]
    noted = copy(result)
    noted.result = ToolResult(parts=parts, metadata=result.result.metadata)
    return noted
