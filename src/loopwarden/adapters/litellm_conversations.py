"""The conversations behind a LiteLLM proxy: which a request belongs to, and what the model is to be shown."""

from __future__ import annotations

import json
import uuid
from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import orjson

from loopwarden.adapters.litellm_formats import answered_in, asked_in
from loopwarden.adapters.message_formats import ids_of
from loopwarden.adapters.messages import GuardedMessages
from loopwarden.errors import LoopAborted, StoreError
from loopwarden.events import Verdict
from loopwarden.transcripts.messages import Words

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from loopwarden.adapters.litellm_formats import Chat, Item
    from loopwarden.guard import LoopGuard, Verbs
    from loopwarden.shared_runs import SharedRuns
    from loopwarden.transcripts.messages import Message, Step

Scope = tuple[str | None, str | None]
"""Whose conversations are told apart: digest of the key of the proxy, and session."""

Name = tuple[str | None, ...]
"""By what a conversation is found: its scope, and a call of it with or without how it began, or a summary."""

_TURNS: Final = 64
"""Newest replies of a conversation by which it is found again."""

_MOST: Final = 32
"""Refusals, and notes, that are kept for a conversation; the oldest go first."""

_TELLING: Final = 40
"""Characters from which a line of a summary tells where the summary is from."""

_LINES: Final = 2_000
"""Lines of a list without known calls that are looked at."""

_LARGEST: Final = 100_000
"""Bytes of a refused reply that is kept to be shown again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A reply with refused calls.

    Attributes:
        reply: The whole reply.
        texts: The refusals by call id.
        anchor: First call of the reply before it; where calls were left over, the first of those.
        beside: Whether calls were left over.
    """

    reply: list[Item]
    texts: dict[str, str]
    anchor: str
    beside: bool


