"""Events for runs in a store that keeps journals: all that wait at the moment go there in one round trip.

The store is awaited on the event loop: a thread that asks it would take turns with the one that speaks HTTP,
and each would wait for the other. It tells of events that come again, also to another gateway, so nothing
about a run is kept here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from loopwarden.events import ALLOW, Compaction, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.live_runs import Mark, Over, Told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loopwarden.events import Event, Verdict
    from loopwarden.gateway.asked import Asked
    from loopwarden.gateway.guards import Guards
    from loopwarden.guard import LoopGuard

MOST: Final = 256
"""Events that go in one round trip."""

IN_FLIGHT: Final = 2
"""Round trips at once, each for other runs: while one is on its way the next is made ready."""

_OTHER: Final = {"before": "after", "after": "before"}

_Key: TypeAlias = "tuple[str | None, str, str | None, str | None]"


class _Waiting(NamedTuple):
    """An event that is to be answered.

    Attributes:
        keys: Its run, and the one that goes on as it.
        asked: What is asked.
        answer: For whoever asks.
    """

    keys: tuple[_Key, ...]
    asked: Asked
    answer: asyncio.Future[Verdict]


class Together:
    """Answers events. For one event loop.

    Events of one run are answered in the order in which they came, one after the other.

    Args:
        guards: All guards.
    """

    def __init__(self, guards: Guards) -> None:
        self._guards = guards
        self._waiting: list[_Waiting] = []
        self._busy: set[_Key] = set()
        self._working: set[asyncio.Task[None]] = set()

    def answer(self, asked: Asked) -> asyncio.Future[Verdict]:
        """Answer one event; it counts also if nobody waits for the answer any more."""
        loop = asyncio.get_running_loop()
        one = _Waiting(_keys(asked), asked, loop.create_future())
        self._waiting.append(one)
        if len(self._working) < IN_FLIGHT:
            self._working.add(loop.create_task(self._work()))
        return one.answer

    async def close(self) -> None:
        """Answer what waits, and end."""
        while self._working:
            await asyncio.wait(self._working)
        await self._guards.close_awaited()

    async def _work(self) -> None:
        while batch := self._next():
            try:
                verdicts = await self._tell([one.asked for one in batch])
            except Exception as error:  # noqa: BLE001 - whoever asked is told
                for one in batch:
                    if not one.answer.done():
                        one.answer.set_exception(error)
            else:
                for one, verdict in zip(batch, verdicts, strict=True):
                    if not one.answer.done():  # else its client is gone
                        one.answer.set_result(verdict)
            for one in batch:
                self._busy.difference_update(one.keys)
        self._working = {task for task in self._working if task is not asyncio.current_task()}

    def _next(self) -> list[_Waiting]:
        """What goes next: the oldest event of each run that none is on its way for."""
        batch: list[_Waiting] = []
        later: list[_Waiting] = []
        held = self._busy.copy()  # also by those that stay, so that none overtakes another
        for one in self._waiting:
            if len(batch) < MOST and held.isdisjoint(one.keys):
                batch.append(one)
                self._busy.update(one.keys)
            else:
                later.append(one)
            held.update(one.keys)
        self._waiting = later
        return batch

    async def _tell(self, batch: Sequence[Asked]) -> list[Verdict]:
        """The answers to events of different runs."""
        verdicts: list[Verdict] = [ALLOW] * len(batch)
        groups: dict[LoopGuard, list[tuple[int, Told]]] = {}
        for number, asked in enumerate(batch):
            body, run = asked.body, asked.run
            guard = self._guards.of(body.agent, body.mode)
            place = self._guards.place(body.agent, body.mode, body.session)
            event = event_of(asked)
            if isinstance(event, Compaction) and event.continues not in {None, run}:
                # another run takes part: rare, and left to the verbs, which wait for the store
                verdicts[number] = await asyncio.to_thread(guard.session(place).feed, event)
            else:
                groups.setdefault(guard, []).append((number, Told(place, event, mark_of(asked))))
        for guard, found in groups.items():
            answers = await guard.feed_all([told for _, told in found])
            for (number, _), verdict in zip(found, answers, strict=True):
                verdicts[number] = verdict
        return verdicts


def _keys(asked: Asked) -> tuple[_Key, ...]:
    body = asked.body
    key = body.agent, body.mode, body.session, asked.run
    if asked.kind != "compacted" or body.continues is None:
        return (key,)
    return key, (*key[:3], body.continues)


def event_of(asked: Asked) -> Event | Over:
    """What the guard is told."""
    body, run = asked.body, asked.run
    match asked.kind:
        case "before":
            return ToolCall(
                tool=body.tool,
                arguments=body.arguments,
                call_id=body.call_id,
                run_id=run,
                turn_id=body.turn_id,
                at=body.at,
            )
        case "after":
            return Outcome(
                call_id=body.call_id,
                result=body.result,
                error=body.error,
                run_id=run,
                unknown_tool=body.unknown_tool,
                timed_out=body.timed_out,
                at=body.at,
            )
        case "compacted":
            return Compaction(run_id=run, continues=body.continues, at=body.at)
        case "user_message":
            return UserMessage(run_id=run, at=body.at)
        case "retract":
            return Retraction(call_ids=tuple(body.call_ids), run_id=run, at=body.at)
    return Over(run)


def mark_of(asked: Asked) -> Mark | None:
    """What an event is known by; `None` where nothing tells it from another one."""
    body, kind = asked.body, asked.kind
    other = _OTHER.get(kind)
    if body.event_id is not None:
        name = f"event:{body.event_id}"
    elif other is not None:
        name = f"{kind}:{body.call_id}"
    else:
        return None
    return Mark(name, asked.digest.hex(), f"{other}:{body.call_id}" if other is not None else None)
