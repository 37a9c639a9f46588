"""Strands Agents: the guard as a hook provider of an agent.

    guard = LoopGuard({"enabled": True})
    agent = Agent(model, tools=[...], hooks=[LoopGuardHooks(guard)])

An aborted run raises `StrandsLoopAborted`, which `except LoopAborted` catches. The guard is asked before the
other hooks, and told of an outcome after them, so that a call which a hook tries again counts once; the
outcome is the one the tool gave, whatever other hooks make of it.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, WeakSet

from loopwarden.adapters import Abilities
from loopwarden.errors import LoopAborted, MissingExtraError

try:
    from strands.hooks import (
        AfterInvocationEvent,
        AfterModelCallEvent,
        AfterToolCallEvent,
        AfterToolsEvent,
        BeforeInvocationEvent,
        BeforeModelCallEvent,
        BeforeToolCallEvent,
        BeforeToolsEvent,
        HookProvider,
        MessageAddedEvent,
    )
    from strands.interventions import InterventionHandler, Proceed
    from strands.types.exceptions import ContextWindowOverflowException, EventLoopException
except ImportError as error:
    raise MissingExtraError("strands-agents", "strands") from error

if TYPE_CHECKING:
    from strands import Agent
    from strands.hooks import HookRegistry

    from loopwarden.events import Verdict
    from loopwarden.guard import LoopGuard, Verbs

ABILITIES: Final = Abilities(
    host="Strands Agents",
    package="strands-agents>=1.54",
    warns="result",
    aborts="raises",
    unknown_tools="call",
    compaction="signal",
    call_ids=True,
    run_ids=False,
    turns=True,
)

_FIRST: Final = -math.inf
_LAST: Final = math.inf

_PAUSES: Final = frozenset({"interrupt", "checkpoint"})
"""Reasons to stop after which the next invocation goes on with the same reply."""

_DONE: Final = frozenset({"end_turn", "stop_sequence"})
"""Reasons to stop after which the host may go on by itself."""


class StrandsLoopAborted(LoopAborted, EventLoopException):
    """The guard ended the run. Strands lets it through where it would wrap another exception.

    Attributes:
        original_exception: The same signal, as a plain `LoopAborted`.
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict)
        self.original_exception = LoopAborted(verdict)


@dataclass(slots=True)
class _Call:
    """A call without a final outcome: what the guard said, and what came of the newest attempt."""

    verdict: Verdict
    outcome: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Run:
    """What is known of a run.

    Attributes:
        removed: How many messages the conversation manager had removed when the model was last asked.
        length: How long the history was when the run began or the model was asked, and what came since.
        replies: How often the model was asked.
        asked: Calls of the newest reply that no hook was called for yet; `None`: the reply was not read.
        open: Calls by their id.
        overflowed: The newest request was too long for the model.
        ended: The verdict that ends the run as soon as the host can end it.
        goes_on: The next invocation of the agent belongs to this run.
    """

    verbs: Verbs
    run_id: str
    removed: int
    length: int
    replies: int = 0
    asked: dict[str, Any] | None = None
    open: dict[str, _Call] = field(default_factory=dict)
    overflowed: bool = False
    ended: Verdict | None = None
    goes_on: bool = False

    def before(self, tool_use: Any) -> Verdict:
        """Ask the guard.

        Raises:
            StrandsLoopAborted: It ends the run.
        """
        verdict = self.verbs.before(
            tool_use["name"],
            tool_use["input"],
            call_id=tool_use["toolUseId"],
            run_id=self.run_id,
            turn_id=f"{self.run_id}/{self.replies}",
        )
        if verdict.action == "abort":
            self.asked = None
            raise StrandsLoopAborted(verdict)
        return verdict

    def after(self, call_id: str, outcome: dict[str, Any]) -> None:
        """Tell the guard; where it ends the run, that is done at the end of the batch."""
        verdict = self.verbs.after(call_id, run_id=self.run_id, **outcome)
        if verdict.action == "abort":
            self.ended = verdict

    def leave(self) -> None:
        """End the run if it is to be ended.

        Raises:
            StrandsLoopAborted: It is.
        """
        if self.ended is not None:
            raise StrandsLoopAborted(self.ended)


