"""One sample of an Inspect log: its events, or its messages where there are no events.

Spans of agents that another agent or a tool started, and of forks, are streams of their own. Calls of
one reply that ran side by side are told together: all calls, then the results as they came in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loopwarden.transcripts.fields import elements, mapping, money, shares, word
from loopwarden.transcripts.shape import arguments, command_result, count, seconds, text_of, tool_result
from loopwarden.transcripts.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.stream import StreamNames

ATTACHMENT = "attachment://"
"""A text that is this and a key stands for the text under that key in `attachments`."""

NESTING = 32
"""How deep attachments are looked for in a value, and nested events are followed; deeper is left as it is."""

_SPANS = 200  # how many ancestors of a span are looked at
_OWN_STREAM = ("subtask", "fork")
_STARTERS = ("agent", "tool", *_OWN_STREAM)


def sample_items(
    sample: dict[str, Any], evaluation: dict[str, Any], names: StreamNames, notes: ReadNotes
) -> Iterator[Item]:
    """The items of one sample.

    Args:
        sample: The sample.
        evaluation: The `eval` part of the log's header.
        names: The stream ids of the file.
        notes: Where oddities are counted.
    """
    number, epoch = word(sample.get("id")) or "?", word(sample.get("epoch")) or "1"
    stream = Stream(names.take(f"{number}_epoch_{epoch}"), notes)
    task = word(evaluation.get("task")) or "sample"
    yield stream.start(
        f"{task}, sample {number}, epoch {epoch}",
        agent=word(evaluation.get("solver")),
        model=word(evaluation.get("model")),
    )
    attachments = mapping(sample.get("attachments"))
    events = elements(sample.get("events"))
    if any(mapping(event).get("event") in ("tool", "model") for event in events):
        yield from _Events(stream, names, attachments, notes).items(events)
    else:
        yield from _messages(sample, stream, attachments, notes)


@dataclass(slots=True)
class _Run:
    """A tool event: a call and what came out of it; without `result` it did not end."""

    tool: str
    arguments: object
    given: str | None
    turn: str | None = None
    at: float | None = None
    result: object = None
    completed: float | None = None


class _Actor:
    """One agent of a sample: its stream, and what is not told yet."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._replies = 0
        self._unnamed = 0
        self._asked: dict[str, _Run] = {}  # by id, calls that no tool event was seen for
        self._turns: dict[str, str] = {}
        self._runs: list[_Run] = []
        self._spent: Iterable[Item] = ()

    def reply(self, calls: list[_Run], spent: Iterable[Item]) -> Iterator[Item]:
        yield from self.flush()
        self._replies += 1
        for call in calls:
            name = str(call.given)
            call.turn = self._turns[name] = f"reply {self._replies}"
            self._asked[name] = call
        self._spent = spent

    def ran(self, run: _Run) -> Iterator[Item]:
        if run.given is None:
            self._unnamed += 1
            run.given = f"event {self._unnamed}"
        run.turn = self._turns.get(run.given)
        self._asked.pop(run.given, None)
        if self._runs and (run.turn is None or run.turn != self._runs[-1].turn):
            yield from self._tell()
        self._runs.append(run)

    def flush(self) -> Iterator[Item]:
        """Tell everything up to here."""
        yield from self._tell()
        yield from self._spent
        self._spent = ()

    def finish(self) -> Iterator[Item]:
        """The sample is over; calls that no tool event was seen for never ran."""
        yield from self._tell()
        self._runs = list(self._asked.values())
        yield from self.flush()
        self.stream.finish()

    def _tell(self) -> Iterator[Item]:
        runs, self._runs = self._runs, []
        for run in runs:
            yield self.stream.call(run.tool, run.arguments, given=run.given, turn=run.turn, at=run.at)
        ended = [run for run in runs if run.result is not None]
        if all(run.completed is not None for run in ended):
            ended.sort(key=lambda run: run.completed or 0.0)
        for run in ended:
            yield from self.stream.result(run.given, run.result, at=run.completed)


