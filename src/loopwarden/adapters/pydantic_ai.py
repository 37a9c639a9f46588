"""Pydantic AI: the guard as a capability of the agent.

    from loopwarden import LoopGuard
    from loopwarden.adapters.pydantic_ai import GuardCapability

    agent = Agent(model, tools=[...], capabilities=[GuardCapability(LoopGuard())])

A refused call gets a failed result, which costs none of the tool's retries; an aborted run raises
`LoopAborted`. Calls with wrong arguments are seen as calls that failed. Calls of unknown tools are seen
before the next request, where their results, and notes on failed calls, are rewritten.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from loopwarden.adapters import Abilities, with_note
from loopwarden.errors import LoopAborted, MissingExtraError

try:
    from pydantic import ValidationError
    from pydantic_ai import DeferredToolRequests
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.exceptions import (
        ApprovalRequired,
        CallDeferred,
        ModelRetry,
        SkipToolExecution,
        ToolFailed,
        ToolFailedError,
        ToolRetryError,
    )
    from pydantic_ai.messages import CompactionPart, ModelRequest, ModelResponse, ToolReturn, ToolReturnPart
except ImportError as error:
    raise MissingExtraError("pydantic-ai-slim", "pydantic-ai") from error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelMessage, ToolCallPart
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import ToolDefinition

    from loopwarden.events import Verdict
    from loopwarden.guard import LoopGuard, Verbs

ABILITIES: Final = Abilities(
    host="Pydantic AI",
    package="pydantic-ai-slim>=2.62",
    warns="result",
    aborts="raises",
    unknown_tools="later",
    compaction="signal",
    call_ids=True,
    run_ids=True,
    turns=True,
)

_MISSED: Final = frozenset({"unknown_tool", "unavailable_tool"})
"""Causes of a result for a call of a tool that does not exist, or that the model was not shown yet."""

_REJECTED: Final = (ValidationError, ModelRetry, ToolRetryError, ToolFailed, ToolFailedError)
"""How the host says that the arguments are wrong, or that a hook or a validator does not take them."""


_PAUSED: Final = 1024
"""Runs that wait for a person and are remembered, so that they go on as the same run."""


@dataclass(eq=False)
class GuardCapability(AbstractCapability[Any]):
    """Asks the guard about every tool call of the agent.

    Sessions are conversations (`conversation_id`), runs are the host's runs; a run is forgotten at its
    end. One that ends with `DeferredToolRequests` waits, and the run that answers them is the same to the
    guard. Tools of sub-agents are guarded where the sub-agent has the capability too.

    A program that makes one run out of several of the host's, as it does to ask again after a compaction,
    names the run by `run_id`. It is not forgotten then, which is the program's to do, and a call that is
    cancelled is taken back.

    Attributes:
        guard: Shared by all runs, and by as many agents as there are.
        session_id: Session of all calls; `None`: the conversation's id.
        run_id: Run of all calls; `None`: the host's id.
        compared: Makes out of what a tool returned what the guard compares; `None`: what the model reads.
        heard: Told of each verdict that found something, with the call's id (`None`: of a compaction). It
            must not raise.
    """

    guard: LoopGuard
    session_id: str | None = field(default=None, kw_only=True)
    run_id: str | None = field(default=None, kw_only=True)
    compared: Callable[[Any], object] | None = field(default=None, kw_only=True)
    heard: Callable[[str | None, Verdict], None] | None = field(default=None, kw_only=True)
    _paused: OrderedDict[str | None, tuple[str | None, str]] = field(
        default_factory=OrderedDict, init=False, repr=False
    )

    def get_ordering(self) -> CapabilityOrdering:
        """Outside of the others, so that what they try again counts once."""
        return CapabilityOrdering(position="outermost")

    @classmethod
    def get_serialization_name(cls) -> None:
        """A guard is no part of an agent's specification."""
        return

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """The capability of one run."""
        return _Run(self, ctx)


