"""Coding agents as far as a hook sees them: events in their own words, and what they make of an answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from loopwarden.hooks.hosts import HOSTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.hooks.answers import Answer

CAMEL = {
    "session_id": "sessionId",
    "tool_name": "toolName",
    "tool_input": "toolArgs",
    "tool_result": "toolResult",
}


@dataclass
class Heard:
    """What a host takes from an answer.

    Attributes:
        decision: `allow`, `deny` or `ask`.
        model: What the model reads.
        person: What the person reads.
        ended: Whether the run ends.
    """

    decision: str = "allow"
    model: str = ""
    person: str = ""
    ended: bool = False


@dataclass
class Agent:
    """A session of a host.

    Args:
        name: The host.
        answer: Takes host, payload, variables and the event's name.
    """

    name: str
    answer: Callable[..., Answer]
    session: str = "s1"
    run: str = "p1"
    project: str = "/home/user/project"
    variables: dict[str, str] = field(default_factory=dict)
    calls: int = 0

    def before(self, tool: str, arguments: object, call_id: str, agent: str | None = None) -> Heard:
        return self.send("before", tool, arguments, call_id, agent)

    def after(
        self, tool: str, arguments: object, call_id: str, result: object, agent: str | None = None
    ) -> Heard:
        return self.send("after", tool, arguments, call_id, agent, **self._result(result))

    def failed(self, tool: str, arguments: object, call_id: str, error: str, **more: Any) -> Heard:
        if "failed" not in HOSTS[self.name].events.values():
            return self.after(tool, arguments, call_id, {"error": error})
        name = "error_message" if self.name == "cursor" else "error"
        return self.send("failed", tool, arguments, call_id, None, **{name: error}, **more)

    def call(self, tool: str, arguments: object, result: object, agent: str | None = None) -> Heard:
        """A whole call; what was said last, with the words of both answers."""
        self.calls += 1
        call_id = f"c{self.calls}"
        first = self.before(tool, arguments, call_id, agent)
        if first.decision != "allow":
            return first
        second = self.after(tool, arguments, call_id, result, agent)
        return Heard(
            model=first.model or second.model, person=second.person, ended=first.ended or second.ended
        )

    def tell(self, kind: str, **more: Any) -> Heard:
        """An event without a call."""
        return self.heard(self._name(kind), self._answered(self._name(kind), more), kind)

    def send(
        self, kind: str, tool: str, arguments: object, call_id: str, agent: str | None, **more: Any
    ) -> Heard:
        fields: dict[str, Any] = {"tool_name": tool, "tool_input": arguments, **more}
        if HOSTS[self.name].fields.call:
            fields[HOSTS[self.name].fields.call[0]] = call_id
        if agent is not None:
            fields[HOSTS[self.name].fields.agent[0]] = agent
        name = self._name(kind)
        return self.heard(name, self._answered(name, fields), kind)

    def payload(self, name: str, fields: dict[str, Any]) -> bytes:
        """The event as this host writes it."""
        host = HOSTS[self.name]
        data: dict[str, Any] = {
            "session_id": self.session,
            "cwd": self.project,
            "hook_event_name": name,
            **fields,
        }
        if host.fields.run:
            data[host.fields.run[0]] = self.run
        if self.name == "cursor":
            data["conversation_id"] = data["session_id"]
        if self.name == "copilot":  # the camel-case form says no event name
            del data["hook_event_name"]
            data = {CAMEL.get(key, key): value for key, value in data.items()}
        if self.name == "hermes":
            apart = {"tool_name", "tool_input", "session_id", "cwd", "hook_event_name"}
            extra = {key: value for key, value in data.items() if key not in apart}
            data = {**{key: value for key, value in data.items() if key in apart}, "extra": extra}
        return json.dumps(data).encode()

    def heard(self, name: str, answer: Answer, kind: str) -> Heard:
        """What the host makes of an answer; a key that it doesn't know is a fault of the test."""
        if self.name == "copilot" and kind == "failed" and answer.code == 2:
            return Heard(model=answer.err.decode())
        assert answer.code == 0
        assert answer.err == b""
        if not answer.out:
            return Heard()
        data = json.loads(answer.out)
        known, inner = KNOWN[self.name]
        assert set(data) <= known, data
        specific = data.get("hookSpecificOutput", {})
        assert set(specific) <= inner | {"hookEventName"}, data
        if specific:
            assert specific["hookEventName"] == name
        decision = (
            specific.get("permissionDecision") or data.get("permissionDecision") or data.get("permission")
        )
        decision = MEANT.get(data.get("decision"), decision)
        if data.get("decision") == "end" and kind != "before":
            decision = "allow"
        reasons = [
            specific.get("permissionDecisionReason"),
            specific.get("additionalContext"),
            data.get("permissionDecisionReason"),
            data.get("agent_message"),
            data.get("additional_context"),
            data.get("reason"),
            data.get("stopReason"),
            data.get("text"),
        ]
        return Heard(
            decision=decision or "allow",
            model=next((reason for reason in reasons if reason), ""),
            person=data.get("systemMessage") or data.get("user_message") or data.get("person") or "",
            ended=data.get("continue") is False or data.get("decision") == "end",
        )

    def _answered(self, name: str, fields: dict[str, Any]) -> Answer:
        event = name if self.name == "copilot" else None
        return self.answer(self.name, self.payload(name, fields), self.variables, event)

    def _name(self, kind: str) -> str:
        return next(name for name, meaning in HOSTS[self.name].events.items() if meaning == kind)

    def _result(self, result: object) -> dict[str, Any]:
        if self.name == "gemini":
            error = result.get("error") if isinstance(result, dict) else None
            told = {"llmContent": result, "returnDisplay": str(result)}
            return {"tool_response": told | ({"error": error} if error else {})}
        return {HOSTS[self.name].fields.result[0]: result}


MEANT = {"block": "deny", "deny": "deny", "refuse": "deny", "end": "deny", "ask": "ask", "note": "allow"}
"""What the hosts' words for a decision come to."""

_CLAUDE_LIKE = {"permissionDecision", "permissionDecisionReason", "additionalContext"}
KNOWN: dict[str, tuple[set[str], set[str]]] = {
    "claude-code": ({"continue", "stopReason", "systemMessage", "hookSpecificOutput"}, _CLAUDE_LIKE),
    "codex": ({"systemMessage", "hookSpecificOutput"}, _CLAUDE_LIKE),
    "gemini": (
        {"decision", "reason", "continue", "stopReason", "systemMessage", "hookSpecificOutput"},
        {"additionalContext"},
    ),
    "qwen": ({"continue", "stopReason", "systemMessage", "hookSpecificOutput"}, _CLAUDE_LIKE),
    "kimi": ({"hookSpecificOutput"}, {"permissionDecision", "permissionDecisionReason"}),
    "copilot": ({"permissionDecision", "permissionDecisionReason"}, set()),
    "cursor": ({"permission", "user_message", "agent_message", "additional_context"}, set()),
    "hermes": ({"decision", "reason"}, set()),
    "opencode": ({"decision", "text", "person"}, set()),
    "openclaw": ({"decision", "text", "person"}, set()),
}
"""Keys of an answer that each host knows, and those inside of `hookSpecificOutput`."""
