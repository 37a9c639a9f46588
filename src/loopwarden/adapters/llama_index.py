"""LlamaIndex: the guard around the steps of an agent or of a workflow of agents.

    guard = LoopGuard({"preset": "sensitive", "enabled": True})
    agent = guard_agent(FunctionAgent(tools=[...], llm=llm), guard)
    print(await agent.run("..."))

The host has no hook that may refuse a call, so the step that calls tools is wrapped, and those that begin and
end a run. An aborted run raises `LoopAborted`. A run keeps its id in the context, so that one which waits for
a person, in this process or in another, goes on as the same run.
"""

from __future__ import annotations

import functools
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from loopwarden.adapters import Abilities
from loopwarden.errors import LoopAborted, MissingExtraError

try:
    from llama_index.core.agent.workflow import (
        AgentInput,
        AgentWorkflow,
        BaseWorkflowAgent,
        ToolCall,
        ToolCallResult,
    )
    from llama_index.core.base.llms.types import MessageRole, TextBlock
    from llama_index.core.instrumentation.dispatcher import active_instrument_tags
    from llama_index.core.tools import ToolOutput
    from llama_index.core.workflow import StopEvent
    from workflows.runtime.types.results import WaitingForEvent
except ImportError as error:
    raise MissingExtraError("llama-index-core", "llama-index") from error

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.events import Verdict
    from loopwarden.guard import LoopGuard, Verbs

ABILITIES: Final = Abilities(
    host="LlamaIndex",
    package="llama-index-core>=0.14.25",
    warns="result",
    aborts="raises",
    unknown_tools="call",
    compaction="inferred",
    call_ids=True,
    run_ids=True,
    turns=True,
)

_KEPT: Final = 1024
"""Runs that are remembered, those that wait and those whose end was not seen included."""

_RUN_ID: Final = "loopwarden_run_id"
"""Where the context keeps the id of the run."""

Guarded = TypeVar("Guarded")


def guard_agent(agent: Guarded, guard: LoopGuard) -> Guarded:
    """Watch the tool calls of an agent, or of all agents of an `AgentWorkflow`, handoffs included.

    Args:
        agent: A `FunctionAgent`, a `ReActAgent`, another `BaseWorkflowAgent`, or an `AgentWorkflow`; it is
            changed in place. With another guard before, that one goes. Agents in a workflow need no guard of
            their own: the workflow calls their tools.
        guard: The guard; several agents may share it.

    Returns:
        The same agent.

    Raises:
        TypeError: It is neither an agent nor a workflow of agents.
    """
    if not isinstance(agent, BaseWorkflowAgent | AgentWorkflow):
        raise TypeError(f"an agent or an AgentWorkflow can be guarded, not a {type(agent).__name__}")
    own: Any = type(agent)
    if hasattr(own.call_tool, "guarded"):
        own = own.__mro__[1]
    watch = _Watch(guard)
    steps = {
        "init_run": _step(own.init_run, watch, watch.begin),
        "call_tool": _step(own.call_tool, watch, watch.call),
        "aggregate_tool_results": _step(own.aggregate_tool_results, watch, watch.gather),
        "run_agent_step": _step(own.run_agent_step, watch, watch.other),
        "parse_agent_output": _step(own.parse_agent_output, watch, watch.other),
    }
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__}
    made = type(own)(own.__name__, (own,), names | steps)
    made._step_functions = dict(own._step_functions)  # noqa: SLF001 - the host starts each class without
    object.__setattr__(agent, "__class__", made)  # agents are models that allow no other attributes
    return agent


def _step(own: Any, watch: _Watch, watched: Callable[..., Any]) -> Any:
    """A step as the host knows it, watched: called with itself, the agent, context and event."""
    config = own._step_config  # noqa: SLF001 - the host has no other door

    @functools.wraps(own)
    async def step(self: Any, **given: Any) -> Any:
        return await watched(
            functools.partial(own, self, **given),
            self,
            given[config.context_parameter],
            given[config.event_name],
        )

    step.guarded = watch  # type: ignore[attr-defined]  # so that a second guard takes the place of the first
    return step


