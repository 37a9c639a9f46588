"""What the tools of each run work with: the folder, the processes of the session, other agents."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loopwarden.runner.channels import Channels
from loopwarden.runner.processes import Processes
from loopwarden.runner.tools import Bench
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from loopwarden.runner.channels import Message
    from loopwarden.runner.live import Live
    from loopwarden.runner.seams import Ask
    from loopwarden.runner.tools.bench import Send, Spawn

MOST: Final = 200
"""Sessions whose commands are kept at once; those of the longest idle ones are ended first."""


class Workbenches:
    """Makes the benches, and ends the commands that nobody needs.

    Args:
        ask: Asks a person; `None`: nobody is there.
        owner: See `Processes`.
    """

    def __init__(self, ask: Ask | None, owner: str | None = None) -> None:
        self._ask = ask
        self._owner = owner
        self._processes: dict[str, Processes] = {}
        self._asking = asyncio.Lock()  # there is one person, and many runs may have a question

    def bench(self, live: Live, *, spawn: Spawn, send: Send) -> Bench:
        """The bench of a run."""

        def show(message: Message) -> None:
            live.tell("notice", text=message.text, channel=message.channel, message_id=message.message_id)

        agent = live.agent
        workspace = Path(agent.workspace).expanduser() if agent.workspace is not None else Path.cwd()
        processes = self._processes.pop(live.session, None) or Processes(self._owner)
        self._processes[live.session] = processes  # the newest stands last
        return Bench(
            agent=agent,
            session=live.session,
            run=live.run,
            workspace=workspace,
            processes=processes,
            channels=Channels(agent.tools.channels, workspace, show=show),
            ask=self._ask,
            spawn=spawn,
            send=send,
            depth=live.depth,
            asking=self._asking,
        )

    async def tidy(self, busy: frozenset[str]) -> None:
        """Give back what sessions without commands hold, and what too many sessions do.

        Args:
            busy: Sessions in which a run goes on.
        """
        idle = [session for session in self._processes if session not in busy]
        over = len(idle) - MOST
        ending = [
            self._processes.pop(session)  # all of them now: while one ends, a session may begin anew
            for number, session in enumerate(idle)
            if number < over or not list(self._processes[session].sessions())
        ]
        for processes in ending:
            await _end(processes)

    async def close(self) -> None:
        """End all commands."""
        while self._processes:
            _, processes = self._processes.popitem()
            await _end(processes)


async def _end(processes: Processes) -> None:
    try:
        await processes.close()
    except Exception:  # noqa: BLE001 - commands that can't be ended break no run
        log.logger.exception("the commands of a session can't be ended")
