"""Claude Agent SDK: the guard as hooks of a session, and as a watch on its messages.

    hooks = LoopGuardHooks(LoopGuard({"enabled": True}))
    options = hooks.added_to(ClaudeAgentOptions(...))
    async for message in hooks.watch(query(prompt="...", options=options)):
        ...

A hook can stop a run but not raise out of it: where the guard ends a run, the host stops it and says so in
its `ResultMessage`, and `watch` raises `LoopAborted` after that message. Calls for which the host calls no
hook (unknown tools, wrong arguments of built-in ones) and calls that somebody else refused are seen at the
end of their batch.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from loopwarden.adapters import Abilities
from loopwarden.adapters.claude_agent_sdk_session import Agent, Call, Session
from loopwarden.errors import LoopAborted, MissingExtraError
from loopwarden.telemetry import log

try:
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, ResultMessage
except ImportError as error:
    raise MissingExtraError("claude-agent-sdk", "claude-agent-sdk") from error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from claude_agent_sdk import Message

    from loopwarden.events import Verdict
    from loopwarden.guard import LoopGuard

ABILITIES: Final = Abilities(
    host="Claude Agent SDK",
    package="claude-agent-sdk>=0.2.189",
    warns="result",
    aborts="raises",
    unknown_tools="later",
    compaction="signal",
    call_ids=True,
    run_ids=True,
    turns=True,
)

_EVENTS: Final = (
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "PostCompact",
    "SubagentStop",
    "Stop",
)
"""The host knows more of them than its types name."""

_SESSIONS: Final = 1024
"""Sessions that are remembered; those that were idle for longest are forgotten first."""

_NOTICE: Final = "<task-notification>"
"""How a prompt begins that the host writes itself when work in the background has ended."""

_REJECTED: Final = "<tool_use_error>"
"""How a result begins where the host could not call the tool."""

_VOLATILE: Final = frozenset({"durationMs", "durationSeconds", "persistedOutputPath"})
"""Fields of built-in tools' results that are new each time, whatever the tool found."""


