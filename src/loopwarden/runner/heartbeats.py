"""Heartbeats: runs of agents that begin by themselves.

Each is a run of its own, with a run id of its own, so that the guard counts it alone. A moment that was
missed (the machine slept, the run before is still going on) is not made up for; that is said.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from loopwarden.runner.schedule import Schedule, local_zone
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import tzinfo

    from loopwarden.config.runtime import ListedAgent

LATE_SECONDS: Final = 60.0
"""A moment that is past for longer was missed."""

LONGEST_WAIT: Final = 20.0
"""The clock is looked at so often, as it may be set, and the machine may sleep."""


@dataclass(slots=True)
class _Beat:
    """One agent's heartbeat."""

    agent: str
    prompt: str
    schedule: Schedule
    due: float
    run: asyncio.Future[object] | None = None


class Heartbeats:
    """Begins the scheduled runs.

    Args:
        agents: The agents by id; those without a heartbeat are passed over.
        start: Runs an agent (id) with a task, until it is done. Its faults are logged.
        clock: Seconds since the epoch.
        wait: Waits for so many seconds.
        zone: Time zone of cron expressions; `None`: that of the machine.
        said: Told, for people, why a run did not begin.
    """

    def __init__(
        self,
        agents: Mapping[str, ListedAgent],
        start: Callable[[str, str], Awaitable[object]],
        *,
        clock: Callable[[], float] = time.time,
        wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
        zone: tzinfo | None = None,
        said: Callable[[str], None] | None = None,
    ) -> None:
        self._start = start
        self._clock = clock
        self._wait = wait
        self._said = said or (lambda text: log.logger.warning("%s", text))
        self._looked = clock()
        zone = zone or local_zone()
        self._beats: list[_Beat] = []
        for agent in agents.values():
            if agent.heartbeat is not None:
                schedule = Schedule(agent.heartbeat, self._looked, zone)
                due = schedule.after(self._looked)
                self._beats.append(_Beat(agent.id, agent.heartbeat.prompt, schedule, due))

    @property
    def next(self) -> dict[str, float]:
        """When each agent's next run begins, in seconds since the epoch, by the agent's id."""
        return {beat.agent: beat.due for beat in self._beats}

    async def run(self) -> None:
        """Begin what is due, until cancelled; runs that are going on then are left to who started them."""
        while self._beats:
            left = self.tick() - self._clock()
            await self._wait(min(max(left, 0.0), LONGEST_WAIT))

    def tick(self) -> float:
        """Begin what is due now.

        Returns:
            The next moment; infinite where there is none.
        """
        now = self._clock()
        if now < self._looked - LATE_SECONDS:  # the clock was set back
            for beat in self._beats:
                beat.due = beat.schedule.after(now)
        self._looked = now
        for beat in self._beats:
            if beat.due <= now:
                due, beat.due = beat.due, beat.schedule.after(now)
                self._begin(beat, now - due)
        return min((beat.due for beat in self._beats), default=float("inf"))

    def _begin(self, beat: _Beat, late: float) -> None:
        if beat.run is not None and not beat.run.done():
            self._said(f"heartbeat of {beat.agent}: left out, as the one before is still going on")
        elif late > LATE_SECONDS:
            self._said(f"heartbeat of {beat.agent}: left out, as its moment was missed by {late:.0f} seconds")
        else:
            beat.run = asyncio.ensure_future(self._guarded(beat))

    async def _guarded(self, beat: _Beat) -> Any:
        try:
            return await self._start(beat.agent, beat.prompt)
        except Exception as error:  # noqa: BLE001 - the next one begins all the same
            self._said(f"heartbeat of {beat.agent}: {error}")
        return None

    async def close(self) -> None:
        """Cancel the runs that are going on, and wait for their end."""
        runs = [beat.run for beat in self._beats if beat.run is not None and not beat.run.done()]
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
