"""OpenAI Agents SDK: a runner that asks the guard.

    from loopwarden import LoopGuard
    from loopwarden.adapters.openai_agents import GuardedRunner

    runner = GuardedRunner(LoopGuard())
    result = await runner.run(agent, "...")  # run_sync and run_streamed, too; options as for Runner

Guardrails are added to the function tools and the local MCP servers of the agent, and of every agent
that it can hand off to or has as a tool; they let everything pass outside of a guarded run. Tools that
the provider runs, and the built-in computer, shell and patch tools, have no guardrails and are not seen.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections import OrderedDict
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from loopwarden.adapters import Abilities, with_note
from loopwarden.errors import MissingExtraError
from loopwarden.guarded import current_run

try:
    from agents import (
        Agent,
        FunctionTool,
        Handoff,
        RunConfig,
        RunHooks,
        Runner,
        RunState,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolOutputGuardrail,
    )
except ImportError as error:
    raise MissingExtraError("openai-agents", "openai-agents") from error

from loopwarden.adapters.openai_agents_run import AgentLoopAborted, Run, field, for_program, leave

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents import (
        ModelResponse,
        RunResult,
        RunResultStreaming,
        ToolErrorFormatterArgs,
        ToolInputGuardrailData,
        ToolOutputGuardrailData,
    )
    from agents.run_config import CallModelData, ModelInputData

    from loopwarden.guard import LoopGuard, Verbs

__all__ = ["ABILITIES", "AgentLoopAborted", "GuardedRunner", "watch"]

ABILITIES: Final = Abilities(
    host="OpenAI Agents SDK",
    package="openai-agents>=0.22.1",
    warns="result",
    aborts="raises",
    unknown_tools="later",
    compaction="signal",
    call_ids=True,
    run_ids=False,
    turns=True,
)

_current: Final[ContextVar[Run | None]] = ContextVar("loopwarden_openai_agents", default=None)
"""The guarded run that code runs in."""


class GuardedRunner:
    """Runs agents as `agents.Runner` does, with every call of a function tool told to the guard.

    A session of the host (else its conversation or group id) is a session of the guard. Each run gets
    an id, or has that of the block `guard.run()`; one that goes on from a `RunState` keeps it,
    where this runner began it. Agents as tools are runs of their own.

    Calls of unknown tools are seen where the run survives them, which takes
    `RunConfig(tool_not_found_behavior="return_error_to_model")`.
    """

    def __init__(self, guard: LoopGuard) -> None:
        self.guard = guard
        self._runs: OrderedDict[str, Run] = OrderedDict()

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002 - the host's name
        """As `Runner.run`.

        Raises:
            AgentLoopAborted: The guard ended the run.
        """
        run = self._prepared(starting_agent, input, options)
        token = _current.set(run)
        try:
            return await Runner.run(starting_agent, input, **options)
        except Exception as error:
            run.failed(error)
            raise
        finally:
            _current.reset(token)

    def run_sync(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002 - the host's name
        """As `Runner.run_sync`.

        Raises:
            AgentLoopAborted: The guard ended the run.
        """
        run = self._prepared(starting_agent, input, options)
        token = _current.set(run)
        try:
            return Runner.run_sync(starting_agent, input, **options)
        except Exception as error:
            run.failed(error)
            raise
        finally:
            _current.reset(token)

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResultStreaming:  # noqa: A002 - the host's name
        """As `Runner.run_streamed`; `AgentLoopAborted` comes out of the result's `stream_events`."""
        token = _current.set(self._prepared(starting_agent, input, options))
        try:
            return Runner.run_streamed(starting_agent, input, **options)
        finally:
            _current.reset(token)

    def _prepared(self, agent: Agent[Any], given: Any, options: dict[str, Any]) -> Run:
        """The run that begins or goes on here; makes `options` those of a guarded run."""
        watch(agent)
        run = self._continued(given)
        if run is None:
            run = Run(self._verbs(options), self._runs, current_run.get())
        managed = ("conversation_id", "previous_response_id", "auto_previous_response_id")
        run.whole = not any(options.get(name) for name in managed)
        options["hooks"] = _Hooks(run, options.get("hooks"))
        config = options.get("run_config")
        if not isinstance(config, RunConfig):
            config = dict(config or {})
            made = _hooked(config.get("tool_error_formatter"), config.get("call_model_input_filter"))
            options["run_config"] = config | made
        else:
            made = _hooked(config.tool_error_formatter, config.call_model_input_filter)
            options["run_config"] = dataclasses.replace(config, **made)
        return run

    def _verbs(self, options: dict[str, Any]) -> Verbs:
        config = options.get("run_config")
        session_id = getattr(options.get("session"), "session_id", None) or options.get("conversation_id")
        session_id = session_id or field(config, "group_id")
        return self.guard if session_id is None else self.guard.session(str(session_id))

    def _continued(self, given: Any) -> Run | None:
        if not isinstance(given, RunState):
            return None
        waiting = (field(item.raw_item, "call_id") for item in given.get_interruptions())
        return next((self._runs[name] for name in waiting if name in self._runs), None)


