"""What a guard is made of: its settings, and the runs at the address that was given."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopwarden.core.settings import Settings
from loopwarden.errors import StoreError
from loopwarden.journaled_runs import JournaledRuns
from loopwarden.runs import Runs
from loopwarden.shared_runs import SharedRuns
from loopwarden.stores.journal import JournalStore
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from loopwarden.core.settings import Mode
    from loopwarden.remote import RemoteRuns
    from loopwarden.stores import Store


def opened(
    config: Any,
    agent_id: str | None,
    mode: Mode | None,
    store: Store | str,
    most: int,
    idle_seconds: float,
    *,
    strict: bool,
) -> tuple[Settings, Runs | SharedRuns | RemoteRuns]:
    """The settings of a guard and its runs; meanings as for `LoopGuard`.

    `memory:` is no store but this process. At a gateway the settings are not known here, and it decides.

    Args:
        config: The configuration, in any form.
        agent_id: Whose overrides apply.
        mode: Whether verdicts are acted on.
        store: A store or an address.
        most: Runs kept at once.
        idle_seconds: Runs that were idle for longer are forgotten.
        strict: Whether a state that can't be read is an error; else its run starts afresh.

    Raises:
        ConfigError: The configuration is wrong.
        StoreError: The store can't be opened.
        MissingExtraError: The package that it needs is not installed.
        ValueError: A configuration is given along with a gateway.
        TypeError: It is neither a store nor an address.
    """
    if isinstance(store, str) and store.lower().startswith(("http://", "https://")):
        if config is not None:
            raise ValueError("with a gateway as store its own configuration counts; leave config out")
        from loopwarden.remote import DECIDED_THERE, RemoteRuns

        there = RemoteRuns(store, agent=agent_id, mode=mode)
        return replace(DECIDED_THERE, mode=mode or "enforce"), there
    settings = _settings(config, agent_id, mode)
    if store == "memory:":
        return settings, Runs(settings, most, idle_seconds)
    from loopwarden.stores import ADDRESSES, is_address, open_store

    allowed = f"{ADDRESSES}, http://HOST:PORT, or a Store"
    if isinstance(store, str):
        if not is_address(store):
            raise StoreError(f"{store!r} is no store; allowed: {allowed}")
        store = open_store(store, max_runs=most, idle_seconds=idle_seconds)
    if not hasattr(store, "update"):
        raise TypeError(f"store={store!r}; allowed: {allowed}")
    if isinstance(store, JournalStore):
        return settings, JournaledRuns(settings, store, strict=strict)
    return settings, SharedRuns(settings, store, strict=strict)


def _settings(config: Any, agent_id: str | None, mode: Mode | None) -> Settings:
    if isinstance(config, Settings):
        return replace(config, mode=mode) if mode is not None else config
    from loopwarden.config import Config, load_config

    if not isinstance(config, Config):
        config = load_config(Path(config) if isinstance(config, str | os.PathLike) else config)
        for problem in config.warnings:
            log.logger.warning("config: %s", problem)
    settings: Settings = config.settings(agent_id, mode or "enforce")
    return settings
