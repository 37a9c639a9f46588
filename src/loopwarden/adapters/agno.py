"""Agno: the guard around the models of an agent or a team.

    guard = LoopGuard({"enabled": True})
    agent = guard_agent(Agent(model=..., tools=[...]), guard)
    run = agent.run("...")
    raise_if_aborted(run)

Tool hooks get no call id, never see unknown tools, and replace the hooks of a tool. So the guard stands where
the model's reply becomes function calls. An aborted run ends as a cancelled one ends, without an exception;
`raise_if_aborted` makes the signal of it.
"""

from __future__ import annotations

import copy
import uuid
from collections import OrderedDict
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from loopwarden.adapters import Abilities
from loopwarden.errors import LoopAborted, MissingExtraError

try:
    from agno.agent import Agent
    from agno.exceptions import RunCancelledException
    from agno.models.base import Model
    from agno.models.utils import get_model
    from agno.run.team import TeamRunOutput
    from agno.team import Team
except ImportError as error:
    raise MissingExtraError("agno", "agno") from error

from loopwarden.adapters.agno_run import Call, Run, aborted, failed, keep, may_wait, returned

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from agno.models.message import Message

    from loopwarden.guard import LoopGuard

ABILITIES: Final = Abilities(
    host="Agno",
    package="agno>=3.1",
    warns="result",
    aborts="ends",
    unknown_tools="call",
    compaction="signal",
    call_ids=True,
    run_ids=True,
    turns=True,
)

Guarded = TypeVar("Guarded")


def guard_agent(agent: Guarded, guard: LoopGuard) -> Guarded:
    """Watch the tool calls of an agent or a team, and of all its members.

    Its model and its fallback models are replaced by guarded copies. A member without a model of its own gets
    the team's, as ever. Members that a function gives are guarded where that function does it.

    Args:
        agent: An `Agent` or a `Team`; it is changed in place. With another guard before, that one goes.
        guard: The guard; several agents may share it.

    Returns:
        The same agent.

    Raises:
        TypeError: It is neither an agent nor a team.
        ValueError: It has no model yet.
    """
    if not isinstance(agent, Agent | Team):
        raise TypeError(f"an Agent or a Team can be guarded, not a {type(agent).__name__}")
    _guard(agent, guard, inherits=False)
    return agent


def raise_if_aborted(run: Any) -> None:
    """Does nothing unless the guard has ended the run.

    Args:
        run: What a run gave: its output, or an event of its stream.

    Raises:
        LoopAborted: The guard has ended it; one of the newest 1024 that it has.
    """
    verdict = aborted.get(getattr(run, "run_id", None))
    if verdict is not None:
        raise LoopAborted(verdict)


def _guard(agent: Any, guard: LoopGuard, *, inherits: bool) -> None:
    if agent.model is not None:
        watch = _Watch(guard)
        agent.model = _watched(agent.model, watch)
        fallbacks = agent.fallback_config
        if fallbacks is not None:
            names = ("on_error", "on_rate_limit", "on_context_overflow")
            lists = {name: [_watched(model, watch) for model in getattr(fallbacks, name)] for name in names}
            agent.fallback_config = replace(fallbacks, **lists)
    elif not inherits:
        raise ValueError("the agent has no model yet: give it one, then guard it")
    members = getattr(agent, "members", None)
    for member in members if isinstance(members, list) else ():
        if hasattr(member, "model"):  # a remote one has none here
            _guard(member, guard, inherits=True)


def _watched(model: Any, watch: _Watch) -> Any:
    """A copy of the model, of a class that is like its own."""
    found = copy.copy(get_model(model))
    own = type(found)
    if issubclass(own, _Watched):
        own = own.__bases__[1]
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__, "_watch": watch}
    found.__class__ = type(own.__name__, (_Watched, own), names)
    return found


