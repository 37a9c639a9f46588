"""What the tools of one run work with."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from loopwarden.runner.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from loopwarden.config.runtime import ListedAgent
    from loopwarden.runner.channels import Channels
    from loopwarden.runner.processes import Processes

    Ask: TypeAlias = Callable[[str], Awaitable[bool]]
    Send: TypeAlias = Callable[[str, str], Awaitable[str]]
    Spawn: TypeAlias = Callable[[str, str], Awaitable["Answer"]]


class Answer(Protocol):
    """How the run of a sub-agent ended; a `RunResult` is one."""

    @property
    def run(self) -> str:
        """Id of the run."""

    @property
    def session(self) -> str:
        """Id of the session."""

    @property
    def reason(self) -> str:
        """Why it is over; `done` if the model said its last word."""

    @property
    def message(self) -> str | None:
        """What went wrong, for people."""

    @property
    def answer(self) -> str | None:
        """The last word of the model."""


@dataclass(eq=False, kw_only=True)
class Bench:
    """What the tools of one run work with.

    Attributes:
        agent: Whose run it is.
        session: Id of its session.
        run: Its id.
        workspace: Folder of the files and commands.
        processes: The commands of the session; outlives the run.
        channels: Of the tool `message`.
        ask: Asks a person whether a command may run; `None`: nobody is there.
        spawn: Runs a task by the agent of that id, in a session of its own, to its end.
        send: Gives a text to the session of that id, and gives back the id of the run that reads it.
        depth: How many agents are above this one; 0 for one that was started by a person.
        children: Sub-agents that this run has started.
        asking: Held while a person is asked: one question at a time, of all runs that share it.
    """

    agent: ListedAgent
    session: str
    run: str
    workspace: Path
    processes: Processes
    channels: Channels
    ask: Ask | None = None
    spawn: Spawn | None = None
    send: Send | None = None
    depth: int = 0
    children: int = 0
    asking: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    def __post_init__(self) -> None:
        self.folder = Folder(self.workspace)
