"""The list of runs."""

from __future__ import annotations

import html
import shlex
from typing import TYPE_CHECKING

from loopwarden.gateway.page import timeline
from loopwarden.gateway.page.choosing import CHOICES, PAGE, Choice, in_trouble, order_of, state_of
from loopwarden.gateway.page.markup import age, attribute, badge, number, text
from loopwarden.scan.words import plural

if TYPE_CHECKING:
    from pathlib import Path

    from loopwarden.gateway.board import Board
    from loopwarden.gateway.card import Card
    from loopwarden.gateway.page.choosing import State

_HEADS = ("State", "Run", "Last calls", "Calls", "Warned", "Refused", "Started")


def page(board: Board, choice: Choice, now: float, *, gateway: str, token_file: Path) -> str:
    """What stands in `main`: the filter, and the part that changes."""
    return (
        f"<h1>Runs</h1>{_filter(board, choice)}"
        '<div id="runs" hx-get="/page/runs" hx-include="#filter, #page" hx-swap="morph:innerHTML"'
        ' hx-trigger="sse:runs, sse:reload">'
        f"{part(board, choice, now, gateway=gateway, token_file=token_file)}</div>"
    )


def part(board: Board, choice: Choice, now: float, *, gateway: str, token_file: Path) -> str:
    """What changes: the sums, the news, the rows."""
    cards = board.cards()
    if not cards:
        return _empty(gateway, token_file)
    states = {card.name: state_of(card, board.decisions, now) for card in cards}
    chosen = sorted((card for card in cards if choice.takes(card, states[card.name])), key=order_of)
    shown = [card.name for card in chosen[(choice.page - 1) * PAGE : choice.page * PAGE]]
    rows = "".join(_row(card, states.get(card.name, "over"), now) for card in board.copies(shown))
    heads = "".join(f'<th scope="col">{head}</th>' for head in _HEADS)
    table = (
        f'<table class="runs"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
        if rows
        else f'<p class="none">No run is like this. <a href="/">Show all {len(cards)}</a></p>'
    )
    return f"{_tiles(cards, states)}{_news(cards)}{table}{_pages(choice, len(chosen), len(cards))}"


def _filter(board: Board, choice: Choice) -> str:
    agents = sorted({card.agent for card in board.cards() if card.agent is not None} | {choice.agent} - {""})
    states = "".join(_option(value, words, choice.state) for value, words in CHOICES.items())
    names = _option("", "every agent", choice.agent) + "".join(
        _option(agent, agent, choice.agent) for agent in agents
    )
    return (
        '<form id="filter" class="filter" role="search" action="/" method="get" hx-get="/page/runs"'
        ' hx-target="#runs" hx-swap="morph:innerHTML" hx-trigger="input delay:150ms, submit">'
        '<input type="search" name="q" id="search" placeholder="Search runs, sessions, tools, detectors"'
        f' aria-label="Search" maxlength="200" autocomplete="off" value={attribute(choice.search)}>'
        f'<select name="state" aria-label="State">{states}</select>'
        f'<select name="agent" aria-label="Agent">{names}</select>'
        "<noscript><button>Show</button></noscript></form>"
    )


def _option(value: str, words: str, chosen: str) -> str:
    mark = " selected" if value == chosen else ""
    return f"<option value={attribute(value)}{mark}>{html.escape(words)}</option>"


def _tiles(cards: list[Card], states: dict[str, State]) -> str:
    running = sum(1 for card in cards if states[card.name] in {"running", "paused"})
    aborted = sum(1 for card in cards if states[card.name] == "aborted")
    warned = sum(card.counts.warned + card.counts.would_warn for card in cards)
    refused = sum(card.counts.refused + card.counts.would_refuse for card in cards)
    tiles = (
        ("Running", running, ""),
        ("Runs", len(cards), ""),
        ("Calls", sum(card.counts.calls for card in cards), ""),
        ("Warned", warned, "warning"),
        ("Refused", refused, "critical"),
        ("Ended by guard", aborted, "critical"),
    )
    body = "".join(
        f"<div><dt>{name}</dt><dd>{number(value, kind=kind)}</dd></div>" for name, value, kind in tiles
    )
    return f'<dl class="tiles">{body}</dl>'


