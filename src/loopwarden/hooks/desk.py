"""One hook event through the guard: pairs it with what was before, asks, and says what to answer."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from loopwarden.hooks.answers import SILENCE, Answer, Saying, say
from loopwarden.hooks.ledger import Call, Deed, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.events import Verdict
    from loopwarden.guard import LoopGuard, Verbs
    from loopwarden.hooks.answers import Decision
    from loopwarden.hooks.hosts import HookHost
    from loopwarden.hooks.ledger import Ledger, Session
    from loopwarden.hooks.payload import HookCall, HookEvent

_REFUSED: Final = frozenset({"block", "abort"})

_SOFT: Final = "Every further call of this run will be refused: stop, and tell the user what is in the way."

_OF_THIS_CALL: Final = " This call "
"""Where the words for the model begin that are about the call and not about the loop."""


class Desk:
    """Answers the hook events of one host's sessions.

    Args:
        host: The host.
        guard: Who decides; its runs are those of all sessions.
        ledger: What is kept between events.
        attended: Whether a person is there to be asked.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        host: HookHost,
        guard: LoopGuard,
        ledger: Ledger,
        *,
        attended: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.host = host
        self.guard = guard
        self.ledger = ledger
        self.asks = attended and host.asks and guard.settings.on_critical == "ask"
        self.clock = clock

    def answer(self, event: HookEvent) -> Answer:
        """Answer an event.

        Raises:
            StoreError: The sessions can't be read or written.
        """
        if event.kind is None:
            return SILENCE
        with self.ledger.session(self.host.name, event.session) as session:
            session.project = event.project or session.project
            session.unguarded = ""
            if session.paused:
                return SILENCE
            return _Visit(self, event, session).answer()