class Conversation(GuardedMessages):
    """One agent's list of messages as it is seen by a proxy, which gets it before and after each reply.

    Attributes:
        notes: Warnings by call id; the client does not keep them.
        refused: Refusals that the model is to see again; the client does not know of them.
        names: By what the conversation is found.
    """

    def __init__(self, verbs: Verbs, run_id: str | None = None) -> None:
        super().__init__(verbs, run_id=run_id)
        self.notes: OrderedDict[str, str] = OrderedDict()
        self.refused: deque[Refused] = deque(maxlen=_MOST)
        self.names: deque[Name] = deque(maxlen=2 * _TURNS)
        self._ended_run: tuple[str, Verdict] | None = None

    @property
    def base(self) -> str:
        """Id of its first run; its own name."""
        return self._base

    def heard(self, parsed: Sequence[Message], tools: Collection[str] | None, *, part: bool) -> None:
        """A request came; `part`: it holds only what is new.

        Raises:
            LoopAborted: The guard ends the run, or has ended it.
        """
        self._tools = tools
        try:
            if part:
                self._read(parsed, person=True)
            else:
                self._news(parsed)
        except LoopAborted as aborted:
            self._ended_run = self.run_id, aborted.verdict
        if self._ended_run is not None and self._ended_run[0] == self.run_id:
            raise LoopAborted(self._ended_run[1])

    def said(
        self, parsed: Sequence[Message], reply: Sequence[Message], *, part: bool
    ) -> tuple[list[str], dict[str, str]]:
        """The model replied to a request that was heard.

        Returns:
            The calls that may run, and the refusals of the others by call id.

        Raises:
            LoopAborted: The guard ends the run.
        """
        news = self._read(reply, person=False) if part else self._news([*parsed, *reply], person=False)
        calls, verdicts = news or ((), [])
        refused: dict[str, str] = {}
        for call, verdict in zip(calls, verdicts, strict=True):
            if verdict.action == "abort":
                self._ended_run = self.run_id, verdict
                raise LoopAborted(verdict)
            if verdict.action == "block":
                refused[call.call_id] = verdict.message or ""
        allowed = [call.call_id for call in calls if call.call_id not in refused]
        if refused and not part:  # what the client will not know of is no part of its list
            self._turns[-1:] = [tuple(allowed)] if allowed else []
        return allowed, refused

    def remember(self, anchor: str | None, reply: list[Item], texts: dict[str, str], *, beside: bool) -> None:
        """Keep a refusal, unless there is no place for it or it is too large."""
        if anchor is not None and len(orjson.dumps(reply)) <= _LARGEST:
            self.refused.append(Refused(reply=reply, texts=texts, anchor=anchor, beside=beside))

    def shown(self, dialect: Chat, items: list[Item]) -> list[Item]:
        """The history as the model is to see it: with the refusals, and the notes on results."""
        if self.refused:
            items = self._with_refusals(dialect, items)
        return [dialect.noted(item, self.notes) for item in items] if self.notes else items

    def _with_refusals(self, dialect: Chat, items: list[Item]) -> list[Item]:
        found: list[Item] = []
        waiting: list[Item] = []
        answered = False
        for item in items:
            parsed = dialect.parsed([item])
            asked, given = asked_in(parsed), bool(answered_in(parsed))
            if waiting and answered and not given:
                dialect.put(found, waiting)
                waiting = []
            at = [refused for refused in self.refused if refused.anchor in asked]
            answered = given if asked or given else answered
            whole = next((each for each in at if each.beside), None)
            found += [item] if whole is None else dialect.whole(item, whole.reply, whole.texts)
            for refused in at:
                waiting += [] if refused.beside else refused.reply
                waiting += dialect.refusals(refused.texts, refused.reply)
        if waiting and answered:
            dialect.put(found, waiting)
        return found

    def _begin(self) -> None:
        """See `GuardedMessages`; what asks for a summary looks like a person, so the run before is kept."""
        if self._number > 1:
            self._verbs.forget(run_id=self._id_of(self._number - 1))
        self._number += 1
        self._worked = False
        self._open.clear()

    def _is_another(self, parsed: Sequence[Message], *, turns_lost: int) -> bool:
        """See `GuardedMessages`; `Conversations` told that already."""
        return False

    def _remember(self, parsed: Sequence[Message]) -> None:
        """See `GuardedMessages`; not needed here."""

    def _aligned(self, turns: list[tuple[str, ...]], parsed: Sequence[Message]) -> tuple[int, bool]:
        """See `GuardedMessages`; what asked for the summary of a compacted list was no person."""
        kept, compacted = super()._aligned(turns, parsed)
        before = self._id_of(self._number - 1)
        ended = self._ended_run is not None and self._ended_run[0] == before
        if compacted and not self._worked and self._number > 1 and not ended:
            self._number -= 1
            self._worked = True
        return kept, compacted

    def _before(self, call: Any) -> Verdict:
        verdict = super()._before(call)
        note = self._open.get(call.call_id, (None, None))[1]
        if note is not None:
            self.notes[call.call_id] = note
            while len(self.notes) > _MOST:
                self.notes.popitem(last=False)
        return verdict

    def saved(self) -> bytes:
        """What other workers need to go on: ids, names of tools and the guard's own words."""
        ended = self._ended_run
        return orjson.dumps(
            {
                "base": self._base,
                "number": self._number,
                "turns": self._turns,
                "length": self._length,
                "replies": self._replies,
                "open": self._open,
                "worked": self._worked,
                "notes": self.notes,
                "ended": None if ended is None else [ended[0], asdict(ended[1])],
            }
        )

    def restore(self, saved: bytes) -> None:
        """Go on from what another worker saved."""
        state = orjson.loads(saved)
        self._base, self._number = state["base"], state["number"]
        self._turns = [tuple(ids) for ids in state["turns"]]
        self._length, self._replies, self._worked = state["length"], state["replies"], state["worked"]
        self._open = {call_id: (tool, note) for call_id, (tool, note) in state["open"].items()}
        self.notes = OrderedDict(state["notes"])
        ended = state["ended"]
        if ended is not None:
            verdict = Verdict(**ended[1] | {"paired_tools": tuple(ended[1]["paired_tools"])})
            self._ended_run = ended[0], verdict


