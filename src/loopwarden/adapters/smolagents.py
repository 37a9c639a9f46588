"""smolagents: the guard in an agent, a `ToolCallingAgent` or a `CodeAgent`.

    agent = guard_agent(CodeAgent(tools=[...], model=...), LoopGuard())

For a `CodeAgent` a step of code is a call of `python_interpreter`, as the host names it, and the tools that
the code calls are calls too, of the same turn. What came of those is what counts: a step that called tools
is rolled back when it is over, since a step between any two of their calls would hide a loop. An aborted run
raises `LoopAborted`, when the step is in the agent's memory. Warnings stand at the end of the step's
observations, so that no result changes.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

from loopwarden.adapters import Abilities, with_note
from loopwarden.errors import LoopAborted, MissingExtraError

try:
    from smolagents import LocalPythonExecutor, MultiStepAgent, PythonExecutor
    from smolagents.agent_types import AgentImage, AgentText
    from smolagents.local_python_executor import CodeOutput
except ImportError as error:
    raise MissingExtraError("smolagents", "smolagents") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from smolagents import ActionStep

    from loopwarden.events import Verdict
    from loopwarden.guard import LoopGuard

__all__ = ["ABILITIES", "CallRefused", "guard_agent"]

ABILITIES: Final = Abilities(
    host="smolagents",
    package="smolagents>=1.26",
    warns="result",
    aborts="raises",
    unknown_tools="call",
    compaction="no",
    call_ids=False,
    run_ids=False,
    turns=True,
)

_CODE: Final = "python_interpreter"
"""The host's own name for a step of code."""

_ANSWER: Final = "final_answer"
"""The tool that ends a run. It is no work, and a refusal in its place would be the run's answer."""

Agent = TypeVar("Agent", bound="MultiStepAgent")


class CallRefused(Exception):  # noqa: N818 - a signal, not a fault
    """What code of a `CodeAgent` meets when it calls a tool and the guard refuses; the message says why."""


class _Ended(BaseException):
    """The guard ends the run. Neither the code of a model nor the host catches it."""


def guard_agent(agent: Agent, guard: LoopGuard) -> Agent:
    """Let the guard watch the tool calls that an agent's model asks for.

    Each `run` is a run, with an id that is made up. Managed agents have runs of their own, and are guarded
    where they were given here too. Given again, an agent has the newer guard.

    Args:
        agent: It is changed: `run`, `execute_tool_call` and `python_executor` of this object are wrapped.
        guard: The guard; several agents may share it.

    Returns:
        The same agent.
    """
    watch = _Watch(agent, guard)
    agent.run = watch.run
    agent._step_stream = watch.step  # noqa: SLF001 - the host names no other place around a whole step
    if hasattr(agent, "execute_tool_call"):
        agent.execute_tool_call = watch.execute
    executor = getattr(agent, "python_executor", None)
    if executor is not None:
        inner = executor.inner if isinstance(executor, _Executor) else executor
        agent.python_executor = _Executor(inner, watch)
    return agent


@dataclass(slots=True)
class _Run:
    """What is known of a run.

    Attributes:
        turn: Id of the present step; `None` between steps, when calls are not the model's.
        notes: What the model is to be told with the observations of the step.
        inside: How many tools code called in the step.
        failed: One of them failed, or was refused.
        refusals: What was said in the step to code that called tools.
        ended: The verdict that ends the run.
    """

    guard: LoopGuard
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    turn: str | None = None
    notes: list[str] = field(default_factory=list)
    inside: int = 0
    failed: bool = False
    refusals: list[str] = field(default_factory=list)
    ended: Verdict | None = None

    def before(self, tool: str, arguments: object) -> tuple[str, Verdict]:
        """Ask the guard.

        Returns:
            The call's id, and the verdict.

        Raises:
            _Ended: The guard ends the run.
        """
        call_id = uuid.uuid4().hex
        verdict = self.guard.before(tool, arguments, call_id=call_id, run_id=self.run_id, turn_id=self.turn)
        if verdict.action == "abort":
            self.ended = verdict
            raise _Ended
        if verdict.action == "warn" and verdict.announce:
            self.notes.append(verdict.message or "")
        return call_id, verdict

    def after(self, call_id: str, **outcome: Any) -> None:
        """Tell the guard; where it ends the run, that is done at the end of the step."""
        verdict = self.guard.after(call_id, run_id=self.run_id, **outcome)
        if verdict.action == "abort":
            self.ended = verdict

    def leave(self, cause: BaseException | None = None) -> None:
        """End the run if it is to be ended.

        Raises:
            LoopAborted: It is.
        """
        if self.ended is not None:
            raise LoopAborted(self.ended) from cause


