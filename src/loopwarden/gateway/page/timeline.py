"""A run's calls as a strip of inline SVG: a colour for each signature, what the guard did below."""

from __future__ import annotations

import html
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from loopwarden.gateway.card import Card
    from loopwarden.gateway.rows import Call

SMALL: Final = 60
"""Calls in the strip of the list."""

_LEAST: Final = 48
_CALL: Final = 10
_TALL: Final = 22
_MARK: Final = 26
_MARK_TALL: Final = 6
_WEIGHTS: Final = {"warn": "w1", "block": "w2", "abort": "w3"}


def small(card: Card) -> str:
    """The last calls, without answers: a picture beside the words of the list."""
    get = card.colours.get
    colours = [get(call.signature, "u") for call in list(card.calls)[-SMALL:]]
    shapes: dict[str, list[str]] = {}
    place = 0
    for colour, group in groupby(colours):
        length = len(list(group))
        shapes.setdefault(colour, []).append(f"M{place} 0h{length}v1h-{length}z")
        place += length
    paths = "".join(f'<path class="{colour}" d="{"".join(parts)}"/>' for colour, parts in shapes.items())
    return (
        f'<svg class="strip" viewBox="0 0 {SMALL} 1" preserveAspectRatio="none" aria-hidden="true">'
        f"{paths}</svg>"
    )


def large(card: Card) -> str:
    """All calls that are kept, with what the guard did and where the history was summarised."""
    calls = list(card.calls)
    if not calls:
        return ""
    width = max(len(calls), _LEAST) * _CALL
    first = calls[0].number
    shapes = [_shapes(card, call, (call.number - first) * _CALL) for call in calls]
    cuts = [
        f'<rect class="cut" x="{(note.after - first + 1) * _CALL - 1}" y="0" width="2" height="32"/>'
        for note in card.notes
        if note.kind == "compaction" and note.after >= first - 1
    ]
    end = f"<span>call {calls[-1].number:,}</span>" if len(calls) >= _LEAST else ""
    label = f"{len(calls)} calls, each signature in its colour"
    return (
        f'<svg class="timeline" viewBox="0 0 {width} 32" preserveAspectRatio="none" role="img"'
        f' aria-label="{label}">{"".join(shapes)}{"".join(cuts)}</svg>'
        f'<p class="scale"><span>call {first:,}</span>{end}</p>'
    )


def swatch(card: Card, call: Call) -> str:
    """The colour of a call, for a list."""
    return swatches([_colour(card, call)])


def swatches(names: list[str]) -> str:
    """Some colours beside each other."""
    return "".join(
        f'<svg class="swatch" viewBox="0 0 1 1" aria-hidden="true">'
        f'<path class="{name}" d="M0 0h1v1H0z"/></svg>'
        for name in names
    )


def legend() -> str:
    """What the colours mean."""
    entries = (
        (["s1", "s2", "s3"], "calls in loops, a colour for each signature"),
        (["m1", "m2", "m3"], "other repeated calls"),
        (["u"], "single calls"),
        (["w1"], "warned"),
        (["w2"], "refused"),
        (["w3"], "ended the run"),
        (["cut"], "compaction"),
    )
    return (
        '<p class="legend">'
        + "".join(f"<span>{swatches(names)}{words}</span>" for names, words in entries)
        + "</p>"
    )


def _colour(card: Card, call: Call) -> str:
    return card.colours.get(call.signature, "u")


def _shapes(card: Card, call: Call, x: int) -> str:
    arguments = f"({call.glimpse.text})" if call.glimpse is not None else ""
    title = f"<title>call {call.number}: {html.escape(call.tool + arguments)}</title>"
    faint = ' opacity=".35"' if call.state == "retracted" else ""
    body = (
        f'<rect class="{_colour(card, call)}" x="{x}" y="0" width="{_CALL - 1}" height="{_TALL}"{faint}>'
        f"{title}</rect>"
    )
    weight = _WEIGHTS.get(call.would or call.action)
    if weight is None or call.released:
        return body
    return f'{body}<rect class="{weight}" x="{x}" y="{_MARK}" width="{_CALL - 1}" height="{_MARK_TALL}"/>'
