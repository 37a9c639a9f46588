"""The agents of the gateway: sessions and runs, their journal, their heartbeats, and their end."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from loopwarden.errors import LoopwardenError
from loopwarden.gateway.places import JOURNAL_FILE
from loopwarden.gateway.run_feed import Feed
from loopwarden.runner.engine import Runner
from loopwarden.runner.heartbeats import Heartbeats
from loopwarden.runner.journal import Journal
from loopwarden.runner.process_tree import end_marked, owner_of
from loopwarden.runner.resume import take_over
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from loopwarden.gateway.context import Gateway
    from loopwarden.runner.happenings import Happening, Watcher
    from loopwarden.runner.seams import RunResult

END_SECONDS: Final = 15.0
"""How long runs may take to end when the gateway does; those that take longer are recorded as interrupted."""

_RETOLD_RUNS: Final = 50
_RETOLD: Final = 500
_NAME: Final = 100
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9_.:-]")


class TooManyRuns(LoopwardenError):  # noqa: N818 - says what it is
    """As many runs go on as may (`gateway.limits.activeRuns`)."""


class Closing(LoopwardenError):  # noqa: N818 - says what it is
    """The gateway is ending."""


class RunDesk:
    """Runs the agents of the configuration.

    To be made on the event loop that it is used on; what it opens is given back by `running` or `close`.

    Args:
        gateway: Whose agents.
        watch: Told of everything that happens in runs.

    Attributes:
        journal: Sessions, runs, and what happened in them.
        feed: What happens now.
        heartbeats: The scheduled runs.

    Raises:
        StoreError: The journal can't be used.
        MissingExtraError: The extra `runner` is not installed.
    """

    def __init__(self, gateway: Gateway, watch: Sequence[Watcher] = ()) -> None:
        self._agents = gateway.runtime.agents
        self._guards = gateway.guards
        self._most = gateway.runtime.gateway.limits.active_runs
        self._closing = gateway.closing
        self._tasks: dict[str, asyncio.Task[RunResult]] = {}
        self._open: dict[str, str] = {}
        self._begun: dict[str, asyncio.Event] = {}
        self._starting = asyncio.Lock()
        self.feed = Feed()
        self.heartbeats = Heartbeats(self._agents, self._heartbeat)
        self.journal = Journal(gateway.folder / JOURNAL_FILE)
        owner = owner_of(self.journal.path)
        left = end_marked(owner)
        if left:
            log.logger.warning("%d processes of a gateway that was killed were still there; ended", left)
        self._runner = Runner(
            gateway.runtime,
            gateway.guards,
            journal=self.journal,
            watch=[self._saw, self.feed, *watch],
            owner=owner,
        )
        self._runner.load()  # not when the first run begins: the verdicts of other agents would wait for it
        gateway.metrics.gauge("agent_runs", "Runs of agents that go on.", lambda: float(len(self._open)))

    @property
    def open_runs(self) -> dict[str, str]:
        """Sessions of the runs that go on, by the run's id; those of sub-agents are among them."""
        return dict(self._open)

    async def begin(self, session: str, agent: str, text: str) -> tuple[str, bool]:
        """A person writes in a session.

        Returns:
            The run that reads it, and whether it was going on already.

        Raises:
            TooManyRuns: No more can be begun now.
            Closing: No more will be.
        """
        async with self._starting:
            for run in [run for run, where in self._open.items() if where == session]:
                if self._runner.say(run, text):
                    return run, True
            return await self._start(session, agent, text, "user"), False

    def retell(self, watch: Sequence[Watcher]) -> None:
        """Tell what happened in the newest runs that are written down, the oldest of them first."""
        for run in reversed(self.journal.runs(limit=_RETOLD_RUNS)):
            told = self.journal.happenings(run.id, limit=_RETOLD)
            if told and told[-1].kind != "ended":  # it has more than are retold
                data = {"reason": run.state, "code": run.code, "message": run.message, "answer": run.answer}
                told.append(replace(told[-1], kind="ended", time=run.ended or run.began, data=data))
            for happening in told:
                for watcher in watch:
                    watcher(happening)

    def cancel(self, run: str) -> bool:
        """End a run; whether it was going on."""
        return self._runner.cancel(run)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the gateway serves: heartbeats begin. At the end all runs end, and are written down."""
        self._tell_of_interrupted()
        ending = asyncio.create_task(self._end_runs())
        try:
            yield
        finally:
            self._closing.set()
            await ending
            self.close()

    async def _end_runs(self) -> None:
        """Heartbeats until the gateway begins to end; then all runs end, while their readers still listen."""
        beats = asyncio.create_task(self.heartbeats.run())
        await self._closing.wait()
        beats.cancel()
        with suppress(asyncio.CancelledError):
            await beats
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._runner.close()
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)
                await self.heartbeats.close()
        except TimeoutError:
            log.logger.error("%d runs did not end in time; they are interrupted", len(self._open))
        self.feed.close()

    def close(self) -> None:
        """Give the journal back."""
        self.feed.close()
        self.journal.close()

    def _tell_of_interrupted(self) -> None:
        try:
            for run in self.journal.interrupted():
                if run.id not in self.journal.newly_interrupted:
                    continue  # an earlier start has said so
                log.logger.warning("run %s of agent %r was interrupted", run.id, run.agent)
        except LoopwardenError as error:
            log.logger.error("journal: %s", error)

    async def _start(self, session: str, agent: str, text: str, trigger: str) -> str:
        """Begin a run, and wait until it is known."""
        if self._closing.is_set():
            raise Closing("the gateway is ending")
        if len(self._open) >= self._most:
            raise TooManyRuns(f"{self._most} runs go on (gateway.limits.activeRuns); try again later")
        run = f"run-{token_hex(12)}"
        take_over(self.journal, self._guards(agent), session, run)
        begun = self._begun[run] = asyncio.Event()
        self._open[run] = session
        task = asyncio.create_task(
            self._runner.run(agent, text, session_id=session, run_id=run, trigger=trigger)
        )
        self._tasks[run] = task
        task.add_done_callback(lambda done: self._over(run, done))
        await begun.wait()
        return run

    def _saw(self, happening: Happening) -> None:
        """What goes on, sub-agents' runs and those that agents begin in other sessions included."""
        if happening.kind == "began":
            self._open[happening.run] = happening.session
            begun = self._begun.pop(happening.run, None)
            if begun is not None:
                begun.set()
        elif happening.kind == "ended":
            self._open.pop(happening.run, None)

    def _over(self, run: str, task: asyncio.Task[RunResult]) -> None:
        self._tasks.pop(run, None)
        self._open.pop(run, None)
        begun = self._begun.pop(run, None)
        if begun is not None:
            begun.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.logger.error("run %s could not begin: %s", run, error)

    async def _heartbeat(self, agent: str, prompt: str) -> None:
        """One scheduled run, to its end. All of an agent are in one session, each a run of its own."""
        plain = _NOT_PLAIN.sub("-", agent)[:_NAME]
        own = "" if plain == agent else f"-{sha256(agent.encode('utf-8', 'replace')).hexdigest()[:8]}"
        session = f"heartbeat-{plain}{own}"
        async with self._starting:
            run = await self._start(session, agent, prompt, "heartbeat")
        task = self._tasks.get(run)
        if task is not None:
            await asyncio.shield(task)
