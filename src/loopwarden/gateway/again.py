"""Events that come again: the last answers of a run, by what names an event.

One with an `event_id` is named by that, a call or outcome without one by its call id; it is the same event
only with the same body. A call whose outcome was told is over: its id may name a new one, even with the same
body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from loopwarden.events import Verdict
from loopwarden.gateway.wire import dump, parse

if TYPE_CHECKING:
    from loopwarden.gateway.asked import Asked

SAVED: Final = 16
"""Answers of a run that outlive the gateway, the newest: those that a client may just be waiting for."""

_OTHER: Final = {"before": "after", "after": "before"}

_Name: TypeAlias = tuple[str, str]


class Answers:
    """The answers of one run, the oldest first. Its length is how many."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[_Name, tuple[bytes, Verdict]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, asked: Asked) -> Verdict | None:
        """What this event was answered; `None` for one that is new."""
        name = _name(asked)
        found = self._known.get(name) if name is not None else None
        return found[1] if found is not None and found[0] == asked.digest else None

    def put(self, asked: Asked, verdict: Verdict, most: int) -> None:
        """Remember what an event was answered, and at most so many in all."""
        known = self._known
        if asked.kind in _OTHER:
            known.pop((_OTHER[asked.kind], asked.body.call_id), None)
        name = _name(asked)
        if name is None:
            return
        known.pop(name, None)
        known[name] = asked.digest, verdict
        if len(known) > most:
            del known[next(iter(known))]

    def clear(self) -> None:
        """Forget all of them."""
        self._known.clear()

    def save(self) -> bytes:
        """The newest as JSON; `restore` takes it."""
        newest = list(self._known.items())[-SAVED:]
        return dump([(*name, digest.hex(), verdict) for name, (digest, verdict) in newest])

    def restore(self, saved: bytes) -> None:
        """Remember what `save` gave; what is damaged is as if it had never been."""
        try:
            for kind, named, digest, fields in parse(saved):
                self._known[kind, named] = bytes.fromhex(digest), _verdict(fields)
        except (TypeError, ValueError):
            self._known.clear()


def _name(asked: Asked) -> _Name | None:
    """What an event is known by; `None` where nothing tells it from another one."""
    body = asked.body
    if body.event_id is not None:
        return "", body.event_id
    return (asked.kind, body.call_id) if asked.kind in _OTHER else None


def _verdict(fields: dict[str, Any]) -> Verdict:
    return Verdict(**{**fields, "paired_tools": tuple(fields["paired_tools"])})
