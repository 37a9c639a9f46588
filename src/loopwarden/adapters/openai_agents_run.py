"""One run of the OpenAI Agents SDK, as far as the guard needs to know it."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, Final

from agents import AgentsException

from loopwarden.adapters import with_note
from loopwarden.errors import LoopAborted

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Collection, Iterable

    from loopwarden.events import Verdict
    from loopwarden.guard import Verbs

_KNOWN: Final = 4096
"""Calls whose run is remembered, so that a run that a person interrupted goes on as the same one."""


class AgentLoopAborted(LoopAborted, AgentsException):
    """`LoopAborted` as the host lets it pass; `run_data` says how far the run got."""


class Run:
    """What is known of one run.

    Attributes:
        verbs: The guard, bound to the session.
        run_id: That of the block `guard.run()`, else made up here; the host has none.
        whole: Whether every request has the whole history, so that its length says something.
    """

    def __init__(self, verbs: Verbs, known: OrderedDict[str, Run], named: str | None = None) -> None:
        self.verbs = verbs
        self.run_id = named or f"run-{uuid.uuid4().hex}"
        self._named = named is not None
        self.whole = True
        self._known = known
        self._turn = 0
        self._sent: tuple[object, int] = None, 0
        self._compactions: frozenset[str] | None = None
        self._arguments: dict[str, Any] = {}
        self._unasked: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        self._inner: dict[str, Run] = {}
        self._open: dict[str, Verdict] = {}
        self._errors: dict[str, BaseException] = {}
        self._missed: dict[str, str] = {}
        self._notes: dict[str, str] = {}
        self._ended: Verdict | None = None

    def before(self, tool: str, arguments: Any, call_id: str) -> Verdict:
        """The model asks for a tool."""
        self._unasked.pop(call_id, None)
        turn_id = f"turn-{self._turn}" if self._turn else None
        verdict = self.verbs.before(
            tool, _parsed(arguments), call_id=call_id, run_id=self.run_id, turn_id=turn_id
        )
        if verdict.action in {"allow", "warn"}:
            self._open[call_id] = verdict
        return verdict

    def after(self, call_id: str, result: Any) -> None:
        """A call ended; what it raised may have become a text by now."""
        error = self._errors.pop(call_id, None)
        inner = self._inner.pop(call_id, None)
        if inner is not None:
            inner.over()
        verdict = self._open.pop(call_id, None)
        note = None if verdict is None else _note(verdict)
        if note is not None:
            self._notes[call_id] = note
        told = {"result": result} if error is None else {"error": error}
        leave(self.verbs.after(call_id, run_id=self.run_id, **told))

    def take_note(self, call_id: str) -> str | None:
        """What is to be made a part of a result; a note that is left is put into each request instead."""
        return self._notes.pop(call_id, None)

    def raised(self, call_id: str, error: Exception) -> None:
        """The tool raised, and the host is about to make it a text."""
        self._errors[call_id] = error

    def failed(self, error: Exception) -> None:
        """The run ended with an exception: of the one call that was open, if there was one."""
        if len(self._open) == 1 and not isinstance(error, LoopAborted):
            (call_id,) = self._open
            self.verbs.after(call_id, error=error.__cause__ or error, run_id=self.run_id)
        self._open.clear()
        self.over()

    def missing(self, tool: str, call_id: str, message: str) -> str:
        """A tool does not exist: what the model is told."""
        told = self._missed.get(call_id)
        if told is not None:
            return told
        verdict = self.before(tool, self._arguments.get(call_id), call_id)
        self._open.pop(call_id, None)
        if verdict.action == "abort":
            self._ended = verdict  # what is raised here goes no further
        elif verdict.action == "block":
            message = verdict.message or message
        else:
            after = self.verbs.after(call_id, error=message, unknown_tool=tool, run_id=self.run_id)
            self._ended = after if after.action == "abort" else None
            note = _note(verdict)
            message = message if note is None else with_note(message, note)
        self._missed[call_id] = message
        return message

    def asking(self, agent: object, items: list[Any]) -> list[Any]:
        """The model is about to be asked: was the history compacted? Gives the items with the notes."""
        if self._ended is not None:
            leave(self._ended)
        for item in items if self._unasked or self._open else ():
            call_id = field(item, "call_id")
            if field(item, "type") == "function_call_output" and isinstance(call_id, str):
                self._rejected(call_id, field(item, "output"))
        self._turn += 1
        self._missed.clear()
        marks = _compactions(items)
        asked, sent = self._sent
        shrunk = self.whole and asked is agent and len(items) < sent
        news = self._compactions is not None and bool(marks - self._compactions)
        self._sent = agent, len(items)
        self._compactions = marks
        if news or shrunk:
            leave(self.verbs.compacted(run_id=self.run_id))
        changed = (self._notes and self.whole) or self._refused
        return [self._noted(item) for item in items] if changed else items

    def _rejected(self, call_id: str, output: object) -> None:
        """A result that no tool gave: a person or a guardrail of the program rejected the call."""
        tool = self._unasked.get(call_id)
        if tool is not None:
            verdict = self.before(tool, self._arguments.get(call_id), call_id)
            leave(verdict)
            if verdict.action == "block":
                self._refused[call_id] = verdict.message or "refused"
        asked = self._open.pop(call_id, None)
        if asked is None:
            return
        note = _note(asked)
        if note is not None:
            self._notes[call_id] = note
        leave(self.verbs.after(call_id, error=str(output), run_id=self.run_id))

    def answered(self, output: Iterable[Any], tools: Collection[str]) -> None:
        """The model replied; `tools` are the names of the function tools it has."""
        output = list(output)
        self._arguments = {}
        self._unasked = {
            str(field(item, "call_id")): field(item, "name")
            for item in output
            if field(item, "type") == "function_call" and field(item, "name") in tools
        }
        for item in output:
            call_id = field(item, "call_id")
            if isinstance(call_id, str):
                self._arguments[call_id] = field(item, "arguments")
                self._known[call_id] = self
                self._known.move_to_end(call_id)
        while len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        marks = _compactions(output)
        if marks:
            self._compactions = (self._compactions or frozenset()) | marks
            leave(self.verbs.compacted(run_id=self.run_id))

    def over(self) -> None:
        """The run ended; one that was named may go on, and is forgotten by whoever named it."""
        if not self._named:
            self.verbs.forget(run_id=self.run_id)

    def inner(self, call_id: str) -> Run:
        """The run of an agent that is a tool of this one."""
        return self._inner.setdefault(call_id, Run(self.verbs, self._known))

    def _noted(self, item: Any) -> Any:
        call_id = field(item, "call_id") or ""
        note, refusal = self._notes.get(call_id), self._refused.get(call_id)
        if field(item, "type") != "function_call_output":
            return item
        if refusal is not None:
            return item | {"output": refusal}
        if note is None or not self.whole or for_program(item):
            return item
        output = item["output"]
        if isinstance(output, str):
            return item | {"output": with_note(output, note)}
        return item | {"output": [*output, {"type": "input_text", "text": note}]}


def leave(verdict: Verdict) -> None:
    """Raise if the verdict ends the run.

    Raises:
        AgentLoopAborted: It does.
    """
    if verdict.action == "abort":
        raise AgentLoopAborted(verdict)


def _note(verdict: Verdict) -> str | None:
    return verdict.message if verdict.action == "warn" and verdict.announce else None


def _parsed(arguments: Any) -> Any:
    """Arguments as the model wrote them, out of their JSON; what is no JSON stays as it is."""
    try:
        return json.loads(arguments)
    except (TypeError, ValueError, RecursionError):
        return arguments


def field(item: Any, name: str) -> Any:
    """An item of the host is a dict or an object; `None` where it has no such field."""
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)


def for_program(item: Any) -> bool:
    """Whether a program that the model wrote takes the result: there is no place for a note."""
    return field(field(item, "caller"), "type") == "program"


def _compactions(items: Iterable[Any]) -> frozenset[str]:
    """The marks of compactions: each by its id, or by its content where it has none."""
    marks = (item for item in items if field(item, "type") == "compaction")
    return frozenset(str(field(mark, "id") or field(mark, "encrypted_content")) for mark in marks)
