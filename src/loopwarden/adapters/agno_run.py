"""One run of Agno, and its calls, as far as the guard needs to know them."""

from __future__ import annotations

import json
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agno.exceptions import RunCancelledException
from agno.models.message import Message
from agno.run.agent import RunContentEvent
from agno.run.base import BaseRunOutputEvent
from agno.run.team import RunContentEvent as TeamRunContentEvent
from agno.tools.function import FunctionCall, FunctionExecutionResult, ToolResult
from pydantic import PrivateAttr

from loopwarden.adapters import with_note
from loopwarden.errors import LoopAborted

if TYPE_CHECKING:
    from loopwarden.events import Verdict
    from loopwarden.guard import Verbs

KEPT: Final = 1024
"""Runs that wait for a person or for their next step, and aborted runs, that are remembered."""

aborted: OrderedDict[str | None, Verdict] = OrderedDict()
"""The verdicts that ended runs, by run id, for `raise_if_aborted`."""


class Aborted(LoopAborted, RunCancelledException):
    """The host ends a run at this one where it makes a result or a retry of another."""


@dataclass(slots=True)
class Run:
    """What is known of a run.

    Attributes:
        turn: Made up for each reply of the model.
        compaction: The host's record of the newest compaction.
        outside: Calls that the program makes while the run waits, by their id.
    """

    verbs: Verbs
    run_id: str | None
    turn: str
    compaction: Any = None
    outside: dict[str, Verdict] = field(default_factory=dict)

    def before(self, tool: str, arguments: Any, call_id: str) -> Verdict:
        """Ask the guard.

        Raises:
            Aborted: It ends the run.
        """
        verdict = self.verbs.before(
            tool, arguments, call_id=call_id, run_id=self.run_id, turn_id=f"{self.run_id}/{self.turn}"
        )
        self.leave(verdict)
        return verdict

    def after(self, call_id: str, **outcome: Any) -> None:
        """Tell the guard.

        Raises:
            Aborted: It ends the run.
        """
        self.leave(self.verbs.after(call_id, run_id=self.run_id, **outcome))

    def leave(self, verdict: Verdict) -> None:
        """End the run if the verdict says so.

        Raises:
            Aborted: It does.
        """
        if verdict.action == "abort":
            keep(aborted, self.run_id, verdict)
            raise Aborted(verdict)


class Call(FunctionCall):
    """A call that asks the guard before it is made, once."""

    _run: Any = PrivateAttr(default=None)
    _told_id: str = PrivateAttr(default="")

    @classmethod
    def of(cls, call: Any, run: Run) -> Call:
        """The same call, of a run."""
        made = cls.model_construct(**{name: getattr(call, name) for name in FunctionCall.model_fields})
        made._run = run  # noqa: SLF001 - its own
        made._told_id = call.call_id or uuid.uuid4().hex  # noqa: SLF001 - its own
        return made  # type: ignore[no-any-return]  # the host is not typed here

    def execute(self) -> Any:
        """Make the call, unless it is refused."""
        verdict = self._before()
        if verdict.action == "block":
            return self._refused(verdict)
        try:
            execution = super().execute()
        except RunCancelledException:
            raise
        except Exception as error:
            self._raised(error, verdict)
            raise
        return self._done(execution, verdict)

    async def aexecute(self) -> Any:
        """The same where the call or one of its hooks is async."""
        verdict = self._before()
        if verdict.action == "block":
            return self._refused(verdict)
        try:
            execution = await super().aexecute()
        except RunCancelledException:
            raise
        except Exception as error:
            self._raised(error, verdict)
            raise
        return self._done(execution, verdict)

    def _before(self) -> Verdict:
        run: Run = self._run
        return run.before(self.function.name, self.arguments or {}, self._told_id)

    def _after(self, **outcome: Any) -> None:
        self._run.after(self._told_id, **outcome)

    def _refused(self, verdict: Verdict) -> Any:
        self.error = verdict.message or "refused"
        return FunctionExecutionResult(status="failure", error=self.error)

    def _raised(self, error: Exception, verdict: Verdict) -> None:
        """A hook or a tool asks for a retry or a stop: to the model, a failed call with its text."""
        self._after(error=error)
        note = self._note(verdict)
        if note is not None and self.error is not None:
            self.error = with_note(self.error, note)

    def _done(self, execution: Any, verdict: Verdict) -> Any:
        """Tell the outcome, and add the note; a result that comes in pieces is told when it is complete."""
        note = self._note(verdict)
        result = execution.result
        if execution.status != "success":
            self._after(error=execution.error or "failed")
            if note is not None:
                self.error = with_note(self.error or "", note)
            return execution
        if isinstance(result, AsyncIterator):
            execution.result = self._apieces(result, note)
        elif isinstance(result, Iterator):
            execution.result = self._pieces(result, note)
        else:
            self._after(result=_plain(result))
            if note is not None:
                execution.result = _noted(result, note)
        self.result = execution.result
        return execution

    def _pieces(self, items: Iterator[Any], note: str | None) -> Iterator[Any]:
        said = []
        try:
            for item in items:
                said.append(_piece(item))
                yield item
        except RunCancelledException:
            raise
        except Exception as error:
            self._after(error=error)
            raise
        self._after(result="".join(said))
        if note is not None:
            yield with_note("", note)

    async def _apieces(self, items: AsyncIterator[Any], note: str | None) -> AsyncIterator[Any]:
        said = []
        try:
            async for item in items:
                said.append(_piece(item))
                yield item
        except RunCancelledException:
            raise
        except Exception as error:
            self._after(error=error)
            raise
        self._after(result="".join(said))
        if note is not None:
            yield with_note("", note)

    def _note(self, verdict: Verdict) -> str | None:
        """None where the result is the answer of the run and no model reads it."""
        if verdict.action != "warn" or not verdict.announce or self.function.stop_after_tool_call:
            return None
        return verdict.message


