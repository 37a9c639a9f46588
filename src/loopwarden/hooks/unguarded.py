"""A session whose configuration can't be used: the agent goes on, and the person is told once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loopwarden.hooks.answers import SILENCE, tell
from loopwarden.hooks.faults import note_fault

if TYPE_CHECKING:
    from loopwarden.errors import ConfigError
    from loopwarden.hooks.answers import Answer
    from loopwarden.hooks.hosts import HookHost
    from loopwarden.hooks.ledger import Ledger
    from loopwarden.hooks.payload import HookEvent

_LONGEST: Final = 400
"""Characters of what is said of a fault."""


def unguarded(host: HookHost, event: HookEvent, ledger: Ledger, error: ConfigError) -> Answer:
    """Answer an event that can't be judged.

    The log of faults has one line about the session, and the person is told once, at the first event where
    the host shows them anything; a session that is paused is no matter for either.

    Args:
        host: The host.
        event: What happened.
        ledger: What is kept between events.
        error: What is wrong with the configuration.

    Raises:
        StoreError: The sessions can't be read or written.
    """
    with ledger.session(host.name, event.session) as session:
        session.project = event.project or session.project
        session.unguarded = fault_of(error)
        if session.paused:
            return SILENCE
        if not session.fault_noted:
            session.fault_noted = True
            note_fault(ledger.path.parent, f"{host.name}: session {event.session}: {session.unguarded}")
        if session.fault_told or event.kind is None:
            return SILENCE
        text = (
            "loopwarden does not guard this session, since its configuration can't be used: "
            f"{session.unguarded}. It guards again as soon as that is repaired."
        )
        answer = tell(host, event.kind, text)
        session.fault_told = answer != SILENCE
        return answer


def fault_of(error: ConfigError) -> str:
    """File, line and first fault of a configuration, on one line of bounded length."""
    first, *others = error.problems
    more = f" (and {len(others)} more)" if others else ""
    text = f"{error.source or 'configuration'}, {first}"
    whole = "".join(char if char.isprintable() else " " for char in text)
    room = _LONGEST - len(more)
    return (whole if len(whole) <= room else f"{whole[: room - 3]}...") + more
