"""Who is told of what the guard said: the log, the listeners, the run record.

What they raise is logged and never breaks the agent, unless the guard was asked to raise; either way all of
them are told.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from loopwarden.errors import StoreError
from loopwarden.events import Compaction
from loopwarden.telemetry import log
from loopwarden.telemetry.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from loopwarden.core.settings import Settings
    from loopwarden.events import Event, Verdict
    from loopwarden.records import RunRecorder
    from loopwarden.stores import Store

Listener: TypeAlias = "Callable[[Verdict, Event], None]"
"""Told of every verdict that found something; what it raises is logged, or raised once all were told."""

_LOGGED: Final = 1024
"""Loops that are remembered as logged."""

_QUIET_SECONDS: Final = 60.0
"""For so long a fault in the run record is not logged again."""


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


class Telling:
    """Tells everybody, in order: the run record, the log, the listeners.

    Args:
        settings: The guard's settings.
        listeners: Told of what was found.
        record: As for `LoopGuard`.
        agent_id: Name of the agent, for a record that is made here.
        store: Where the guard's runs are if several programs share them, for the same.
        raises: Whether what they raise goes on to the caller.

    Attributes:
        observer: Told of everything; `None`: nobody is.
    """

    __slots__ = (
        "_faults",
        "_listeners",
        "_logged",
        "_own",
        "_quiet_until",
        "_raises",
        "_settings",
        "observer",
    )

    def __init__(
        self,
        settings: Settings,
        listeners: Iterable[Listener],
        record: Observer | str | os.PathLike[str] | bool | None,
        *,
        agent_id: str | None,
        store: Store | None,
        raises: bool,
    ) -> None:
        self._settings = settings
        self._listeners = tuple(listeners)
        self._faults = Faults()
        self._raises = raises
        self._logged: dict[tuple[str | None, str | None, str | None], None] = {}
        self._quiet_until: dict[object, float] = {}
        self._own: RunRecorder | None = None
        self.observer: Observer | None = None
        if record is True or isinstance(record, str | os.PathLike):
            from loopwarden.records import RunRecorder

            path = None if record is True else record
            self.observer = self._own = RunRecorder(path, agent=agent_id, store=store)
        elif record is not None and record is not False:
            self.observer = record

    def answered(
        self, session_id: str | None, event: Event, verdict: Verdict, compared: bytes | None
    ) -> None:
        """Tell the observer, if there is one, and then as `found`."""
        try:
            if self.observer is not None:
                self.observer.saw(session_id, event, verdict, compared, self._settings)
        except Exception:  # noqa: BLE001 - see `_fault`
            self._record_fault()
        finally:
            if verdict.detector is not None or type(event) is Compaction:
                self.found(session_id, event, verdict)

    def forgotten(self, session_id: str | None, run_id: str | None) -> None:
        """A run is over."""
        if self.observer is not None:
            try:
                self.observer.forgot(session_id, run_id)
            except Exception:  # noqa: BLE001 - see `_fault`
                self._record_fault()

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
        finally:
            self._tell(event, verdict)

    def _tell(self, event: Event, verdict: Verdict) -> None:
        first: Exception | None = None
        for listener in self._listeners:
            try:
                listener(verdict, event)
            except Exception as error:  # noqa: BLE001 - see `_fault`
                if self._raises:
                    first = first or error
                else:
                    self._fault("a listener")
        if first is not None:
            raise first

    def _is_new(self, session_id: str | None, event: Event, verdict: Verdict) -> bool:
        """With `enabled` unset nothing acts, and each loop is logged once (SPEC section 8)."""
        loop = session_id, event.run_id, verdict.key
        if loop in self._logged:
            return False
        self._logged[loop] = None
        if len(self._logged) > _LOGGED:
            del self._logged[next(iter(self._logged))]
        return True

    def close(self) -> None:
        """End a record that was made here."""
        if self._own is not None:
            try:
                self._own.close()
            except Exception:  # noqa: BLE001 - see `_fault`
                self._record_fault()

    def _record_fault(self) -> None:
        """A disk that is full stays so for a while, and every event would say it."""
        error = sys.exception()
        if self._raises or not isinstance(error, OSError | StoreError):
            self._fault("the run record")
            return
        kind = fault_kind(error)
        now = time.monotonic()
        if now >= self._quiet_until.get(kind, now):
            self._quiet_until[kind] = now + _QUIET_SECONDS
            log_unwritten(self.observer, error)

    def _fault(self, where: str) -> None:
        """Called while an exception is handled."""
        if self._raises:
            raise  # noqa: PLE0704 - the exception that is being handled
        self._faults.tell(f"fault in {where}")


def fault_kind(error: BaseException | None) -> tuple[object, object]:
    """What tells a fault from another one, of those that are logged once a minute."""
    return type(error), getattr(error, "errno", None)


def log_unwritten(observer: Observer | None, error: BaseException | None) -> bool:
    """Log in one line that a record can't be written, as on a full disk; `False`: it is another fault."""
    if not isinstance(error, OSError | StoreError):
        return False
    place = getattr(error, "filename", None) or getattr(observer, "path", None)
    said = str(getattr(error, "strerror", None) or error)
    if place is not None and str(place) not in said:
        said = f"{log.one_word(place)}: {said}"
    log.logger.error("run record: %s; entries are lost until it can be written (told once a minute)", said)
    return True
