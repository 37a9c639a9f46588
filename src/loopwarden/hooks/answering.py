"""Any hook event of any host, answered: finds the configuration, keeps the guards, and never fails.

Whatever goes wrong, the answer is to go on, and the log of faults has a line about it.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from loopwarden.config import load_config
from loopwarden.config.find import FILE_NAME, VARIABLE, user_folder
from loopwarden.config.resolve import defaults
from loopwarden.errors import ConfigError, LoopwardenError
from loopwarden.guard import LoopGuard
from loopwarden.hooks.answers import SILENCE
from loopwarden.hooks.damage import RunsStore
from loopwarden.hooks.desk import Desk
from loopwarden.hooks.faults import note_fault, route_log, where
from loopwarden.hooks.hosts import HOSTS
from loopwarden.hooks.ledger import Ledger
from loopwarden.hooks.payload import read_event
from loopwarden.hooks.places import RUNS_FILE, SESSIONS_FILE
from loopwarden.hooks.unguarded import unguarded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopwarden.core.settings import Mode, Settings
    from loopwarden.hooks.answers import Answer
    from loopwarden.hooks.hosts import HookHost

ATTENDED: Final = "LOOPWARDEN_ATTENDED"
"""Says whether a person is there: `1` or `0`; without it the host tells, where it can."""

MODE: Final = "LOOPWARDEN_MODE"
"""`observe` only counts."""

RECORD: Final = "LOOPWARDEN_RECORD"
"""The file of a run record, off by default."""

_WAIT_SECONDS: Final = 1.0
"""How long the guard's state is waited for."""

_MOST_GUARDS: Final = 16
"""Configurations that are kept ready."""


class Answering:
    """Answers hook events. Safe to share between threads.

    Args:
        folder: The folder with the state, as `places.state_folder` gives it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._ledger = Ledger(folder / SESSIONS_FILE)
        self._store: RunsStore | None = None
        self._guards: dict[object, LoopGuard] = {}
        route_log(folder)

    def answer(
        self, host: str, payload: bytes, environment: Mapping[str, str], name: str | None = None
    ) -> Answer:
        """Answer an event; nothing is raised.

        Args:
            host: Name of the host, as in `HOSTS`.
            payload: The event as the host sent it.
            environment: Variables of the hook process.
            name: Name of the event, for hosts that don't say it inside.
        """
        row = HOSTS.get(host)
        if row is None:
            note_fault(self._folder, f"{host!r} is no host; known: {', '.join(HOSTS)}")
            return SILENCE
        try:
            event = read_event(row, payload, name)
            if event.kind is None:
                return SILENCE
            try:
                guard = self._guard(row, environment, event.project)
            except ConfigError as error:
                return unguarded(row, event, self._ledger, error)
            return Desk(row, guard, self._ledger, attended=attended(row, environment)).answer(event)
        except (LoopwardenError, OSError, ValueError) as error:
            note_fault(self._folder, f"{host}: {error}")
        except Exception as error:  # noqa: BLE001 - a fault in the guard never breaks the agent
            note_fault(self._folder, f"{host}: {where(error)}")
        return SILENCE

    def close(self) -> None:
        """Give all files back."""
        with self._lock:
            guards, self._guards = list(self._guards.values()), {}
            store, self._store = self._store, None
        for guard in guards:
            guard.close()
        if store is not None:
            store.close()
        self._ledger.close()

    def _guard(self, row: HookHost, environment: Mapping[str, str], project: str) -> LoopGuard:
        path = config_path(environment, project)
        mode = environment.get(MODE) or None
        record = environment.get(RECORD) or None
        key = (row.name, path, path and _stamp(path), mode, record)
        with self._lock:
            guard = self._guards.get(key)
            if guard is None:
                if self._store is None:
                    self._store = RunsStore(self._folder / RUNS_FILE, _WAIT_SECONDS)
                chosen = settings(path, row.name)
                guard = LoopGuard(chosen, mode=cast("Mode | None", mode), store=self._store, record=record)
                if len(self._guards) >= _MOST_GUARDS:
                    del self._guards[next(iter(self._guards))]
                self._guards[key] = guard
            return guard


def config_path(environment: Mapping[str, str], project: str) -> Path | None:
    """The configuration of a session; `None`: the hooks' own defaults.

    As everywhere, but with the folder that the agent works in for the working directory.
    """
    named = environment.get(VARIABLE)
    if named:
        return Path(project, named)  # the service works in no folder of the agent's
    candidates = [Path(project) / FILE_NAME] if project and Path(project).is_absolute() else []
    folder = user_folder()
    if folder is not None:
        candidates.append(folder / FILE_NAME)
    return next((path for path in candidates if os.path.lexists(path)), None)


def settings(path: Path | None, agent_id: str) -> Settings:
    """The settings of a host's sessions.

    Without a configuration everything is on: who installs a hook wants it to act. A host's name is an
    agent id, so that a configuration can have other numbers for it.

    Raises:
        ConfigError: The configuration is wrong.
    """
    if path is None:
        return replace(defaults().settings(agent_id, "enforce"), enabled=True)
    return load_config(path).settings(agent_id, "enforce")


def attended(row: HookHost, environment: Mapping[str, str]) -> bool:
    """Whether a person is there to be asked: what the user says, else what the host tells, else no."""
    said = environment.get(ATTENDED)
    if said:
        return said != "0"
    return row.attended is not None and environment.get(row.attended[0]) == row.attended[1]


def _stamp(path: Path) -> tuple[int, int] | None:
    """Changes with the file; `None` for one that is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
