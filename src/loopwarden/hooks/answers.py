"""What the guard has to say, in the words of each host.

An answer is what a hook prints and exits with. Each function says only what its host knows: some hosts refuse
an answer with a key they don't know, and then let the tool run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from loopwarden.hooks.hosts import Dialect, HookHost, Kind


@dataclass(frozen=True, slots=True)
class Answer:
    """What the hook prints and exits with.

    Attributes:
        out: For standard output.
        err: For standard error.
        code: The exit code.
    """

    out: bytes = b""
    err: bytes = b""
    code: int = 0


SILENCE = Answer()
"""Go on, as if there was no hook."""

Decision: TypeAlias = Literal["refuse", "ask", "end", "note"]
"""`refuse`: the call does not run. `ask`: a person decides. `end`: the run ends. `note`: for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """What is to be said.

    Attributes:
        decision: What happens.
        text: For the model.
        person: For the person at the keyboard: what was done and how to let it pass; empty for nothing.
        news: Whether the person was not told of this loop before, or not for a while.
    """

    decision: Decision
    text: str
    person: str
    news: bool = True


def say(host: HookHost, kind: Kind, event: str, saying: Saying) -> Answer:
    """Say it as the host takes it; what it can't be told is not said.

    Args:
        host: Who is answered.
        kind: What the event means.
        event: Its name, which some answers repeat.
        saying: What is to be said.
    """
    if saying.decision == "note" and kind not in host.warns:
        return SILENCE
    shown = replace(saying, text=_printable(saying.text), person=_printable(saying.person))
    return _DIALECTS[host.dialect](kind, event, shown)


def tell(host: HookHost, kind: Kind, text: str) -> Answer:
    """Tell the person something and let the agent go on; nothing where the host shows them nothing.

    Args:
        host: Who is answered.
        kind: What the event means.
        text: For the person.
    """
    if kind not in host.tells:
        return SILENCE
    return _json(_TOLD[host.dialect](_printable(text)))


def _printable(text: str) -> str:
    """A line as a terminal may show it: names of tools and sessions are the agent's words."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _json(value: Mapping[str, Any]) -> Answer:
    return Answer(out=orjson.dumps(value))


def _specific(event: str, **fields: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def _permission(event: str, decision: str, text: str) -> dict[str, Any]:
    return _specific(event, permissionDecision=decision, permissionDecisionReason=text)


def _claude(kind: Kind, event: str, saying: Saying) -> Answer:
    if saying.decision == "note":
        return _json(_specific(event, additionalContext=saying.text))
    ends: dict[str, Any] = {"systemMessage": saying.person} if saying.person and saying.news else {}
    if saying.decision == "end":
        ends |= {"continue": False, "stopReason": saying.text}
    if kind != "before":
        return _json(ends)
    decision = "ask" if saying.decision == "ask" else "deny"
    return _json({**_permission(event, decision, saying.text), **ends})


def _codex(kind: Kind, event: str, saying: Saying) -> Answer:
    if kind == "before" and saying.decision != "note":
        return _json({**_permission(event, "deny", saying.text), "systemMessage": saying.person})
    return _json(_specific(event, additionalContext=saying.text))


def _gemini(kind: Kind, event: str, saying: Saying) -> Answer:
    if saying.decision == "note":
        return _json(_specific(event, additionalContext=saying.text))
    ends: dict[str, Any] = {"systemMessage": saying.person}
    if saying.decision == "end":
        ends |= {"continue": False, "stopReason": saying.text}
    return _json({"decision": "deny", "reason": saying.text, **ends} if kind == "before" else ends)


def _qwen(kind: Kind, event: str, saying: Saying) -> Answer:
    if kind == "before" and saying.decision != "note":
        return _json({**_permission(event, "deny", saying.text), "systemMessage": saying.person})
    if saying.decision == "end":
        return _json({"continue": False, "stopReason": saying.text})
    return _json(_specific(event, additionalContext=saying.text))


def _kimi(kind: Kind, event: str, saying: Saying) -> Answer:
    if kind != "before":
        return SILENCE
    return _json(_permission(event, "deny", f"{saying.text}\n\n{saying.person}"))


def _copilot(kind: Kind, _event: str, saying: Saying) -> Answer:
    if kind == "before":
        decision = "ask" if saying.decision == "ask" else "deny"
        text = f"{saying.text}\n\n{saying.person}"
        return _json({"permissionDecision": decision, "permissionDecisionReason": text})
    return Answer(err=saying.text.encode(), code=2) if kind == "failed" else SILENCE


def _cursor(kind: Kind, _event: str, saying: Saying) -> Answer:
    if kind == "before":
        return _json({"permission": "deny", "user_message": saying.person, "agent_message": saying.text})
    return _json({"additional_context": saying.text}) if kind == "after" else SILENCE


def _hermes(kind: Kind, _event: str, saying: Saying) -> Answer:
    if kind != "before":
        return SILENCE
    return _json({"decision": "block", "reason": f"{saying.text}\n\n{saying.person}"})


def _plugin(_kind: Kind, _event: str, saying: Saying) -> Answer:
    return _json({"decision": saying.decision, "text": saying.text, "person": saying.person})


_DIALECTS: Mapping[Dialect, Callable[[Kind, str, Saying], Answer]] = {
    "claude": _claude,
    "codex": _codex,
    "copilot": _copilot,
    "cursor": _cursor,
    "gemini": _gemini,
    "hermes": _hermes,
    "kimi": _kimi,
    "plugin": _plugin,
    "qwen": _qwen,
}

_TOLD: Mapping[Dialect, Callable[[str], dict[str, str]]] = {
    **dict.fromkeys(("claude", "codex", "gemini", "qwen"), lambda text: {"systemMessage": text}),
    "cursor": lambda text: {"user_message": text},
    "plugin": lambda text: {"decision": "note", "text": "", "person": text},
}
"""Words for the person alone, of the dialects whose hosts show them; never with a decision, which would let
a call run that the host would ask about."""