class _Events:
    """The events of a sample, sorted into the streams of its agents."""

    def __init__(
        self, stream: Stream, names: StreamNames, attachments: dict[str, Any], notes: ReadNotes
    ) -> None:
        self._names = names
        self._attachments = attachments
        self._notes = notes
        self._main = _Actor(stream)
        self._spans: dict[str, dict[str, Any]] = {}
        self._actors: dict[str, _Actor] = {}  # by the span that begins them
        self._owners: dict[str, _Actor] = {}  # by any span, whose it is
        self._nested: list[_Actor] = []

    def items(self, events: list[Any]) -> Iterator[Item]:
        yield from self._walk(events, self._main, 0)
        for actor in [*self._nested, *self._actors.values(), self._main]:
            yield from actor.finish()

    def _walk(self, events: list[Any], base: _Actor, depth: int) -> Iterator[Item]:
        for event in events:
            if not isinstance(event, dict):
                self._notes.add("bad_line")
                continue
            kind = event.get("event")
            if kind == "span_begin":
                if (span := word(event.get("id"))) is not None:
                    self._spans[span] = event
                continue
            if kind not in ("tool", "model", "compaction", "input", "sample_init", "subtask"):
                continue
            actor = base
            if depth == 0:
                actor, begun = self._actor(word(event.get("span_id")))
                yield from begun
            yield from self._event(event, kind, actor)
            nested = elements(event.get("events"))
            if any(mapping(each).get("event") in ("tool", "model") for each in nested):
                if depth >= NESTING:
                    self._notes.add("too_deep")
                    continue
                name = word(event.get("name")) or word(event.get("function")) or word(kind) or "event"
                child = _Actor(Stream(self._names.take(f"{actor.stream.id}/{name}"), self._notes))
                self._nested.append(child)
                yield child.stream.start(name, parent=actor.stream.id, agent=name)
                yield from self._walk(nested, child, depth + 1)

    def _event(self, event: dict[str, Any], kind: object, actor: _Actor) -> Iterator[Item]:
        at = seconds(event.get("timestamp"))
        if kind == "tool":
            tool = word(event.get("function"))
            if tool is None:
                self._notes.add("bad_line")
                return
            asked = resolve(event.get("arguments"), self._attachments)
            run = _Run(tool, asked, word(event.get("id")), at=at)
            if event.get("pending") is not True:
                run.result = _result(event, event.get("result"), self._attachments)
                run.completed = seconds(event.get("completed"))
            yield from actor.ran(run)
        elif kind == "model":
            yield from self._model(event, actor, seconds(event.get("completed")) or at)
        elif kind == "compaction":
            yield from actor.flush()
            yield actor.stream.compaction(at)
        elif kind in ("input", "sample_init"):
            yield from actor.flush()
            yield actor.stream.user(at)

    def _model(self, event: dict[str, Any], actor: _Actor, at: float | None) -> Iterator[Item]:
        output = mapping(event.get("output"))
        choices = elements(output.get("choices"))
        message = mapping(mapping(choices[0]).get("message")) if choices else {}
        calls = []
        for call in elements(message.get("tool_calls")):
            tool, given = word(mapping(call).get("function")), word(mapping(call).get("id"))
            if tool is not None and given is not None:
                asked = resolve(call.get("arguments"), self._attachments)
                calls.append(_Run(tool, asked, given, at=at))
        usage = mapping(output.get("usage")) if event.get("cache") != "read" else {}
        cached = count(usage.get("input_tokens_cache_read"))
        spent = actor.stream.spent(*_tokens(usage), money(usage.get("total_cost")), at, cached=cached)
        yield from actor.reply(calls, spent)

    def _actor(self, span: str | None) -> tuple[_Actor, list[Item]]:
        """Whose events the span's are, and the starts of the streams that begin with this one."""
        if span is None or span in self._owners:
            return self._owners.get(span or "", self._main), []
        chain = self._chain(span)
        actor, started = self._main, False
        begun: list[Item] = []
        for name in reversed(chain):
            kind = self._spans[name].get("type")
            if kind in _OWN_STREAM or (kind == "agent" and started):
                if name not in self._actors:
                    title = word(self._spans[name].get("name")) or "agent"
                    parent = actor.stream.id
                    self._actors[name] = _Actor(
                        Stream(self._names.take(f"{self._main.stream.id}/{title}"), self._notes)
                    )
                    begun.append(self._actors[name].stream.start(title, parent=parent, agent=title))
                actor = self._actors[name]
            started = started or kind in _STARTERS
        if chain:
            self._owners[span] = actor
        return actor, begun

    def _chain(self, span: str | None) -> list[str]:
        """The span and those around it, innermost first."""
        chain: dict[str, None] = {}
        while span is not None and span in self._spans and span not in chain and len(chain) < _SPANS:
            chain[span] = None
            span = word(self._spans[span].get("parent_id"))
        return list(chain)


