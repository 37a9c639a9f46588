"""Microsoft Agent Framework: the guard as a middleware of the agent.

    from loopwarden import LoopGuard
    from loopwarden.adapters.agent_framework import LoopGuardMiddleware

    agent = Agent(client, tools=[...], middleware=[LoopGuardMiddleware(LoopGuard())])

It is an agent middleware that brings a function and a chat middleware of its own into each run. An aborted
run raises `AgentLoopAborted`, which `except LoopAborted` catches. Calls of unknown tools are seen before the
next request, where their results, and notes on failed calls, are rewritten.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from loopwarden.adapters import Abilities
from loopwarden.errors import LoopAborted, MissingExtraError

try:
    from agent_framework import (
        AgentMiddleware,
        ChatMiddleware,
        Content,
        FunctionMiddleware,
        MiddlewareFailure,
        MiddlewareTermination,
    )
    from agent_framework.exceptions import UserInputRequiredException
except ImportError as error:
    raise MissingExtraError("agent-framework-core", "agent-framework") from error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from agent_framework import AgentContext, ChatContext, FunctionInvocationContext, Message

    from loopwarden.events import Verdict
    from loopwarden.guard import LoopGuard, Verbs

__all__ = ["ABILITIES", "AgentLoopAborted", "LoopGuardMiddleware"]

ABILITIES: Final = Abilities(
    host="Microsoft Agent Framework",
    package="agent-framework-core>=1.19",
    warns="result",
    aborts="raises",
    unknown_tools="later",
    compaction="signal",
    call_ids=True,
    run_ids=False,
    turns=True,
)

_PAUSED: Final = 1024
"""Calls that wait for a person and are remembered, so that their runs go on as the same run."""


class AgentLoopAborted(MiddlewareFailure, LoopAborted):
    """The guard ended the run. The host lets it through where it would make a result of another exception."""

    def __init__(self, verdict: Verdict) -> None:
        LoopAborted.__init__(self, verdict)


class LoopGuardMiddleware(AgentMiddleware):
    """Asks the guard about every tool call of the agent, streamed or not.

    Each run of the agent is a run of the guard, with an id that is made up, in the session whose id the
    agent's session has; it is forgotten at its end. One that ends with requests to the user waits, and the
    run that answers them is the same to the guard.

    Args:
        guard: The guard; several agents may share it.
    """

    def __init__(self, guard: LoopGuard) -> None:
        self._guard = guard
        self._paused: OrderedDict[tuple[str | None, str | None], tuple[str, str]] = OrderedDict()

    async def process(self, context: AgentContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """One run.

        Raises:
            AgentLoopAborted: The guard ended the run.
        """
        run = self._begin(context)
        others = context.client_kwargs.get("middleware") or []
        if not isinstance(others, list | tuple):
            others = [others]
        context.client_kwargs = {
            **context.client_kwargs,
            "middleware": [_Calls(run), _Requests(run), *others],
        }
        strategy = _strategy(context)
        if strategy is not None:
            context.compaction_strategy = _Compacting(strategy, run)
        if context.stream:
            context.stream_transform_hooks.append(run.streamed)
            context.stream_cleanup_hooks.append(lambda: self._end(run))
        ended = True
        try:
            await call_next()
            ended = not context.stream
            if ended:
                run.asks(getattr(context.result, "user_input_requests", ()))
        finally:
            if ended:
                self._end(run)

    def _begin(self, context: AgentContext) -> _Run:
        session_id = None if context.session is None else context.session.session_id
        verbs: Verbs = self._guard if session_id is None else self._guard.session(session_id)
        run = _Run(verbs, uuid.uuid4().hex)
        for content in _contents(context.messages):
            if content.type in {"function_approval_response", "function_result"}:
                paused = self._paused.pop((session_id, _asked_for(content)), None)
                if paused is not None:
                    run.run_id, run.turn = paused
        return run

    def _end(self, run: _Run) -> None:
        """At the end of the run its state goes, unless it only waits for a person."""
        if not run.waiting:
            run.verbs.forget(run_id=run.run_id)
        for call_id in run.waiting:
            self._paused[run.verbs.session_id, call_id] = run.run_id, run.turn
            if len(self._paused) > _PAUSED:
                self._paused.popitem(last=False)


class _Run:
    """What is known of one run: which calls were seen, what the model is still to be told."""

    def __init__(self, verbs: Verbs, run_id: str) -> None:
        self.verbs = verbs
        self.run_id = run_id
        self.turn = uuid.uuid4().hex
        self.waiting: list[str | None] = []
        self.notes: dict[str, str] = {}
        self.asked: dict[str, Content] = {}  # calls of the newest reply that were not seen yet
        self.failed: dict[str, tuple[object, Verdict]] = {}  # those that failed: each with its context
        self.over = False

    def before(self, tool: str, arguments: object, call_id: str) -> Verdict:
        self.asked.pop(call_id, None)
        verdict = self.verbs.before(tool, arguments, call_id=call_id, run_id=self.run_id, turn_id=self.turn)
        self.leave(verdict)
        return verdict

    def after(self, call_id: str, **outcome: Any) -> Verdict:
        return self.verbs.after(call_id, run_id=self.run_id, **outcome)

    def failed_before(self, context: FunctionInvocationContext, call_id: str) -> Verdict | None:
        """What was said of this very call, if it was told to have failed; ids may name several calls."""
        tried, verdict = self.failed.get(call_id, (None, None))
        return verdict if tried is context else None

    def leave(self, verdict: Verdict, cause: Exception | None = None) -> None:
        if verdict.action == "abort":
            self.over = True
            raise AgentLoopAborted(verdict) from cause

    def replied(self, response: Any) -> None:
        """The model's reply is complete."""
        found = _contents(getattr(response, "messages", ()))
        calls = [content for content in found if content.type == "function_call"]
        self.asked = {call.call_id: call for call in calls if call.call_id is not None}

    def asks(self, requests: Iterable[Content]) -> None:
        """The user is asked for these before the run can go on."""
        self.waiting += [_asked_for(content) for content in requests]

    def streamed(self, update: Any) -> Any:
        self.asks(update.user_input_requests)
        return update


