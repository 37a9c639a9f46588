"""Addresses, and what is said of wrong ones."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden import LoopGuard, StoreError
from loopwarden.stores import open_store

if TYPE_CHECKING:
    from tests.stores.servers import Server


def with_redis(address: str) -> object:
    """A parameter that needs the client."""
    lacks = find_spec("redis") is None
    return pytest.param(address, marks=pytest.mark.skipif(lacks, reason="the extra redis is not installed"))


def test_addresses(tmp_path: Path, server: Server) -> None:
    kinds = {
        "memory:": "MemoryStore",
        f"sqlite:{tmp_path / 'runs.db'}": "SqliteStore",
        server.url: "RedisStore",
    }
    for address, kind in kinds.items():
        store = open_store(address)
        assert type(store).__name__ == kind
        store.close()


@pytest.mark.parametrize("address", ["", "memory", "sqlite:", "sqlite", "postgres://x", "runs.db", "redis:"])
def test_an_address_of_no_kind_is_told(address: str) -> None:
    for opened in (open_store, lambda one: LoopGuard({}, store=one)):
        with pytest.raises(StoreError, match="is no store; allowed: memory:, sqlite:PATH, redis://"):
            opened(address)
    with pytest.raises(StoreError, match=r"allowed: memory:, .*, http://HOST:PORT, or a Store"):
        LoopGuard({}, store=address)


@pytest.mark.parametrize("wrong", [None, Path("runs.db"), 7, b"memory:"])
def test_what_is_no_store_is_told(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"allowed: memory:, .*, http://HOST:PORT, or a Store"):
        LoopGuard({}, store=wrong)


@pytest.mark.parametrize("bounds", [{"idle_seconds": 0}, {"idle_seconds": float("nan")}, {"max_runs": 0}])
@pytest.mark.parametrize("address", ["memory:", "sqlite:x.db", with_redis("redis://127.0.0.1:1")])
def test_bounds_that_make_no_sense_are_told(address: str, bounds: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        open_store(address, **bounds)  # type: ignore[arg-type]  # both are numbers


@pytest.mark.parametrize(
    "address",
    [with_redis(one) for one in ("redis://127.0.0.1:1", "redis://127.0.0.1:port", "unix:///nowhere/redis")],
)
def test_a_server_that_is_not_there_is_told(address: str) -> None:
    with pytest.raises(StoreError, match=r"^redis: "):
        open_store(address)


@pytest.mark.parametrize("address", [with_redis("redis://user:pass-word@127.0.0.1:1")])
def test_a_password_is_not_told(address: str) -> None:
    with pytest.raises(StoreError) as fault:
        open_store(address)
    assert "pass-word" not in str(fault.value)


def test_without_the_extra_its_name_is_told() -> None:
    code = (
        "import sys; sys.modules['redis'] = None\n"
        "from loopwarden import LoopGuard, MissingExtraError\n"
        "try: LoopGuard({}, store='redis://127.0.0.1')\n"
        "except MissingExtraError as error: print(error)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'loopwarden[redis]'" in shown.stdout