def _messages(
    sample: dict[str, Any], stream: Stream, attachments: dict[str, Any], notes: ReadNotes
) -> Iterator[Item]:
    messages = elements(sample.get("messages"))
    replies = sum(mapping(message).get("role") == "assistant" for message in messages)
    usages = [mapping(usage) for usage in mapping(sample.get("model_usage")).values()]
    totals = [_tokens(usage) for usage in usages]
    shares_in = shares(sum(row[0] for row in totals), replies) if replies else []
    shares_out = shares(sum(row[1] for row in totals), replies) if replies else []
    cached = sum(count(usage.get("input_tokens_cache_read")) for usage in usages)
    shares_cached = shares(cached, replies) if replies else []
    reply = 0
    for message in messages:
        if not isinstance(message, dict):
            notes.add("bad_line")
            continue
        role = message.get("role")
        if role == "assistant":
            for call in elements(message.get("tool_calls")):
                tool = word(mapping(call).get("function"))
                if tool is None:
                    notes.add("bad_line")
                    continue
                asked = resolve(arguments(call.get("arguments")), attachments)
                yield stream.call(tool, asked, given=call.get("id"), turn=f"reply {reply}")
            yield from stream.spent(shares_in[reply], shares_out[reply], cached=shares_cached[reply])
            reply += 1
        elif role == "tool":
            shown = _result(message, message.get("content"), attachments)
            tool = word(message.get("function"))
            yield from stream.result(message.get("tool_call_id"), shown, tool=tool)
        elif role == "user" and (reply == 0 or message.get("source") in ("input", "operator")):
            yield stream.user()
    stream.finish()


def resolve(value: object, attachments: dict[str, Any], depth: int = 0) -> object:
    """`value` with the texts that only name an attachment replaced by it, as far as `NESTING` goes."""
    if isinstance(value, str):
        if value.startswith(ATTACHMENT):
            found = attachments.get(value[len(ATTACHMENT) :])
            return found if isinstance(found, str) else value
        return value
    if depth < NESTING:
        if isinstance(value, list):
            return [resolve(each, attachments, depth + 1) for each in value]
        if isinstance(value, dict):
            return {key: resolve(each, attachments, depth + 1) for key, each in value.items()}
    return value


def _result(record: dict[str, Any], content: object, attachments: dict[str, Any]) -> object:
    content = resolve(content, attachments)
    if isinstance(content, bool | int | float):
        content = str(content)
    if content is None:
        content = ""
    error = record.get("error")
    if error is None:
        return tool_result(content, is_error=record.get("failed") is True)
    said = resolve(mapping(error).get("message"), attachments)
    texts = [text_of(content), said if isinstance(said, str) else ""]
    text = "\n".join(text for text in texts if text)
    if mapping(error).get("type") == "timeout":
        return command_result(text, timed_out=True, is_error=True)
    return tool_result(text, is_error=True)


def _tokens(usage: dict[str, Any]) -> tuple[int, int]:
    """Tokens read and written; some providers leave cached ones out of all but the total."""
    tokens_out = count(usage.get("output_tokens"))
    return max(count(usage.get("input_tokens")), count(usage.get("total_tokens")) - tokens_out), tokens_out