class _Calls(FunctionMiddleware):
    """Before and after a call, whatever the middleware inside of this one makes of it."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        run = self._run
        call_id: str = context.metadata["call_id"]
        verdict = run.failed_before(context, call_id)
        again = verdict is not None  # a middleware of the client stands outside
        if verdict is None:
            verdict = self._before(context, call_id)
        if verdict.action == "block":
            context.result = verdict.message or "refused"
            return
        try:
            await call_next()
        except MiddlewareTermination:  # its result stands in the context, if it has one
            self._ended(context, call_id, verdict)
            raise
        except (MiddlewareFailure, UserInputRequiredException):  # the run ends, or someone is asked first
            raise
        except Exception as error:
            if not again:
                run.failed[call_id] = context, verdict
                run.leave(run.after(call_id, error=error), error)
            note = _note(verdict)
            if note is not None:
                run.notes[call_id] = note
            raise
        except BaseException as error:  # cancelled, which goes on whatever the guard says
            if not again:
                run.after(call_id, error=error)
            raise
        self._ended(context, call_id, verdict)

    def _before(self, context: FunctionInvocationContext, call_id: str) -> Verdict:
        return self._run.before(context.function.name, dict(context.arguments), call_id)

    def _ended(self, context: FunctionInvocationContext, call_id: str, verdict: Verdict) -> None:
        result = context.result
        if isinstance(result, Content) and result.type == "function_approval_request":
            return  # someone is asked first; the call stays open
        if self._run.failed_before(context, call_id) is not None:  # what came of it last is what counts
            self._run.verbs.retract([call_id], run_id=self._run.run_id)
            self._before(context, call_id)
            del self._run.failed[call_id]
            self._run.notes.pop(call_id, None)
        self._run.leave(self._run.after(call_id, result=_plain(result)))
        note = _note(verdict)
        if note is not None:
            context.result = _noted(result, note)


class _Requests(ChatMiddleware):
    """Calls of unknown tools have got their results; notes on failed calls are added to theirs."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        run = self._run
        if not run.over:  # else the host only closes the calls of a run that was ended
            known = _names(context.options)
            for content in _newest_results(context.messages):
                self._answered(content, known)
            run.notes.clear()
            run.asked.clear()
            run.failed.clear()
        run.turn = uuid.uuid4().hex
        if context.stream:
            context.stream_result_hooks.append(run.replied)
        await call_next()
        if not context.stream:
            run.replied(context.result)

    def _answered(self, content: Content, known: frozenset[str]) -> None:
        """A result of the last turn becomes what the model shall read."""
        run = self._run
        call_id = content.call_id or ""
        note = run.notes.get(call_id)
        call = run.asked.get(call_id)
        if call is not None and call.name and call.name not in known and content.exception is not None:
            verdict = run.before(call.name, call.parse_arguments(), call_id)
            if verdict.action == "block":
                _rewrite(content, [], verdict.message or "refused")
                return
            run.leave(run.after(call_id, error=str(content.result), unknown_tool=call.name))
            note = _note(verdict)
        if note is not None:
            _rewrite(content, content.items or [], note)


