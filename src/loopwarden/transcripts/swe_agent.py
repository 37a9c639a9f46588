"""SWE-agent trajectories (`.traj`): one JSON document with steps of action and observation.

A command is the call; its first word is the tool. Demonstrations may hold only the message history,
which is read then, with function calls where it has them. There are no ids, times or error flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.chat_calls import chat_calls
from loopwarden.transcripts.fields import elements, mapping, money, shares, word
from loopwarden.transcripts.outline import outline
from loopwarden.transcripts.shape import count, text_of, tool_result
from loopwarden.transcripts.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

STREAM = "main"


class SweAgentReader:
    """Runs and demonstrations of SWE-agent."""

    name = "swe-agent"
    title = "SWE-agent trajectory"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        keys = outline(source.head)
        steps = ("trajectory", "[]")
        if (*steps, "action") in keys and (*steps, "observation") in keys:
            return True
        message = ("history", "[]")
        return (*message, "role") in keys and (
            (*message, "agent") in keys or (*message, "message_type") in keys
        )

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        document = source.document()
        if not isinstance(document, dict):
            raise TranscriptError(source.label, "no SWE-agent trajectory: it is no object")
        steps, history = document.get("trajectory"), document.get("history")
        if not isinstance(steps, list) and not isinstance(history, list):
            raise TranscriptError(source.label, "no SWE-agent trajectory: neither `trajectory` nor `history`")
        stream = Stream(STREAM, notes)
        yield stream.start(document.get("environment"), "SWE-agent run", agent="SWE-agent")
        if isinstance(steps, list) and steps:
            yield stream.user()  # the task
            yield from _steps(steps, mapping(document.get("info")), stream, notes)
        else:
            yield from _history(elements(history), stream, notes)
        stream.finish()


READER = SweAgentReader()


def _steps(steps: list[Any], info: dict[str, Any], stream: Stream, notes: ReadNotes) -> Iterator[Item]:
    """The steps; the format has tokens and cost only of the whole run, so each gets an equal share."""
    stats = mapping(info.get("model_stats"))
    cost = money(stats.get("instance_cost"))
    share = cost / len(steps) if cost else None
    tokens_in = shares(count(stats.get("tokens_sent")), len(steps))
    tokens_out = shares(count(stats.get("tokens_received")), len(steps))
    for place, step in enumerate(steps):
        if not isinstance(step, dict):
            notes.add("bad_line")
        else:
            action = step.get("action")
            if isinstance(action, str) and action.strip():
                yield _command(action, stream, place)
                if isinstance(step.get("observation"), str):
                    yield from stream.result(_turn(place), tool_result(step["observation"]))
        yield from stream.spent(tokens_in[place], tokens_out[place], share)


def _history(messages: list[Any], stream: Stream, notes: ReadNotes) -> Iterator[Item]:
    waiting: list[str] = []  # ids of the calls whose results the next messages bring
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            notes.add("bad_line")
            continue
        if message.get("is_demo") is True:
            notes.add("copied_history")
            continue
        role = message.get("role")
        if role == "assistant":
            waiting = []
            for item, given in _asked(message, stream, place, notes):
                waiting.append(given)
                yield item
        elif role in ("user", "tool"):
            yield from _answer(message, waiting, stream)


def _asked(
    message: dict[str, Any], stream: Stream, place: int, notes: ReadNotes
) -> Iterator[tuple[Item, str]]:
    calls = list(chat_calls(message.get("tool_calls"), notes))
    for number, call in enumerate(calls):
        given = call.call_id or f"{_turn(place)}/{number}"
        yield stream.call(call.tool, call.arguments, given=given, turn=_turn(place)), given
    action = message.get("action")
    if not calls and isinstance(action, str) and action.strip():
        yield _command(action, stream, place), _turn(place)


def _answer(message: dict[str, Any], waiting: list[str], stream: Stream) -> Iterator[Item]:
    """A message after a reply: the result of its calls, or what a person wrote."""
    content = message.get("content")
    shown = tool_result(content if isinstance(content, list) else text_of(content))
    ids = [given for given in map(word, elements(message.get("tool_call_ids"))) if given is not None]
    given = word(message.get("tool_call_id"))
    if given is not None:
        ids.append(given)
    if ids:
        for each in ids:
            if each in waiting:
                waiting.remove(each)
            yield from stream.result(each, shown)
    elif waiting:
        yield from stream.result(waiting.pop(0), shown)
    elif message.get("role") == "tool":
        yield from stream.result(None, shown)
    elif text_of(content):
        yield stream.user()


def _command(action: str, stream: Stream, place: int) -> Item:
    command = action.strip()
    tool = command.split(maxsplit=1)[0]
    return stream.call(tool, {"command": command}, given=_turn(place), turn=_turn(place))


def _turn(place: int) -> str:
    return f"reply {place}"
