"""What the runner tells of its runs, put on their cards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast, get_args

from loopwarden.events import Action, DetectorId, Level, Verdict
from loopwarden.gateway.card import NAME, TEXT
from loopwarden.masking import clean, mask
from loopwarden.runner.happenings import End

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopwarden.gateway.card import Card
    from loopwarden.gateway.rows import NoteKind
    from loopwarden.runner.happenings import Happening

_READ: Final = 2 * TEXT


def happened(card: Card, happening: Happening) -> None:
    """Take what happened in a run of the runner; what is missing or of another type is left out."""
    data, now = happening.data, happening.time
    match happening.kind:
        case "began":
            _began(card, happening)
        case "text":
            if not data.get("partial"):
                card.note("text", now, _said(card, data.get("text")))
        case "call":
            _call(card, data, now)
        case "verdict":
            _verdict(card, data, now)
        case "outcome":
            call = card.known_call(data.get("call_id"))
            if call is not None and call.state == "open":
                card.ended_call(call, failed=data.get("ok") is False, compared=None, now=now)
        case "compaction":
            _compaction(card, data, now)
        case "user_message":
            kind: NoteKind = "user" if data.get("sender") is None else "agent"
            card.note(kind, now, _said(card, data.get("text")))
        case "notice":
            card.note("notice", now, mask(_text(data.get("text"))[:_READ]))
        case "ended":
            _ended(card, data, now)


def _began(card: Card, happening: Happening) -> None:
    data = happening.data
    card.goes_on()
    card.agent = clean(happening.agent, NAME)
    card.trigger = clean(_text(data.get("trigger")), NAME) or "user"
    card.run_id = happening.run
    card.began = min(card.began, happening.time)
    parent = data.get("parent")
    if isinstance(parent, str):
        card.parent = clean(parent, NAME)
    card.note("began", happening.time, _said(card, data.get("task")))


def _call(card: Card, data: Mapping[str, Any], now: float) -> None:
    call = card.known_call(data.get("call_id"))
    if call is None or call.by_watch:
        if call is not None and call.state == "open":
            return
        turn = data.get("turn_id")
        tool = _text(data.get("tool"))
        turn = turn if isinstance(turn, str) else None
        call = card.call(tool, data.get("arguments"), data.get("call_id"), turn, None, now)
    call.by_watch = True


def _verdict(card: Card, data: Mapping[str, Any], now: float) -> None:
    """Only where the guard did not tell of it itself."""
    call = card.known_call(data.get("call_id"))
    if (call is not None and call.by_guard) or data.get("detector") not in get_args(DetectorId):
        return
    action, would = data.get("action"), data.get("would")
    count = data.get("count")
    verdict = Verdict(
        action=cast("Action", action) if action in get_args(Action) else "allow",
        level=cast("Level", data["level"]) if data.get("level") in get_args(Level) else None,
        detector=cast("DetectorId", data["detector"]),
        count=count if isinstance(count, int) else 0,
        tool=None if call is None else call.tool,
        message=_text(data.get("message")) or None,
        key=_text(data.get("key")) or None,
        error=data.get("error"),
        would=cast("Action", would) if would in get_args(Action) else None,
    )
    if verdict.detector == "post_compaction":  # on an outcome: the call has run
        card.found(verdict, call)
    elif call is not None:
        card.answered(call, verdict)
    if verdict.action == "abort":
        card.stopped(verdict, now)


def _compaction(card: Card, data: Mapping[str, Any], now: float) -> None:
    before, after = data.get("tokens_before"), data.get("tokens_after")
    sizes = [f"{size:,}" if isinstance(size, int) else "unknown" for size in (before, after)]
    cause = {"overflow": "the context was full", "ahead": "ahead of a full context"}.get(
        _text(data.get("cause")), "the history was summarised"
    )
    card.compacted("runner", now, text=f"{cause}; tokens before {sizes[0]}, after {sizes[1]}")


def _ended(card: Card, data: Mapping[str, Any], now: float) -> None:
    reason = data.get("reason")
    code = data.get("code")
    card.requests = data["requests"] if isinstance(data.get("requests"), int) else card.requests
    tokens = data.get("input_tokens"), data.get("output_tokens")
    if isinstance(tokens[0], int) and isinstance(tokens[1], int):
        card.tokens = tokens[0], tokens[1]
    text = _text(data.get("message")) if reason != "done" else _said(card, data.get("answer"))
    card.ended(
        cast("End", reason) if reason in get_args(End) else "failed",
        now,
        code=clean(code, NAME) if isinstance(code, str) else None,
        text=mask(text[:_READ]),
    )


def _said(card: Card, text: object) -> str:
    """What a person or a model said, where that is shown."""
    found = _text(text)
    return mask(found[:_READ]) if card.shows else f"({len(found):,} characters)" if found else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
