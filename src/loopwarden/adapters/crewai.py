"""CrewAI: the guard around everything that is kicked off in a block.

    guard = LoopGuard({"enabled": True, "warningThreshold": 2, "criticalThreshold": 3})
    with guarded(guard):
        crew.kickoff()

An aborted run raises `CrewLoopAborted`, which `except LoopAborted` catches. CrewAI itself ends a crew at the
fifth equal call with an equal result: thresholds above that never speak there.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from loopwarden.adapters import Abilities
from loopwarden.errors import MissingExtraError

try:
    from crewai.execution import get_execution_uuid
    from crewai.hooks.dispatch import InterceptionPoint, get_scoped_hooks, scoped_hooks
    from crewai.tools.tool_failure import ToolExecutionFailedError

    from loopwarden.adapters.crewai_run import CrewLoopAborted, Run, outcome_of, unseen
except ImportError as error:
    raise MissingExtraError("crewai", "crewai") from error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crewai.hooks.contexts import StepContext
    from crewai.hooks.llm_hooks import LLMCallHookContext
    from crewai.hooks.tool_hooks import ToolCallHookContext

    from loopwarden.guard import LoopGuard

__all__ = ["ABILITIES", "CrewLoopAborted", "guarded"]

ABILITIES: Final = Abilities(
    host="CrewAI",
    package="crewai>=1.15.29",
    warns="result",
    aborts="raises",
    unknown_tools="later",
    compaction="inferred",
    call_ids=False,
    run_ids=False,
    turns=True,
)

_MOST_RUNS: Final = 1000
"""Runs that one block keeps; those that were idle for longest are let go."""


class _Watch:
    """The hooks of one block, and the runs in it."""

    def __init__(self, guard: LoopGuard) -> None:
        self._guard = guard
        self._lock = threading.Lock()
        self._runs: OrderedDict[tuple[int, int], Run] = OrderedDict()

    def hooks(self) -> dict[InterceptionPoint, list[Any]]:
        """What the host calls, by the point where it does."""
        return {
            InterceptionPoint.PRE_MODEL_CALL: [self.model],
            InterceptionPoint.PRE_TOOL_CALL: [self.before],
            InterceptionPoint.POST_TOOL_CALL: [self.after],
            InterceptionPoint.POST_STEP: [self.step],
        }

    def model(self, context: LLMCallHookContext) -> None:
        """The model is asked."""
        executor = context.executor
        if executor is None:
            run = self._known(context.agent, None)
            if run is None or run.left:
                return
        else:
            run = self._of(executor, context)
            run.look(context.messages)
            for call in unseen(run, context):
                call.tell(run)
        run.replies += 1
        run.calls = 0
        run.leave()

    def before(self, context: ToolCallHookContext) -> bool | None:
        """A call; `False` refuses it."""
        run = self._known(context.agent, context.task) or self._begin(None, context)
        if run.executor is not None:
            run.look(run.executor.messages)
        call_id, verdict = run.before(context.tool_name, context.tool_input)
        run.open[id(context.tool_input)] = call_id, verdict, context.tool_input
        return False if verdict.action in ("block", "abort") else None

    def after(self, context: ToolCallHookContext) -> str | None:
        """A result; a text takes its place. A call that another hook refused was not seen yet."""
        run = self._known(context.agent, context.task) or self._begin(None, context)
        opened = run.open.pop(id(context.tool_input), None)
        call_id, verdict = opened[:2] if opened else run.before(context.tool_name, context.tool_input)
        return run.after(call_id, verdict, context.tool_result or "", outcome_of(context))

    def step(self, context: StepContext) -> None:
        """A task is over. Where a tool's result is the answer, a refusal is too: the model is not asked."""
        run = self._known(context.agent, context.task)
        if run is not None:
            run.leave()

    def leave(self, *, failed: bool) -> None:
        """The block ends: was a run ended that the host asked nothing of since?

        Args:
            failed: The host itself has ended a run; else only agents without a task are looked at, as the
                others were at the end of their tasks, and a coworker's end is the manager's business.

        Raises:
            CrewLoopAborted: One was.
        """
        for run in list(self._runs.values()):
            if not run.left and (failed or run.task is None):
                run.leave()

    def close(self) -> None:
        """The block is over."""
        while self._runs:
            self._forget(self._runs.popitem()[1])

    def _known(self, agent: Any, task: Any) -> Run | None:
        """The newest run of an agent in the present kickoff, of the task if one is given."""
        session = get_execution_uuid()
        with self._lock:
            for key, run in reversed(self._runs.items()):
                if run.agent is agent and run.session == session and (task is None or run.task is task):
                    self._runs.move_to_end(key)
                    return run
        return None

    def _of(self, executor: Any, context: LLMCallHookContext) -> Run:
        """The run of an executor. It begins with a history of its own, and goes on if a person answers."""
        run = self._runs.get((id(executor), 0))
        if run is None or run.task is not context.task or run.session != get_execution_uuid():
            return self._begin(executor, context)
        if context.iterations == 0 and run.replies:
            if not run.goes_on(context.messages):
                return self._begin(executor, context)
            run.verbs.user_message(run_id=run.run_id)
        return run

    def _begin(self, executor: Any, context: Any) -> Run:
        session = get_execution_uuid()
        verbs = self._guard if session is None else self._guard.session(session)
        agent = executor if context.agent is None else context.agent
        run = Run(verbs, session, agent, context.task, executor)
        key = (id(executor), 0) if executor is not None else (id(context.agent), id(context.task))
        with self._lock:
            over = [self._runs.pop(key, None)]
            self._runs[key] = run
            if len(self._runs) > _MOST_RUNS:
                over.append(self._runs.popitem(last=False)[1])
        for old in over:
            self._forget(old)
        return run

    def _forget(self, run: Run | None) -> None:
        if run is not None:
            run.verbs.forget(run_id=run.run_id)


@contextmanager
def guarded(guard: LoopGuard) -> Iterator[None]:
    """Guard what is kicked off in the block: crews, agents and flows, sync, async and streamed.

    An agent at work on a task is a run, with an id of its own, in the session of its kickoff. A block holds
    where its context variables are: blocks at the same time do not mix, and a thread that one starts by hand
    in a block needs a block of its own. In a block within a block the inner guard alone is asked; a scope of
    hooks that is opened in the block hides the guard.

    Args:
        guard: The guard; several blocks may share it.

    Raises:
        CrewLoopAborted: A run in the block was ended.
    """
    watch = _Watch(guard)
    hooks = watch.hooks()
    for point in InterceptionPoint:
        others = [hook for hook in get_scoped_hooks(point) if not _ours(hook)]
        if others:
            hooks[point] = [*others, *hooks.get(point, [])]
    try:
        with scoped_hooks(hooks):
            yield
        watch.leave(failed=False)
    except ToolExecutionFailedError:  # the host's own stop may come first, at equal refusals
        watch.leave(failed=True)
        raise
    finally:
        watch.close()


def _ours(hook: object) -> bool:
    return isinstance(getattr(hook, "__self__", None), _Watch)
