"""Requests in the order in which they were sent, told apart into conversations and read once.

Each request to a model repeats the history so far. A request whose history goes on from one that was
seen adds its new tail; one that starts anew begins a stream; one whose history was shortened and
explained by new text was compacted; one that goes back before the last reply takes that reply back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

from loopwarden.transcripts.messages import Call, Message, Result, Summary, Words, json_text
from loopwarden.transcripts.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from loopwarden.transcripts.messages import Exchange, Reply, Step
    from loopwarden.transcripts.model import Item, ReadNotes

Key: TypeAlias = bytes


@dataclass(slots=True)
class _Conversation:
    """What is known of one conversation.

    Attributes:
        stream: Makes its items.
        keys: The steps that the next request should repeat.
        asked: How many of them the last request held; the others are the reply to it.
        calls: For each place of `keys` that is a call, the id of its event and the id in the file.
        renamed: Ids under which clients send calls again, with the id in the answer that made them.
        opening: How many steps its first request held.
        words: Every text and summary that was seen in it.
        turns: How many replies had calls.
        state: Digest of `keys`.
    """

    stream: Stream
    keys: list[Key] = field(default_factory=list)
    asked: int = 0
    calls: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    renamed: dict[str, str | None] = field(default_factory=dict)
    opening: int = 0
    words: set[Key] = field(default_factory=set)
    turns: int = 0
    state: Key = b""


@dataclass(frozen=True, slots=True)
class _Flat:
    """A step that counts for telling histories apart, with its message and what it is compared by."""

    step: Step
    message: Message
    key: Key


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a request goes on.

    Attributes:
        conversation: The conversation it belongs to.
        start: Its first step that is new.
        kept: How many known steps stay true; calls behind them are taken back. `None`: all.
        compacted: Whether the history was summarised before it.
        aligned: Whether the steps before `start` are the known ones, place by place.
    """

    conversation: _Conversation
    start: int
    kept: int | None = None
    compacted: bool = False
    aligned: bool = True


