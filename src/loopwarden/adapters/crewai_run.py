"""One run of CrewAI, as far as the guard needs to know it."""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from crewai.agents.parser import AgentAction
from crewai.hooks.dispatch import HookAborted
from crewai.tools.tool_failure import ToolFailure
from crewai.utilities.i18n import I18N_DEFAULT
from crewai.utilities.string_utils import sanitize_tool_name

from loopwarden.adapters import with_note
from loopwarden.errors import LoopAborted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crewai.hooks.llm_hooks import LLMCallHookContext
    from crewai.hooks.tool_hooks import ToolCallHookContext

    from loopwarden.events import Verdict
    from loopwarden.guard import Verbs

_NOT_FOUND: Final = "Tool not found"
"""What the host gives as the raw result of a tool that does not exist."""

_FAILED: Final = (
    "Error executing tool: ",
    "Tool execution blocked by hook. Tool: ",
    "\n" + I18N_DEFAULT.errors("tool_usage_exception").split("{")[0],
    I18N_DEFAULT.errors("agent_tool_execution_error").split("{")[0],
)
"""How the host's own texts begin where it has no result of the tool."""


class CrewLoopAborted(LoopAborted, HookAborted):
    """The guard ended the run. CrewAI lets it through where it would answer another exception."""


@dataclass(slots=True, eq=False)
class Run:
    """One agent at work on one task.

    Attributes:
        session: The host's id of the kickoff; `None` outside of one.
        executor: What asks the model; `None`: not seen, as of an agent that works off a plan.
        replies: How often the model was asked.
        length: How long the history was when the model was last asked, and `newest` the last message in it.
        read: What the newest reply was when the model was last asked: the message with calls, and the call
            in text.
        calls: How many calls were seen since then.
        open: Calls without an outcome, with their arguments, by the identity of those.
        ended: The verdict that ends the run, and `left` whether the host was told.
    """

    verbs: Verbs
    session: str | None
    agent: Any
    task: Any
    executor: Any = None
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    replies: int = 0
    length: int = 0
    newest: Any = None
    read: tuple[Any, Any] = (None, None)
    calls: int = 0
    open: dict[int, tuple[str, Verdict, Any]] = field(default_factory=dict)
    ended: Verdict | None = None
    left: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def before(self, tool: str, arguments: Any) -> tuple[str, Verdict]:
        """Ask the guard; the answer has the id that the call was given."""
        call_id = uuid.uuid4().hex
        # Where the model is asked unseen, nothing says which calls belong to one reply.
        turn_id = f"{self.run_id}/{self.replies}" if self.replies else None
        self.calls += 1
        verdict = self.verbs.before(tool, arguments, call_id=call_id, run_id=self.run_id, turn_id=turn_id)
        self.end(verdict)
        return call_id, verdict

    def after(self, call_id: str, verdict: Verdict, text: str, outcome: dict[str, Any]) -> str | None:
        """Tell the guard; the answer is the text for the model, `None` if it stays as it is."""
        if verdict.action in ("block", "abort"):
            return verdict.message or "refused"
        ending = self.verbs.after(call_id, run_id=self.run_id, **outcome)
        self.end(ending)
        if ending.action == "abort":
            # Else the host may end the crew at this call, as at one more of the same.
            return with_note(text, ending.message or "")
        if verdict.action == "warn" and verdict.announce:
            return with_note(text, verdict.message or "")
        return None

    def end(self, verdict: Verdict) -> None:
        """Remember the first verdict that ends the run."""
        if verdict.action == "abort" and self.ended is None:
            self.ended = verdict

    def leave(self) -> None:
        """End the run if it is to be ended.

        Raises:
            CrewLoopAborted: It is.
        """
        if self.ended is not None:
            self.left = True
            raise CrewLoopAborted(self.ended)

    def goes_on(self, messages: Any) -> bool:
        """Whether the history still has what the model was last shown."""
        if self.newest is None:
            return True
        return len(messages) >= self.length and any(message is self.newest for message in messages)

    def look(self, messages: Any) -> None:
        """If the history was compacted, tell the guard, and remember it as it is now."""
        with self.lock:  # calls of one reply are run in threads
            if not self.goes_on(messages):
                self.end(self.verbs.compacted(run_id=self.run_id))
            self.length, self.newest = len(messages), messages[-1] if messages else None


@dataclass(frozen=True, slots=True)
class Unseen:
    """A call for which the host called no hook, as it could not make one of what the model wrote.

    Attributes:
        message: The message that ends with `answer`, what the model is told.
        unknown: There is no such tool.
    """

    tool: str
    arguments: Any
    answer: str
    message: Any
    unknown: bool

    def tell(self, run: Run) -> None:
        """Ask and tell the guard, and put what it says in the place of the answer."""
        call_id, verdict = run.before(self.tool, self.arguments)
        outcome: dict[str, Any] = {"error": self.answer}
        if self.unknown:
            outcome["unknown_tool"] = self.tool
        text = run.after(call_id, verdict, self.answer, outcome)
        if text is not None:
            self.message["content"] = self.message["content"].removesuffix(self.answer) + text


def unseen(run: Run, context: LLMCallHookContext) -> Iterator[Unseen]:
    """The unseen calls of the newest reply."""
    executor: Any = context.executor
    messages: list[Any] = context.messages
    batch = next((at for at in reversed(range(len(messages))) if messages[at].get("tool_calls")), None)
    read = messages[batch] if batch is not None else None, _action(executor)
    seen, run.read = run.read, read
    if not run.replies:
        return
    if batch is not None and read[0] is not seen[0]:
        asked = {call["id"]: call["function"]["arguments"] for call in messages[batch]["tool_calls"]}
        for message in messages[batch + 1 :]:
            arguments = asked.get(message.get("tool_call_id") or "")
            if isinstance(arguments, str) and not _is_json(arguments):
                yield Unseen(message["name"], arguments, message["content"], message, unknown=False)
    answer = read[1]
    if answer is seen[1] or run.calls or answer is None or not answer.result:
        return
    tool = sanitize_tool_name(answer.tool)
    unknown = tool not in {sanitize_tool_name(known.name) for known in executor.tools}
    for message in reversed(messages):
        content = message.get("content")
        if isinstance(content, str) and content.endswith(answer.result):
            yield Unseen(tool, answer.tool_input, answer.result, message, unknown)
            return


def _action(executor: Any) -> AgentAction | None:
    """The call that the executor has read in the text of a reply; one of the old kind keeps none."""
    answer = getattr(getattr(executor, "state", None), "current_answer", None)
    return answer if isinstance(answer, AgentAction) else None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def outcome_of(context: ToolCallHookContext) -> dict[str, Any]:
    """What the tool gave, whatever other hooks made of it; as text where it is no plain value."""
    text, raw = context.tool_result or "", context.raw_tool_result
    if isinstance(raw, ToolFailure):
        return {"error": raw.message}
    if context.tool is None and raw == _NOT_FOUND:
        return {"error": raw, "unknown_tool": context.tool_name}
    if isinstance(raw, str) and raw.startswith(_FAILED):
        return {"error": raw}
    return {"result": raw if isinstance(raw, str | int | float | dict | list) else text}