@dataclass(slots=True)
class _Call:
    """A call without an outcome.

    Attributes:
        asked: The host's event.
        told_id: Its id, or one that is made up where that is empty or another open call has it.
        waits: Its tool waits for an event, and is called again with it.
    """

    asked: ToolCall
    told_id: str
    verdict: Verdict
    waits: bool = False

    def is_for(self, asked: ToolCall) -> bool:
        """Whether it waits for what is asked here."""
        ours = (self.asked.tool_id, self.asked.tool_name, self.asked.tool_kwargs)
        return self.waits and ours == (asked.tool_id, asked.tool_name, asked.tool_kwargs)


@dataclass(slots=True)
class _Run:
    """What is known of a run.

    Attributes:
        open: Calls that have no outcome yet.
        length: How long the history in the memory was when the results of calls were last gathered.
    """

    verbs: Verbs
    run_id: str
    open: list[_Call] = field(default_factory=list)
    length: int | None = None

    def before(self, asked: ToolCall, turn: int) -> _Call:
        """The call: asked about now, or before it waited."""
        for call in self.open:
            if call.is_for(asked):
                call.waits = False
                return call
        told_id = asked.tool_id
        if not told_id or any(call.told_id == told_id for call in self.open):
            told_id = uuid.uuid4().hex
        verdict = self.verbs.before(
            asked.tool_name,
            asked.tool_kwargs,
            call_id=told_id,
            run_id=self.run_id,
            turn_id=f"{self.run_id}/{turn}",
        )
        call = _Call(asked, told_id, verdict)
        self.open.append(call)
        return call

    def after(self, call: _Call, **outcome: Any) -> Verdict:
        self.open.remove(call)
        return self.verbs.after(call.told_id, run_id=self.run_id, **outcome)


@dataclass(slots=True)
class _Watch:
    """The steps of one agent, watched, and its runs by their id."""

    guard: LoopGuard
    runs: OrderedDict[str, _Run] = field(default_factory=OrderedDict)

    async def begin(self, own: Any, agent: Any, ctx: Any, event: Any) -> Any:
        """A run begins, with the id that its handler has."""
        await ctx.store.set(_RUN_ID, _run_id())
        return await own()

    async def call(self, own: Any, agent: Any, ctx: Any, asked: ToolCall) -> Any:
        """A tool is called."""
        run = await self._run(ctx)
        call = run.before(asked, await ctx.store.get("num_iterations", default=0))
        self._leave(run, call.verdict)
        if call.verdict.action == "block":
            run.open.remove(call)
            return _refused(ctx, asked, call.verdict)
        try:
            result = await own()
        except WaitingForEvent:
            call.waits = True
            raise
        except BaseException as error:
            if isinstance(error, Exception):
                run.after(call, error=error)
            self._forget(run)
            raise
        self._leave(run, run.after(call, **_outcome(result.tool_output)))
        return _noted(result, call.verdict)

    async def gather(self, own: Any, agent: Any, ctx: Any, event: Any) -> Any:
        """All results of a reply are there: the history is read for the next request, or the run ends.

        What the agents hold back until they are done moves into the memory at a handoff. Together they never
        get shorter but by a compaction.
        """
        run = await self._run(ctx)
        held = await _held(agent, ctx)
        found = await self._ended(run, own)
        if isinstance(found, AgentInput):
            length = sum(message.role != MessageRole.SYSTEM for message in found.input)
            known, run.length = run.length, length
            if known is not None and length + await _held(agent, ctx) < known + held:
                self._leave(run, run.verbs.compacted(run_id=run.run_id))
        return found

    async def other(self, own: Any, agent: Any, ctx: Any, event: Any) -> Any:
        """A step that may be the last of its run: the model is asked, or its reply is read."""
        return await self._ended(await self._run(ctx), own)

    async def _run(self, ctx: Any) -> _Run:
        run_id = await ctx.store.get(_RUN_ID, default=None)
        if run_id is None:  # it began without a guard
            run_id = _run_id()
            await ctx.store.set(_RUN_ID, run_id)
        memory = await ctx.store.get("memory", default=None)
        run = self.runs.get(run_id)
        if run is None:
            session_id = getattr(memory, "session_id", None)
            run = _Run(self.guard if session_id is None else self.guard.session(session_id), run_id)
            self.runs[run_id] = run
            if len(self.runs) > _KEPT:
                self.runs.popitem(last=False)
        return run

    async def _ended(self, run: _Run, own: Any) -> Any:
        try:
            found = await own()
        except BaseException:
            self._forget(run)
            raise
        if isinstance(found, StopEvent):
            self._forget(run)
        return found

    def _leave(self, run: _Run, verdict: Verdict) -> None:
        if verdict.action == "abort":
            self._forget(run)
            raise LoopAborted(verdict)

    def _forget(self, run: _Run) -> None:
        self.runs.pop(run.run_id, None)
        run.verbs.forget(run_id=run.run_id)