class _Compacting:
    """A compaction strategy that tells the guard when it has changed the history."""

    def __init__(self, strategy: Any, run: _Run) -> None:
        self._strategy = strategy
        self._run = run
        self.__name__ = getattr(strategy, "__name__", type(strategy).__name__)  # the host logs it

    async def __call__(self, messages: list[Message]) -> bool:
        changed: bool = await self._strategy(messages)
        if changed:
            self._run.leave(self._run.verbs.compacted(run_id=self._run.run_id))
        return changed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strategy, name)


def _strategy(context: AgentContext) -> Any:
    """What compacts the history in this run: of the run, else of the agent, else of its client."""
    agent = context.agent
    given = context.compaction_strategy or getattr(agent, "compaction_strategy", None)
    return given or getattr(getattr(agent, "client", None), "compaction_strategy", None)


def _contents(messages: Iterable[Message]) -> Iterator[Content]:
    return (content for message in messages for content in message.contents)


def _asked_for(content: Content) -> str | None:
    """Id of the call that a request to the user, or the answer to one, is about."""
    return content.call_id if content.function_call is None else content.function_call.call_id


def _newest_results(messages: Iterable[Message]) -> list[Content]:
    """The results since the last reply."""
    found: list[Content] = []
    for message in reversed(list(messages)):
        if message.role == "assistant":
            break
        found = [content for content in message.contents if content.type == "function_result"] + found
    return found


def _names(options: Any) -> frozenset[str]:
    """Names of the tools that the model is shown."""
    tools = (options or {}).get("tools") or ()
    return frozenset(str(getattr(tool, "name", "")) for tool in tools)


def _note(verdict: Verdict) -> str | None:
    return verdict.message if verdict.action == "warn" and verdict.announce else None


def _plain(result: Any) -> Any:
    """What a tool gave, in plain values."""
    if not isinstance(result, list) or not all(isinstance(item, Content) for item in result):
        return result
    plain = [
        item.text if item.type == "text" else item.to_dict(exclude={"raw_representation"}) for item in result
    ]
    return plain[0] if len(plain) == 1 else plain


def _noted(result: Any, note: str) -> list[Content]:
    """A result with a note, as a list of contents, which the host leaves as it is."""
    items = Content.from_function_result("", result=result).items or []
    return [*items, Content.from_text(note)]


def _rewrite(content: Content, items: list[Content], text: str) -> None:
    """Make a result say `items` and then `text`, also in the requests that follow."""
    told = Content.from_function_result("", result=[*items, Content.from_text(text)])
    content.items, content.result = told.items, told.result
