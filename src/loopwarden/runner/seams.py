"""What the engine is given from outside, and what it gives back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from loopwarden.events import AbortCode
    from loopwarden.guard import LoopGuard
    from loopwarden.runner.happenings import End, Happening

Guards: TypeAlias = "Callable[[str], LoopGuard]"
"""The guard with the settings of an agent, by the agent's id; the same one each time."""

Ask: TypeAlias = Callable[[str], Awaitable[bool]]
"""Asks a person, and says whether they agree."""


class KnownSession(Protocol):
    """A session in the journal."""

    @property
    def agent(self) -> str:
        """Id of the agent."""


class Journal(Protocol):
    """Where sessions and runs are written down. Its faults are logged and never end a run."""

    def history(self, session: str, /) -> bytes | None:
        """The messages of a session as JSON, as they were saved; `None`: there are none."""

    def session(self, session: str, /) -> KnownSession | None:
        """A session; `None`: not known."""

    def save_history(self, session: str, agent: str, history: bytes, /) -> None:
        """Keep the messages of a session, in place of those kept before."""

    def put_evidence(self, run: str, evidence: bytes, /) -> None:
        """Keep what the guard knows of a run that goes on."""

    def add(self, happening: Happening, /) -> None:
        """Write down what happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended.

    Attributes:
        run: Its id.
        session: Id of the session.
        reason: Why it is over.
        code: The guard's code where it ended the run, else `None`.
        message: What a person is told about the end; `None` for one that is `done`.
        answer: The model's last words; `None` where it had none.
        tokens: Tokens of all requests, those for summaries included: read and written.
        requests: Requests that the model answered, those for summaries included.
    """

    run: str
    session: str
    reason: End
    code: AbortCode | None = None
    message: str | None = None
    answer: str | None = None
    tokens: int = 0
    requests: int = 0
