"""Google ADK: the guard as a plugin of the app.

    guard = LoopGuard({"enabled": True})
    app = App(name="finder", root_agent=agent, plugins=[GuardPlugin(guard), ...])

    with unwrapped():
        async for event in InMemoryRunner(app=app).run_async(...):
            ...

Put it first: a plugin that answers a call hides it from those after it. The host wraps what a plugin
raises in a `RuntimeError`; inside of `unwrapped()` an aborted run raises `LoopAborted`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from loopwarden.adapters import Abilities, with_note
from loopwarden.errors import LoopAborted, MissingExtraError

try:
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
except ImportError as error:
    raise MissingExtraError("google-adk", "adk") from error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.events import Verdict
    from loopwarden.guard import LoopGuard, Verbs

__all__ = ["ABILITIES", "GuardPlugin", "loop_aborted", "unwrapped"]

ABILITIES: Final = Abilities(
    host="Google ADK",
    package="google-adk>=2.9",
    warns="result",
    aborts="raises",
    unknown_tools="call",
    compaction="signal",
    call_ids=True,
    run_ids=True,
    turns=True,
)

_INVOCATIONS: Final = 1024
"""Invocations that are remembered: those under way, and those that wait for a person or a late result."""

_DEEPEST: Final = 100
"""How many causes of an error are looked through: each agent that is a tool of another adds a few."""


@contextmanager
def unwrapped() -> Iterator[None]:
    """Around a run of the host.

    Raises:
        LoopAborted: The guard ended the run; its cause is what the host raised.
    """
    try:
        yield
    except Exception as error:
        found = loop_aborted(error)
        if found is None:
            raise
        raise LoopAborted(found.verdict) from error


def loop_aborted(error: BaseException) -> LoopAborted | None:
    """The signal in what a run of the host raised; `None`: something else ended the run."""
    waiting = [error]
    for _ in range(_DEEPEST):
        if not waiting:
            break
        found = waiting.pop()
        if isinstance(found, LoopAborted):
            return found
        if isinstance(found, BaseExceptionGroup):  # agents that run in parallel
            waiting += found.exceptions
        if found.__cause__ is not None:
            waiting.append(found.__cause__)
    return None


_Call: TypeAlias = tuple[str | None, str]


@dataclass(slots=True)
class _Invocation:
    """What is known of one invocation.

    Attributes:
        verbs: The guard's, bound to the session.
        seen: The compactions that each run of the guard knows of.
        turns: The turn that each run is in.
        runs: All runs of the guard in it.
        open: Calls without an outcome, each with its run. A call is named by its branch and its id, as models
            that make up ids do so in each branch.
        paused: Those of them that wait for a person's word and are made again after it.
        deferred: Those of them whose result comes later.
        notes: What the model is to be told with the result of a call.
        aborted: What was raised to end it.
    """

    verbs: Verbs
    seen: dict[str, frozenset[str]] = field(default_factory=dict)
    turns: dict[str, str] = field(default_factory=dict)
    runs: set[str] = field(default_factory=set)
    open: dict[_Call, str] = field(default_factory=dict)
    paused: set[_Call] = field(default_factory=set)
    deferred: set[_Call] = field(default_factory=set)
    notes: dict[_Call, str] = field(default_factory=dict)
    aborted: LoopAborted | None = None

    def close(self, call: _Call, **outcome: Any) -> None:
        """A call ended.

        Raises:
            LoopAborted: The run goes no further.
        """
        self.deferred.discard(call)
        run_id = self.open.pop(call)
        self.obey(self.verbs.after(call[1], run_id=run_id, **outcome))

    def obey(self, verdict: Verdict, cause: BaseException | None = None) -> None:
        """End the run if that is the verdict.

        Raises:
            LoopAborted: It is.
        """
        if verdict.action == "abort":
            self.aborted = LoopAborted(verdict)
            raise self.aborted from cause


class GuardPlugin(BasePlugin):
    """Watches the tool calls of all agents of an app.

    A run of the guard is an invocation in its session; an agent on a branch of its own has a run of its own.
    A run is forgotten at its end, unless calls still wait for a person or for a result that comes later.

    Args:
        guard: Several apps may share it.
        name: Name of the plugin; each of a runner's plugins has another one.
    """

    def __init__(self, guard: LoopGuard, name: str = "loopwarden") -> None:
        super().__init__(name)
        self._guard = guard
        self._invocations: OrderedDict[tuple[str, str], _Invocation] = OrderedDict()
        self._lock = threading.Lock()  # runners may run in threads of their own

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> None:
        """A person's message may bring the result of a tool that takes long."""
        invocation = self._invocation(invocation_context)
        brought = (part.function_response for part in user_message.parts or ())
        responses = {response.id: response.response for response in brought if response is not None}
        for call in [call for call in invocation.deferred if call[1] in responses]:
            invocation.notes.pop(call, None)
            invocation.close(call, **_outcome(responses[call[1]]))

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """The run is over, or only waits."""
        if not self._invocation(invocation_context).open:
            self._end(invocation_context)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        """The run failed. Agents in parallel lose the cause of what they raise; an abort gets it back."""
        aborted = self._invocation(invocation_context).aborted
        if aborted is not None and error.__cause__ is None and str(aborted) in str(error):
            error.__cause__ = aborted
        self._end(invocation_context)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """A new turn; was the history compacted since the last one? Before a run's first it is no news."""
        invocation = self._invocation(callback_context)
        run_id = _run_id(callback_context)
        events = callback_context.session.events
        invocation.runs.add(run_id)
        invocation.turns[run_id] = f"{run_id}/{len(events)}"
        found = _compactions(events, callback_context.isolation_scope)
        news = found - invocation.seen.get(run_id, found)
        invocation.seen[run_id] = found
        if news:
            invocation.obey(invocation.verbs.compacted(run_id=run_id))

    async def before_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any
    ) -> dict[str, Any] | None:
        """May the call run? A refusal is its answer."""
        invocation = self._invocation(tool_context)
        call = _call(tool_context)
        if call in invocation.paused:
            invocation.paused.discard(call)
            return None
        run_id = _run_id(tool_context)
        invocation.runs.add(run_id)
        verdict = invocation.verbs.before(
            tool.name, tool_args, call_id=call[1], run_id=run_id, turn_id=invocation.turns.get(run_id)
        )
        invocation.obey(verdict)
        if verdict.action == "block":
            return {"error": verdict.message or "refused"}
        invocation.open[call] = run_id
        if verdict.action == "warn" and verdict.announce and verdict.message:
            invocation.notes[call] = verdict.message
        return None

    async def after_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any
    ) -> None:
        """What came of the call, unless it was refused, or failed and was told of then."""
        invocation = self._invocation(tool_context)
        call = _call(tool_context)
        if call not in invocation.open:
            return
        actions = tool_context.actions
        if call[1] in actions.requested_tool_confirmations or call[1] in actions.requested_auth_configs:
            invocation.paused.add(call)
        elif not result and tool.is_long_running:
            invocation.deferred.add(call)
        else:
            invocation.close(call, **_outcome(result))

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: BaseException
    ) -> None:
        """The call failed, there is no such tool, or the call was cancelled and never happened."""
        invocation = self._invocation(tool_context)
        call = _call(tool_context)
        aborted = loop_aborted(error)
        if aborted is not None:  # the tool is an agent, and its run was ended
            invocation.obey(aborted.verdict, error)
        if call not in invocation.open:
            return
        if isinstance(error, asyncio.CancelledError):
            invocation.verbs.retract([call[1]], run_id=invocation.open.pop(call))
            invocation.notes.pop(call, None)
            return
        unknown = tool.name if type(tool) is BaseTool else None  # the host's stand-in for a missing tool
        invocation.close(call, error=error, unknown_tool=unknown)

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
        """Results on their way to the session, from where the model reads them: warnings are added.

        The warning is written into the host's own event. A result that is given back from a callback would
        keep other plugins, and callbacks of the agent, from seeing it.
        """
        invocation = self._invocation(invocation_context)
        for response in event.get_function_responses():
            call = event.branch, response.id
            if call in invocation.notes and call not in invocation.open:
                response.response = _noted(response.response or {}, invocation.notes.pop(call))

    def _invocation(self, context: Any) -> _Invocation:
        """The invocation of a context of any kind; a new one if it is not known."""
        key = _key(context)
        with self._lock:
            found = self._invocations.get(key)
            if found is None:
                found = self._invocations[key] = _Invocation(self._guard.session(key[0]))
            self._invocations.move_to_end(key)
            if len(self._invocations) > _INVOCATIONS:
                self._invocations.popitem(last=False)
        return found

    def _end(self, context: Any) -> None:
        with self._lock:
            invocation = self._invocations.pop(_key(context), None)
        if invocation is not None:
            for run_id in invocation.runs:
                invocation.verbs.forget(run_id=run_id)


def _key(context: Any) -> tuple[str, str]:
    return context.session.id, context.invocation_id


def _call(tool_context: Any) -> _Call:
    return tool_context.branch, tool_context.function_call_id


def _run_id(context: Any) -> str:
    """The invocation, and where the agent has them its branch and its scope of the history."""
    parts = (context.invocation_id, context.branch, context.isolation_scope)
    return "/".join(part for part in parts if part)


def _compactions(events: Iterable[Any], scope: str | None) -> frozenset[str]:
    """Ids of the events that are compactions of one scope of the history."""
    return frozenset(
        event.id
        for event in events
        if event.actions.compaction is not None and event.isolation_scope == scope
    )


def _outcome(result: Any) -> dict[str, Any]:
    """A result for the guard; a dict with nothing but a text under `error` is how the host says it failed."""
    if isinstance(result, dict) and len(result) == 1 and isinstance(result.get("error"), str):
        return {"error": result["error"]}
    return {"result": result}


def _noted(response: dict[str, Any], note: str) -> dict[str, Any]:
    """A response with a note, in its text where it has one."""
    for key in ("result", "output", "error"):
        if isinstance(response.get(key), str):
            return {**response, key: with_note(response[key], note)}
    return {**response, "loop_warning": note}
