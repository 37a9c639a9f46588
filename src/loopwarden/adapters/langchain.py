"""LangChain: the guard as a middleware of an agent, also of deepagents.

    guard = LoopGuard({"enabled": True})
    agent = create_agent(model, tools, middleware=[LoopGuardMiddleware(guard), ...])

Put it first: what stands before it sees its refusals, what stands after it (a retry of failed calls, say)
is one call to it. An aborted run raises `GraphLoopAborted`, which `except LoopAborted` catches.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from loopwarden.adapters import Abilities
from loopwarden.errors import MissingExtraError
from loopwarden.guarded import current_run

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState
    from langchain.agents.middleware.types import PrivateStateAttr
except ImportError as error:
    raise MissingExtraError("langchain", "langchain") from error

from loopwarden.adapters.langgraph import RUN_KEY, GraphLoopAborted, GuardedToolCalls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from loopwarden.guard import LoopGuard

__all__ = ["ABILITIES", "GraphLoopAborted", "LoopGuardMiddleware", "LoopGuardState"]

ABILITIES = Abilities(
    host="LangChain",
    package="langchain>=1.3",
    warns="result",
    aborts="raises",
    unknown_tools="call",
    compaction="signal",
    call_ids=True,
    run_ids=True,
    turns=True,
)


class LoopGuardState(AgentState[Any]):
    """The agent's state with the id of its run, which no input gives and no output shows."""

    loopwarden_run: NotRequired[Annotated[str, PrivateStateAttr]]  # type: ignore[valid-type]  # base unknown here


class LoopGuardMiddleware(AgentMiddleware[LoopGuardState, Any, Any]):
    """Watches the tool calls of an agent, sync and async.

    A run's id is what `with guard.run()` says, else the `run_id` of the configuration; sub-agents, and runs
    without either, get an id of their own. It stands in the state, so that a run that goes on after an
    interrupt is the same run. The thread is the session.

    Args:
        guard: The guard; several agents may share it.
    """

    state_schema = LoopGuardState

    def __init__(self, guard: LoopGuard) -> None:
        super().__init__()
        self._calls = GuardedToolCalls(guard)

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """A run begins."""
        info = runtime.execution_info
        given: str | None = current_run.get() or getattr(info, "run_id", None)
        inside = "|" in (getattr(info, "checkpoint_ns", None) or "")
        run_id = given if given is not None and not inside else uuid.uuid4().hex
        self._calls.begin(state, run_id, run_id)
        return {RUN_KEY: run_id}

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """A run begins."""
        return self.before_agent(state, runtime)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """The model is asked: was the history compacted, were calls rejected?

        Raises:
            GraphLoopAborted: The guard ended the run.
        """
        return handler(self._looked(request))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The model is asked: was the history compacted, were calls rejected?

        Raises:
            GraphLoopAborted: The guard ended the run.
        """
        return await handler(self._looked(request))

    def _looked(self, request: Any) -> Any:
        """The request, with what the guard has to say of calls that were answered without being run."""
        tools = {tool.get("name") if isinstance(tool, dict) else tool.name for tool in request.tools}
        said = self._calls.look(request.state, request.runtime, tools)
        if not said:
            return request
        return request.override(messages=[said.get(id(message), message) for message in request.messages])

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """A tool is called.

        Raises:
            GraphLoopAborted: The guard ended the run.
        """
        return self._calls.wrap_tool_call(request, handler)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """A tool is called.

        Raises:
            GraphLoopAborted: The guard ended the run.
        """
        return await self._calls.awrap_tool_call(request, handler)
