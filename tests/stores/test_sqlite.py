"""What can happen to a file: no place, no right, somebody else's, damaged, locked, replaced, killed, full."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from loopwarden import LoopGuard, StoreError
from loopwarden.store_contract import put
from loopwarden.stores.sqlite import LAYOUT, SqliteStore
from tests.stores.workers import MANY, hammer, in_processes, patient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


Run: TypeAlias = "Callable[..., subprocess.Popen[bytes]]"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


@pytest.fixture
def run() -> Iterator[Run]:
    """Start programs; those that still run at the end of the test are killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str, *arguments: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code)]
        command += map(str, arguments)
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
            process.communicate()


def check(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_the_file_is_for_its_owner_only(store: SqliteStore, path: Path) -> None:
    store.update("a", put(b"x"))
    files = [path, *path.parent.glob("runs.db-*")]
    assert {oct(file.stat().st_mode & 0o777) for file in files} == {"0o600"}


def test_the_path_is_that_of_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("runs.db")
    store.close()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    store.update("a", put(b"x"))
    assert [file.name for file in tmp_path.glob("**/*.db")] == ["runs.db"]
    store.close()


def test_a_closed_store_opens_again(store: SqliteStore) -> None:
    store.update("a", put(b"x"))
    store.close()
    assert store.read("a") == b"x"


def test_the_log_is_written_ahead_and_bounded(store: SqliteStore, path: Path) -> None:
    for _ in range(3000):
        store.update("a", put(b"0" * 20_000))
    assert Path(f"{path}-wal").stat().st_size < 10_000_000
    assert path.stat().st_size < 1_000_000


@pytest.mark.parametrize("name", ["no/such/folder/runs.db", ".", "file/runs.db", "n" * 300])
def test_a_place_that_is_none_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"runs.db|test_a_place|nnn"):
        SqliteStore(tmp_path / name)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write to")
def test_a_folder_that_is_not_writable_is_told() -> None:
    with pytest.raises(StoreError, match=r"/proc/runs\.db: "):
        SqliteStore("/proc/runs.db")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_is_not_writable_is_told(path: Path) -> None:
    SqliteStore(path).close()
    path.chmod(0o400)
    with pytest.raises(StoreError, match="readonly"):
        SqliteStore(path)


@pytest.mark.parametrize(
    "content", [b"no database at all", b"SQLite format 3\0" + b"\xff" * 5000, b"x" * 9999]
)
def test_a_damaged_file_is_told_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"runs\.db: "):
        SqliteStore(path)
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE runs (id INTEGER)")
    content = path.read_bytes()
    with pytest.raises(StoreError, match="another program; name another file"):
        SqliteStore(path)
    assert path.read_bytes() == content


def test_another_layout_is_refused(store: SqliteStore, path: Path) -> None:
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {LAYOUT + 1}")
    with pytest.raises(StoreError, match=f"layout {LAYOUT + 1}, this version needs {LAYOUT}"):
        SqliteStore(path)


def test_damage_on_the_way_is_told_and_a_new_file_is_taken(store: SqliteStore, path: Path) -> None:
    store.update("a", put(b"x"))
    store.close()
    path.write_bytes(b"\0" * 20_000)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"runs\.db: "):
            store.update("a", put(b"y"))
    path.unlink()
    assert store.update("a", put(b"y")) is None
    assert store.read("a") == b"y"


def test_a_file_that_is_removed_in_use_is_made_again(store: SqliteStore, path: Path) -> None:
    store.update("a", put(b"x"))
    for file in path.parent.glob("runs.db*"):
        file.unlink()
    other = SqliteStore(path)
    other.update("a", put(b"y"))
    assert store.update("a", count_nothing) == b"y"
    other.close()
    check(path)


def count_nothing(found: bytes | None) -> tuple[bytes | None, bytes | None]:
    return found, found