@dataclass(slots=True)
class _Watch:
    """The runs of one agent: those that go on, and by their list of messages those that are at work."""

    guard: LoopGuard
    runs: OrderedDict[tuple[str | None, str | None], Run] = field(default_factory=OrderedDict)
    working: dict[int, Run] = field(default_factory=dict)

    def run(self, session_id: str | None, run_id: str | None) -> Run:
        run = self.runs.get((session_id, run_id))
        if run is None:
            verbs = self.guard if session_id is None else self.guard.session(session_id)
            run = Run(verbs, run_id, uuid.uuid4().hex)
            keep(self.runs, (session_id, run_id), run)
        return run

    @contextmanager
    def work(self, messages: list[Message], output: Any) -> Iterator[None]:
        """The model works on a run, until it has an answer or waits; without `output` on something else."""
        if output is None:
            yield
            return
        key = output.session_id, output.run_id
        known = key in self.runs
        run = self.run(*key)
        compaction = getattr(output, "compaction", None)
        compacted = known and compaction is not None and compaction is not run.compaction
        run.compaction = compaction
        self.working[id(messages)] = run
        over = True
        try:
            if compacted:
                run.leave(run.verbs.compacted(run_id=run.run_id))
            returned(run, messages)
            yield
            # A team may ask the model again in the same run, as it does for its list of tasks.
            over = not isinstance(output, TeamRunOutput) and not _waits(output)
        except RunCancelledException:
            for member in getattr(output, "member_responses", None) or ():
                if (verdict := aborted.get(member.run_id)) is not None:
                    keep(aborted, run.run_id, verdict)
            raise
        except Exception:  # the host may try again, with a shorter history or another model
            over = False
            raise
        finally:
            del self.working[id(messages)]
            if over:
                self.forget(key, run)

    def forget(self, key: tuple[str | None, str | None], run: Run) -> None:
        self.runs.pop(key, None)
        run.verbs.forget(run_id=run.run_id)


class _Watched(Model):
    """What a guarded model does differently; the rest is that of its own class."""

    _watch: ClassVar[_Watch]

    def response(self, messages: list[Message], *arguments: Any, **options: Any) -> Any:
        with self._watch.work(messages, options.get("run_response")):
            return super().response(messages, *arguments, **options)

    async def aresponse(self, messages: list[Message], *arguments: Any, **options: Any) -> Any:
        with self._watch.work(messages, options.get("run_response")):
            return await super().aresponse(messages, *arguments, **options)

    def response_stream(self, messages: list[Message], *arguments: Any, **options: Any) -> Iterator[Any]:
        with self._watch.work(messages, options.get("run_response")):
            yield from super().response_stream(messages, *arguments, **options)

    async def aresponse_stream(
        self, messages: list[Message], *arguments: Any, **options: Any
    ) -> AsyncIterator[Any]:
        with self._watch.work(messages, options.get("run_response")):
            async with aclosing(super().aresponse_stream(messages, *arguments, **options)) as events:
                async for event in events:
                    yield event

    def get_function_calls_to_run(
        self, assistant_message: Message, messages: list[Message], functions: Any = None
    ) -> list[Any]:
        """The reply's calls; those that can't be made have got a message as their result."""
        seen = len(messages)
        calls = super().get_function_calls_to_run(assistant_message, messages, functions)
        run = self._watch.working.get(id(messages))
        if run is None:
            return calls  # type: ignore[no-any-return]  # the host is not typed here
        run.turn = uuid.uuid4().hex
        asked = {call.get("id"): call for call in assistant_message.tool_calls or ()}
        for message in messages[seen:]:
            failed(run, message, asked.get(message.tool_call_id) or {}, functions or {})
        return [Call.of(call, run) for call in calls if may_wait(run, call, messages, self.tool_message_role)]

    def get_function_call_to_run_from_tool_execution(self, tool_execution: Any, functions: Any = None) -> Any:
        """A call that waited for a person, in a run that goes on."""
        call = super().get_function_call_to_run_from_tool_execution(tool_execution, functions)
        context = call.function._run_context  # noqa: SLF001 - the host has the ids nowhere else
        if context is None:
            return call
        return Call.of(call, self._watch.run(context.session_id, context.run_id))


def _waits(output: Any) -> bool:
    """Whether the run waits for a person."""
    requirements = getattr(output, "requirements", None) or ()
    return any(not requirement.is_resolved() for requirement in requirements)
