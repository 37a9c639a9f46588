"""LangGraph: the guard around the tool calls of a `ToolNode`.

    guarded = GuardedToolCalls(LoopGuard({"enabled": True}))
    node = ToolNode(
        tools,
        wrap_tool_call=guarded.wrap_tool_call,
        awrap_tool_call=guarded.awrap_tool_call,
        handle_tool_errors=True,
    )

An aborted run raises `GraphLoopAborted`, whatever `handle_tool_errors` says; `except LoopAborted` catches it.
For LangChain's agents see `loopwarden.adapters.langchain`, which builds on this.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from loopwarden.adapters import Abilities
from loopwarden.errors import MissingExtraError
from loopwarden.events import ALLOW
from loopwarden.guarded import current_run, is_stop

try:
    from langchain_core.messages import ToolMessage
    from langgraph.errors import GraphBubbleUp
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

from loopwarden.adapters.langgraph_below import calls_below
from loopwarden.adapters.langgraph_run import GraphLoopAborted, Run, leave
from loopwarden.adapters.langgraph_state import (
    answered_calls,
    answers,
    call_of,
    extent_of,
    invocation_of,
    is_asked_once,
    is_shrunken,
    is_taken_up,
    mark_of,
    messages_of,
    noted,
    own_messages,
    plain,
    replaced,
    turn_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from langgraph.prebuilt.tool_node import ToolCallRequest

    from loopwarden.adapters.langgraph_run import Key
    from loopwarden.adapters.langgraph_state import Mark
    from loopwarden.events import Verdict
    from loopwarden.guard import LoopGuard, Verbs

__all__ = ["ABILITIES", "RUN_KEY", "GraphLoopAborted", "GuardedToolCalls"]

ABILITIES = Abilities(
    host="LangGraph (ToolNode)",
    package="langgraph>=1.2",
    warns="result",
    aborts="raises",
    unknown_tools="call",
    compaction="inferred",
    call_ids=True,
    run_ids=True,
    turns=True,
)

RUN_KEY: Final = "loopwarden_run"
"""Where the agent's state names its run, if the middleware put it there."""