class LoopGuardHooks(HookProvider):
    """Watches the tool calls that models ask for, sync, async and streamed.

    An invocation of an agent is a run, with an id of its own; one that goes on after an interrupt or a
    checkpoint, with the results of calls in the background, or because a hook said `resume`, is the same run,
    if the agent is the same object. The session is the agent's `session_id`. Sub-agents are guarded where
    they have the hooks too; those that the host makes itself get them by `inherited`.

    Args:
        guard: The guard; several agents may share it, and this provider.
    """

    def __init__(self, guard: LoopGuard) -> None:
        self._guard = guard
        self._runs: WeakKeyDictionary[Agent, _Run] = WeakKeyDictionary()
        self._registries: WeakSet[HookRegistry] = WeakSet()

    def inherited(self) -> InterventionHandler:
        """Brings the hooks to the agents that the host makes for its tools `subagent` and `swarm`.

        Returns:
            One for `Agent(interventions=[...])`; these agents get the interventions of the one above them,
            but not its hooks.
        """
        return _Inherited(self)

    def join(self, agent: Agent) -> None:
        """Add the hooks to an agent, if it has not got them."""
        if agent.hooks not in self._registries:
            agent.hooks.add_hook(self)

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """The host asks for the hooks."""
        self._registries.add(registry)
        registry.add_callback(BeforeInvocationEvent, self._begin, order=_FIRST)
        registry.add_callback(MessageAddedEvent, self._grow, order=_FIRST)
        registry.add_callback(BeforeModelCallEvent, self._look, order=_LAST)
        registry.add_callback(AfterModelCallEvent, self._overflow, order=_LAST)
        registry.add_callback(BeforeToolsEvent, self._read, order=_FIRST)
        registry.add_callback(BeforeToolCallEvent, self._before, order=_FIRST)
        registry.add_callback(AfterToolCallEvent, self._outcome, order=_FIRST)
        registry.add_callback(AfterToolCallEvent, self._after, order=_LAST)
        registry.add_callback(AfterToolsEvent, self._leave, order=_LAST)
        registry.add_callback(AfterInvocationEvent, self._end, order=_LAST)

    def _run(self, agent: Agent) -> _Run:
        """The agent's run; hooks that are added to an agent at work begin one."""
        run = self._runs.get(agent)
        if run is None:
            verbs = self._guard.session(agent.session_id)
            run = _Run(verbs, uuid.uuid4().hex, _removed(agent), len(agent.messages))
            self._runs[agent] = run
        return run

    def _begin(self, event: BeforeInvocationEvent) -> None:
        run = self._runs.get(event.agent)
        if run is not None and not run.goes_on:
            del self._runs[event.agent]
        self._run(event.agent).goes_on = False

    def _end(self, event: AfterInvocationEvent) -> None:
        run = self._run(event.agent)
        run.goes_on = _goes_on(event)
        if not run.goes_on:
            del self._runs[event.agent]
            run.verbs.forget(run_id=run.run_id)

    def _grow(self, event: MessageAddedEvent) -> None:
        run = self._runs.get(event.agent)
        if run is not None:
            run.length += 1

    def _look(self, event: BeforeModelCallEvent) -> None:
        """The model is asked: was the history compacted?"""
        run = self._run(event.agent)
        run.leave()
        removed, length = _removed(event.agent), len(event.agent.messages)
        compacted = run.overflowed or removed > run.removed or length < run.length
        run.removed, run.length, run.overflowed = removed, length, False
        run.asked = None
        run.replies += 1
        if compacted:
            verdict = run.verbs.compacted(run_id=run.run_id)
            if verdict.action == "abort":
                raise StrandsLoopAborted(verdict)

    def _overflow(self, event: AfterModelCallEvent) -> None:
        """If the model is asked again after this, the host has made the history shorter."""
        overflowed = isinstance(event.exception, ContextWindowOverflowException)
        self._run(event.agent).overflowed = overflowed and not event.retry

    def _read(self, event: BeforeToolsEvent) -> None:
        """What the model asked for; not again where the rest of a batch is run after an interrupt."""
        run = self._run(event.agent)
        if run.asked is None:
            calls = [block["toolUse"] for block in event.message["content"] if "toolUse" in block]
            run.asked = {call["toolUseId"]: call for call in calls}

    def _before(self, event: BeforeToolCallEvent) -> None:
        if "event_loop_cycle_id" not in event.invocation_state:
            return  # called by code, as `agent.tool.name()`
        run = self._run(event.agent)
        call_id = event.tool_use["toolUseId"]
        call = run.open.get(call_id)
        if call is None:
            call = _Call(run.before(event.tool_use))
            run.open[call_id] = call
            if run.asked is not None:
                run.asked.pop(call_id, None)
        if call.verdict.action == "block":
            event.cancel_tool = call.verdict.message or "refused"

    def _outcome(self, event: AfterToolCallEvent) -> None:
        """What the tool gave, before other hooks change it."""
        run = self._runs.get(event.agent)
        call = run.open.get(event.tool_use["toolUseId"]) if run is not None else None
        if call is not None:
            call.outcome = _outcome(event.result, event.exception)
            if event.selected_tool is None and event.cancel_message is None and event.exception is not None:
                call.outcome["unknown_tool"] = event.tool_use["name"]

    def _after(self, event: AfterToolCallEvent) -> None:
        """The call is over, unless it is tried again; a refused one has no outcome."""
        run = self._runs.get(event.agent)
        if run is None or (event.retry and event.cancel_message is None):
            return
        call_id = event.tool_use["toolUseId"]
        call = run.open.pop(call_id, None)
        if call is None or call.verdict.action == "block":
            return
        run.after(call_id, call.outcome)
        event.result = _noted(event.result, call.verdict)

    def _leave(self, event: AfterToolsEvent) -> None:
        """The end of a batch; calls with a name that can't be one have got their results without a hook."""
        run = self._run(event.agent)
        for block in event.message["content"]:
            result = block["toolResult"]
            tool_use = run.asked.pop(result["toolUseId"], None) if run.asked else None
            if tool_use is None:
                continue
            verdict = run.before(tool_use)
            if verdict.action == "block":
                block["toolResult"] = {**result, "content": [{"text": verdict.message or "refused"}]}
                continue
            run.after(tool_use["toolUseId"], _outcome(result, None))
            block["toolResult"] = _noted(result, verdict)
        run.leave()


