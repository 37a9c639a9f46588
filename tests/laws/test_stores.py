"""A guard says the same wherever its runs are kept."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from loopwarden.guard import LoopGuard
from loopwarden.stores import Store, open_store
from tests.laws.streams import SETTINGS, Host, Step, streams
from tests.stores.servers import Server, need_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.core.settings import Settings
    from loopwarden.events import Event

NUMBERS = count()
EVERYTHING = (
    "turn",
    "open",
    "open",
    "end",
    "end",
    "again",
    "user",
    "compact",
    "move",
    "stray",
    "retract",
    "pause",
)


@pytest.fixture(scope="module", params=["memory", "sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("store")
    server = None
    if request.param == "memory":
        store = open_store("memory:")
    elif request.param == "sqlite":
        store = open_store(f"sqlite:{folder / 'runs.db'}")
    else:
        need_server()
        server = Server(folder)
        server.start()
        store = open_store(server.url)
    yield store
    store.close()
    if server is not None:
        server.stop()


def events(steps: list[Step]) -> list[Event]:
    host = Host()
    return [event for step in steps for event in host.events(step)]


@given(rules=SETTINGS, steps=streams(others=EVERYTHING))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_every_store_says_what_the_live_guard_says(store: Store, rules: Settings, steps: list[Step]) -> None:
    """Two guards in turn; each example has a session of its own."""
    name = f"s{next(NUMBERS)}"
    live = LoopGuard(rules, on_error="raise").session(name)
    both = [LoopGuard(rules, store=store, on_error="raise").session(name) for _ in range(2)]
    for number, event in enumerate(events(steps)):
        assert both[number % 2].feed(event) == live.feed(event)
    for run in {event.run_id for event in events(steps)}:
        assert both[0].save(run_id=run) == live.save(run_id=run)