class _Visit:
    """One event at the desk, within the session's transaction."""

    def __init__(self, desk: Desk, event: HookEvent, session: Session) -> None:
        self._desk = desk
        self._host = desk.host
        self._event = event
        self._session = session
        self._verbs: Verbs = desk.guard.session(f"{desk.host.name}:{event.session}")
        self._run = _run_of(event, session.goes_on)

    def answer(self) -> Answer:
        event, session = self._event, self._session
        agent = event.agent or ""
        if event.kind in {"before", "after", "failed", "batch"} and event.calls:
            session.runs[agent] = self._run
        match event.kind:
            case "before":
                return self._before(event.calls[0]) if event.calls else SILENCE
            case "after" | "failed":
                return self._after(event.calls[0]) if event.calls else SILENCE
            case "batch":
                return self._batch()
            case "prompt":
                self._prompt()
            case "compacted":
                return self._compacted()
            case "request":
                return self._request()
            case "ended":
                self._ended()
        return SILENCE

    def _before(self, asked: HookCall) -> Answer:
        known = self._find(asked.call_id)
        if known is not None and not known.over:  # two hooks for one call: the same answer
            return _again(known)
        digest = asked.digest
        call = Call(id=asked.call_id or self._made_id(), digest=digest, run=self._run)
        turn = self._turn(digest)
        verdict = self._met(asked, call, turn)
        answer = SILENCE
        if verdict.action in _REFUSED:
            call.asked = self._desk.asks and verdict.action == "block"
            call.refused = not call.asked
            answer = self._refusal(verdict, call.run, "ask" if call.asked else None)
        else:
            turn.open.append(call.id)
            answer = self._warning(verdict, call)
        return _keep(call, answer)

    def _prompt(self) -> None:
        """Somebody wrote: a person in another run or in this one, or the host itself."""
        event, session = self._event, self._session
        run = session.runs.get("")
        if event.run is None or event.run == run:
            if not event.notice:
                self._verbs.user_message(run_id=event.run)
        elif event.notice and run is not None:
            session.goes_on[event.run] = run

    def _met(self, asked: HookCall, call: Call, turn: Turn) -> Verdict:
        session = self._session
        session.calls.append(call)
        if session.compacted and self._event.agent is None:
            session.compacted = False
            self._verbs.compacted(run_id=call.run, at=self._desk.clock())
        return self._ask(asked, call, turn)

    def _ask(self, asked: HookCall, call: Call, turn: Turn) -> Verdict:
        verdict = self._tell(asked, call, turn)
        if verdict.action in _REFUSED and verdict.key in self._session.released:
            self._verbs.forget(run_id=call.run)
            self._done(verdict, "released")
            verdict = self._tell(asked, call, turn)
        return verdict

    def _tell(self, asked: HookCall, call: Call, turn: Turn) -> Verdict:
        return self._verbs.before(
            asked.tool,
            asked.arguments,
            call_id=call.id,
            run_id=call.run,
            turn_id=f"{call.run or ''}/{self._event.turn or turn.number}",
            at=self._desk.clock(),
        )

    def _after(self, told: HookCall) -> Answer:
        call = self._find(told.call_id) if told.call_id is not None else self._first_open(told.digest)
        if call is None or call.refused:
            return SILENCE
        if call.over:
            return _again(call)
        return self._end(call, told)

    def _end(self, call: Call, told: HookCall) -> Answer:
        """The end of a call that was let through: the answer to its event.

        A note is for the model, and is said once where two hooks are called for one call.
        """
        call.over = True
        _keep(call, SILENCE)
        self._close(call)
        if told.interrupted:  # a person stopped it: it counts for nothing
            self._verbs.retract([call.id], run_id=call.run)
            return SILENCE
        if call.asked:  # a person let it run: the evidence starts afresh
            self._verbs.forget(run_id=call.run)
            return SILENCE
        why = self._session.ended.pop(told.made, None) if told.made is not None else None
        if why is not None:  # the host gives an empty result, as if all was well
            call.note = f"{call.note} {why}".strip()
            told = replace(told, error=why)
        verdict = self._outcome(call, told, told.tool if told.unknown else None)
        if verdict.action in _REFUSED:
            return _keep(call, self._refusal(verdict, call.run))
        note, call.note = call.note, ""
        return self._say("note", note, "") if note else SILENCE

    def _outcome(self, call: Call, told: HookCall, unknown_tool: str | None = None) -> Verdict:
        return self._verbs.after(
            call.id,
            result=told.result if told.error is None else None,
            error=told.error,
            unknown_tool=unknown_tool,
            run_id=call.run,
            at=self._desk.clock(),
        )

    def _batch(self) -> Answer:
        """All calls of a reply are over: those that no other event told of are told here."""
        answers = [self._late(told) for told in self._event.calls if told.call_id is not None]
        self._session.batched = True
        turn = self._session.turns.get(self._run or "")
        if turn is not None:
            turn.next(0 if self._turns_are_told() else 1)
        ending = self._session.endings.pop(self._run or "", None) if "batch" in self._host.aborts else None
        if ending is not None:
            return self._say("end", ending, "")
        said = [answer for answer in answers if answer != SILENCE]
        return said[-1] if said else SILENCE

    def _late(self, told: HookCall) -> Answer:
        call = self._find(told.call_id)
        if call is not None:
            return SILENCE if call.over or call.refused else self._denied(call, told)
        call = Call(id=told.call_id or "", digest=told.digest, run=self._run)
        verdict = self._met(told, call, self._turn(call.digest))
        call.over = True
        if verdict.action in _REFUSED:  # it is too late to refuse this one; the model is told
            return self._refusal(verdict, call.run, None if verdict.action == "abort" else "note")
        missing = told.tool if told.says_missing(self._host) else None
        answer = self._warning(verdict, call)
        ended = self._outcome(call, told, missing)
        return self._refusal(ended, call.run) if ended.action in _REFUSED else answer

    def _denied(self, call: Call, told: HookCall) -> Answer:
        """The end of a call that only the batch tells of: a person, a rule or another hook said no to it."""
        if call.asked:
            call.refused = True
            return SILENCE
        if told.error is None and not told.went_well:
            told = replace(told, error=told.text or "the call was denied")
        return self._end(call, told)

    def _compacted(self) -> Answer:
        session, agent = self._session, self._event.agent
        run = self._run if self._run is not None else session.runs.get(agent or "")
        if agent is None and not any(call.run == run for call in session.calls):
            session.compacted = True
            return SILENCE
        verdict = self._verbs.compacted(run_id=run, at=self._desk.clock())
        if verdict.action not in _REFUSED:
            return SILENCE
        if "compacted" in self._host.aborts:
            return self._refusal(verdict, run)
        self._done(verdict, verdict.action)
        return SILENCE

    def _request(self) -> Answer:
        """The next turn of a run, and the place to end one.

        A request whose history begins with a summary that was not there before follows a compaction.
        """
        session, summary = self._session, self._event.summary
        turn = session.turns.get(self._run or "")
        if turn is not None:
            session.told = True
            turn.next()
        ending = session.endings.pop(self._run or "", None)
        if ending is not None:
            return self._say("end", ending, "")
        if summary is None:
            return SILENCE
        known, session.summaries = session.summaries, session.summaries or []
        if not summary or summary in session.summaries:
            return SILENCE
        session.summaries.append(summary)
        return SILENCE if known is None else self._compacted()

    def _ended(self) -> None:
        session = self._session
        for run in {call.run for call in session.calls} | set(session.runs.values()):
            self._verbs.forget(run_id=run)
        session.calls.clear()
        session.turns.clear()
        session.runs.clear()
        session.goes_on.clear()
        session.ended.clear()

    def _find(self, call_id: str | None) -> Call | None:
        """The newest call with an id; none where the host gives none."""
        if call_id is None:
            return None
        return next((call for call in reversed(self._session.calls) if call.id == call_id), None)

    def _first_open(self, digest: str) -> Call | None:
        """The oldest call like this one that is not over."""
        calls = self._session.calls
        return next((c for c in calls if c.digest == digest and not c.over and not c.refused), None)

    def _made_id(self) -> str:
        self._session.made += 1
        return f"made-{self._session.made}"

    def _turn(self, digest: str) -> Turn:
        """The turn that a new call belongs to.

        It ends with its batch, or with the next request to the model. Where nothing tells of these, calls
        that overlap are taken for calls of one reply. A call whose end nobody told of does not keep the turn
        open for ever: the same call, after its end, begins a new one.
        """
        turn = self._session.turns.setdefault(self._run or "", Turn())
        known = self._session.batched or self._turns_are_told()
        if not known and (not turn.open or digest in turn.over):
            turn.next()
        return turn

    def _turns_are_told(self) -> bool:
        return self._session.told and self._event.agent is None  # sub-agents tell of no request

    def _close(self, call: Call) -> None:
        turn = self._session.turns.get(call.run or "")
        if turn is not None and call.id in turn.open:
            turn.open.remove(call.id)
            turn.over.append(call.digest)

    def _warning(self, verdict: Verdict, call: Call) -> Answer:
        if verdict.would is not None and verdict.announce:
            self._done(verdict, f"would {verdict.would}")
        if verdict.action != "warn" or not verdict.announce or verdict.message is None:
            return SILENCE
        self._done(verdict, "warn")
        if self._event.kind == "before" and not {"after", "failed"}.isdisjoint(self._host.warns):
            call.note = verdict.message
            return SILENCE
        return self._say("note", verdict.message, "")

    def _refusal(self, verdict: Verdict, run: str | None, decision: Decision | None = None) -> Answer:
        self._done(verdict, verdict.action)
        ends = verdict.action == "abort"
        can_end = self._event.kind in self._host.aborts
        text = verdict.message or ""
        if decision == "ask":
            text = text.partition(_OF_THIS_CALL)[0]
        what = "ended the run" if ends else "asks about a call" if decision == "ask" else "refused a call"
        person = (
            f"loopwarden {what}: {verdict.tool or self._event.name}, {verdict.count} times "
            f"({verdict.detector}). To let this loop pass: loopwarden allow {verdict.key}; "
            f"to silence the guard in this session: loopwarden pause {self._session.name}"
        )
        if ends and can_end and self._event.agent is not None:
            self._session.ended[self._event.agent] = f"It was ended: {text.partition(_OF_THIS_CALL)[0]}"
        elif ends and not can_end:
            later = "batch" in self._host.aborts
            if later or ("request" in self._host.aborts and self._event.agent is None):
                self._session.endings[run or ""] = text
            else:
                text = f"{text} {_SOFT}"
        chosen: Decision = decision or ("end" if ends and can_end else "refuse")
        return self._say(chosen, text, person, news=verdict.announce or ends or chosen == "ask")

    def _say(self, decision: Decision, text: str, person: str, *, news: bool = True) -> Answer:
        event = self._event
        saying = Saying(decision=decision, text=text, person=person, news=news)
        return say(self._host, event.kind or "before", event.name, saying)

    def _done(self, verdict: Verdict, action: str) -> None:
        session = self._session
        self._desk.ledger.done(
            Deed(
                at=self._desk.clock(),
                host=session.host,
                session=session.name,
                project=session.project,
                tool=verdict.tool,
                action=action,
                detector=verdict.detector,
                count=verdict.count,
                key=verdict.key,
            )
        )


def _run_of(event: HookEvent, goes_on: dict[str, str]) -> str | None:
    """The run of an event: a sub-agent has its own."""
    run = event.run if event.run is None else goes_on.get(event.run, event.run)
    return run if event.agent is None else f"{run or ''}/{event.agent}"


def _keep(call: Call, answer: Answer) -> Answer:
    """Remember what was answered, for a hook that is called twice."""
    call.out, call.err, call.code = answer.out.decode(), answer.err.decode(), answer.code
    return answer


def _again(call: Call) -> Answer:
    return Answer(call.out.encode(), call.err.encode(), call.code)
