"""Runs agents: their sessions, their runs, and who may say or end what."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from loopwarden.errors import LoopwardenError
from loopwarden.runner.live import Live
from loopwarden.runner.models import model_of
from loopwarden.runner.replay_model import PREFIX, ReplayModel
from loopwarden.runner.retries import Backoff
from loopwarden.runner.run import Run
from loopwarden.runner.seams import RunResult
from loopwarden.runner.sessions import Sessions
from loopwarden.runner.tools import toolset
from loopwarden.runner.workbench import Workbenches
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic_ai.models import Model
    from pydantic_ai.tools import Tool

    from loopwarden.config.runtime import ListedAgent, Runtime
    from loopwarden.runner.happenings import Watcher
    from loopwarden.runner.seams import Ask, Guards, Journal
    from loopwarden.runner.tools import Bench


class Runner:
    """Runs the agents of a configuration. Belongs to one event loop.

    Args:
        runtime: The agents.
        guards: The guard of each agent.
        journal: Where sessions and runs are written down; `None`: sessions are kept in memory.
        watch: Told of everything that happens.
        model: Used for all agents, in place of what they name.
        ask: Asks a person; `None`: nobody is there.
        tools: Makes the tools of a run.
        backoff: How failed requests are made again.
        owner: What the marks of all commands begin with, see `process_tree.owner_of`.
    """

    def __init__(
        self,
        runtime: Runtime,
        guards: Guards,
        *,
        journal: Journal | None = None,
        watch: Sequence[Watcher] = (),
        model: Model | None = None,
        ask: Ask | None = None,
        tools: Callable[[Bench], Sequence[Tool[Any]]] = toolset,
        backoff: Backoff | None = None,
        owner: str | None = None,
    ) -> None:
        self._runtime = runtime
        self._guards = guards
        self._sessions = Sessions(journal)
        self._watchers = (*(() if journal is None else (journal.add,)), *watch)
        self._model = model
        self._benches = Workbenches(ask, owner)
        self._tools = tools
        self._backoff = backoff or Backoff()
        self._models: dict[str, Model] = {}
        self._live: dict[str, Live] = {}
        self._closed = False

    def load(self) -> None:
        """Make the models of all agents now: to import a provider takes seconds. Recordings are read by runs.

        One that can't be made is tried again by its runs, which say why.
        """
        for agent in self._runtime.agents.values():
            if self._model is None and agent.model is not None and not agent.model.startswith(PREFIX):
                with suppress(Exception):
                    self._model_of(agent)

    async def run(
        self,
        agent_id: str,
        task: str,
        *,
        session_id: str | None = None,
        run_id: str | None = None,
        trigger: str = "user",
        parent: str | None = None,
    ) -> RunResult:
        """Run an agent until it is done, or was ended.

        Args:
            agent_id: Which.
            task: What it is told.
            session_id: The session that it goes on with; `None`: a new one. Where a run goes on in it, this
                one waits for its end.
            run_id: Id of the run; `None` makes one up.
            trigger: `user`, `heartbeat` or `spawn`.
            parent: The run that started this one.

        Returns:
            How it ended; every end is told as a happening too. Faults of model and tools are ends.

        Raises:
            LookupError: There is no such agent.
            ValueError: A run with this id goes on.
            RuntimeError: The runner was closed.
        """
        _, running = self._start(agent_id, task, session_id, run_id, trigger, parent)
        result = await running
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise asyncio.CancelledError
        return result

    def _start(
        self,
        agent_id: str,
        task: str,
        session_id: str | None,
        run_id: str | None,
        trigger: str,
        parent: str | None,
    ) -> tuple[Live, asyncio.Task[RunResult]]:
        agent = self._runtime.agents.get(agent_id)
        if agent is None:
            known = ", ".join(self._runtime.agents) or "none"
            raise LookupError(f"no agent {agent_id!r}; there are: {known}")
        if self._closed:
            raise RuntimeError("the runner was closed")
        run = run_id or f"run-{uuid4().hex}"
        if run in self._live:
            raise ValueError(f"run {run} goes on already")
        above = self._live.get(parent) if parent is not None else None
        live = Live(
            agent,
            self._guards(agent_id),
            session=session_id or f"session-{uuid4().hex}",
            run=run,
            depth=0 if above is None else above.depth + 1,
            parent=parent,
            watchers=self._watchers,
        )
        self._live[run] = live
        live.tell("began", trigger=trigger, task=task, parent=parent)
        live.task = asyncio.create_task(self._whole(live, task), name=f"loopwarden {run}")
        live.task.add_done_callback(lambda _: self._end(live, _cancelled(live)))
        return live, live.task

    def say(self, run_id: str, text: str) -> bool:
        """A person writes while a run goes on; the model reads it with its next request.

        Returns:
            Whether it is taken: the run goes on, and fewer than `MOST_SAID` messages wait to be read.
        """
        live = self._live.get(run_id)
        return live is not None and live.hear(text)

    def running(self, session_id: str | None = None) -> list[str]:
        """Ids of the runs that go on, the newest last.

        Args:
            session_id: Only of this session; the first of them has the turn, further ones wait.
        """
        return [
            live.run
            for live in self._live.values()
            if not live.over and not live.cancelled and session_id in {None, live.session}
        ]

    def cancel(self, run_id: str) -> bool:
        """End a run, and those that it started.

        Returns:
            Whether it went on.
        """
        live = self._live.get(run_id)
        if live is None or live.over:
            return False
        if not live.cancelled:
            live.cancelled = True
            if live.begun and live.task is not None:
                live.task.cancel()
        for below in [other.run for other in self._live.values() if other.parent == run_id]:
            self.cancel(below)
        return True

    async def close(self) -> None:
        """End all runs and take no new ones."""
        self._closed = True
        running = [live.task for live in self._live.values() if live.task is not None]
        for run_id in list(self._live):
            self.cancel(run_id)
        await asyncio.gather(*running, return_exceptions=True)
        await self._benches.close()

    async def _spawn(self, above: Live, agent_id: str, task: str) -> RunResult:
        """A sub-agent's run, to its end; what ends it is a result for the run above."""
        return await self.run(agent_id, task, trigger="spawn", parent=above.run)

    async def _send(self, above: Live, session_id: str, text: str) -> str:
        """A text for another session: for the run that goes on in it, else for a new one.

        Raises:
            LookupError: There is no such session.
            RuntimeError: Agents that wake each other are too many below each other.
        """
        for live in self._live.values():
            if live.session == session_id and live.hear(text, above.run):
                return live.run
        agent_id = self._sessions.agent_of(session_id)
        if agent_id is None:
            raise LookupError(f"no session {session_id!r}")
        most = above.agent.subagents.max_depth
        if above.depth >= most:
            raise RuntimeError(f"{most} agents below each other are the most")
        live, _ = self._start(agent_id, text, session_id, None, "send", above.run)
        return live.run

    async def _whole(self, live: Live, task: str) -> RunResult:
        """The run, its end, and what is given back after it."""
        live.begun = True
        result = _cancelled(live) if live.cancelled else await self._driven(live, task)
        self._end(live, result)
        await self._benches.tidy(frozenset(other.session for other in self._live.values()))
        return result

    def _end(self, live: Live, result: RunResult) -> None:
        """The run is over; nothing for one whose end was told."""
        if self._live.get(live.run) is not live:
            return
        live.over = True
        del self._live[live.run]
        live.tell(
            "ended",
            reason=result.reason,
            code=result.code,
            message=result.message,
            answer=result.answer,
            requests=live.requests,
            input_tokens=live.input_tokens,
            output_tokens=live.output_tokens,
        )
        live.verbs.forget(run_id=live.run)

    async def _driven(self, live: Live, task: str) -> RunResult:
        try:
            async with self._sessions.turn(live.session):
                model = self._model or self._models.get(live.agent.id)
                if model is None:  # in a thread: it imports a provider, or reads a recording
                    model = await asyncio.to_thread(self._model_of, live.agent)
                bench = self._benches.bench(
                    live, spawn=partial(self._spawn, live), send=partial(self._send, live)
                )
                own = _tools_of(model, live)
                run = Run(
                    live,
                    model,
                    self._tools(bench) if own is None else own,
                    backoff=self._backoff,
                    keep=lambda messages: self._sessions.keep(live, messages),
                )
                return await run.drive(task, self._sessions.history(live.session))
        except asyncio.CancelledError:
            return _cancelled(live)
        except Exception as error:  # noqa: BLE001 - every end is told
            if not isinstance(error, LoopwardenError):
                log.logger.exception("a run could not begin")
            return RunResult(run=live.run, session=live.session, reason="failed", message=str(error))

    def _model_of(self, agent: ListedAgent) -> Model:
        model = self._models.get(agent.id)
        if model is None:
            model = model_of(agent)
            if not isinstance(model, ReplayModel):  # which plays once
                self._models[agent.id] = model
        return model


def _cancelled(live: Live) -> RunResult:
    message = "the run was cancelled"
    return RunResult(run=live.run, session=live.session, reason="cancelled", message=message)


def _tools_of(model: Model, live: Live) -> Sequence[Tool[Any]] | None:
    """The tools of a recorded agent: they give what was recorded, and nothing is executed."""
    if not isinstance(model, ReplayModel):
        return None
    model.person = lambda: live.hear("(here a person wrote)")
    return model.tools
