"""One hook event through the guard: pairs it with what was before, asks, and says what to answer."""

from __future__ import annotations

import json
import time
from hashlib import blake2b
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

_MISSING: Final = ("no such tool", "not found in registry", "unknown tool", "does not exist", "not available")
"""What hosts say of a tool that doesn't exist, in small letters, where nothing but the text tells it."""


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
        self._run = _run_of(event)

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
                if self._run is None:
                    self._verbs.user_message()
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
        digest = _digest(asked)
        call = Call(id=asked.call_id or self._made_id(), digest=digest, run=self._run)
        self._session.calls.append(call)
        turn = self._turn(digest)
        verdict = self._ask(asked, call, turn)
        answer = SILENCE
        if verdict.action in _REFUSED:
            call.asked = self._desk.asks and verdict.action == "block"
            call.refused = not call.asked
            answer = self._refusal(verdict, call, "ask" if call.asked else None)
        else:
            turn.open.append(call.id)
            answer = self._warning(verdict, call)
        return _keep(call, answer)

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
            turn_id=f"{call.run or ''}/{turn.number}",
            at=self._desk.clock(),
        )

    def _after(self, told: HookCall) -> Answer:
        call = self._find(told.call_id) if told.call_id is not None else self._first_open(_digest(told))
        if call is None or call.refused:
            return SILENCE
        if call.over:
            return _again(call)
        return _keep(call, self._end(call, told))

    def _end(self, call: Call, told: HookCall) -> Answer:
        """The end of a call that was let through: the answer to its event."""
        call.over = True
        self._close(call)
        if told.interrupted:  # a person stopped it: it counts for nothing
            self._verbs.retract([call.id], run_id=call.run)
            return SILENCE
        if call.asked:  # a person let it run: the evidence starts afresh
            self._verbs.forget(run_id=call.run)
            return SILENCE
        verdict = self._outcome(call, told)
        if verdict.action in _REFUSED:
            return self._refusal(verdict, call)
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
        turn = self._session.turns.get(self._run or "")
        if turn is not None:
            turn.next(0 if self._turns_are_told() else 1)
        said = [answer for answer in answers if answer != SILENCE]
        return said[-1] if said else SILENCE

    def _late(self, told: HookCall) -> Answer:
        call = self._find(told.call_id)
        if call is not None:
            return SILENCE if call.over or call.refused else self._end(call, told)
        call = Call(id=told.call_id or "", digest=_digest(told), run=self._run)
        self._session.calls.append(call)
        verdict = self._ask(told, call, self._turn(call.digest))
        call.over = True
        if verdict.action in _REFUSED:  # it is too late to refuse this one; the model is told
            return self._refusal(verdict, call, None if verdict.action == "abort" else "note")
        missing = told.tool if _says_missing(told) else None
        answer = self._warning(verdict, call)
        ended = self._outcome(call, told, missing)
        return self._refusal(ended, call) if ended.action in _REFUSED else answer

    def _compacted(self) -> Answer:
        run = self._run if self._run is not None else self._session.runs.get(self._event.agent or "")
        verdict = self._verbs.compacted(run_id=run, at=self._desk.clock())
        if verdict.action in _REFUSED:
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

        Where nothing tells of requests to the model, calls that overlap are taken for calls of one reply.
        A call whose end nobody told of does not keep the turn open for ever: the same call, after its end,
        begins a new one.
        """
        turn = self._session.turns.setdefault(self._run or "", Turn())
        if not self._turns_are_told() and (not turn.open or digest in turn.over):
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
        if self._event.kind == "before" and "after" in self._host.warns:
            call.note = verdict.message
            return SILENCE
        return self._say("note", verdict.message, "")

    def _refusal(self, verdict: Verdict, call: Call, decision: Decision | None = None) -> Answer:
        self._done(verdict, verdict.action)
        ends = verdict.action == "abort"
        can_end = self._event.kind in self._host.aborts
        text = verdict.message or ""
        if ends and not can_end:
            if "request" in self._host.aborts and self._event.agent is None:
                self._session.endings[call.run or ""] = text
            else:
                text = f"{text} {_SOFT}"
        what = "ended the run" if ends else "refused a call"
        person = (
            f"loopwarden {what}: {verdict.tool or self._event.name}, {verdict.count} times "
            f"({verdict.detector}). To let this loop pass: loopwarden allow {verdict.key}; "
            f"to silence the guard in this session: loopwarden pause {self._session.name}"
        )
        chosen: Decision = decision or ("end" if ends and can_end else "refuse")
        return self._say(chosen, text, person)

    def _say(self, decision: Decision, text: str, person: str) -> Answer:
        event = self._event
        saying = Saying(decision=decision, text=text, person=person)
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


def _run_of(event: HookEvent) -> str | None:
    """The run of an event: a sub-agent has its own."""
    return event.run if event.agent is None else f"{event.run or ''}/{event.agent}"


def _digest(call: HookCall) -> str:
    """Of tool and arguments, to pair a call with its end."""
    text = json.dumps([call.tool, call.arguments], sort_keys=True, default=repr)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _says_missing(told: HookCall) -> bool:
    text = told.error if told.error is not None else told.result
    return isinstance(text, str) and any(phrase in text[:400].lower() for phrase in _MISSING)


def _keep(call: Call, answer: Answer) -> Answer:
    """Remember what was answered, for a hook that is called twice."""
    call.out, call.err, call.code = answer.out.decode(), answer.err.decode(), answer.code
    return answer


def _again(call: Call) -> Answer:
    return Answer(call.out.encode(), call.err.encode(), call.code)