_MAX_KEYS: Final = 20_000
"""Names of runs that are kept: at most three a run."""

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A call that was asked for: the run it belongs to, and what the guard said."""

    verbs: Verbs
    run: Run
    call_id: str
    turn: str | None
    verdict: Verdict


class GuardedToolCalls:
    """Asks the guard before a tool runs and tells it what came of it.

    The thread is the session. A run is what `with guard.run()` says, else the `run_id` of the configuration;
    without either, runs are told apart by the person's newest message, and by the invocation where messages
    have no ids. A call that the graph runs again, after an interrupt or a failure, counts once, with its last
    outcome. A new summary in the messages, or a history that became shorter, is a compaction.

    Args:
        guard: The guard.
    """

    def __init__(self, guard: LoopGuard) -> None:
        self._guard = guard
        self._runs: OrderedDict[Key, Run] = OrderedDict()
        self._lock = threading.RLock()

    def wrap_tool_call(self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        """For `ToolNode(wrap_tool_call=...)`.

        Raises:
            GraphLoopAborted: The guard ended the run.
        """
        call = self._asked(request)
        if call.verdict.action == "block":
            return _refusal(request, call.verdict)
        try:
            with calls_below(self._guard, request):
                result = execute(request)
        except GraphBubbleUp:  # an interrupt: the call is open until it is taken up again
            raise
        except Exception as error:
            self._ended(call, request, error=error)
            raise
        except BaseException as error:
            self._cut_off(call, request, error)
            raise
        return self._answered(call, request, result)

    async def awrap_tool_call(
        self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """For `ToolNode(awrap_tool_call=...)`.

        Raises:
            GraphLoopAborted: The guard ended the run.
        """
        call = self._asked(request)
        if call.verdict.action == "block":
            return _refusal(request, call.verdict)
        try:
            with calls_below(self._guard, request):
                result = await execute(request)
        except GraphBubbleUp:  # an interrupt: the call is open until it is taken up again
            raise
        except Exception as error:
            self._ended(call, request, error=error)
            raise
        except BaseException as error:
            self._cut_off(call, request, error)
            raise
        return self._answered(call, request, result)

    def begin(self, state: Any, key: str, run_id: str) -> None:
        """A run begins that its state names `key`; a summary in its history is no compaction of this run.

        Args:
            state: The state at the beginning.
            key: What stands under `RUN_KEY` in the state from now on.
            run_id: The run's id for the guard.
        """
        messages = messages_of(state)
        with self._lock:
            past = answered_calls(messages)[0] or ""
            self._keep(key, Run(run_id, mark_of(state, messages), extent_of(messages), past=past))

    def look(self, state: Any, runtime: Any, tools: Collection[object] = ()) -> dict[int, Any]:
        """Before the model is asked: was the history compacted, were calls answered that never ran?

        Args:
            state: The state.
            runtime: What the graph gives its nodes.
            tools: Names of the tools whose calls count if something else than the tool has answered them.

        Returns:
            By `id` of an answer: another one, with what the guard has to say of the call.

        Raises:
            GraphLoopAborted: The guard ended the run.
        """
        messages = messages_of(state)
        with self._lock:
            verbs, run = self._seen(state, runtime)
            return run.not_run(verbs, messages, tools)

    def _asked(self, request: ToolCallRequest) -> _Call:
        asked = request.tool_call
        call_id = asked["id"] or f"call-{next(_numbers)}"
        messages = messages_of(request.state, call_id)
        info = getattr(request.runtime, "execution_info", None)
        turn = turn_of(messages, call_id) or getattr(info, "checkpoint_id", None)
        with self._lock:
            verbs, run = self._seen(request.state, request.runtime, call_id)
            run.turned(turn)
            verdict = run.verdicts.get(call_id)
            if verdict is None:
                if is_taken_up(request.runtime) and is_asked_once(messages, call_id):  # told elsewhere, maybe
                    verbs.retract([call_id], run_id=run.name)
                verdict = self._told(verbs, run, request, call_id, turn)
                run.verdicts[call_id] = verdict
        leave(verdict)
        return _Call(verbs=verbs, run=run, call_id=call_id, turn=turn, verdict=verdict)

    def _told(
        self, verbs: Verbs, run: Run, request: ToolCallRequest, call_id: str, turn: str | None
    ) -> Verdict:
        tool, arguments = call_of(request)
        now = time.monotonic()
        return verbs.before(tool, arguments, call_id=call_id, run_id=run.name, turn_id=turn, at=now)

    def _seen(self, state: Any, runtime: Any, call_id: str | None = None) -> tuple[Verbs, Run]:
        """The run and who is told of it; a compaction since it was seen last is told."""
        info = getattr(runtime, "execution_info", None)
        thread = getattr(info, "thread_id", None)
        verbs: Verbs = self._guard.session(thread) if thread is not None else self._guard
        messages = messages_of(state, call_id)
        mark = mark_of(state, messages)
        run, compacted = self._found(state, runtime, thread, messages, mark)
        compacted = compacted or mark != run.mark or is_shrunken(run.extent, messages)
        run.mark, run.extent = mark, extent_of(messages)
        if compacted:
            leave(verbs.compacted(run_id=run.name, at=time.monotonic()))
        return verbs, run

    def _found(
        self, state: Any, runtime: Any, thread: str | None, messages: list[Any], mark: Mark
    ) -> tuple[Run, bool]:
        """The run, and whether it goes on although the message that it began with is gone."""
        named: str | None = state.get(RUN_KEY) if isinstance(state, Mapping) else None
        if named is not None:
            return self._runs.get(named) or self._keep(named, Run(named, mark, extent_of(messages))), False
        info = getattr(runtime, "execution_info", None)
        place = (getattr(info, "checkpoint_ns", None) or "").rpartition("|")[0]
        given = current_run.get() or getattr(info, "run_id", None)
        replies, asked = ([], None) if given is not None else own_messages(messages)
        person = given or getattr(asked, "id", None)
        keys: list[Key] = [(thread, place, own) for own in (*replies, person) if own is not None]
        run = next((self._runs[key] for key in keys if key in self._runs), None)
        if person is None:
            invocation: Key = (thread, place, invocation_of(runtime))
            newest: Key = (thread, place, None)
            keys += [invocation] if thread is None else [invocation, newest]
            if asked is None and run is not None and run.person is None:
                run = None  # these may be replies to another invocation
            run = run or self._runs.get(invocation)
            if run is None and is_taken_up(runtime):
                run = self._runs.get(newest)
        if run is None:
            name = person or (replies[-1] if replies and asked is not None else uuid.uuid4().hex)
            run = Run(f"{place}/{name}" if place else name, mark, extent_of(messages), person=person)
        gone, run.person = run.person != person, person
        for key in keys[len(replies) :]:
            self._keep(key, run)
        if replies and keys[0] != run.newest:
            if run.newest is not None:
                self._runs.pop(run.newest, None)
            run.newest = keys[0]
            self._keep(keys[0], run)
        return run, gone

    def _keep(self, key: Key, run: Run) -> Run:
        self._runs[key] = run
        self._runs.move_to_end(key)
        if len(self._runs) > _MAX_KEYS:
            self._runs.popitem(last=False)
        return run

    def _answered(self, call: _Call, request: ToolCallRequest, result: Any) -> Any:
        """The result for the model, after the guard was told of it."""
        answer = next(answers(result, call.call_id), None)
        if answer is None:
            self._ended(call, request, result=getattr(result, "update", None))
            return result
        if answer.status == "error":
            missing = request.tool_call["name"] if request.tool is None else None
            self._ended(call, request, error=answer.text, unknown_tool=missing)
        else:
            self._ended(call, request, result=plain(answer.content), said=answer.text)
        verdict = call.verdict
        if verdict.action != "warn" or not verdict.announce or verdict.message is None:
            return result
        content = noted(answer.content, verdict.message)
        return replaced(result, answer, answer.model_copy(update={"content": content}))

    def _ended(self, call: _Call, request: ToolCallRequest, *, said: str = "", **outcome: Any) -> None:
        """Tell what came of a call, and leave if that ends the run."""
        leave(self._after(call, request, said, outcome))

    def _after(self, call: _Call, request: ToolCallRequest, said: str, outcome: dict[str, Any]) -> Verdict:
        """Tell what came of a call; where the graph ran it again, in the place of what was told before."""
        verbs, run, call_id = call.verbs, call.run, call.call_id
        new = hash(("error" in outcome, said))
        with self._lock:
            known = run.ended.get(call_id)
            if known == new:
                return ALLOW
            if run.verdicts.get(call_id) is call.verdict:
                run.ended[call_id] = new
            if known is not None:
                verbs.retract([call_id], run_id=run.name)
                self._told(verbs, run, request, call_id, call.turn)
        return verbs.after(call_id, run_id=run.name, at=time.monotonic(), **outcome)

    def _cut_off(self, call: _Call, request: ToolCallRequest, error: BaseException) -> None:
        """A call was cancelled, which goes on whatever the guard says; what was stopped has not been."""
        if not is_stop(error):
            self._after(call, request, "", {"error": error})
            return
        with self._lock:
            if call.call_id in call.run.ended:  # it was run before, and that counts
                return
            if call.run.verdicts.get(call.call_id) is call.verdict:
                del call.run.verdicts[call.call_id]
        call.verbs.retract([call.call_id], run_id=call.run.name)


def _refusal(request: ToolCallRequest, verdict: Verdict) -> ToolMessage:
    asked = request.tool_call
    return ToolMessage(
        content=verdict.message or "", tool_call_id=asked["id"], name=asked["name"], status="error"
    )
