"""Traces: spans of any tracing product, put in order and told as an agent's calls.

Spans of tools are the calls. Only where a trace has none are the calls taken from the messages that
its model spans recorded; never both. An agent that runs inside a tool of another agent is a stream of
its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Literal, TypeAlias

from loopwarden.transcripts.conversations import Conversations
from loopwarden.transcripts.messages import Call, Words
from loopwarden.transcripts.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from loopwarden.transcripts.messages import Exchange
    from loopwarden.transcripts.model import Item, ReadNotes

Role: TypeAlias = Literal["tool", "model", "agent", "other"]
"""What a span is for us: `agent` runs a loop of models and tools, `other` is everything between."""


@dataclass(slots=True, kw_only=True)
class Span:
    """One span.

    Attributes:
        span_id: Its id, unique within the trace; empty if the record has none.
        parent: Id of the span around it.
        trace: Id of the trace.
        thread: Id of the conversation, which may hold several traces; `None` if the span tells none.
        role: What it is for us.
        name: Name of the tool, the agent or the model.
        start: Seconds since the epoch.
        end: The same; `None` if it has not ended, as far as the file tells.
        order: What spans are ordered by where the format has more than times; equal for none.
        call_id: Id that the model gave to the call.
        arguments: What the tool was asked for, if `has_arguments`.
        has_arguments: Whether they were recorded; many tracers leave contents out.
        outcome: Result and error text of a tool; `None` if neither was recorded.
        usage: Tokens read and written, of this span alone or of all below it.
        cached: Those of the tokens read that came from a cache.
        cost: US dollars, likewise.
        asked: Whether a person's words started this span.
        exchange: What the model was told and what it said.
    """

    span_id: str
    parent: str | None
    trace: str
    thread: str | None = None
    role: Role
    name: str
    start: float | None = None
    end: float | None = None
    order: str = ""
    call_id: str | None = None
    arguments: object = None
    has_arguments: bool = False
    outcome: tuple[object, str | None] | None = None
    usage: tuple[int, int] | None = None
    cached: int = 0
    cost: float | None = None
    asked: bool = False
    exchange: Exchange | None = None


@dataclass(slots=True)
class _Agent:
    """The spans of one agent, which are a stream; `root` is that of a sub-agent, `None` for the main one."""

    name: str
    parent: str | None = None
    root: Span | None = None
    spans: list[Span] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Around:
    """What lies around a span: its stream, whether an agent does, and the tool inside that agent."""

    stream: str
    in_agent: bool = False
    tool: str | None = None


def replay(spans: Iterable[Span], notes: ReadNotes) -> Iterator[Item]:
    """The items of all traces, one conversation after another."""
    latest: dict[tuple[str, str], Span] = {}
    for place, span in enumerate(spans, 1):
        span.span_id = span.span_id or f"#{place}"
        key = (span.trace, span.span_id)
        if key in latest:
            notes.add("replaced_record")
            if span.end is None and latest[key].end is not None:
                continue
        latest[key] = span
    threads: dict[str, str] = {}
    for span in latest.values():
        if span.thread is not None:
            threads.setdefault(span.trace, span.thread)
    groups: dict[str, list[Span]] = {}
    for span in latest.values():
        groups.setdefault(threads.get(span.trace, span.trace), []).append(span)
    ordered = {name: _ordered(group) for name, group in groups.items()}
    for name in sorted(ordered, key=lambda name: _start(ordered[name][0])):
        yield from _conversation(name, ordered[name], notes)


def _conversation(name: str, spans: Sequence[Span], notes: ReadNotes) -> Iterator[Item]:
    tools = [span for span in spans if span.role == "tool"]
    if tools and not any(span.has_arguments for span in tools):
        # contents were left out: unknown arguments must not be taken for equal ones
        for span in tools:
            span.arguments = {"arguments not recorded": span.span_id}
    _count_once(spans)
    for agent in _agents(name, spans):
        root = agent.root or next((span for span in agent.spans if span.role == "agent"), None)
        model = next((span.name for span in agent.spans if span.role == "model" and span.name), None)
        called = root.name if root is not None and root.role == "agent" else None
        stream = Stream(agent.name, notes)
        yield stream.start(parent=agent.parent, agent=called or None, model=model)
        in_messages = not tools and any(_has_calls(span.exchange) for span in spans)
        if in_messages:
            yield from _from_messages(agent.spans, stream, notes)
        else:
            yield from _from_spans(agent.spans, stream)


def _from_spans(spans: Sequence[Span], stream: Stream) -> Iterator[Item]:
    running: list[tuple[float, int, Span, str]] = []
    replies = 0
    heard = 0
    told = any(_people(span) for span in spans)
    spent: Span | None = None
    totals: list[Span] = []

    def ended(before: float) -> Iterator[Item]:
        while running and running[0][0] <= before:
            _, _, span, call_id = heappop(running)
            if span.outcome is not None:
                result, error = span.outcome
                yield from stream.end(call_id, result, error=error, at=span.end)

    for place, span in enumerate(spans):
        yield from ended(span.start if span.start is not None else inf)
        if (span.asked and not told) or _people(span) > heard:
            heard = max(heard, _people(span))
            yield stream.user(span.start)
        if span.role == "tool":
            given, turn = span.call_id or span.span_id, f"turn {replies}" if replies else None
            yield stream.call(span.name, span.arguments, given=given, turn=turn, at=span.start)
            end = span.end if span.end is not None else span.start
            heappush(running, (end if end is not None else -inf, place, span, stream.latest))
        elif span.role == "model":
            replies += 1
            if spent is not None:
                yield from _spent(spent, stream)
            spent = span
        else:
            totals.append(span)
    yield from ended(inf)
    for span in [*([spent] if spent is not None else []), *totals]:
        yield from _spent(span, stream)
    stream.finish()


def _from_messages(spans: Sequence[Span], stream: Stream, notes: ReadNotes) -> Iterator[Item]:
    conversations = Conversations(notes, label=stream.id, begun=True)
    for span in spans:
        exchange = span.exchange
        if exchange is None or exchange.reply is None:
            yield from conversations.add(exchange) if exchange is not None else ()
            yield from _spent(span, stream)
        else:
            reply = replace(exchange.reply, usage=span.usage, cached=span.cached, cost=span.cost)
            yield from conversations.add(replace(exchange, reply=reply))
    conversations.finish()


def _spent(span: Span, stream: Stream) -> Iterable[Item]:
    if span.usage is None:
        return ()
    return stream.spent(*span.usage, span.cost, span.end, cached=span.cached)


def _has_calls(exchange: Exchange | None) -> bool:
    if exchange is None:
        return False
    messages = [*(exchange.history or ()), *([exchange.reply.message] if exchange.reply is not None else [])]
    return any(isinstance(step, Call) for message in messages for step in message.steps)


def _people(span: Span) -> int:
    """How many texts of people the model was told."""
    history = span.exchange.history if span.exchange is not None else None
    return sum(
        isinstance(step, Words) and step.author == "user"
        for message in history or ()
        for step in message.steps
    )


def _count_once(spans: Sequence[Span]) -> None:
    """Leave out the tokens of spans that only sum up what spans inside them tell."""
    by_id = {span.span_id: span for span in spans}
    sums: set[str] = set()
    for span in spans:
        parent = by_id.get(span.parent or "") if span.usage is not None else None
        while parent is not None and parent.span_id not in sums and parent is not span:
            sums.add(parent.span_id)
            parent = by_id.get(parent.parent or "")
    for span in spans:
        if span.span_id in sums:
            span.usage = None


def _agents(name: str, spans: Sequence[Span]) -> list[_Agent]:
    by_id = {span.span_id: span for span in spans}
    agents = {name: _Agent(name)}
    around: dict[str, _Around] = {}  # what lies around the children of a span
    for span in spans:
        way = []
        at: Span | None = span
        passed: set[str] = set()
        while at is not None and at.span_id not in around and at.span_id not in passed:
            passed.add(at.span_id)
            way.append(at)
            at = by_id.get(at.parent or "")
        for each in reversed(way):
            outer = around.get(each.parent or "", _Around(name))
            around[each.span_id] = _inside(each, outer, agents)
        outer = around.get(span.parent or "", _Around(name))
        own = around[span.span_id].stream
        if span.role == "tool" and outer.tool == span.name:
            continue  # the same call, recorded by two layers
        agents[outer.stream if span.role == "tool" else own].spans.append(span)
    return [agent for agent in agents.values() if agent.spans]


def _inside(span: Span, outer: _Around, agents: dict[str, _Agent]) -> _Around:
    if span.role == "tool":
        return _Around(outer.stream, outer.in_agent, span.name)
    if span.role != "agent":
        return outer if span.role == "other" else _Around(outer.stream, outer.in_agent)
    if not outer.in_agent or outer.tool is None:
        return _Around(outer.stream, in_agent=True)
    inner = f"{outer.stream}/{span.span_id}"
    agents[inner] = _Agent(inner, parent=outer.stream, root=span)
    return _Around(inner, in_agent=True)


def _ordered(spans: list[Span]) -> list[Span]:
    """Spans by their order, else by their start; one without a start stays behind the one before it."""
    if all(span.order for span in spans):
        return sorted(spans, key=lambda span: span.order)
    keyed = []
    latest = -inf
    for span in spans:
        latest = span.start if span.start is not None else latest
        keyed.append((latest, span))
    return [span for _, span in sorted(keyed, key=lambda pair: pair[0])]


def _start(span: Span) -> float:
    return span.start if span.start is not None else inf
