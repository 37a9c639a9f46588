"""One run in detail."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final

from loopwarden.gateway.page import timeline
from loopwarden.gateway.page.choosing import state_of
from loopwarden.gateway.page.happened_view import happened
from loopwarden.gateway.page.markup import age, attribute, badge, number, text
from loopwarden.gateway.page.runs_view import search, state_badge, title_of
from loopwarden.scan.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.gateway.card import Card
    from loopwarden.gateway.decisions import Decisions
    from loopwarden.gateway.page.choosing import State
    from loopwarden.gateway.rows import Loop

_NEAR: Final = 10

_ENDS: Final = {
    "aborted": "The guard ended this run",
    "cancelled": "A person cancelled this run",
    "failed": "This run failed",
    "interrupted": "The gateway stopped in the middle of this run",
    "done": "The agent finished",
    "over": "The host said that this run is over",
}
_CLASSES: Final = {"aborted": "critical", "failed": "critical", "done": "good"}


def page(
    card: Card,
    others: list[Card],
    decisions: Decisions,
    now: float,
    *,
    csrf: str,
    can_cancel: bool,
    first: int | None = None,
) -> str:
    """What stands in `main`.

    Args:
        card: The run.
        others: All runs, to find those of its session and those that it spawned.
        decisions: What people decided.
        now: Seconds since the epoch.
        csrf: Token of the forms.
        can_cancel: Whether runs of agents can be cancelled here.
        first: Only what happened before this call; `None`: the newest.
    """
    older = f"?before={first}" if first is not None else ""
    return (
        f'<div id="run" hx-get="/page/run/{card.name}/live{older}" hx-swap="morph:innerHTML"'
        ' hx-trigger="sse:run, sse:reload">'
        f"{part(card, others, decisions, now, csrf=csrf, can_cancel=can_cancel, first=first)}</div>"
    )


def part(
    card: Card,
    others: list[Card],
    decisions: Decisions,
    now: float,
    *,
    csrf: str,
    can_cancel: bool,
    first: int | None = None,
) -> str:
    """What changes: all of it."""
    state = state_of(card, decisions, now)
    return (
        f'<p class="way"><a href="/" data-back>Runs</a> / {text(card.agent or "agent")}</p>'
        f'<div class="head"><h1>{text(title_of(card))}</h1>{state_badge(state)}'
        f"{_actions(card, state, csrf, can_cancel=can_cancel)}</div>"
        f"{_why(card, state)}{_tiles(card)}"
        f"<h2>Calls</h2>{timeline.large(card)}{timeline.legend() if card.calls else _no_calls()}"
        f"{_loops(card, decisions, csrf)}"
        f'<div class="columns"><section><h2>What happened</h2>{happened(card, now, first)}</section>'
        f"<section><h2>This run</h2>{_facts(card, now)}{_near(card, others, decisions, now)}</section></div>"
    )


def _actions(card: Card, state: State, csrf: str, *, can_cancel: bool) -> str:
    if card.ending is not None and card.trigger is not None:
        return ""
    buttons = []
    if state == "paused":
        buttons.append(_button(card, "resume", "Resume guard", csrf, kind="primary"))
    elif card.ending is None:
        buttons.append(_button(card, "pause", "Pause guard", csrf))
    if can_cancel and card.run_id is not None and card.ending is None:
        sure = "Cancel this run? The agent is stopped."
        buttons.append(_button(card, "cancel", "Cancel run", csrf, kind="danger", confirm=sure))
    return f'<div class="actions">{"".join(buttons)}</div>'


def _button(
    card: Card, deed: str, words: str, csrf: str, *, kind: str = "", confirm: str = "", loop: str = ""
) -> str:
    where = f"/page/run/{card.name}/{deed}"
    asks = f" hx-confirm={attribute(confirm)}" if confirm else ""
    named = f'<input type="hidden" name="loop" value="{loop}">' if loop else ""
    mark = f' id="{deed}-{loop or card.name}"'
    return (
        f'<form method="post" action="{where}" hx-post="{where}" hx-target="#run"'
        f' hx-swap="morph:innerHTML"{asks}>'
        f'<input type="hidden" name="csrf" value="{csrf}">{named}'
        f'<button class="{kind}"{mark}>{words}</button></form>'
    )


def _why(card: Card, state: State) -> str:
    """Why it ended, or that nobody guards it: the first thing to know."""
    if card.ending is None:
        if state == "paused":
            return (
                '<p class="callout warning" role="status"><strong>The guard is paused.</strong> Calls of '
                "this run are neither counted nor refused until it is resumed, for seven days at most.</p>"
            )
        if card.lifted is not None:
            return (
                '<p class="callout plain" role="status"><strong>Let through by a person.</strong> The guard '
                "had ended this run; its next call goes on.</p>"
            )
        return ""
    ending = card.ending
    code = f" <code>{text(ending.code)}</code>" if ending.code else ""
    says = ending.text if ending.reason != "cancelled" else ""
    more = f'<span class="words">{text(says)}</span>' if says else ""
    kind = _CLASSES.get(ending.reason, "plain")
    return f'<p class="callout {kind}" role="status"><strong>{_ENDS[ending.reason]}.</strong>{code}{more}</p>'


def _tiles(card: Card) -> str:
    counts = card.counts
    observed = counts.would_warn + counts.would_refuse
    tiles = [
        ("Calls", number(counts.calls)),
        ("Failed", number(counts.failed, kind="warning")),
        ("Warned", number(counts.warned, kind="warning")),
        ("Refused", number(counts.refused, kind="critical")),
        ("Compactions", number(counts.compactions)),
    ]
    if card.observes or observed:
        tiles.insert(4, ("Only observed", number(observed, kind="warning")))
    body = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in tiles)
    return f'<dl class="tiles">{body}{_armed(card)}</dl>'


def _armed(card: Card) -> str:
    """The armed window: a box for each outcome that it looks at."""
    armed = card.armed
    if armed is None:
        return ""
    used = armed.window - armed.left
    most = 12
    boxes = "".join(
        f'<span class="box{" used" if place < used else ""}"></span>'
        for place in range(min(armed.window, most))
    )
    return (
        '<div class="armed"><dt>Armed window</dt>'
        f'<dd><span class="boxes" aria-hidden="true">{boxes}</span>'
        f"<small>{armed.left} of {armed.window} left</small></dd></div>"
    )


def _no_calls() -> str:
    return '<p class="none">No calls yet.</p>'


def _loops(card: Card, decisions: Decisions, csrf: str) -> str:
    over = card.ending is not None and card.trigger is not None
    unseen = [] if over else [name for name in decisions.released(card.name) if name not in card.loops]
    if not card.loops and not unseen:
        return ""
    articles = "".join(_loop(card, loop, decisions, csrf) for loop in reversed(card.loops.values()))
    articles += "".join(_unseen(card, name, csrf) for name in unseen)
    return f'<h2>Loops</h2><div class="loops">{articles}</div>'


def _loop(card: Card, loop: Loop, decisions: Decisions, csrf: str) -> str:
    released = decisions.is_released(card.name, loop.name)
    gone = card.ending is not None and card.trigger is not None
    button = ""
    if not gone and not loop.observed:
        button = (
            _button(card, "hold", "Guard again", csrf, loop=loop.name)
            if released
            else _button(card, "release", "Let through", csrf, loop=loop.name)
        )
    colours = dict.fromkeys(card.colours.get(signature, "u") for signature in loop.signatures)
    tools = ", ".join(text(tool) for tool in loop.tools) or "this run"
    level = "critical" if loop.level == "critical" else "warning"
    more = list(_did(loop))
    if released:
        more.append("<strong>let through by a person</strong>")
    words = f'<p class="words">{text(loop.message)}</p>' if loop.message else ""
    return (
        f'<article class="loop" id="loop-{loop.name}"><div class="loop-head">{badge(level, level)}'
        f"<h3>{loop.detector}</h3>{timeline.swatches(list(colours)[:6])}<span>{tools}</span>{button}</div>"
        f'<p class="under">{" · ".join(more)}</p>{words}</article>'
    )


def _unseen(card: Card, name: str, csrf: str) -> str:
    """A loop that was let through at another gateway, or before a restart, and has not come since."""
    button = _button(card, "hold", "Guard again", csrf, loop=name)
    return (
        f'<article class="loop" id="loop-{name}"><div class="loop-head"><h3>a loop from before</h3>{button}'
        '</div><p class="under">not seen since · <strong>let through by a person</strong></p></article>'
    )


def _did(loop: Loop) -> Iterator[str]:
    yield f"counted {loop.count:,}" + (f", threshold {loop.threshold:,}" if loop.threshold else "")
    if loop.warned:
        yield plural(loop.warned, "warning")
    if loop.refused:
        yield plural(loop.refused, "refusal")
    if loop.observed:
        yield "only observed"


def _facts(card: Card, now: float) -> str:
    facts = [("Agent", text(card.agent) if card.agent is not None else "not named")]
    if card.session is not None:
        facts.append(("Session", f"<a href={attribute(search(card.session))}>{text(card.session)}</a>"))
    if card.run is not None:
        facts.append(("Run", text(card.run)))
    facts.append(("Began by", html.escape(card.trigger or "an agent elsewhere")))
    if card.parent is not None:
        facts.append(("Spawned by", f"<a href={attribute(search(card.parent))}>{text(card.parent)}</a>"))
    facts += [("Started", age(card.began, now)), ("Last event", age(card.seen, now))]
    if card.requests is not None:
        facts.append(("Model requests", f"{card.requests:,}"))
    if card.tokens is not None:
        facts.append(("Tokens", f"{card.tokens[0]:,} in, {card.tokens[1]:,} out"))
    facts.append(("Guard", "only observes" if card.observes else "acts"))
    if not card.shows:
        facts.append(("Arguments", "not shown (<code>gateway.showArguments</code>)"))
    return (
        '<dl class="facts">' + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts) + "</dl>"
    )


def _near(card: Card, others: list[Card], decisions: Decisions, now: float) -> str:
    """The runs beside it, the latest in use first: what it spawned, and its session."""
    spawned = [one for one in others if one.parent is not None and one.parent == card.run]
    session = [one for one in others if one.session == card.session and one.agent == card.agent]
    shown = ""
    for head, cards in (("Spawned", spawned), ("Same session", session if card.session is not None else [])):
        items = "".join(
            f'<li>{state_badge(state_of(one, decisions, now))} <a href="/page/run/{one.name}">'
            f"{text(title_of(one))}</a></li>"
            for one in [one for one in cards if one.name != card.name][:_NEAR]
        )
        shown += f'<h2>{head}</h2><ul class="near">{items}</ul>' if items else ""
    return shown
