"""What the journal knows of a session and of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from loopwarden.runner.happenings import End

if TYPE_CHECKING:
    from loopwarden.events import AbortCode

State: TypeAlias = Literal["open", End]
"""`open` while a run goes on, afterwards why it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSession:
    """A session.

    Attributes:
        id: Its id.
        agent: Id of its agent.
        began: Seconds since the epoch.
        touched: When something last happened in it, seconds since the epoch.
        runs: Runs that are known of it.
    """

    id: str
    agent: str
    began: float
    touched: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """A run.

    Attributes:
        id: Its id.
        session: Id of its session.
        agent: Id of its agent.
        trigger: What began it: `user`, `heartbeat`, `spawn`.
        parent: The run that spawned it, if one did.
        task: What the agent was told.
        began: Seconds since the epoch.
        ended: Seconds since the epoch; `None` while it goes on. Of an interrupted run the last moment that is
            known of it.
        state: `open`, or why it ended.
        code: The guard's code of an aborted run.
        message: Why it ended, for people.
        answer: The agent's last word.
        requests: Requests of the model.
        input_tokens: Tokens read by the model.
        output_tokens: Tokens written by it.
        kept: Happenings that are kept of it; 0 when they were dropped to stay within the journal's bounds.
    """

    id: str
    session: str
    agent: str
    trigger: str
    parent: str | None
    task: str
    began: float
    ended: float | None
    state: State
    code: AbortCode | None
    message: str | None
    answer: str | None
    requests: int
    input_tokens: int
    output_tokens: int
    kept: int
