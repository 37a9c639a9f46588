"""Who is told of every event in the gateway, whichever guard answered it.

An observer is what `LoopGuard(record=...)` takes: the run record, the live page. Each guard of the gateway
has a `Seat` in that place, which tells all of them, on the event loop; from threads, too, where the runs are
in a shared store. While they are told, `speaker()` names the agent.
"""

from __future__ import annotations

import sys
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from loopwarden.telemetry import log
from loopwarden.telling import fault_kind, log_unwritten

if TYPE_CHECKING:
    from loopwarden.core.settings import Settings
    from loopwarden.events import Event, Verdict
    from loopwarden.telling import Observer

_QUIET_SECONDS: Final = 60.0
"""For so long a fault of an observer is not logged again."""

Mode: TypeAlias = Literal["enforce", "observe"]


class Speaker(NamedTuple):
    """Whose event it is.

    Attributes:
        agent: Name of the agent; `None` for none.
        mode: Whether its guard acts.
    """

    agent: str | None
    mode: Mode


_speaker: ContextVar[Speaker] = ContextVar("speaker", default=Speaker(None, "enforce"))  # noqa: B039 - immutable


def speaker() -> Speaker:
    """Whose event it is that an observer is just told of. Runs of one name are apart by this."""
    return _speaker.get()


class Place(str):
    """Session of an event over HTTP, as the guard knows it: apart by speaker and session.

    Attributes:
        speaker: Agent as the client named it, and the mode.
        session: Session as the client named it.
    """

    __slots__ = ("session", "speaker")

    speaker: Speaker
    session: str | None


class Observers:
    """All that are told. They can be added until the gateway starts."""

    def __init__(self) -> None:
        self._all: list[Observer] = []
        self._quiet_until: dict[object, float] = {}

    def add(self, observer: Observer) -> None:
        """Tell this one, too, after the others."""
        self._all.append(observer)

    def saw(
        self,
        place: str | None,
        own: Speaker,
        event: Event,
        verdict: Verdict,
        compared: bytes | None,
        settings: Settings,
    ) -> None:
        """Tell all of an event; what one raises does not keep it from the others.

        Args:
            place: Session as the guard knows it.
            own: That of the guard, for sessions that are no `Place`.
            event: As for `Observer`; so are the others.
            verdict: What was answered.
            compared: What it was compared by.
            settings: The guard's settings.
        """
        session, who = (place.session, place.speaker) if type(place) is Place else (place, own)
        before = _speaker.set(who)
        try:
            for observer in self._all:
                try:
                    observer.saw(session, event, verdict, compared, settings)
                except Exception:  # noqa: BLE001 - a fault beside the guard never breaks the agent
                    self._fault(observer)
        finally:
            _speaker.reset(before)

    def forgot(self, place: str | None, own: Speaker, run_id: str | None) -> None:
        """Tell all that a run is over."""
        session, who = (place.session, place.speaker) if type(place) is Place else (place, own)
        before = _speaker.set(who)
        try:
            for observer in self._all:
                try:
                    observer.forgot(session, run_id)
                except Exception:  # noqa: BLE001 - as above
                    self._fault(observer)
        finally:
            _speaker.reset(before)

    def _fault(self, observer: Observer) -> None:
        """A disk that is full stays so for a while, and every event would say it."""
        now = time.monotonic()
        kind = id(observer), fault_kind(sys.exception())
        if now >= self._quiet_until.get(kind, now):
            self._quiet_until[kind] = now + _QUIET_SECONDS
            if not log_unwritten(observer, sys.exception()):
                log.logger.exception("fault in %s (told once a minute)", type(observer).__name__)


class Seat:
    """The observer of one guard.

    Args:
        observers: Whom it tells.
        own: The agent and mode of the guard.
    """

    def __init__(self, observers: Observers, own: Speaker) -> None:
        self._observers = observers
        self._own = own

    def saw(
        self,
        session_id: str | None,
        event: Event,
        verdict: Verdict,
        compared: bytes | None,
        settings: Settings,
    ) -> None:
        """See `Observer`."""
        self._observers.saw(session_id, self._own, event, verdict, compared, settings)

    def forgot(self, session_id: str | None, run_id: str | None) -> None:
        """See `Observer`."""
        self._observers.forgot(session_id, self._own, run_id)