def _run_id() -> str:
    """The id of the present run, as its handler has it; made up where the host does not say."""
    return active_instrument_tags.get().get("llamaindex.run_id") or uuid.uuid4().hex


async def _held(agent: Any, ctx: Any) -> int:
    """How many messages and reasoning steps the agents hold back from the memory."""
    agents = agent.agents.values() if isinstance(agent, AgentWorkflow) else (agent,)
    names = ("scratchpad_key", "reasoning_key")
    keys = {getattr(found, name, None) for found in agents for name in names}
    return sum([len(await ctx.store.get(key, default=())) for key in keys if key is not None])


def _refused(ctx: Any, asked: ToolCall, verdict: Verdict) -> ToolCallResult:
    """The result of a call that is not made; the stream has both events, as for every call."""
    called = {"tool_name": asked.tool_name, "tool_kwargs": asked.tool_kwargs, "tool_id": asked.tool_id}
    output = ToolOutput(
        content=verdict.message or "refused",
        tool_name=asked.tool_name,
        raw_input=asked.tool_kwargs,
        is_error=True,
    )
    result = ToolCallResult(**called, tool_output=output, return_direct=False)
    ctx.write_event_to_stream(ToolCall(**called))
    ctx.write_event_to_stream(result)
    return result


def _outcome(output: ToolOutput) -> dict[str, Any]:
    """What came of a call, as the guard is told."""
    texts = all(isinstance(block, TextBlock) for block in output.blocks)
    content: Any = output.content if texts else [block.model_dump() for block in output.blocks]
    if not output.is_error:
        return {"result": content}
    if output.exception is not None:
        return {"error": output.exception}
    # The host says so in words only; a tool's own error has what it gave.
    unknown = output.raw_output is None and output.content.startswith(f"Tool {output.tool_name} not found")
    said = {"error": output.content or "failed"}
    return {**said, "unknown_tool": output.tool_name} if unknown else said


def _noted(result: ToolCallResult, verdict: Verdict) -> ToolCallResult:
    """A result with a warning as one more block; no model reads one that is the answer of the run."""
    output = result.tool_output
    last = result.return_direct and not output.is_error and result.tool_name != "handoff"
    if verdict.action != "warn" or not verdict.announce or last:
        return result
    note = TextBlock(text=verdict.message or "")
    return ToolCallResult(
        tool_name=result.tool_name,
        tool_kwargs=result.tool_kwargs,
        tool_id=result.tool_id,
        tool_output=output.model_copy(update={"blocks": [*output.blocks, note]}),
        return_direct=result.return_direct,
    )
