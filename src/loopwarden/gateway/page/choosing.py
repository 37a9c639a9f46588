"""Which runs the list shows, and what state a run is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopwarden.gateway.card import Card
    from loopwarden.gateway.decisions import Decisions
    from loopwarden.gateway.rows import RunEnd

State: TypeAlias = "Literal['running', 'quiet', 'paused'] | RunEnd"
"""`quiet`: nothing was heard for ten minutes. `paused`: the guard keeps out of it. Or why it is over."""

QUIET_SECONDS: Final = 600.0
PAGE: Final = 50
"""Runs on one page of the list."""

_TEXT: Final = 200
_PAGES: Final = 1000

CHOICES: Final = {
    "": "every state",
    "running": "running",
    "trouble": "with warnings or refusals",
    "paused": "guard paused",
    "aborted": "ended by the guard",
    "over": "over",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What somebody wants to see.

    Attributes:
        state: A key of `CHOICES`.
        agent: Name of an agent; empty: every one.
        search: Text in the names of run, session, agent, tools or detectors; case does not matter.
        page: From 1.
    """

    state: str = ""
    agent: str = ""
    search: str = ""
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Choice:
        """From the query of an address; what is wrong there counts as not given."""
        state, page = query.get("state", ""), query.get("page", "1")
        return cls(
            state=state if state in CHOICES else "",
            agent=query.get("agent", "")[:_TEXT],
            search=query.get("q", "")[:_TEXT],
            page=min(max(int(page), 1), _PAGES) if page.isascii() and page.isdigit() and len(page) < 6 else 1,  # noqa: PLR2004 - far more pages than runs
        )

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return not (self.state or self.agent or self.search)

    def query(self, *, page: int = 1) -> str:
        """As it stands in an address, with the question mark; empty for everything."""
        pairs = {
            "state": self.state,
            "agent": self.agent,
            "q": self.search,
            "page": str(page) if page > 1 else "",
        }
        text = urlencode({name: value for name, value in pairs.items() if value}, errors="replace")
        return f"?{text}" if text else ""

    def takes(self, card: Card, state: State) -> bool:
        """Whether a run is to be shown."""
        if self.agent and card.agent != self.agent:
            return False
        chosen = {
            "": True,
            "running": state == "running",
            "trouble": in_trouble(card),
            "paused": state == "paused",
            "aborted": state == "aborted",
            "over": card.ending is not None,
        }
        return chosen[self.state] and (not self.search or self._finds(card))

    def _finds(self, card: Card) -> bool:
        wanted = self.search.casefold().strip()
        names = [card.session, card.run, card.agent, *list(card.tools)]
        names += [loop.detector for loop in list(card.loops.values())]
        return any(wanted in name.casefold() for name in names if name is not None)


def state_of(card: Card, decisions: Decisions, now: float) -> State:
    """The state of a run in a word."""
    if card.ending is not None:
        return card.ending.reason
    if decisions.is_paused(card.name):
        return "paused"
    return "quiet" if card.trigger is None and now - card.seen > QUIET_SECONDS else "running"


def in_trouble(card: Card) -> bool:
    """Whether the guard had something to say."""
    counts = card.counts
    found = counts.warned or counts.refused or counts.would_warn or counts.would_refuse
    return bool(found) or (card.ending is not None and card.ending.reason == "aborted")


def order_of(card: Card) -> tuple[bool, float]:
    """Runs that go on first, then the newest: an order that does not change with every call."""
    return card.ending is not None, -(card.began if card.ending is None else card.ending.at)
