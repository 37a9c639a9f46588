"""What can happen to a server and the way to it: restarts, lost questions and answers, a client that dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from loopwarden import LoopGuard, StoreError
from loopwarden.store_contract import count, put
from tests.stores.servers import PATIENCE, Relay
from tests.stores.workers import MANY, hammer, in_processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stores.servers import Server

pytest.importorskip("redis", reason="the extra redis is not installed")
from loopwarden.stores.redis import PREFIX, RedisStore


@pytest.fixture
def store(server: Server) -> Iterator[RedisStore]:
    store = RedisStore(server.url)
    yield store
    store.close()


@pytest.fixture
def relay(server: Server) -> Iterator[Relay]:
    relay = Relay(server)
    yield relay
    relay.close()


def test_everything_that_is_stored_expires(store: RedisStore, server: Server) -> None:
    store.update("a", put(b"x"))
    store.move("a", "b")
    with server.client() as client:
        names = set(client.scan_iter())
        assert names == {f"{PREFIX}b".encode(), PREFIX.removesuffix(":").encode()}
        assert all(0 < client.pttl(name) <= 7 * 24 * 3600 * 1000 for name in names)


def test_keys_of_other_programs_are_left_alone(store: RedisStore, server: Server) -> None:
    with server.client() as client:
        client.set("a", "theirs")
        store.update("a", put(b"x"))
        store.delete("a")
        assert client.get("a") == b"theirs"


def test_a_key_that_is_no_text_is_told(store: RedisStore, server: Server) -> None:
    with server.client() as client:
        client.lpush(f"{PREFIX}a", "x")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        store.update("a", put(b"x"))


def test_bounds_that_were_lowered_hold_with_the_next_key(store: RedisStore, server: Server) -> None:
    for number in range(50):
        store.update(str(number), put(b"x"))
    small = RedisStore(server.url, max_runs=3)
    small.update("new", put(b"x"))
    small.close()
    with server.client() as client:
        assert len(list(client.scan_iter(f"{PREFIX}*"))) == 3


def test_another_program_that_is_faster_is_heeded(store: RedisStore) -> None:
    """Each try sees what was written in between, and only the last one counts."""
    seen = []

    def change(data: bytes | None) -> tuple[bytes, None]:
        seen.append(data)
        if len(seen) < 4:
            store.update("a", count)
        return (data or b"") + b"!", None

    store.update("a", change)
    assert seen == [None, b"1", b"2", b"3"]
    assert store.read("a") == b"3!"


def test_an_equal_state_from_somebody_else_is_another_one(store: RedisStore) -> None:
    store.update("a", put(b"x"))
    tries = []

    def change(data: bytes | None) -> tuple[bytes, None]:
        tries.append(data)
        if len(tries) == 1:
            store.update("a", put(b"x"))
        return b"y", None

    store.update("a", change)
    assert tries == [b"x", b"x"]


def test_scripts_that_the_server_forgot_are_sent_again(store: RedisStore, server: Server) -> None:
    store.update("a", count)
    with server.client() as client:
        client.script_flush()
    store.update("a", count)
    assert store.read("a") == b"2"


def test_a_connection_that_was_lost_while_idle_is_made_again(store: RedisStore, server: Server) -> None:
    store.update("a", count)
    with server.client() as client:
        client.client_kill_filter(_type="normal", skipme=True)
    assert store.update("a", count) == 2
    assert store.read("a") == b"2"


def test_a_connection_that_is_lost_before_the_write_changes_all_or_nothing(
    store: RedisStore, server: Server
) -> None:
    """Whether redis-py notices in time that it has to make another one is a matter of luck."""
    store.update("a", count)

    def change(data: bytes | None) -> tuple[bytes, int]:
        with server.client() as client:
            client.client_kill_filter(_type="normal", skipme=True)
        return count(data)

    try:
        made = store.update("a", change)
    except StoreError:
        made = 1
    assert store.read("a") == b"%d" % made


def test_an_answer_that_is_lost_counts_once(relay: Relay, store: RedisStore) -> None:
    """The write was made; it is not made again."""
    behind = RedisStore(relay.url)
    behind.update("a", count)

    def change(data: bytes | None) -> tuple[bytes, int]:
        relay.loses = True
        return count(data)

    with pytest.raises(StoreError):
        behind.update("a", change)
    assert store.read("a") == b"2"
    assert behind.update("a", count) == 3
    behind.close()


def test_a_server_that_does_not_answer_is_waited_for_a_moment_only(server: Server) -> None:
    store = RedisStore(server.url.removesuffix(PATIENCE), wait_seconds=0.05)
    store.update("a", put(b"x"))
    with server.client() as client:
        client.client_pause(60_000, all=False)
        with pytest.raises(StoreError, match=r"[Tt]ime"):
            store.update("a", put(b"y"))
        client.client_unpause()
    store.close()


def test_others_that_are_always_faster_are_told(server: Server, store: RedisStore) -> None:
    hasty = RedisStore(server.url, try_seconds=0.0)

    def change(data: bytes | None) -> tuple[bytes, int]:
        store.update("a", count)
        return count(data)

    with pytest.raises(StoreError, match="other programs were faster for 0 seconds"):
        hasty.update("a", change)
    assert store.read("a") == b"1"
    hasty.close()


def test_a_restart_that_keeps_the_data(lasting: Server) -> None:
    store = RedisStore(lasting.url)
    store.update("a", count)
    lasting.stop()
    for _ in range(2):
        with pytest.raises(StoreError, match="redis: "):
            store.update("a", count)
    lasting.start()
    assert store.update("a", count) == 2
    store.close()


def test_a_restart_that_forgets_the_data(passing: Server) -> None:
    store = RedisStore(passing.url)
    store.update("a", count)
    passing.stop()
    passing.start()
    assert store.update("a", count) == 1
    store.close()


def test_sixteen_processes_count_exactly(server: Server, store: RedisStore) -> None:
    in_processes(16, hammer, server.url, 25, 10)
    assert store.read("count") == b"400"
    guard = LoopGuard(MANY, store=store, on_error="raise")
    assert guard.before("read", {"path": "a"}, call_id="last", run_id="r").count == 160


KILLED = """
    import os, signal, sys
    from loopwarden.stores.redis import RedisStore

    store = RedisStore(sys.argv[1])
    store.update("a", lambda _: (b"before", None))
    store.update("a", lambda _: os.kill(os.getpid(), signal.SIGKILL))
"""

FORKED = """
    import os, sys
    from loopwarden.store_contract import count
    from loopwarden.stores.redis import RedisStore

    store = RedisStore(sys.argv[1])
    store.update("a", count)
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            for _ in range(50):
                store.update("a", count)
            os._exit(0)
        children.append(child)
    for _ in range(50):
        store.update("a", count)
    print([os.waitpid(child, 0)[1] for child in children], store.update("a", count))
"""


def run(code: str, address: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), address]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.skipif(os.name != "posix", reason="no such signals on this system")
def test_killed_in_the_middle_of_an_update_leaves_what_was_before(server: Server, store: RedisStore) -> None:
    assert run(KILLED, server.url).returncode == -signal.SIGKILL
    assert store.update("a", put(b"after")) == b"before"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_each_process_has_connections_of_its_own(server: Server) -> None:
    ended = run(FORKED, server.url)
    assert (ended.stdout, ended.stderr) == ("[0, 0, 0] 202\n", "")
