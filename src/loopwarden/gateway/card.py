"""One run on the board: what the guard and the runner told of it, put together and bounded."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal

from loopwarden.gateway.glimpse import Glimpse, look
from loopwarden.gateway.names import loop_name
from loopwarden.gateway.rows import Armed, Call, Counts, Ending, Loop, Note
from loopwarden.masking import clean

if TYPE_CHECKING:
    from loopwarden.events import Outcome, Verdict
    from loopwarden.gateway.rows import NoteKind, RunEnd

NAME: Final = 100
"""Characters of a name that are kept."""

TEXT: Final = 600
"""Characters of a message that are kept."""

_ID: Final = 200
_NOTES: Final = 100
_LOOPS: Final = 32
_SIGNATURES: Final = 512
_IN_LOOP: Final = 64
_TOOLS: Final = 64
_SIZE: Final = 8

_STRONG: Final = 8
_PALE: Final = 8

_REFUSED: Final = frozenset({"block", "abort"})


class Card:
    """A run.

    Args:
        name: See `names.run_name`.
        session: Id of the session; `None`: the unscoped one.
        run: Id of the run; the same.
        agent: Whose settings the guard has, or who runs.
        now: Seconds since the epoch.
        most_calls: Calls that are kept.
        show_arguments: Whether arguments and texts are kept.

    Attributes:
        name: As given.
        session: Harmless and short.
        run: The same.
        run_id: The id itself where the runner runs it, for `cancel`.
        agent: Harmless and short.
        trigger: What began it (`user`, `heartbeat`, `spawn`); `None` for agents elsewhere.
        parent: Id of the run that began it, harmless and short.
        began: Seconds since the epoch.
        seen: Time of the last event.
        calls: The last calls.
        notes: The last notes.
        loops: The last loops by name.
        tools: Names of the tools that were called, up to 64.
        counts: Sums.
        armed: The post-compaction guard while it looks.
        ending: Why it is over; `None`: it goes on.
        lifted: The guard had ended it, a person lets the loop through, and no call came since.
        tokens: Input and output tokens; `None`: unknown.
        requests: Model requests; `None`: unknown.
        observes: Whether the guard only observes.
        colours: Class of each signature that came more than once.
    """

    def __init__(
        self,
        name: str,
        session: str | None,
        run: str | None,
        agent: str | None,
        now: float,
        *,
        most_calls: int,
        show_arguments: bool,
    ) -> None:
        self.name = name
        self.session = None if session is None else clean(session, NAME)
        self.run = None if run is None else clean(run, NAME)
        self.run_id: str | None = None
        self.agent = None if agent is None else clean(agent, NAME)
        self.trigger: str | None = None
        self.parent: str | None = None
        self.began = self.seen = now
        self.calls: deque[Call] = deque()
        self.notes: deque[Note] = deque(maxlen=_NOTES)
        self.loops: OrderedDict[str, Loop] = OrderedDict()
        self.tools: dict[str, None] = {}
        self.counts = Counts()
        self.armed: Armed | None = None
        self.ending: Ending | None = None
        self.lifted: Ending | None = None
        self.tokens: tuple[int, int] | None = None
        self.requests: int | None = None
        self.observes = False
        self.colours: OrderedDict[bytes, str] = OrderedDict()
        self.shows = show_arguments
        self._most = most_calls
        self._by_id: dict[str, Call] = {}
        self._known: OrderedDict[bytes, tuple[int, bytes | None, Glimpse | None]] = OrderedDict()
        self._looks: OrderedDict[bytes, bytes] = OrderedDict()
        self._given = [0, 0]
        self._compacted_by: Literal["guard", "runner"] | None = None

    def known_call(self, call_id: object) -> Call | None:
        """The newest call with an id that is still kept."""
        return self._by_id.get(_id(call_id))

    def signature(self, tool: str, arguments: object, compared: bytes | None) -> bytes:
        """What the guard compares a call by.

        Where it does not tell, as in a run that it ended or while it is paused, that is what it compared a
        call by that looked like this one.
        """
        signature = None if compared is None else compared[:_SIZE]
        if signature is not None and signature in self._known:
            return signature
        seen = look(tool, arguments, _SIZE)
        if signature is None:
            return self._looks.get(seen, seen)
        self._looks[seen] = signature
        if len(self._looks) > _SIGNATURES:
            self._looks.popitem(last=False)
        return signature

    def call(
        self,
        tool: str,
        arguments: object,
        call_id: object,
        turn: str | None,
        signature: bytes | None,
        now: float,
    ) -> Call:
        """A new call; without a signature until the guard tells of it."""
        counts = self.counts
        counts.calls += 1
        signature = look(tool, arguments, _SIZE) if signature is None else signature
        times, outcome, glimpse = self._known.pop(signature, (0, None, None))
        if glimpse is None and self.shows:
            glimpse = Glimpse(arguments)
        self._known[signature] = times + 1, outcome, glimpse
        if len(self._known) > _SIGNATURES:
            self.colours.pop(self._known.popitem(last=False)[0], None)
        if times == 1:
            self._colour(signature, strong=False)
        call = Call(
            number=counts.calls,
            id=_id(call_id),
            tool=clean(tool, NAME),
            signature=signature,
            glimpse=glimpse,
            turn=None if turn is None else _id(turn),
            at=now,
        )
        if len(self.tools) < _TOOLS:
            self.tools[call.tool] = None
        self.calls.append(call)
        self._by_id[call.id] = call
        if len(self.calls) > self._most:
            self._drop()
        return call

    def recompared(self, call: Call, signature: bytes) -> None:
        """The guard tells of a call that the runner told of first."""
        if call.signature == signature:
            return
        times, _, glimpse = self._known.pop(call.signature, (1, None, None))
        if times > 1:
            self._known[call.signature] = times - 1, None, glimpse
        call.signature = signature
        times, outcome, known = self._known.pop(call.signature, (0, None, None))
        self._known[call.signature] = times + 1, outcome, known or glimpse
        if times == 1:
            self._colour(call.signature, strong=False)

    def answered(self, call: Call, verdict: Verdict) -> None:
        """What the guard said of a call."""
        counts = self.counts
        acts = verdict.action
        call.action, call.would = acts, verdict.would
        call.detector, call.count = verdict.detector, verdict.count
        counts.warned += acts == "warn"
        counts.would_warn += verdict.would == "warn"
        counts.would_refuse += verdict.would in _REFUSED
        if acts in _REFUSED:
            counts.refused += 1
            call.state = "refused"
        loop = self._loop(verdict)
        if loop is not None:
            call.loop = loop.name
            loop.warned += acts == "warn"
            loop.refused += acts in _REFUSED
            self._belongs(call, loop)

    def let_through(self, call: Call) -> None:
        """The refusal of a call was taken back by a person."""
        self.counts.refused -= 1
        loop = self.loops.get(call.loop or "")
        if loop is not None:
            loop.refused -= 1
        call.released, call.state = True, "open"
        self.ending = None

    def ended_call(self, call: Call, *, failed: bool, compared: bytes | None, now: float) -> None:
        """The outcome of a call; told by the guard and by the runner, it counts once."""
        if call.state == "open":
            call.state, call.ended = "failed" if failed else "ok", now
            self.counts.failed += failed
        if compared is None or call.state not in {"ok", "failed"}:
            return
        times, outcome, glimpse = self._known.get(call.signature, (1, None, call.glimpse))
        call.same = None if outcome is None else outcome == compared[:_SIZE]
        self._known[call.signature] = times, compared[:_SIZE], glimpse
        self._look(call, compared)

    def found(self, verdict: Verdict, call: Call | None) -> None:
        """What the guard said of an outcome or a compaction."""
        loop = self._loop(verdict)
        if loop is not None and call is not None:
            call.action, call.would = verdict.action, verdict.would
            call.detector, call.count, call.loop = verdict.detector, verdict.count, loop.name
            self._belongs(call, loop)

    def stopped(self, verdict: Verdict, now: float) -> None:
        """The guard ended the run."""
        self.armed = self.lifted = None
        if self.ending is None:
            text, loop = clean(verdict.message or "", TEXT), loop_name(verdict.key or verdict.detector or "")
            self.ending = Ending(reason="aborted", at=now, code=verdict.error, text=text, loop=loop)

    def released(self, loop: str) -> None:
        """A person lets a loop through; a run that the guard ended for it, and that can go on, goes on."""
        if self.trigger is None and self.ending is not None and self.ending.loop == loop:
            self.lifted, self.ending = self.ending, None

    def held(self, loop: str) -> None:
        """A loop is guarded again; where no call came since it was let through, nothing has changed."""
        if self.lifted is not None and self.lifted.loop == loop:
            self.ending, self.lifted = self.lifted, None

    def ended(self, reason: RunEnd, now: float, *, code: str | None = None, text: str = "") -> None:
        """The run is over; what the guard said of it before stands."""
        self.armed = self.lifted = None
        if self.ending is None or (self.ending.reason == "over" and reason != "over"):
            self.ending = Ending(reason=reason, at=now, code=code, text=clean(text, TEXT))

    def goes_on(self) -> None:
        """Something happened in a run that was taken for over."""
        self.lifted = None
        if self.ending is not None and self.ending.reason in {"over", "aborted", "interrupted"}:
            self.ending = None

    def compacted(self, by: Literal["guard", "runner"], now: float, *, text: str = "") -> None:
        """The history was summarised; told by both, it is one compaction."""
        other = self._compacted_by not in {None, by}
        self._compacted_by = None if other else by
        if not other:
            self.counts.compactions += 1
            self.note("compaction", now, text)
        elif text:
            for place in range(len(self.notes) - 1, -1, -1):
                if self.notes[place].kind == "compaction":
                    self.notes[place] = replace(self.notes[place], text=clean(text, TEXT))
                    break

    def arm(self, window: int) -> None:
        """The guard looks at the next outcomes."""
        self.armed = Armed(window=window, left=window)

    def renamed(self, name: str, run: str | None) -> None:
        """The run goes on under another id."""
        self.name = name
        self.run = None if run is None else clean(run, NAME)

    def retracted(self, call_ids: tuple[str, ...]) -> None:
        """Calls are rolled back."""
        for call_id in call_ids[: self._most]:
            call = self.known_call(call_id)
            if call is not None and call.state != "retracted":
                call.state = "retracted"

    def note(self, kind: NoteKind, now: float, text: str = "") -> None:
        """Something between two calls."""
        self.notes.append(Note(kind=kind, at=now, after=self.counts.calls, text=clean(text, TEXT)))

    def trim(self, most: int) -> int:
        """Keep only the last calls; the answer is how many were dropped."""
        dropped = max(len(self.calls) - most, 0)
        for _ in range(dropped):
            self._drop()
        return dropped

    def _look(self, call: Call, compared: bytes) -> None:
        """One more outcome in the armed window; identical calls of one reply have one place in it."""
        armed = self.armed
        if armed is None or not call.by_guard:
            return
        if call.turn is not None:
            triple = call.turn, call.signature, compared[:_SIZE]
            if triple in armed.seen:
                return
            armed.seen.add(triple)
        armed.left -= 1
        if armed.left <= 0:
            self.armed = None

    def _loop(self, verdict: Verdict) -> Loop | None:
        if verdict.detector is None:
            return None
        name = loop_name(verdict.key or verdict.detector)
        loop = self.loops.pop(name, None)
        if loop is None:
            loop = Loop(name=name, detector=verdict.detector)
        self.loops[name] = loop
        if len(self.loops) > _LOOPS:
            self.loops.popitem(last=False)
        action = verdict.would or verdict.action
        loop.detector, loop.level, loop.action = verdict.detector, verdict.level, action
        loop.observed = verdict.would is not None
        loop.count, loop.threshold = verdict.count, verdict.threshold
        tools = (verdict.tool, *verdict.paired_tools) if verdict.tool is not None else verdict.paired_tools
        loop.tools = tuple(clean(tool, NAME) for tool in tools[:8]) or loop.tools
        loop.message = clean(verdict.message, TEXT) if verdict.message else loop.message
        return loop

    def _belongs(self, call: Call, loop: Loop) -> None:
        if len(loop.signatures) < _IN_LOOP:
            loop.signatures[call.signature] = None
        self._colour(call.signature, strong=True)

    def _colour(self, signature: bytes, *, strong: bool) -> None:
        if self.colours.get(signature, "").startswith("s" if strong else ("s", "m")):
            return
        number = self._given[strong]
        self._given[strong] += 1
        self.colours[signature] = f"s{number % _STRONG + 1}" if strong else f"m{number % _PALE + 1}"
        if len(self.colours) > _SIGNATURES:
            self.colours.popitem(last=False)

    def _drop(self) -> None:
        gone = self.calls.popleft()
        if self._by_id.get(gone.id) is gone:
            del self._by_id[gone.id]


def _id(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    if len(text) <= _ID:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def failed(event: Outcome) -> bool:
    """Whether the host says of an outcome that it is a failure: an error, its flag, or an exit code."""
    if event.error is not None or event.unknown_tool is not None or event.timed_out:
        return True
    if not isinstance(event.result, dict):
        return False
    details = event.result.get("details")
    code = details.get("exitCode") if isinstance(details, dict) else None
    return event.result.get("isError") is True or (isinstance(code, int) and code != 0)
