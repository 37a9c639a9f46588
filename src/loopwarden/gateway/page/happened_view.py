"""The calls of a run and what happened between them, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loopwarden.gateway.page import timeline
from loopwarden.gateway.page.markup import badge, clock, length, text, verdict_badge

if TYPE_CHECKING:
    from loopwarden.gateway.card import Card
    from loopwarden.gateway.rows import Call, Note

_HOUR: Final = 3600

ROWS: Final = 60
"""Calls and notes on one page."""

_NOTES: Final = {
    "began": "Task",
    "user": "A person wrote",
    "agent": "Another agent wrote",
    "text": "The model said",
    "compaction": "Compaction",
    "notice": "Notice",
    "paused": "Guard paused by a person",
    "resumed": "Guard resumed by a person",
    "released": "Loop let through by a person",
    "held": "Loop guarded again by a person",
    "cancel": "Cancelled by a person",
    "ended": "Ended",
}


def happened(card: Card, now: float, first: int | None) -> str:
    """The list.

    Args:
        card: The run.
        now: Seconds since the epoch.
        first: Only calls before this one; `None`: the newest.
    """
    rows = [(call.number, 0, call.at, _call(card, call, now)) for call in card.calls]
    rows += [(note.after, 1, note.at, _note(note)) for note in card.notes]
    rows.sort(key=lambda row: row[:3], reverse=True)
    if first is not None:
        rows = [row for row in rows if row[0] < first]
    shown, rest = rows[:ROWS], rows[ROWS:]
    items = "".join(row[3] for row in shown)
    steps = []
    if first is not None:
        steps.append(f'<a href="/page/run/{card.name}">newest</a>')
    if rest:
        steps.append(f'<a href="/page/run/{card.name}?before={shown[-1][0]}">older</a>')
    dropped = card.counts.calls - len(card.calls)
    if dropped > 0 and not rest:
        steps.append(f"<span>{dropped:,} older calls are not kept</span>")
    return f'<ol class="happened" reversed>{items}</ol><p class="pages">{" ".join(steps)}</p>'


def _call(card: Card, call: Call, now: float) -> str:
    arguments = (
        f'<span class="arguments">({text(call.glimpse.text)})</span>' if call.glimpse is not None else ""
    )
    return (
        f'<li class="call" id="call-{call.number}" data-item tabindex="-1">'
        f'<span class="place">{call.number}</span>'
        f"{timeline.swatch(card, call)}"
        f"<code>{text(call.tool)}{arguments}</code>"
        f'<span class="marks">{_marks(call)}</span>'
        f'<span class="when">{_outcome(call, now)} {clock(call.at)}</span></li>'
    )


def _marks(call: Call) -> str:
    if call.released:
        return badge("plain", "let through")
    if call.skipped:
        return badge("plain", "not guarded")
    said = verdict_badge(call.action, call.would)
    return f'{said}<span class="why">{call.detector} {call.count}</span>' if said else ""


def _outcome(call: Call, now: float) -> str:
    took = f" {length(call.ended - call.at)}" if call.ended is not None and call.ended - call.at >= 1 else ""
    match call.state:
        case "open":
            return (
                '<span class="open">running</span>'
                if now - call.at < _HOUR
                else '<span class="open">no result</span>'
            )
        case "refused" | "retracted":
            return f'<span class="zero">{"did not run" if call.state == "refused" else "rolled back"}</span>'
        case "failed":
            word = '<span class="warning">failed</span>'
        case _:
            word = "ok"
    same = {True: " · same result", False: " · new result", None: ""}[call.same]
    return f"{word}{same}{took}"


def _note(note: Note) -> str:
    words = f'<span class="said">{text(note.text)}</span>' if note.text else ""
    return (
        f'<li class="note note-{note.kind}"><strong>{_NOTES[note.kind]}</strong>{words}'
        f'<span class="when">{clock(note.at)}</span></li>'
    )
