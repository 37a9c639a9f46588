"""Where requests, answers and message lists stand in a file, whatever recorded them.

A bare message list, a request body, a response body, pairs of both, lists and lines of these, batch
files, cassettes of HTTP libraries and HAR files of browsers and proxies are all taken apart into
exchanges; a streamed answer is put together again by the dialect that knows its events.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import orjson

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.conversations import Conversations
from loopwarden.transcripts.documents import containers, opening
from loopwarden.transcripts.fields import elements, mapping, word
from loopwarden.transcripts.messages import Exchange
from loopwarden.transcripts.shape import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from loopwarden.transcripts.messages import Message, Reply
    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

_MAX_NESTING = 5
_SEEN_BY_SNIFF = 4
_BODY_KEYS = ("body", "parsed_body", "json", "params", "postData", "content", "text", "string", "message")
_FOREIGN = frozenset(
    {"trajectory_format", "trajectory", "traj", "simulations", "started_at", "message_count", "sessionId"}
)
"""Keys of agents' own files that hold messages among other things; their readers know more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that was found: a message list, or a request, an answer, or both.

    `answer` is a response body, or the events of a streamed one.
    """

    items: list[Any] | None = None
    request: dict[str, Any] | None = None
    answer: dict[str, Any] | list[Any] | None = None
    title: str | None = None
    at: float | None = None


class Dialect(Protocol):
    """What one API calls things."""

    def is_item(self, value: dict[str, Any]) -> bool:
        """Whether this is an element of a message list."""

    def is_request(self, body: dict[str, Any]) -> bool:
        """Whether this is the body of a request."""

    def is_answer(self, body: dict[str, Any]) -> bool:
        """Whether this is the body of a response."""

    def messages(self, items: Sequence[Any], notes: ReadNotes) -> tuple[Message, ...]:
        """What a message list says."""

    def exchange(self, request: dict[str, Any], notes: ReadNotes) -> Exchange:
        """What a request says."""

    def reply(self, body: dict[str, Any], notes: ReadNotes) -> Reply | None:
        """What a response says; `None` for errors."""

    def assembled(self, events: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """The response body that these events of a stream make up."""


class MessageLists:
    """What dialects have in common whose requests hold a list of `messages`."""

    roles: ClassVar[frozenset[str]]
    """Roles of messages."""

    def is_item(self, value: dict[str, Any]) -> bool:
        """See `Dialect.is_item`."""
        raise NotImplementedError

    def message(self, item: dict[str, Any]) -> Message:
        """One message of any role."""
        raise NotImplementedError

    def is_request(self, body: dict[str, Any]) -> bool:
        """See `Dialect.is_request`."""
        messages = body.get("messages")
        return isinstance(messages, list) and any(
            isinstance(each, dict) and self.is_item(each) for each in messages[:2]
        )

    def messages(self, items: Sequence[Any], notes: ReadNotes) -> tuple[Message, ...]:
        """See `Dialect.messages`."""
        found = []
        for item in items:
            if isinstance(item, dict) and word(item.get("role")) in self.roles:
                found.append(self.message(item))
            else:
                notes.add("unknown_record")
        return tuple(found)

    def exchange(self, request: dict[str, Any], notes: ReadNotes) -> Exchange:
        """See `Dialect.exchange`."""
        history = self.messages(elements(request.get("messages")), notes)
        return Exchange(history=history, model=word(request.get("model")))


def read(dialect: Dialect, source: Source, notes: ReadNotes) -> Iterator[Item]:
    """The items of a file in that dialect.

    Raises:
        TranscriptError: The file can't be read, or holds nothing of that dialect.
    """
    conversations = Conversations(notes)
    loose: list[Any] = []
    for line, value in containers(source, notes):
        if isinstance(value, dict) and dialect.is_item(value) and not dialect.is_answer(value):
            loose.append(value)
            continue
        found = False
        for part in parts(dialect, value):
            found = True
            yield from conversations.add(_exchange(dialect, part, notes), line)
        if not found:
            notes.add("unknown_record", line)
    if loose:
        yield from conversations.add(Exchange(history=dialect.messages(loose, notes)))
    conversations.finish()
    if not conversations.found:
        raise TranscriptError(source.label, "holds no messages of this format")


def sample(dialect: Dialect, source: Source) -> list[Part]:
    """The first few things that the head of a file holds, for telling its format; none on any doubt."""
    value = opening(source)
    if isinstance(value, dict) and dialect.is_item(value) and not dialect.is_answer(value):
        return [Part(items=[value])]
    found: list[Part] = []
    for part in parts(dialect, value):
        found.append(part)
        if len(found) == _SEEN_BY_SNIFF:
            break
    return found


def parts(dialect: Dialect, value: Any, depth: int = 0) -> Iterator[Part]:
    """The message lists, requests and answers in a JSON value, in order."""
    if depth > _MAX_NESTING:
        return
    if isinstance(value, list):
        first = next((each for each in value if isinstance(each, dict)), None)
        if first is not None and dialect.is_item(first) and not dialect.is_answer(first):
            yield Part(items=value)
            return
        for each in value:
            yield from parts(dialect, each, depth + 1)
        return
    if not isinstance(value, dict) or not _FOREIGN.isdisjoint(value):
        return
    title = word(value.get("custom_id"))
    request = _body(value.get("request") or value.get("body") or value.get("params"), dialect.is_request)
    answer = _answer(dialect, value.get("response") or value.get("result"))
    if isinstance(request, dict) or answer is not None:
        yield Part(
            request=request if isinstance(request, dict) else None,
            answer=answer,
            title=title,
            at=seconds(value.get("startedDateTime")),
        )
    elif dialect.is_request(value):
        yield Part(request=value, answer=_answer(dialect, value.get("response")), title=title)
    elif dialect.is_answer(value):
        yield Part(answer=value)
    else:
        log = mapping(value.get("log"))
        for inner in (value.get("interactions"), log.get("entries")):
            yield from parts(dialect, elements(inner), depth + 1)


def _exchange(dialect: Dialect, part: Part, notes: ReadNotes) -> Exchange:
    body = part.answer
    if isinstance(body, list):
        body = dialect.assembled([event for event in body if isinstance(event, dict)])
    reply = dialect.reply(body, notes) if body is not None else None
    if part.items is not None:
        return Exchange(history=dialect.messages(part.items, notes))
    if part.request is None:
        return Exchange(history=None, reply=reply, at=part.at)
    asked = dialect.exchange(part.request, notes)
    return Exchange(
        history=asked.history,
        reply=reply,
        follows=asked.follows,
        model=asked.model,
        title=part.title,
        at=part.at,
    )


def _answer(dialect: Dialect, value: Any) -> dict[str, Any] | list[Any] | None:
    found = _body(value, dialect.is_answer)
    if isinstance(found, list):
        events = [event for event in found if isinstance(event, dict)]
        return found if dialect.assembled(events) is not None else None
    return found


def _body(
    value: Any, wanted: Callable[[dict[str, Any]], bool], depth: int = 0
) -> dict[str, Any] | list[Any] | None:
    """The first body of the wanted kind in the wrappers that recorders put around it."""
    if depth > _MAX_NESTING:
        return None
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    if wanted(value):
        return value
    if value.get("encoding") == "base64" and isinstance(value.get("text"), str):
        return _body(_decoded(value["text"]), wanted, depth + 1)
    for key in _BODY_KEYS:
        if key in value and (found := _body(value[key], wanted, depth + 1)) is not None:
            return found
    return None


def _parsed(body: str) -> Any:
    """A body as JSON, or the events of a server-sent stream as a list."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    events = []
    for line in body.splitlines():
        if line.startswith("data:"):
            try:
                events.append(orjson.loads(line[5:].strip()))
            except orjson.JSONDecodeError:
                continue
    return events or None


def _decoded(body: str) -> str | None:
    try:
        return base64.b64decode(body, validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        return None