def failed(run: Run, message: Message, asked: Any, functions: Any) -> None:
    """A call that the host could not make: no such tool, or arguments that can't be read."""
    function = asked.get("function") or {}
    tool = message.tool_name or ""
    call_id = message.tool_call_id or uuid.uuid4().hex
    verdict = run.before(tool, _parsed(function.get("arguments")), call_id)
    if verdict.action == "block":
        message.content = verdict.message or "refused"
        return
    run.after(call_id, error=str(message.content), unknown_tool=None if tool in functions else tool)
    if verdict.action == "warn" and verdict.announce:
        message.content = with_note(str(message.content), verdict.message or "")


def may_wait(run: Run, call: Any, messages: list[Message], role: str) -> bool:
    """Whether a call is made, as far as is known now: one that the program makes is asked about at once."""
    if not call.function.external_execution:
        return True
    call_id = call.call_id or uuid.uuid4().hex
    verdict = run.before(call.function.name, call.arguments or {}, call_id)
    if verdict.action != "block":
        run.outside[call_id] = verdict
        return True
    refused = {"tool_call_id": call.call_id, "tool_name": call.function.name, "tool_call_error": True}
    messages.append(Message(role=role, content=verdict.message or "refused", **refused))
    return False


def returned(run: Run, messages: list[Message]) -> None:
    """The run goes on: what came of the calls that the program made."""
    for message in messages if run.outside else ():
        verdict = run.outside.pop(message.tool_call_id, None) if message.role != "assistant" else None
        if verdict is None:
            continue
        outcome = "error" if message.tool_call_error else "result"
        run.after(message.tool_call_id, **{outcome: str(message.content)})
        if verdict.action == "warn" and verdict.announce:
            message.content = with_note(str(message.content), verdict.message or "")


def _parsed(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments


def keep(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """The newest only."""
    kept[key] = value
    if len(kept) > KEPT:
        kept.popitem(last=False)


def _plain(result: Any) -> Any:
    """A result as the guard is told; media come along with the text only where there are any."""
    if not isinstance(result, ToolResult):
        return result
    media = [found for found in (result.images, result.videos, result.audios, result.files) if found]
    return [result.content, repr(media)] if media else result.content


def _noted(result: Any, note: str) -> Any:
    """The model reads any other result as its `str()`."""
    if isinstance(result, ToolResult):
        return result.model_copy(update={"content": with_note(result.content, note)})
    return with_note(str(result), note)


def _piece(item: Any) -> str:
    """What an item adds to the result: of the events of agents below this one, only content does."""
    if isinstance(item, RunContentEvent | TeamRunContentEvent):
        return "" if item.content is None else str(item.content)
    return "" if isinstance(item, BaseRunOutputEvent) else str(item)