class _Hooks(RunHooks[Any]):
    """Hooks of a run that say what the model replied, and go on to the hooks that were given."""

    def __init__(self, run: Run, given: RunHooks[Any] | None) -> None:
        self._run = run
        self._given: RunHooks[Any] = given if given is not None else RunHooks()

    async def on_llm_start(self, *args: Any, **named: Any) -> None:
        await self._given.on_llm_start(*args, **named)

    async def on_llm_end(self, context: Any, agent: Agent[Any], response: ModelResponse) -> None:
        tools = {tool.name for tool in agent.tools if isinstance(tool, FunctionTool)}
        self._run.answered(response.output, tools)
        await self._given.on_llm_end(context, agent, response)

    async def on_agent_start(self, *args: Any, **named: Any) -> None:
        await self._given.on_agent_start(*args, **named)

    async def on_agent_end(self, context: Any, agent: Agent[Any], output: Any) -> None:
        self._run.over()
        await self._given.on_agent_end(context, agent, output)

    async def on_handoff(self, *args: Any, **named: Any) -> None:
        await self._given.on_handoff(*args, **named)

    async def on_tool_start(self, *args: Any, **named: Any) -> None:
        await self._given.on_tool_start(*args, **named)

    async def on_tool_end(self, *args: Any, **named: Any) -> None:
        await self._given.on_tool_end(*args, **named)


def _hooked(
    formatter: Callable[..., Any] | None, model_input_filter: Callable[..., Any] | None
) -> dict[str, Any]:
    """The two hooks of a run's configuration, around those that were given; inner runs inherit them."""

    async def formatted(args: ToolErrorFormatterArgs[Any]) -> str | None:
        run = _current.get()
        if run is not None and args.kind == "tool_exception" and args.error is not None:
            run.raised(args.call_id, args.error)
        message: str | None = await _maybe_awaited(formatter(args)) if formatter is not None else None
        if run is not None and args.kind == "tool_not_found":
            text = message if isinstance(message, str) else args.default_message
            return run.missing(args.tool_name, args.call_id, text)
        return message

    async def filtered(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        if model_input_filter is not None:
            given = await _maybe_awaited(model_input_filter(data))
        run = _current.get()
        items = getattr(given, "input", None)
        if run is None or not isinstance(items, list):
            return given
        noted = run.asking(data.agent, items)
        return given if noted is items else dataclasses.replace(given, input=noted)

    return {"tool_error_formatter": formatted, "call_model_input_filter": filtered}


def _asks(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    run = _current.get()
    if run is not None:
        context = data.context
        verdict = run.before(context.tool_name, context.tool_arguments, context.tool_call_id)
        leave(verdict)
        if verdict.action == "block":
            return ToolGuardrailFunctionOutput.reject_content(verdict.message or "refused")
    return ToolGuardrailFunctionOutput.allow()


def _tells(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    run = _current.get()
    if run is not None:
        run.after(data.context.tool_call_id, data.output)
    return ToolGuardrailFunctionOutput.allow()


def _notes(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    run = _current.get()
    if run is not None and type(data.output) is str and not for_program(data.context.tool_call):
        note = run.take_note(data.context.tool_call_id)
        if note is not None:
            return ToolGuardrailFunctionOutput.reject_content(with_note(data.output, note))
    return ToolGuardrailFunctionOutput.allow()


_ASKS: Final[ToolInputGuardrail[Any]] = ToolInputGuardrail(_asks, name="loopwarden")
_TELLS: Final[ToolOutputGuardrail[Any]] = ToolOutputGuardrail(_tells, name="loopwarden")
_NOTES: Final[ToolOutputGuardrail[Any]] = ToolOutputGuardrail(_notes, name="loopwarden")


@dataclasses.dataclass(frozen=True, slots=True)
class _Inside:
    """Invokes an agent as a tool: what it does belongs to a run of its own."""

    invoke: Callable[[Any, str], Any]

    async def __call__(self, context: Any, arguments: str) -> Any:
        run = _current.get()
        token = _current.set(None if run is None else run.inner(context.tool_call_id))
        try:
            return await self.invoke(context, arguments)
        finally:
            _current.reset(token)


def watch(agent: Agent[Any]) -> None:
    """Add the guardrails to an agent, and to all that it can hand off to or has as tools.

    `GuardedRunner` does it with the agent it starts. Call it for an agent that can't be found from there,
    as one that a handoff's own function makes. The agents' tools and servers are changed, once.
    """
    seen: set[int] = set()
    agents: list[Any] = [agent]
    while agents:
        one = agents.pop()
        if id(one) in seen or not isinstance(one, Agent):
            continue
        seen.add(id(one))
        for tool in one.tools:
            if not isinstance(tool, FunctionTool):
                continue
            _add_guardrails(tool)
            inner = getattr(tool, "_agent_instance", None)
            if inner is not None:
                agents.append(inner)
                if not isinstance(tool.on_invoke_tool, _Inside):
                    tool.on_invoke_tool = _Inside(tool.on_invoke_tool)
        for server in one.mcp_servers:
            _add_guardrails(server)
        for other in one.handoffs:
            known = getattr(other, "_agent_ref", None) if isinstance(other, Handoff) else None
            agents.append(known() if known is not None else other)


def _add_guardrails(owner: Any) -> None:
    """The last asks before a call runs, the first hears what came of it: others see what they saw."""
    before, after = owner.tool_input_guardrails or [], owner.tool_output_guardrails or []
    if _ASKS not in before:
        owner.tool_input_guardrails = [*before, _ASKS]
        owner.tool_output_guardrails = [_TELLS, *after, _NOTES]


async def _maybe_awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