class Conversations:
    """All conversations of one file, or of one trace.

    Args:
        notes: Where oddities are counted.
        label: Id of the stream of the first conversation, and what the ids of the others begin with.
        begun: Whether the `StreamStart` of the first one was given already.
    """

    def __init__(self, notes: ReadNotes, *, label: str = "", begun: bool = False) -> None:
        self._notes = notes
        self._label = label
        self._begun = begun
        self._all: list[_Conversation] = []
        self._last: _Conversation | None = None
        self._by_state: dict[Key, _Conversation] = {}
        self._by_asked: dict[Key, _Conversation] = {}
        self._by_anchor: dict[Key, _Conversation] = {}
        self._by_opening: dict[Key, _Conversation] = {}
        self._by_reply: dict[str, _Conversation] = {}

    def add(self, exchange: Exchange, line: int | None = None) -> Iterator[Item]:
        """The items that this exchange adds."""
        history = exchange.history or ()
        flat = _flatten(history)
        words = _words(history)
        chain = _chain([each.key for each in flat])
        follows = exchange.follows or (exchange.reply.follows if exchange.reply else None)
        goes_on = exchange.history is None or follows in self._by_reply
        place = self._going_on(follows) if goes_on else self._find(flat, words, chain)
        if place is None:
            place = _Place(self._new(), 0)
            yield from self._start(place.conversation.stream, exchange)
        elif place.start:
            self._notes.add("copied_history", line)
        conversation = place.conversation
        if place.kept is not None:
            yield from self._take_back(conversation, place.kept, line)
        if place.compacted:
            yield conversation.stream.compaction(exchange.at)
        if not goes_on:
            conversation.keys = [each.key for each in flat[: place.start]]
            _repeated(conversation, flat[: place.start], aligned=place.aligned)
        yield from self._say(conversation, flat[place.start :], exchange.at, line)
        conversation.words.update(word for _, word in words)
        conversation.asked = len(conversation.keys)
        if not conversation.state:
            conversation.opening = conversation.asked
            if conversation.keys:
                self._by_opening[conversation.keys[0]] = conversation
        if not goes_on:
            self._by_asked[chain[-1]] = conversation
        if exchange.follows is not None:
            self._by_reply[exchange.follows] = conversation
        if exchange.reply is not None:
            yield from self._answer(conversation, exchange.reply, line)
        self._remember(conversation)

    def finish(self) -> None:
        """No request comes any more."""
        for conversation in self._all:
            conversation.stream.finish()

    @property
    def found(self) -> bool:
        """Whether there was any."""
        return bool(self._all)

    def _going_on(self, follows: str | None) -> _Place | None:
        conversation = self._by_reply.get(follows) if follows is not None else None
        conversation = conversation or self._last
        return _Place(conversation, 0) if conversation is not None else None

    def _find(
        self, flat: Sequence[_Flat], words: Sequence[tuple[int, Key]], chain: Sequence[Key]
    ) -> _Place | None:
        if not self._all:
            return None
        for start in range(len(flat), 0, -1):
            if conversation := self._by_state.get(chain[start]):
                return _Place(conversation, start)
        has_calls = any(isinstance(each.step, Call) for each in flat)
        if has_calls and (conversation := self._by_asked.get(chain[-1])):
            return _Place(conversation, len(flat), kept=len(flat))
        for index in range(len(flat) - 1, -1, -1):
            anchor = _anchor(flat[index])
            if anchor and (conversation := self._by_anchor.get(anchor)):
                return _rewritten(conversation, flat, words, index)
        if flat and not has_calls and (conversation := self._by_opening.get(flat[0].key)):
            return _summarised(conversation, flat, words)
        return None

    def _new(self) -> _Conversation:
        count = len(self._all) + 1
        name = self._label if self._label and count == 1 else f"{self._label or 'conversation'} {count}"
        conversation = _Conversation(Stream(name, self._notes))
        self._all.append(conversation)
        return conversation

    def _start(self, stream: Stream, exchange: Exchange) -> Iterator[Item]:
        if self._begun and len(self._all) == 1:
            return
        model = exchange.model or (exchange.reply.model if exchange.reply else None)
        yield stream.start(exchange.title, model=model)

    def _take_back(self, conversation: _Conversation, kept: int, line: int | None) -> Iterator[Item]:
        """The calls behind the first `kept` steps: their reply was thrown away or the history rewound."""
        gone = [names[0] for at, names in sorted(conversation.calls.items()) if at >= kept]
        if gone:
            self._notes.add("abandoned_branch", line)
            yield from conversation.stream.retract(gone, ended=True)

    def _say(
        self, conversation: _Conversation, steps: Sequence[_Flat], at: float | None, line: int | None
    ) -> Iterator[Item]:
        stream = conversation.stream
        turn_of: Message | None = None
        heard: Message | None = None
        for each in steps:
            step, message = each.step, each.message
            when = message.at if message.at is not None else at
            if isinstance(step, Call):
                if message is not turn_of:
                    conversation.turns += 1
                    turn_of = message
                turn = f"turn {conversation.turns}"
                yield stream.call(
                    step.tool, step.arguments, given=step.call_id, turn=turn, at=when, line=line
                )
                conversation.calls[len(conversation.keys)] = (stream.latest, step.call_id)
            elif isinstance(step, Result):
                made_as = conversation.renamed.get(step.call_id or "", step.call_id)
                yield from stream.result(
                    made_as, step.result, error=step.error, tool=step.tool, at=when, line=line
                )
            elif isinstance(step, Summary):
                yield stream.compaction(when)
            elif message is not heard:
                heard = message
                yield stream.user(when)
            if anchor := _anchor(each):
                self._by_anchor[anchor] = conversation
            conversation.keys.append(each.key)

    def _answer(self, conversation: _Conversation, reply: Reply, line: int | None) -> Iterator[Item]:
        flat = _flatten([reply.message])
        if reply.replaces_history:
            flat = [each for each in flat if isinstance(each.step, Summary)]
        yield from self._say(conversation, flat, reply.at, line)
        conversation.words.update(word for _, word in _words([reply.message]))
        if reply.replaces_history:
            conversation.keys = [each.key for each in _flatten([reply.message])]
            conversation.calls = {}
            conversation.asked = len(conversation.keys)
        if reply.usage is not None:
            yield from conversation.stream.spent(*reply.usage, reply.cost, reply.at, cached=reply.cached)
        if reply.reply_id is not None:
            self._by_reply[reply.reply_id] = conversation

    def _remember(self, conversation: _Conversation) -> None:
        self._last = conversation
        if self._by_state.get(conversation.state) is conversation:
            del self._by_state[conversation.state]
        conversation.state = _chain(conversation.keys)[-1]
        if conversation.keys:
            self._by_state[conversation.state] = conversation