def _news(cards: list[Card]) -> str:
    """What the guard did last, for those who listen; without numbers, which change with every call."""
    said = ""
    for card in cards:
        if in_trouble(card):
            what = "ended by the guard" if card.ending and card.ending.reason == "aborted" else "warned"
            if card.ending is None and card.counts.refused:
                what = "calls are refused"
            said = f"{title_of(card)}: {what}"
            break
    return f'<p class="unseen" id="news" role="status" aria-live="polite">{html.escape(said)}</p>'


def _row(card: Card, state: State, now: float) -> str:
    counts = card.counts
    below = [text(card.agent) if card.agent is not None else "", html.escape(card.trigger or "")]
    if card.session is not None and card.run is not None:
        below.append(f"session <a href={attribute(search(card.session))}>{text(card.session)}</a>")
    if card.armed is not None:
        below.append(f"armed, {card.armed.left} of {card.armed.window} left")
    if card.observes:
        below.append("only observed")
    warned, refused = counts.warned + counts.would_warn, counts.refused + counts.would_refuse
    under = " · ".join(part for part in below if part)
    return (
        f'<tr id="row-{card.name}" class="state-{state}"><td class="state">{state_badge(state)}</td>'
        f'<td class="run"><a href="/page/run/{card.name}" id="run-{card.name}" data-item>'
        f"{text(title_of(card))}</a>"
        f'<span class="under">{under}</span></td>'
        f'<td class="strip">{timeline.small(card)}</td>'
        f'<td class="number" data-label="calls">{number(counts.calls)}</td>'
        f'<td class="number" data-label="warned">{number(warned, kind="warning")}</td>'
        f'<td class="number" data-label="refused">{number(refused, kind="critical")}</td>'
        f'<td class="age">{age(card.began, now)}</td></tr>'
    )


def search(name: str) -> str:
    """Address of the list with what has a name in it."""
    return "/" + Choice(search=name).query()


def title_of(card: Card) -> str:
    """What a run is called: its id, else its session."""
    if card.run is not None:
        return card.run or "(empty)"
    return card.session or "calls without a run id"


def state_badge(state: State) -> str:
    """The state of a run."""
    return badge(f"state-{state}", {"aborted": "ended by guard", "paused": "guard paused"}.get(state, state))


def _pages(choice: Choice, found: int, all_of_them: int) -> str:
    if not found:
        return ""
    count = f"{found} of {plural(all_of_them, 'run')}" if found < all_of_them else plural(found, "run")
    last = -(-found // PAGE)
    steps = []
    if choice.page > 1:
        steps.append(f'<a rel="prev" href={attribute("/" + choice.query(page=choice.page - 1))}>newer</a>')
    if choice.page < last:
        steps.append(f'<a rel="next" href={attribute("/" + choice.query(page=choice.page + 1))}>older</a>')
    where = f", page {choice.page} of {last}" if last > 1 else ""
    kept = f'<input type="hidden" id="page" name="page" value="{choice.page}">'
    return f'<p class="pages"><span>{count}{where}</span> {" ".join(steps)}{kept}</p>'


def _empty(gateway: str, token_file: Path) -> str:
    token = f"$(cat {shlex.quote(str(token_file))})"
    curl = (
        f'curl {gateway}/v1/runs/my-run/before \\\n  -H "Authorization: Bearer {token}" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        """  -d '{"tool": "read", "arguments": {"path": "a.txt"}, "call_id": "1"}'"""
    )
    code = (
        "from loopwarden import LoopGuard\n\n"
        f'guard = LoopGuard({{"enabled": True}}, store="{gateway}")\n'
        'guard.before("read", {"path": "a.txt"}, call_id="1", run_id="my-run")'
    )
    return (
        '<section class="empty"><h2>Nothing has happened yet</h2>'
        "<p>Ask the guard about a call, and its run appears here by itself. From a shell:</p>"
        f"<pre><code>{html.escape(curl)}</code></pre><p>From Python:</p>"
        f"<pre><code>{html.escape(code)}</code></pre>"
        "<p>Agents of this gateway's own configuration appear here, too, as soon as they run.</p></section>"
    )