class Conversations:
    """Finds the conversation of a request by the ids of its calls.

    Those that were idle for longest are forgotten first.

    Args:
        guard: Is told of them; where it has a store, the conversations are shared through it as well.
        most: How many are kept in this process.
    """

    def __init__(self, guard: LoopGuard, most: int) -> None:
        self._guard = guard
        self._shared: SharedRuns | None = guard.shared
        self._most = most
        self._kept: OrderedDict[str, Conversation] = OrderedDict()
        self._names: dict[Name, str] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, scope: Scope, parsed: Sequence[Message]) -> Conversation:
        """The conversation of a request; a new one if none of its calls is known."""
        turns = [ids[0] for message in parsed if (ids := ids_of(message))]
        calls = turns or answered_in(parsed)
        begin = _beginning(parsed)
        for start in (begin, None):
            for call_id in reversed(calls[-_TURNS:]):
                found = self._known((*scope, start, call_id))
                if found is not None:
                    return found
        for line in _lines(parsed, "user") if not turns else ():
            found = self._known((*scope, "summary", _digest(line)), here=True)
            if found is not None:
                return found
        return self._new(scope[1], uuid.uuid4().hex)

    def keep(
        self,
        scope: Scope,
        parsed: Sequence[Message],
        conversation: Conversation,
        calls: Sequence[str] = (),
        words: Sequence[Message] = (),
    ) -> None:
        """A reply of the conversation goes to the client.

        Args:
            scope: As in `of`.
            parsed: What the client said.
            conversation: Is not kept before it has calls.
            calls: The calls that the client gets.
            words: A reply without calls. The client may make it the beginning of a compacted history.
        """
        base = conversation.base
        if not calls and base not in self._kept:
            return
        self._kept[base] = conversation
        self._kept.move_to_end(base)
        names: list[Name] = [(*scope, start, calls[0]) for start in (_beginning(parsed), None) if calls]
        if longest := max(_lines(words, "model"), key=len, default=None):
            names.append((*scope, "summary", _digest(longest)))
        for name in names:
            if len(conversation.names) == conversation.names.maxlen:
                self._forget(conversation.names.popleft(), conversation)
            conversation.names.append(name)
            self._names[name] = base
        if self._shared is not None:
            with suppress(StoreError):  # the log tells of those once
                for name in names[: 2 * len(calls)]:
                    self._shared.put_beside(_key("call", *name), base.encode())
                self._shared.put_beside(_key("list", base), conversation.saved())
        while len(self._kept) > self._most:
            _, oldest = self._kept.popitem(last=False)
            for name in oldest.names:
                self._forget(name, oldest)

    def _new(self, session: str | None, base: str) -> Conversation:
        return Conversation(self._guard if session is None else self._guard.session(session), base)

    def _forget(self, name: Name, conversation: Conversation) -> None:
        if self._names.get(name) == conversation.base:
            del self._names[name]

    def _known(self, name: Name, *, here: bool = False) -> Conversation | None:
        """`here`: as far as this process knows the name."""
        base = self._names.get(name)
        if self._shared is None:
            return None if base is None else self._kept[base]
        saved = None
        with suppress(StoreError):
            written = None if here else self._shared.read_beside(_key("call", *name))
            base = base if written is None else written.decode()
            saved = None if base is None else self._shared.read_beside(_key("list", base))
        if base is None or (saved is None and base not in self._kept):
            return None
        found = self._kept.get(base) or self._new(name[1], base)
        if saved is not None:
            found.restore(saved)
        return found


def _lines(parsed: Sequence[Message], author: str) -> list[str]:
    """Lines that someone wrote, as far as they are long enough to be told apart from others."""
    words = [step.text for message in parsed for step in message.steps if _is_by(step, author)]
    lines = [line.strip() for text in words for line in text.splitlines()]
    return [line for line in lines[:_LINES] if len(line) >= _TELLING]


def _is_by(step: Step, author: str) -> TypeGuard[Words]:
    return isinstance(step, Words) and step.author == author


def _beginning(parsed: Sequence[Message]) -> str | None:
    """A digest of the first words of a person."""
    steps = (step for message in parsed for step in message.steps)
    words = next((step.text for step in steps if _is_by(step, "user")), None)
    return None if words is None else _digest(words)


def _key(*names: object) -> str:
    return f"litellm:{_digest(json.dumps(names))}"


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
