"""A run of a LangGraph graph: what the adapter keeps of it, and its calls that something else answered."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from loopwarden.errors import LoopAborted, MissingExtraError

try:
    from langgraph.errors import GraphBubbleUp
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

from loopwarden.adapters.langgraph_state import answered_calls, is_asked_once, noted, plain

if TYPE_CHECKING:
    from collections.abc import Collection

    from langchain_core.messages import ToolMessage

    from loopwarden.adapters.langgraph_state import Extent, Mark
    from loopwarden.events import Verdict
    from loopwarden.guard import Verbs

_MAX_TURNS: Final = 64
"""Earlier replies of a run that are known again where it is wound back."""

Key: TypeAlias = "str | tuple[str | None, str, object]"
"""Names a run: as the state does, else thread, place in the graph, and one more.

That is the run's id or that of a message. For messages without ids it is the object that stands for the
invocation, and `None` for the newest of those in the thread.
"""


class GraphLoopAborted(GraphBubbleUp, LoopAborted):
    """The guard ended the run. LangGraph lets it through where it would turn an error into a message."""


def leave(verdict: Verdict) -> None:
    """End the run if the verdict says so.

    Raises:
        GraphLoopAborted: It does.
    """
    if verdict.action == "abort":
        raise GraphLoopAborted(verdict)


@dataclass(slots=True)
class Run:
    """What is kept of a run; nothing of arguments or results.

    Attributes:
        name: Its id for the guard.
        mark: What `mark_of` said last.
        extent: What `extent_of` said last.
        turn: The reply whose calls run now.
        person: Id of the person's message that the run answers; `None`: it has none.
        newest: The key of its newest reply.
        past: The newest reply when it began, empty if there was none; `None`: it did not begin here.
        turns: The replies before `turn`.
        verdicts: What was said of the calls of this reply.
        ended: What came of them, as hashes.
    """

    name: str | None
    mark: Mark
    extent: Extent
    turn: str | None = None
    person: str | None = None
    newest: Key | None = None
    past: str | None = None
    turns: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_TURNS))
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)

    def turned(self, turn: str | None) -> None:
        """Calls of this reply come now."""
        if turn is None or self.turn != turn:
            if self.turn is not None:
                self.turns.append(self.turn)
            self.turn = turn
            self.verdicts.clear()
            self.ended.clear()

    def not_run(self, verbs: Verbs, messages: list[Any], tools: Collection[object]) -> dict[int, ToolMessage]:
        """Tell of the calls that a person or a middleware has answered, so that no tool was asked.

        Args:
            verbs: Who is told.
            messages: The history, before the model is asked again.
            tools: Names of the tools whose calls count.

        Returns:
            By `id` of an answer: another one, with what the guard has to say of the call.

        Raises:
            GraphLoopAborted: The guard ended the run.
        """
        turn, answered = answered_calls(messages)
        if turn is None or turn == self.past or turn in self.turns:
            return {}
        self.turned(turn)
        elsewhere = self.past is None
        found = {}
        for asked, answer in answered:
            if asked["id"] in self.verdicts or asked["name"] not in tools:
                continue
            if elsewhere and answer.status != "error":  # it may have run there
                continue
            if elsewhere and is_asked_once(messages, asked["id"]):  # and this one have been told
                verbs.retract([asked["id"]], run_id=self.name)
            said = self._answered(verbs, asked, answer)
            if said is not None:
                found[id(answer)] = answer.model_copy(update={"content": said})
        return found

    def _answered(self, verbs: Verbs, asked: Any, answer: ToolMessage) -> Any:
        """A call and its answer; what the model reads instead of this answer, `None`: no other."""
        call_id, now = asked["id"], time.monotonic()
        verdict = verbs.before(
            asked["name"], asked["args"], call_id=call_id, run_id=self.name, turn_id=self.turn, at=now
        )
        self.verdicts[call_id] = verdict
        leave(verdict)
        if verdict.action == "block":
            return verdict.message or ""
        if answer.status == "error":
            leave(verbs.after(call_id, error=answer.text, run_id=self.name, at=now))
        else:
            leave(verbs.after(call_id, result=plain(answer.content), run_id=self.name, at=now))
        if verdict.action != "warn" or not verdict.announce or verdict.message is None:
            return None
        return noted(answer.content, verdict.message)