class _Watch:
    """The guard in one agent."""

    def __init__(self, agent: MultiStepAgent, guard: LoopGuard) -> None:
        self._agent = agent
        self._kind: Any = type(agent)
        self._guard = guard
        self._run = _Run(guard)

    @property
    def active(self) -> _Run | None:
        """The run whose model asks for calls now; `None` if calls are made by someone else."""
        return self._run if self._run.turn is not None else None

    def run(self, *args: Any, **options: Any) -> Any:
        """`MultiStepAgent.run`."""
        self._run = run = _Run(self._guard)
        streamed = None
        try:
            result = self._kind.run(self._agent, *args, **options)
            if isinstance(result, Generator):
                streamed = self._streamed(result, run)
                return streamed
            return result
        finally:
            if streamed is None:
                self._guard.forget(run_id=run.run_id)

    def _streamed(self, steps: Generator[Any], run: _Run) -> Iterator[Any]:
        try:
            yield from steps
        finally:
            self._guard.forget(run_id=run.run_id)

    def step(self, memory_step: ActionStep) -> Iterator[Any]:
        """`_step_stream`: one reply of the model, and the calls that it asks for.

        Raises:
            LoopAborted: The guard ended the run.
        """
        run = self._run
        run.turn = f"{run.run_id}/{memory_step.step_number}"
        try:
            yield from self._kind._step_stream(self._agent, memory_step)  # noqa: SLF001 - as above
            run.leave()
        except _Ended:
            run.leave()
        except Exception as error:
            run.leave(error)
            self._tell(run, memory_step, str(error))
            raise
        else:
            self._tell(run, memory_step, "")
        finally:
            run.turn = None
            run.inside, run.failed = 0, False
            run.notes.clear()
            run.refusals.clear()

    @staticmethod
    def _tell(run: _Run, memory_step: ActionStep, error: str) -> None:
        """Put the warnings into the observations, and refusals that code kept to itself."""
        shown = f"{memory_step.observations or ''}\n{error}"
        hidden = [message for message in run.refusals if message not in shown]
        for note in dict.fromkeys([*run.notes, *hidden]):
            observed = memory_step.observations
            memory_step.observations = with_note(observed, note) if observed else note

    def execute(self, tool_name: str, arguments: Any) -> Any:
        """`ToolCallingAgent.execute_tool_call`: one call, which may be one of several at once."""
        run = self.active
        if run is None or tool_name == _ANSWER:
            return self._kind.execute_tool_call(self._agent, tool_name, arguments)
        known = tool_name in self._agent.tools or tool_name in self._agent.managed_agents
        call_id, verdict = run.before(tool_name, arguments)
        if verdict.action == "block":
            return verdict.message or "refused"
        try:
            result = self._kind.execute_tool_call(self._agent, tool_name, arguments)
        except Exception as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            run.after(call_id, error=cause, unknown_tool=None if known else tool_name)
            raise
        run.after(call_id, result=_plain(result))
        return result


class _Executor(PythonExecutor):
    """The executor of a `CodeAgent`: a step of code is a call, and in this process the tools in it are."""

    def __init__(self, inner: PythonExecutor, watch: _Watch) -> None:
        self.inner = inner
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Go to the executor inside."""
        self.inner.send_variables(variables)

    def send_tools(self, tools: dict[str, Any]) -> None:
        """Go to the executor inside; one in another place gets the tools' source, not these objects."""
        if isinstance(self.inner, LocalPythonExecutor):
            tools = {
                name: tool if name == _ANSWER else _tool(name, tool, self._watch)
                for name, tool in tools.items()
            }
        self.inner.send_tools(tools)

    def __call__(self, code_action: str) -> CodeOutput:
        """One step of code."""
        run = self._watch.active
        if run is None:
            return self.inner(code_action)
        call_id, verdict = run.before(_CODE, code_action)
        if verdict.action == "block":
            return CodeOutput(output=verdict.message or "refused", logs="", is_final_answer=False)
        try:
            result = self.inner(code_action)
        except Exception as error:
            if run.failed:
                run.guard.retract([call_id], run_id=run.run_id)
            else:
                run.after(call_id, error=error)
            raise
        if run.inside:
            run.guard.retract([call_id], run_id=run.run_id)
        else:
            run.after(call_id, result=f"{result.logs}\n{result.output}")
        return result


def _tool(name: str, tool: Any, watch: _Watch) -> Callable[..., Any]:
    """A tool, or a managed agent, as the code of a model calls it.

    The host shows the code a function with the tool's attributes; so is this one.
    """

    @wraps(tool)
    def call(*args: Any, **options: Any) -> Any:
        run = watch.active
        if run is None:
            return tool(*args, **options)
        run.inside += 1
        call_id, verdict = run.before(name, _arguments(tool, args, options))
        if verdict.action == "block":
            message = verdict.message or "refused"
            run.failed = True
            run.refusals.append(message)
            raise CallRefused(message)
        try:
            result = tool(*args, **options)
        except Exception as error:
            run.failed = True
            run.after(call_id, error=error)
            raise
        run.after(call_id, result=_plain(result))
        return result

    return call


def _arguments(tool: Any, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """By name, as far as the tool names them; one dictionary of them is taken apart, as the host does."""
    names = list(getattr(tool, "inputs", ()))
    if len(args) == 1 and not options and isinstance(args[0], dict) and args[0].keys() <= set(names):
        return args[0]
    more = {str(at): value for at, value in enumerate(args[len(names) :], len(names))}
    return {**dict(zip(names, args, strict=False)), **more, **options}


def _plain(result: Any) -> Any:
    """A result as the guard is told: the host's own kind of text as text, a picture with its pixels."""
    if isinstance(result, AgentText):
        return str(result)
    try:
        picture = result.to_raw() if isinstance(result, AgentImage) else result
        if type(picture).__module__.startswith("PIL."):
            return [picture.mode, picture.size, picture.tobytes()]
    except Exception:  # noqa: BLE001 - a picture that can't be read is still the tool's result
        return result
    return result
