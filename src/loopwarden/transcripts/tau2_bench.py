"""tau2-bench results: one JSON document with simulations of an agent and a user, both with tools.

The calls of the simulated user are a stream of their own, below the agent's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.fields import elements, mapping, money, word
from loopwarden.transcripts.outline import outline
from loopwarden.transcripts.shape import arguments, count, seconds, text_of, tool_result
from loopwarden.transcripts.stream import Stream, StreamNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Item, ReadNotes, Spent
    from loopwarden.transcripts.source import Source

_MESSAGE = ("simulations", "[]", "messages", "[]")
_PARTS = ("info", "tasks", "simulations")


class Tau2BenchReader:
    """Result files of tau2-bench."""

    name = "tau2-bench"
    title = "tau2-bench results"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        keys = outline(source.head)
        if ("simulations", "[]", "task_id") in keys or (*_MESSAGE, "turn_idx") in keys:
            return True
        if sum((part,) in keys for part in _PARTS) < 2:  # noqa: PLR2004 - the last may lie behind the head
            return False
        return ("info", "environment_info") in keys or ("tasks", "[]", "evaluation_criteria") in keys

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        document = source.document()
        if not isinstance(document, dict) or not isinstance(document.get("simulations"), list):
            raise TranscriptError(source.label, "no tau2-bench results: it has no list of simulations")
        info = mapping(document.get("info"))
        names = StreamNames()
        for simulation in document["simulations"]:
            if isinstance(simulation, dict) and isinstance(simulation.get("messages"), list):
                yield from _Simulation(simulation, names, notes).items(info)
            else:
                notes.add("bad_line")


READER = Tau2BenchReader()


class _Simulation:
    """One conversation: the agent's stream, and the user's as soon as the user calls a tool."""

    def __init__(self, simulation: dict[str, Any], names: StreamNames, notes: ReadNotes) -> None:
        self._notes = notes
        self._messages = simulation["messages"]
        task, trial = word(simulation.get("task_id")) or "?", word(simulation.get("trial")) or "0"
        self._title = f"task {task}, trial {trial}"
        self._agent = Stream(names.take(f"task_{task}_trial_{trial}"), notes)
        self._user = Stream(names.take(f"{self._agent.id}/user"), notes)
        self._user_model: str | None = None
        self._held: list[Spent] | None = []  # what the user spent before its first call; `None` afterwards

    def items(self, info: dict[str, Any]) -> Iterator[Item]:
        agent = mapping(info.get("agent_info"))
        self._user_model = word(mapping(info.get("user_info")).get("llm"))
        yield self._agent.start(
            self._title, agent=word(agent.get("implementation")), model=word(agent.get("llm"))
        )
        for place, message in enumerate(self._messages):
            if not isinstance(message, dict):
                self._notes.add("bad_line")
                continue
            role = message.get("role")
            if role == "tool":
                several = message.get("tool_messages")
                for result in several if isinstance(several, list) else [message]:
                    yield from self._result(result)
            elif role in ("assistant", "user"):
                yield from self._said(message, by_user=role == "user", place=place)
            elif role != "system":
                self._notes.add("unknown_record")
        self._agent.finish()
        self._user.finish()

    def _said(self, message: dict[str, Any], *, by_user: bool, place: int) -> Iterator[Item]:
        at = seconds(message.get("timestamp"))
        if by_user and text_of(message.get("content")):
            yield self._agent.user(at)
        stream = self._user if by_user else self._agent
        for call in elements(message.get("tool_calls")):
            tool = word(mapping(call).get("name"))
            if tool is None:
                self._notes.add("bad_line")
                continue
            if by_user and self._held is not None:
                yield self._user.start(
                    f"{self._title}, the user", parent=self._agent.id, agent="user", model=self._user_model
                )
                yield from self._held
                self._held = None
            asked = arguments(call.get("arguments"))
            yield stream.call(tool, asked, given=call.get("id"), turn=f"message {place}", at=at)
        usage = mapping(message.get("usage"))
        read, written = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
        spent = stream.spent(read, written, money(message.get("cost")), at)
        if by_user and self._held is not None:
            self._held += spent
        else:
            yield from spent

    def _result(self, message: object) -> Iterator[Item]:
        if not isinstance(message, dict):
            self._notes.add("bad_line")
            return
        shown = tool_result(text_of(message.get("content")), is_error=message.get("error") is True)
        by_user = message.get("requestor") == "user"
        stream = self._user if by_user else self._agent
        yield from stream.result(message.get("id"), shown, at=seconds(message.get("timestamp")))