def test_a_lock_that_is_held_too_long_is_told_and_nothing_is_changed(path: Path) -> None:
    store = SqliteStore(path, wait_seconds=0.05)
    store.update("a", put(b"x"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            store.update("a", put(b"y"))
        assert store.read("a") == b"x"
        other.execute("ROLLBACK")
    assert store.update("a", put(b"y")) == b"x"
    store.close()


def test_sixteen_processes_count_exactly(path: Path) -> None:
    address = f"sqlite:{path}"
    in_processes(16, hammer, address, 25, 10)
    store = patient(address)
    assert store.read("count") == b"400"
    guard = LoopGuard(MANY, store=store, on_error="raise")
    assert guard.before("read", {"path": "a"}, call_id="last", run_id="r").count == 160
    guard.close()
    check(path)


KILLED = """
    import signal, sys
    from loopwarden.stores.sqlite import SqliteStore

    def change(data):
        print("inside", flush=True)
        signal.pause()

    store = SqliteStore(sys.argv[1])
    store.update("a", lambda _: (b"before", None))
    store.update("a", change)
"""


@pytest.mark.skipif(not hasattr(signal, "pause"), reason="no such signals on this system")
def test_killed_in_the_middle_of_an_update_leaves_what_was_before(path: Path, run: Run) -> None:
    store = SqliteStore(path, wait_seconds=0.05)
    process = run(KILLED, path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"inside\n"
    with pytest.raises(StoreError, match="locked"):
        store.update("a", put(b"y"))
    process.kill()
    process.communicate()
    assert store.update("a", put(b"after")) == b"before"
    store.close()
    check(path)


FULL = """
    import logging, resource, sys
    from loopwarden import LoopGuard

    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    guard = LoopGuard({"enabled": True, "warningThreshold": 3}, store="sqlite:" + sys.argv[1])

    def calls(run, count):
        for number in range(count):
            verdict = guard.before("read", {}, call_id=str(number), run_id=run)
            guard.after(str(number), result="x", run_id=run)
        return verdict.action, verdict.count

    print(calls("r", 3), flush=True)
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, usual[1]))
    print({calls(f"r{run}", 10)[0] for run in range(30)} <= {"allow", "warn"}, flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    guard._runs._outages._until = 0.0
    print(calls("r", 1), flush=True)
    guard.close()
"""


@pytest.mark.skipif(os.name != "posix", reason="no such limits on this system")
def test_a_full_disk_lets_the_agent_go_on_and_is_said_once(path: Path, run: Run) -> None:
    """A limit on the size of files stands for the disk."""
    shown, faults = run(FULL, path).communicate(timeout=100)
    assert faults == b""
    lines = [line for line in shown.decode().splitlines() if not line.startswith("loop ")]
    assert [lines[0], lines[2], *lines[3:]] == ["('allow', 0)", "True", "store is back", "('warn', 3)"]
    assert lines[1].startswith(f"store: {path}: ")
    assert lines[1].endswith("; calls are let through until it is back")
    check(path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("mounting is not allowed here")
    try:
        store = SqliteStore(disk / "runs.db")
        store.update("a", put(b"x"))
        ballast = disk / "ballast"
        with pytest.raises(OSError, match="No space"):
            ballast.write_bytes(b"0" * 10_000_000)
        for _ in range(2):
            with pytest.raises(StoreError, match="full"):
                store.update("a", put(b"0" * 500_000))
        ballast.unlink()
        assert store.update("a", put(b"y")) == b"x"
        store.close()
        check(disk / "runs.db")
    finally:
        subprocess.run(["umount", disk], check=True)


FORKED = """
    import os, sys, threading
    from loopwarden.store_contract import count
    from loopwarden.stores.sqlite import SqliteStore

    store = SqliteStore(sys.argv[1], wait_seconds=60)
    store.update("a", count)
    busy = threading.Thread(target=lambda: [store.update("a", count) for _ in range(100)])
    busy.start()
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            for _ in range(100):
                store.update("a", count)
            os._exit(0)
        children.append(child)
    print([os.waitpid(child, 0)[1] for child in children])
    busy.join()
    print(store.update("a", count))
    store.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_each_process_has_a_connection_of_its_own(path: Path, run: Run) -> None:
    shown, faults = run(FORKED, path).communicate(timeout=100)
    assert (shown.decode().split("\n"), faults) == (["[0, 0, 0]", "402", ""], b"")
    check(path)
