"""A run that goes on: what is known of it, and what is told of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from loopwarden.runner.happenings import Happening
from loopwarden.telemetry import log

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from loopwarden.config.runtime import ListedAgent
    from loopwarden.events import Verdict
    from loopwarden.guard import LoopGuard
    from loopwarden.runner.happenings import HappeningKind, Watcher
    from loopwarden.runner.seams import RunResult


MOST_SAID: Final = 100
"""Messages that wait for the model to read them."""


class Live:
    """One run.

    Args:
        agent: Who runs.
        guard: The guard with the agent's settings.
        session: Id of the session.
        run: Id of the run.
        depth: How many runs are above it.
        parent: The run that started it; `None`: a person or a schedule did.
        watchers: Told of everything; what they raise is logged.

    Attributes:
        said: What was written and the model has not read yet, each with the run of the agent that wrote it
            (`None`: a person did).
        task: The task that drives the run; `None` before it begins.
        compactions: Compactions made.
        requests: Requests that were answered.
        input_tokens: Tokens read by the model.
        output_tokens: Tokens written by it.
        begun: The task has begun; before that a mark is enough to end it.
        cancelled: Somebody ended the run.
        over: Nothing is taken any more.
    """

    def __init__(
        self,
        agent: ListedAgent,
        guard: LoopGuard,
        *,
        session: str,
        run: str,
        depth: int,
        parent: str | None,
        watchers: Sequence[Watcher],
    ) -> None:
        self.agent = agent
        self.guard = guard
        self.verbs = guard.session(session)
        self.session = session
        self.run = run
        self.depth = depth
        self.parent = parent
        self.said: list[tuple[str, str | None]] = []
        self.task: asyncio.Task[RunResult] | None = None
        self.compactions = 0
        self.requests = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.begun = False
        self.cancelled = False
        self.over = False
        self._watchers = watchers
        self._number = 0

    @property
    def window(self) -> int:
        """Outcomes that a compaction arms the guard for; 0: none."""
        settings = self.guard.settings
        return 0 if settings.enabled is False else settings.post_compaction_window

    def tell(self, kind: HappeningKind, **data: Any) -> None:
        """Something happened."""
        self._number += 1
        happening = Happening(
            kind=kind,
            agent=self.agent.id,
            session=self.session,
            run=self.run,
            time=time.time(),
            number=self._number,
            data=data,
        )
        for watcher in self._watchers:
            try:
                watcher(happening)
            except Exception:  # noqa: BLE001 - who watches never breaks the run
                log.logger.exception("fault in a watcher of runs")

    def heard(self, call_id: str | None, verdict: Verdict) -> None:
        """The guard found something."""
        self.tell(
            "verdict",
            call_id=call_id,
            action=verdict.action,
            level=verdict.level,
            detector=verdict.detector,
            count=verdict.count,
            message=verdict.message,
            key=verdict.key,
            error=verdict.error,
            would=verdict.would,
            announce=verdict.announce,
        )

    def notice(self, text: str) -> None:
        """A person should know."""
        self.tell("notice", text=text)

    def counted(self, usage: Any) -> None:
        """A request was answered."""
        self.requests += 1
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens

    def hear(self, text: str, sender: str | None = None) -> bool:
        """Somebody writes; the model reads it with its next request.

        Args:
            text: What.
            sender: The run of the agent that writes; `None`: a person does.

        Returns:
            Whether it is taken: the run goes on, and not too much is waiting.
        """
        if self.over or self.cancelled or len(self.said) >= MOST_SAID:
            return False
        self.said.append((text, sender))
        return True

    def read(self) -> list[str]:
        """What was written, for the model to read now.

        The guard hears of people only: two agents that write to each other shall not free their loops.
        """
        written, self.said = self.said, []
        for text, sender in written:
            if sender is None:
                self.verbs.user_message(run_id=self.run)
            self.tell("user_message", text=text, sender=sender)
        return [text for text, _ in written]
