"""deepagents: tool calls of sub-agents without our middleware, as its built-in `general-purpose` is one.

deepagents makes that agent itself and takes no middleware for it. Callbacks of LangChain reach its tools all
the same: while the tool `task` runs, they tell the guard of each call in the graphs below. A refusal is
raised in the tool's place, and the node makes of it the message that the model reads.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import MissingExtraError

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.tracers.context import register_configure_hook
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt.tool_node import ToolInvocationError
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

from loopwarden.adapters.langgraph_run import leave
from loopwarden.adapters.langgraph_state import answers, noted, plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from loopwarden.events import Verdict
    from loopwarden.guard import LoopGuard, Verbs

_PACKAGE: Final = "deepagents"


class _RefusedError(ToolInvocationError):
    """The guard refuses a call; `ToolNode` shows the model the message."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self, message)
        self.message = message


class _CallsBelow(BaseCallbackHandler):
    """Guards the tool calls of the graphs that one call of a tool starts; each graph is a run of its own.

    Args:
        verbs: Who is told.
        place: Where in the graph the tool runs (LangGraph's namespace of checkpoints).
    """

    raise_error = True
    run_inline = True

    def __init__(self, verbs: Verbs, place: str) -> None:
        self._verbs = verbs
        self._below = f"{place}|"
        self._open: dict[UUID, tuple[str, str, Verdict]] = {}

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """A tool is called; without an id it is called by another tool, and not by a model."""
        known = metadata or {}
        place, call_id = known.get("langgraph_checkpoint_ns") or "", more.get("tool_call_id")
        if call_id is None or not place.startswith(self._below):
            return
        run = place.rpartition("|")[0]
        verdict = self._verbs.before(
            (serialized or {}).get("name") or "tool",
            input_str if inputs is None else inputs,
            call_id=call_id,
            run_id=run,
            turn_id=f"{run}/{known.get('langgraph_step')}",
            at=time.monotonic(),
        )
        leave(verdict)
        if verdict.action == "block":
            raise _RefusedError(verdict.message or "")
        self._open[run_id] = call_id, run, verdict

    def on_tool_end(self, output: Any, *, run_id: UUID, **more: Any) -> None:
        """A tool has answered; the message is the one that the model reads."""
        if (call := self._open.pop(run_id, None)) is None:
            return
        call_id, run, verdict = call
        answer = next(answers(output, call_id), None)
        if answer is None:
            self._ended(call_id, run, result=getattr(output, "update", None))
            return
        if answer.status == "error":
            self._ended(call_id, run, error=answer.text)
        else:
            self._ended(call_id, run, result=plain(answer.content))
        if verdict.action == "warn" and verdict.announce and verdict.message is not None:
            answer.content = noted(answer.content, verdict.message)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        """A tool failed, waits for a person (the call stays open), or was cancelled."""
        if (call := self._open.pop(run_id, None)) is None or isinstance(error, GraphBubbleUp):
            return
        call_id, run, _ = call
        verdict = self._verbs.after(call_id, error=error, run_id=run, at=time.monotonic())
        if isinstance(error, Exception):  # a cancellation goes on whatever the guard says
            leave(verdict)

    def _ended(self, call_id: str, run: str, **outcome: Any) -> None:
        leave(self._verbs.after(call_id, run_id=run, at=time.monotonic(), **outcome))


_watching: ContextVar[_CallsBelow | None] = ContextVar("loopwarden_calls_below", default=None)
register_configure_hook(_watching, inheritable=False)


@contextmanager
def calls_below(guard: LoopGuard, request: Any) -> Iterator[None]:
    """While a tool of deepagents runs: guard the calls in the graphs that it starts.

    In any other tool nothing is watched, so that an agent with a guard of its own counts once.

    Args:
        guard: The guard.
        request: The call of the tool.
    """
    info = getattr(request.runtime, "execution_info", None)
    place, thread = getattr(info, "checkpoint_ns", None), getattr(info, "thread_id", None)
    handler = None
    if place and _is_of_deepagents(request.tool):
        handler = _CallsBelow(guard if thread is None else guard.session(thread), place)
    token = _watching.set(handler)
    try:
        yield
    finally:
        _watching.reset(token)


def _is_of_deepagents(tool: Any) -> bool:
    parts = (getattr(tool, name, None) for name in ("func", "coroutine", "args_schema"))
    return any(str(getattr(part, "__module__", "")).partition(".")[0] == _PACKAGE for part in parts)