class _Inherited(InterventionHandler):
    """Adds the hooks to each agent that has this intervention."""

    def __init__(self, hooks: LoopGuardHooks) -> None:
        self._hooks = hooks

    @property
    def name(self) -> str:
        """What the host calls it."""
        return "loopwarden"

    def before_invocation(self, event: BeforeInvocationEvent, **kwargs: Any) -> Proceed:
        """An agent begins."""
        self._hooks.join(event.agent)
        return Proceed()


def _goes_on(event: AfterInvocationEvent) -> bool:
    """Whether the next invocation is a part of this one."""
    if event.result is None:  # it failed
        return False
    reason = event.result.stop_reason
    if reason in _PAUSES or event.resume is not None:
        return True
    # The host has no other sign that it goes on by itself with what came of calls in the background.
    return reason in _DONE and getattr(event, "_continuation_state", None) is not None


def _removed(agent: Agent) -> int:
    """How many messages the conversation manager has removed; one of the user's own may not count."""
    removed: int = getattr(agent.conversation_manager, "removed_message_count", 0)
    return removed


def _noted(result: Any, verdict: Verdict) -> Any:
    """A result with a warning as one more block."""
    if verdict.action != "warn" or not verdict.announce or _blocks(result) is None:
        return result
    return {**result, "content": [*result["content"], {"text": verdict.message or ""}]}


def _outcome(result: Any, exception: Exception | None) -> dict[str, Any]:
    """A result as the guard is told: without the call's id, and as text where it is text only."""
    if exception is not None:
        return {"error": exception}
    content: Any = _blocks(result)
    if content is None:
        return {"result": result}
    if all(isinstance(block, dict) and block.keys() == {"text"} for block in content):
        content = "\n".join(str(block["text"]) for block in content)
    if result.get("status") == "error":
        return {"error": content if isinstance(content, str) else repr(content)}
    return {"result": content}


def _blocks(result: Any) -> list[Any] | None:
    """The blocks of a result; `None` for what a tool of one's own gives in another shape."""
    content = result.get("content") if isinstance(result, dict) else None
    return content if isinstance(content, list) else None
