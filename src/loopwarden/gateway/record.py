"""The run record of the gateway: one file, and in it every run with the name of its agent."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError
from loopwarden.gateway.observers import speaker
from loopwarden.records import RunRecorder
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from pathlib import Path

    from loopwarden.core.settings import Settings
    from loopwarden.events import Event, Verdict
    from loopwarden.gateway.observers import Speaker

MOST: Final = 64
"""Agents whose runs are followed at once; those of one that was idle for longest are recorded as closed."""

RECORD_BYTES: Final = 32 * 1024 * 1024
"""Size at which the file is renamed and a new one begun."""


class AgentRecords:
    """An observer with a recorder for each agent, since two agents may have runs of one name.

    Safe to share between threads.

    Args:
        path: File of the record, as for `RunRecorder`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._recorders: OrderedDict[Speaker, RunRecorder] = OrderedDict()
        self._lock = threading.Lock()

    def saw(
        self,
        session_id: str | None,
        event: Event,
        verdict: Verdict,
        compared: bytes | None,
        settings: Settings,
    ) -> None:
        """See `Observer`."""
        self._recorder().saw(session_id, event, verdict, compared, settings)

    def forgot(self, session_id: str | None, run_id: str | None) -> None:
        """See `Observer`."""
        self._recorder().forgot(session_id, run_id)

    def close(self) -> None:
        """Record the end of all runs and give the file back; faults are logged."""
        with self._lock:
            while self._recorders:
                _close(self._recorders.popitem()[1])

    def _recorder(self) -> RunRecorder:
        who = speaker()
        with self._lock:
            found = self._recorders.get(who)
            if found is not None:
                self._recorders.move_to_end(who)
                return found
            rotate = None if self._path.suffix in {".db", ".sqlite", ".sqlite3"} else RECORD_BYTES
            made = self._recorders[who] = RunRecorder(self._path, agent=who.agent, rotate_bytes=rotate)
            if len(self._recorders) > MOST:
                _close(self._recorders.popitem(last=False)[1])
        return made


def _close(recorder: RunRecorder) -> None:
    try:
        recorder.close()
    except (OSError, StoreError) as error:
        log.logger.error("the run record could not be ended: %s", error)