def _repeated(conversation: _Conversation, known: Sequence[_Flat], *, aligned: bool) -> None:
    """Find the calls of a repeated history again, and note which came as an answer under another id."""
    by_id = {file_id: (given, file_id) for given, file_id in conversation.calls.values()}
    calls = {}
    for at, each in enumerate(known):
        step = each.step
        if isinstance(step, Call):
            ids = conversation.calls.get(at) if aligned else by_id.get(step.call_id)
            if ids is not None:
                calls[at] = ids
                if step.call_id is not None and step.call_id != ids[1]:
                    conversation.renamed[step.call_id] = ids[1]
    conversation.calls = calls


def _rewritten(
    conversation: _Conversation, flat: Sequence[_Flat], words: Sequence[tuple[int, Key]], index: int
) -> _Place:
    """A history that holds a known call (its last one at `index`) but does not go on from what is known."""
    known = conversation.keys
    shared = _shared([each.key for each in flat], known)
    if shared > index:
        return _Place(conversation, shared, kept=shared)
    places = [at for at, key in enumerate(known) if key == flat[index].key]
    start = index + 1
    if places:
        start += _shared([each.key for each in flat[index + 1 :]], known[places[-1] + 1 :])
    shorter = not places or index < places[-1]
    new_words = any(at <= index and word not in conversation.words for at, word in words)
    return _Place(conversation, start, compacted=shorter and new_words, aligned=False)


def _summarised(
    conversation: _Conversation, flat: Sequence[_Flat], words: Sequence[tuple[int, Key]]
) -> _Place | None:
    """A history without calls that begins as a known one did: all between was summarised in new words."""
    known = conversation.keys
    opening = conversation.opening
    begins_alike = _shared([each.key for each in flat], known) >= opening
    new_words = any(word not in conversation.words for _, word in words)
    if conversation.turns and begins_alike and new_words and len(flat) < len(known):
        return _Place(conversation, len(flat), compacted=True, aligned=False)
    return None


def _flatten(messages: Sequence[Message]) -> list[_Flat]:
    """The steps that histories are compared by; words of the model and of the program are none."""
    return [
        _Flat(step, message, _key(step))
        for message in messages
        for step in message.steps
        if not isinstance(step, Words) or step.author == "user"
    ]


def _words(messages: Sequence[Message]) -> list[tuple[int, Key]]:
    """All texts and summaries, each with the number of steps that `_flatten` gives before it."""
    found = []
    place = 0
    for message in messages:
        for step in message.steps:
            if isinstance(step, Words):
                found.append((place, _digest(step.text)))
                place += step.author == "user"
            else:
                if isinstance(step, Summary):
                    found.append((place, _key(step)))
                place += 1
    return found


def _key(step: Step) -> Key:
    if isinstance(step, Call):
        return _digest("call", step.tool, json_text(step.arguments))
    if isinstance(step, Result):
        return b"result"  # all alike: clients clear and cut old ones while the conversation goes on
    if isinstance(step, Summary):
        return _digest("summary", step.name)
    return _digest("user", step.text)


def _anchor(each: _Flat) -> Key | None:
    """What a rewritten history is recognised by; calls without an id are too common for that."""
    step = each.step
    if isinstance(step, Call) and step.call_id is not None:
        return each.key + step.call_id.encode(errors="replace")
    return each.key if isinstance(step, Summary) else None


def _chain(keys: Sequence[Key]) -> list[Key]:
    """For each length, from 0 on, one digest of the first keys."""
    chain = [b""]
    for key in keys:
        chain.append(blake2b(chain[-1] + key, digest_size=16).digest())
    return chain


def _shared(one: Sequence[Key], other: Sequence[Key]) -> int:
    """How many keys both begin with."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _digest(*texts: str) -> Key:
    return blake2b("\0".join(texts).encode(errors="replace"), digest_size=16).digest()