class _Run(GuardCapability):
    """What is known of one run: which compactions were seen, what the model is still to be told."""

    def __init__(self, made_for: GuardCapability, ctx: RunContext[Any]) -> None:
        guard = made_for.guard
        super().__init__(
            guard,
            id=made_for.id,
            description=made_for.description,
            session_id=made_for.session_id,
            run_id=made_for.run_id,
            compared=made_for.compared,
            heard=made_for.heard,
        )
        self._paused = made_for._paused  # noqa: SLF001 - one module
        session_id = ctx.conversation_id if self.session_id is None else self.session_id
        self._verbs: Verbs = guard if session_id is None else guard.session(session_id)
        self._host_id = ctx.run_id
        paused = self._paused.pop(_interrupted(ctx.messages), None)
        self._goes_on = paused is not None
        self._run_id: str | None = ctx.run_id
        self._turn = f"{ctx.run_id}/0"
        if paused is not None:
            self._run_id, self._turn = paused
        if self.run_id is not None:
            self._run_id = self.run_id
        self._compactions = _compactions(ctx.messages)  # those before the run are not news
        self._sent = 0
        self._notes: dict[str, str] = {}
        self._missed: set[str] = set()

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Awaitable[Any]]) -> Any:
        """At the end of the run its state goes, unless it only waits for a person."""
        waits = False
        try:
            result = await handler()
            waits = isinstance(result.output, DeferredToolRequests)
        finally:
            if not waits and self.run_id is None:
                self._verbs.forget(run_id=self._run_id)
        if waits:
            self._paused[self._host_id] = self._run_id, self._turn
            if len(self._paused) > _PAUSED:
                self._paused.popitem(last=False)
        return result

    async def wrap_tool_validate(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        handler: Callable[[str | dict[str, Any]], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """A call whose arguments are rejected never gets as far as `wrap_tool_execute`."""
        try:
            return await handler(args)
        except _REJECTED as error:
            verdict = self._before(call)
            if verdict.action == "block":
                raise ToolFailed(verdict.message or "refused") from error
            self._failed(call.tool_call_id, verdict, error)
            raise

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Before and after a call, whatever the capabilities inside of this one make of it."""
        verdict = self._before(call)
        if verdict.action == "block":
            raise ToolFailed(verdict.message or "refused")
        call_id = call.tool_call_id
        try:
            result = await handler(args)
        except SkipToolExecution as skipped:
            result = skipped.result
        except (ApprovalRequired, CallDeferred):  # someone is asked first; the call stays open
            raise
        except Exception as error:
            self._failed(call_id, verdict, error)
            raise
        except BaseException as error:  # cancelled, which goes on whatever the guard says
            if self.run_id is not None:
                self._tell(call_id, self._verbs.after(call_id, error=error, run_id=self._run_id))
            raise
        compared = _plain(result) if self.compared is None else self.compared(result)
        self._leave(call_id, self._verbs.after(call_id, result=compared, run_id=self._run_id))
        note = _note(verdict)
        return result if note is None else _noted(result, note)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Calls of unknown tools have got their results; notes on failed calls are added to theirs."""
        if ctx.run_step > 1 or self._goes_on:
            messages = request_context.messages
            requests = _newest(messages)
            missed = _missed(requests)
            calls = _calls(messages, missed - self._missed)
            for request in requests:
                request.parts = [self._told(part, calls) for part in request.parts]
            self._missed = missed
            self._notes.clear()
        self._turn = f"{self._host_id}/{ctx.run_step}"
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """What was sent, after all that rewrites the history: was it compacted?

        By its mark, which the provider may also put into the reply; or, as history processors leave none,
        by its getting shorter.
        """
        found = _compactions([*request_context.messages, response])
        sent = len(request_context.messages)
        compacted = bool(found - self._compactions) or sent < self._sent
        self._compactions, self._sent = found, sent
        if compacted:
            self._leave(None, self._verbs.compacted(run_id=self._run_id))
        return response

    def _before(self, call: ToolCallPart) -> Verdict:
        verdict = self._verbs.before(
            call.tool_name,
            call.args_as_dict(),
            call_id=call.tool_call_id,
            run_id=self._run_id,
            turn_id=self._turn,
        )
        self._leave(call.tool_call_id, verdict)
        return verdict

    def _leave(self, call_id: str | None, verdict: Verdict) -> None:
        self._tell(call_id, verdict)
        if verdict.action == "abort":
            raise LoopAborted(verdict)

    def _tell(self, call_id: str | None, verdict: Verdict) -> None:
        if verdict.detector is not None and self.heard is not None:
            self.heard(call_id, verdict)

    def _failed(self, call_id: str, verdict: Verdict, error: Exception) -> None:
        cause = error.__cause__ if isinstance(error, ToolRetryError | ToolFailedError) else None
        said = cause if isinstance(cause, Exception) else error
        after = self._verbs.after(
            call_id, error=said, run_id=self._run_id, timed_out=isinstance(said.__context__, TimeoutError)
        )
        self._tell(call_id, after)
        if after.action == "abort":
            raise LoopAborted(after) from error
        note = _note(verdict)
        if note is not None:
            self._notes[call_id] = note

    def _told(self, part: Any, calls: dict[str, ToolCallPart]) -> Any:
        """A result of the last turn as the model shall read it; the guard is told of `calls`."""
        if not isinstance(part, ToolReturnPart):
            return part
        call_id = part.tool_call_id
        note = self._notes.get(call_id)
        if call_id in calls:
            verdict = self._before(calls[call_id])
            if verdict.action == "block":
                return replace(part, content=verdict.message or "refused", outcome="failed", retry=None)
            unknown = part.retry is not None and part.retry.cause == "unknown_tool"
            after = self._verbs.after(
                call_id,
                error=part.model_response_str(wrap_if_error=False),
                unknown_tool=part.tool_name if unknown else None,
                run_id=self._run_id,
            )
            self._leave(call_id, after)
            note = _note(verdict)
        if note is None:
            return part
        if isinstance(part.content, list):  # what is wrong with the arguments, one by one
            return replace(part, content=[*part.content, note])
        return replace(part, content=with_note(part.model_response_str(wrap_if_error=False), note))


def _note(verdict: Verdict) -> str | None:
    return verdict.message if verdict.action == "warn" and verdict.announce else None


def _noted(result: Any, note: str) -> Any:
    """A result with a note; one that is no text stays as it is, and the note comes along with it."""
    if type(result) is str:
        return with_note(result, note)
    if not isinstance(result, ToolReturn):
        return ToolReturn(return_value=result, content=note)
    if type(result.return_value) is str:
        return replace(result, return_value=with_note(result.return_value, note))
    content = result.content
    if content is None:
        return replace(result, content=note)
    return replace(result, content=[*([content] if isinstance(content, str) else content), note])


def _plain(result: Any) -> Any:
    """What a tool gave, without what is not for the model."""
    if not isinstance(result, ToolReturn):
        return result
    return result.return_value if result.content is None else [result.return_value, result.content]


def _newest(messages: Sequence[ModelMessage]) -> list[ModelRequest]:
    """The requests since the last reply, in order."""
    found: list[ModelRequest] = []
    for message in reversed(messages):
        if not isinstance(message, ModelRequest):
            break
        found.append(message)
    return found[::-1]


def _missed(requests: Iterable[ModelRequest]) -> set[str]:
    """Ids of the calls that they answer and that no tool hook was called for."""
    results = (part for request in requests for part in request.parts if isinstance(part, ToolReturnPart))
    return {part.tool_call_id for part in results if part.retry is not None and part.retry.cause in _MISSED}


def _calls(messages: Sequence[ModelMessage], call_ids: set[str]) -> dict[str, ToolCallPart]:
    """The calls with these ids in the last reply."""
    if not call_ids:
        return {}
    reply = next((message for message in reversed(messages) if isinstance(message, ModelResponse)), None)
    found = reply.tool_calls if reply is not None else ()
    return {call.tool_call_id: call for call in found if call.tool_call_id in call_ids}


def _interrupted(messages: Sequence[ModelMessage]) -> str | None:
    """The host's run that asked for the calls that have no result yet; `None`: there are none."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            waiting = any(call.tool_call_id not in answered for call in message.tool_calls)
            return message.run_id if waiting else None
        answered.update(part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart))
    return None


def _compactions(messages: Iterable[ModelMessage]) -> frozenset[str]:
    """The marks of compactions: each by what makes it different from another."""
    return frozenset(
        repr((part.id, part.content, part.provider_details))
        for message in messages
        for part in message.parts
        if isinstance(part, CompactionPart)
    )
