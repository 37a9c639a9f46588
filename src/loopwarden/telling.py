"""Who is told of what the guard said: the log, the listeners, the run record.

What they raise is logged and never breaks the agent, unless the guard was asked to raise.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from loopwarden.events import Compaction
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from loopwarden.core.settings import Settings
    from loopwarden.events import Event, Verdict

Listener: TypeAlias = "Callable[[Verdict, Event], None]"
"""Told of every verdict that found something; what it raises is logged and goes no further."""

_LOGGED: Final = 1024
"""Loops that are remembered as logged."""


class Observer(Protocol):
    """Told of every event, not only of those where something was found; a `RunRecorder` is one."""

    def saw(
        self,
        session_id: str | None,
        event: Event,
        verdict: Verdict,
        compared: bytes | None,
        settings: Settings,
    ) -> None:
        """An event was answered. Called without a lock, so that events of threads may come in any order.

        Args:
            session_id: Session of the event.
            event: What happened, with arguments and results as the host gave them.
            verdict: What was answered.
            compared: What the call or outcome was compared by (its signature or fingerprint); `None` for
                other events, where everything is off, and for an id that was met before.
            settings: The guard's settings.
        """

    def forgot(self, session_id: str | None, run_id: str | None) -> None:
        """The host says that a run is over."""


def observer_of(
    record: Observer | str | os.PathLike[str] | bool | None, agent_id: str | None
) -> Observer | None:
    """What `LoopGuard(record=...)` means; nothing is opened or made before the first entry."""
    if record is None or record is False:
        return None
    if record is True or isinstance(record, str | os.PathLike):
        from loopwarden.records import RunRecorder

        return RunRecorder(None if record is True else record, agent=agent_id)
    return record


class Telling:
    """Tells everybody, in order: the run record, the log, the listeners.

    Args:
        settings: The guard's settings.
        listeners: Told of what was found.
        observer: Told of everything; `None`: nobody is.
        raises: Whether what they raise goes on to the caller.
    """

    __slots__ = ("_listeners", "_logged", "_raises", "_settings", "observer")

    def __init__(
        self, settings: Settings, listeners: Iterable[Listener], observer: Observer | None, *, raises: bool
    ) -> None:
        self._settings = settings
        self._listeners = tuple(listeners)
        self._raises = raises
        self._logged: dict[tuple[str | None, str | None, str | None], None] = {}
        self.observer = observer

    def answered(
        self, session_id: str | None, event: Event, verdict: Verdict, compared: bytes | None
    ) -> None:
        """Tell the observer, if there is one, and then as `found`."""
        if self.observer is not None:
            try:
                self.observer.saw(session_id, event, verdict, compared, self._settings)
            except Exception:  # noqa: BLE001 - see `_fault`
                self._fault("the run record")
        if verdict.detector is not None or type(event) is Compaction:
            self.found(session_id, event, verdict)

    def forgotten(self, session_id: str | None, run_id: str | None) -> None:
        """A run is over."""
        if self.observer is not None:
            try:
                self.observer.forgot(session_id, run_id)
            except Exception:  # noqa: BLE001 - see `_fault`
                self._fault("the run record")

    def found(self, session_id: str | None, event: Event, verdict: Verdict) -> None:
        """Log what was found and tell the listeners; an ended run is told of once."""
        if type(event) is Compaction and self._settings.enabled is not False:
            log.armed(self._settings.post_compaction_window)
        if verdict.detector is None or (verdict.action == "abort" and not verdict.announce):
            return
        quiet = self._settings.enabled is None and verdict.would is not None
        try:
            if not quiet or self._is_new(session_id, event, verdict):
                log.found(verdict, event)
        except Exception:  # noqa: BLE001 - see `_fault`
            self._fault("the log")
        for listener in self._listeners:
            try:
                listener(verdict, event)
            except Exception:  # noqa: BLE001 - see `_fault`
                self._fault("a listener")

    def _is_new(self, session_id: str | None, event: Event, verdict: Verdict) -> bool:
        """With `enabled` unset nothing acts, and each loop is logged once (SPEC section 8)."""
        loop = session_id, event.run_id, verdict.key
        if loop in self._logged:
            return False
        self._logged[loop] = None
        if len(self._logged) > _LOGGED:
            del self._logged[next(iter(self._logged))]
        return True

    def _fault(self, where: str) -> None:
        """Called while an exception is handled."""
        if self._raises:
            raise  # noqa: PLE0704 - the exception that is being handled
        log.logger.exception("fault in %s", where)