class LoopGuardHooks:
    """Watches the tool calls of sessions, with `query` and with `ClaudeSDKClient`.

    What one prompt sets going is a run, in the session that the host names; sub-agents are runs of their own.
    What the host puts into a session when work in the background has ended goes on with the run.

    Args:
        guard: The guard; any number of sessions at the same time may share it, and this object.
    """

    def __init__(self, guard: LoopGuard) -> None:
        self._guard = guard
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._turns = itertools.count(1)

    def added_to(self, options: ClaudeAgentOptions | None = None) -> ClaudeAgentOptions:
        """A copy of the options with the guard's hooks beside the user's own, which stay as they are."""
        options = options if options is not None else ClaudeAgentOptions()
        hooks: dict[Any, list[Any]] = {event: list(found) for event, found in (options.hooks or {}).items()}
        for event in _EVENTS:
            matchers = hooks.setdefault(event, [])
            if not any(self._hook in matcher.hooks for matcher in matchers):
                matchers.insert(0, HookMatcher(hooks=[self._hook]))
        return replace(options, hooks=hooks)

    async def watch(self, messages: AsyncIterator[Message]) -> AsyncGenerator[Message, None]:
        """The messages as they come, of `query` or one of a client's `receive_` methods.

        Raises:
            LoopAborted: The guard ended the run whose `ResultMessage` was the last message. A client may be
                asked again after that.
        """
        try:
            async for message in messages:
                yield message
                if isinstance(message, ResultMessage):
                    self._result(message)
        finally:
            close = getattr(messages, "aclose", None)
            if close is not None:
                await close()

    def _result(self, message: ResultMessage) -> None:
        session = self._sessions.get(message.session_id)
        if session is None:
            return
        if session.over:
            session.leave()
        if message.terminal_reason == "hook_stopped" and session.aborted:
            raise LoopAborted(session.aborted.popleft())

    async def _hook(self, event: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """The host calls this for every event."""
        try:
            return self._answer(event)
        except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
            log.logger.exception("fault in a hook of the guard: the host goes on without an answer")
            return {}

    def _answer(self, event: dict[str, Any]) -> dict[str, Any]:
        session = self._session(event["session_id"])
        name = event["hook_event_name"]
        if name == "PreToolUse":
            return self._pre(session, event)
        if name in {"PostToolUse", "PostToolUseFailure"}:
            return self._post(session, event)
        if name == "PostToolBatch":
            return self._batch(session, event)
        if name == "UserPromptSubmit":
            self._prompt(session, event)
        elif name == "PostCompact":
            self._compacted(session, event)
        elif name == "SubagentStop":
            session.agents.pop(event["agent_id"], None)
        elif name == "Stop":
            session.over = not event.get("background_tasks") and not event.get("session_crons")
        return {}

    def _session(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = Session(self._guard.session(session_id))
            if len(self._sessions) > _SESSIONS:
                self._sessions.popitem(last=False)[1].leave()
        self._sessions.move_to_end(session_id)
        return session

    def _prompt(self, session: Session, event: dict[str, Any]) -> None:
        """A person wrote, or the host on its own."""
        notice = str(event.get("prompt", "")).startswith(_NOTICE)
        during = session.main is not None and event.get("prompt_id") == session.prompt_id
        agent = session.prompted(event.get("prompt_id"), goes_on=notice)
        agent.turn = None
        agent.calls.clear()
        if during and not notice:
            session.verbs.user_message(run_id=agent.run_id)

    def _compacted(self, session: Session, event: dict[str, Any]) -> None:
        """Where the guard ends the run, it ends at its next call: this event has no way to stop it."""
        if event.get("trigger") == "manual":
            session.compacted = True
        else:
            session.verbs.compacted(run_id=session.agent(event).run_id)

    def _before(self, session: Session, agent: Agent, call: dict[str, Any]) -> Call:
        if agent.turn is None:
            agent.turn = f"{agent.run_id}/{next(self._turns)}"
        verdict = session.verbs.before(
            call["tool_name"],
            call["tool_input"],
            call_id=call["tool_use_id"],
            run_id=agent.run_id,
            turn_id=agent.turn,
        )
        if verdict.action == "abort":
            agent.ended = agent.ended or verdict
        found = agent.calls[call["tool_use_id"]] = Call(verdict, over=_refused(verdict))
        return found

    def _after(self, session: Session, agent: Agent, call_id: str, outcome: dict[str, Any]) -> list[str]:
        """Tell the guard; the answer is what the model is to be told with the result."""
        call = agent.calls.get(call_id)
        if call is None or call.over:
            return []
        call.over = True
        verdict = session.verbs.after(call_id, run_id=agent.run_id, **outcome)
        if verdict.action == "abort":
            agent.ended = agent.ended or verdict
        warns = call.verdict.action == "warn" and call.verdict.announce
        return [call.verdict.message or ""] if warns else []

    def _pre(self, session: Session, event: dict[str, Any]) -> dict[str, Any]:
        agent = session.agent(event)
        verdict = self._before(session, agent, event).verdict
        if not _refused(verdict):
            return {}
        reason = {"permissionDecision": "deny", "permissionDecisionReason": verdict.message or "refused"}
        answer: dict[str, Any] = {"hookSpecificOutput": {"hookEventName": "PreToolUse", **reason}}
        return answer | session.stop(agent, verdict) if verdict.action == "abort" else answer

    def _post(self, session: Session, event: dict[str, Any]) -> dict[str, Any]:
        agent = session.agent(event)
        notes: list[str] = []
        outcome: dict[str, Any] = {"error": event.get("error")}
        if event["hook_event_name"] == "PostToolUse":
            response = event.get("tool_response")
            outcome = {"result": _steady(response)}
            ended = _ended(session, response)
            if ended is not None:
                notes = [ended.message or ""]
                outcome = {"error": ended.message}
        notes = [*self._after(session, agent, event["tool_use_id"], outcome), *notes]
        return _context(event, notes)

    def _batch(self, session: Session, event: dict[str, Any]) -> dict[str, Any]:
        """The end of a batch: what no other hook has told, and the end of the run where it is to end."""
        agent = session.agent(event)
        notes: list[str] = []
        for call in event["tool_calls"]:
            call_id, response = call["tool_use_id"], call.get("tool_response")
            asked = call_id in agent.calls
            if not asked:
                verdict = self._before(session, agent, call).verdict
                if _refused(verdict):
                    notes.append(verdict.message or "refused")
            text = response if isinstance(response, str) else ""
            if not asked and not text.startswith(_REJECTED):
                outcome: dict[str, Any] = {"result": response}
            else:
                outcome = {"error": text or repr(response)}
                if text.startswith(f"{_REJECTED}Error: No such tool available: {call['tool_name']}"):
                    outcome["unknown_tool"] = call["tool_name"]
            notes += self._after(session, agent, call_id, outcome)
        agent.turn = None
        agent.calls.clear()
        answer = _context(event, notes)
        return answer if agent.ended is None else answer | session.stop(agent, agent.ended)


def _refused(verdict: Verdict) -> bool:
    return verdict.action in {"block", "abort"}


def _context(event: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """An answer that gives the model something to read."""
    if not notes:
        return {}
    text = "\n\n".join(notes)
    return {"hookSpecificOutput": {"hookEventName": event["hook_event_name"], "additionalContext": text}}


def _ended(session: Session, response: Any) -> Verdict | None:
    """Why the run of a sub-agent was ended, if this is its result: the host gives its caller an empty one."""
    if not isinstance(response, dict) or not isinstance(response.get("agentId"), str):
        return None
    agent = session.agents.get(response["agentId"])
    if agent is None or not agent.stopped:
        return None
    del session.agents[response["agentId"]]
    return agent.ended


def _steady(response: Any) -> Any:
    """A result without what is new each time; of a sub-agent's, what it said."""
    if not isinstance(response, dict):
        return response
    if "agentId" in response:
        return {name: response[name] for name in ("status", "content") if name in response}
    return {name: value for name, value in response.items() if name not in _VOLATILE}
