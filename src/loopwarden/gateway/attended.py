"""A guard that a person may overrule: pause it for a run, let one loop of a run through.

How a person's word becomes the guard's, with nothing but its own verbs:

- **Paused**: the guard is not asked and not told. Were it asked and its refusals not acted on, it would drop
  the outcomes of calls that it believes refused, count refusals that never were, and end the run as soon as
  it is back. So its evidence stands still; when the guard goes on, what was counted before counts, and the
  outcomes of calls begun in between are dropped as unknown.
- **Let through**: a refusal of that loop is not passed on. The run's evidence is forgotten and the call put
  again, so that it runs and counts as the first of its kind. `user_message` would not do: it half-opens a
  loop for one probe and goes on counting up to the breaker, which ends the run for good. The price is that
  the other loops of the run are counted from the beginning, too. Warnings go on. This is what
  `loopwarden allow KEY` does for the command hooks.

Both hold for a week, over restarts and in all gateways that share a store (`decision_keeper.py`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from loopwarden.events import ALLOW, Compaction
from loopwarden.gateway.names import loop_name, run_name
from loopwarden.gateway.observers import Place, Speaker
from loopwarden.guard import GuardSession, LoopGuard
from loopwarden.live_runs import Over, Told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from loopwarden.events import Event, Verdict
    from loopwarden.gateway.decisions import Decisions
    from loopwarden.telling import Observer

_REFUSED: Final = frozenset({"block", "abort"})


class AttendedGuard(LoopGuard):
    """A `LoopGuard` that does what people decided.

    Args:
        config: As for `LoopGuard`.
        decisions: What was decided; guards may share them.
        record: Told of every event, those of a paused run included (with the verdict `allow`).
        agent_id: As for `LoopGuard`.
        options: The other arguments of `LoopGuard`.
    """

    def __init__(
        self,
        config: Any = None,
        *,
        decisions: Decisions,
        record: Observer,
        agent_id: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(config, record=record, agent_id=agent_id, **options)
        self._decisions = decisions
        self._own = Speaker(agent_id, self.settings.mode)
        self._observer = record

    def session(self, session_id: str) -> GuardSession:
        """See `LoopGuard.session`."""
        return _AttendedSession(self, session_id)

    def feed(self, event: Event) -> Verdict:
        """See `LoopGuard.feed`."""
        return self.attend(None, event, super().feed, super().forget)

    def attend(
        self,
        session_id: str | None,
        event: Event,
        ask: Callable[[Event], Verdict],
        forget: Callable[..., None],
    ) -> Verdict:
        """Answer an event: as the guard does, or as a person decided.

        Args:
            session_id: Session of the event.
            event: What happened.
            ask: The guard's own `feed` for that session.
            forget: Its `forget`.
        """
        (agent, mode), session = self._own, session_id
        if type(session_id) is Place:
            (agent, mode), session = session_id.speaker, session_id.session
        run = self._run_name(session_id, event)
        if type(event) is Compaction and event.continues not in {None, event.run_id}:
            self._decisions.move(run_name(agent, mode, session, event.continues), run)
        if self._decisions.is_paused(run):
            self._show(session_id, event)
            return ALLOW
        verdict = ask(event)
        if verdict.action in _REFUSED and verdict.key is not None:
            loop = loop_name(verdict.key)
            if self._decisions.is_released(run, loop):
                forget(run_id=event.run_id)
                verdict = ask(event)
        return verdict

    async def feed_all(self, events: Sequence[Told]) -> list[Verdict]:
        """See `LoopGuard.feed_all`."""
        if not self._decisions:
            return await super().feed_all(events)
        verdicts = dict.fromkeys(range(len(events)), ALLOW)
        asked = {}
        for number, told in enumerate(events):
            event = told.event
            if not isinstance(event, Over) and self._decisions.is_paused(self._run_name(told.session, event)):
                self._show(told.session, event)
            else:
                asked[number] = told
        if asked:
            verdicts.update(zip(asked, await super().feed_all(list(asked.values())), strict=True))
        for number, (session_id, event, _) in asked.items():
            verdict = verdicts[number]
            if verdict.action in _REFUSED and verdict.key is not None:
                loop = loop_name(verdict.key)
                if self._decisions.is_released(self._run_name(session_id, event), loop):
                    await super().feed_all([Told(session_id, Over(event.run_id))])
                    (verdicts[number],) = await super().feed_all([Told(session_id, event)])
        return list(verdicts.values())

    def _run_name(self, session_id: str | None, event: Event | Over) -> str:
        (agent, mode), session = self._own, session_id
        if type(session_id) is Place:
            (agent, mode), session = session_id.speaker, session_id.session
        return run_name(agent, mode, session, event.run_id)

    def _show(self, session_id: str | None, event: Event) -> None:
        try:
            self._observer.saw(session_id, event, ALLOW, None, self.settings)
        except Exception:  # as everything beside the guard: told, and not the agent's trouble
            logging.getLogger("loopwarden").exception("fault in an observer of a paused run")


class _AttendedSession(GuardSession):
    """The verbs of an `AttendedGuard`, bound to one session."""

    def __init__(self, guard: AttendedGuard, session_id: str) -> None:
        super().__init__(guard, session_id)
        self._attended = guard
        self._session = session_id

    def feed(self, event: Event) -> Verdict:
        return self._attended.attend(self._session, event, super().feed, super().forget)
