"""Guards that share a store: one loop seen together, and an agent that goes on whatever the store does."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from loopwarden import LoopGuard, StoreError, ToolCall
from loopwarden.core.settings import Settings
from loopwarden.errors import LoopAborted
from loopwarden.shared_runs import SharedRuns, key_text
from loopwarden.store_contract import put
from loopwarden.stores.memory import MemoryStore
from tests.guards import SMALL, actions
from tests.stores.workers import in_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from loopwarden import Verdict
    from loopwarden.guard import Verbs
    from loopwarden.stores import Answer, Change
    from tests.stores.servers import Server

EXPECTED = ["allow"] * 3 + ["warn"] * 2 + ["block"] * 4 + ["abort"]
"""What ten identical calls are answered with these settings."""


def calls(guards: list[Verbs], count: int, run_id: str | None = "r", path: str = "a") -> list[Verdict]:
    """Calls of `read` with one and the same result, by the guards in turn, as far as they may run."""
    verdicts = []
    for number in range(count):
        guard = guards[number % len(guards)]
        call_id = f"{path}{number}"
        verdict = guard.before("read", {"path": path}, call_id=call_id, run_id=run_id)
        if verdict.action in {"allow", "warn"}:
            guard.after(call_id, result="same", run_id=run_id)
        verdicts.append(verdict)
    return verdicts


@pytest.fixture
def pair(address: str) -> Iterator[list[Verbs]]:
    guards = [LoopGuard(SMALL, store=address, on_error="raise") for _ in range(2)]
    yield list(guards)
    for guard in guards:
        guard.close()


def test_two_guards_see_one_loop(pair: list[Verbs]) -> None:
    assert actions(calls(pair, 10)) == EXPECTED


def test_runs_and_sessions_stay_apart(pair: list[Verbs]) -> None:
    first, second = pair
    names = [(None, None), (None, "r"), ("r", None), ("r", "r"), ('r","r', None), ("r", 'null,"r')]
    bound = [second.session(one) if one else second for one, _ in names]  # type: ignore[attr-defined]  # a LoopGuard
    for guard, (_, run_id) in zip(bound, names, strict=True):
        assert actions(calls([guard], 10, run_id)) == EXPECTED
    assert actions(calls([first], 1)) == ["abort"]


def test_an_outcome_may_come_from_another_process(pair: list[Verbs]) -> None:
    first, second = pair
    for number in range(5):
        first.before("read", {"path": "a"}, call_id=f"c{number}", run_id="r")
        second.after(f"c{number}", result="same", run_id="r")
    assert first.before("read", {"path": "a"}, call_id="c", run_id="r").action == "block"


def test_what_an_adapter_keeps_beside_the_runs(pair: list[Verbs]) -> None:
    one, other = (guard.shared for guard in pair if isinstance(guard, LoopGuard))
    assert one is not None
    assert other is not None
    one.put_beside("name", b"1")
    assert (other.read_beside("name"), other.read_beside("another")) == (b"1", None)
    assert LoopGuard(SMALL).shared is None


def test_a_compaction_that_continues_takes_the_run_along(pair: list[Verbs]) -> None:
    first, second = pair
    calls(pair, 4)
    first.compacted(run_id="later", continues="r")
    assert second.save(run_id="r") is None
    assert actions(calls([second], 6, "later")) == EXPECTED[4:]


def test_a_run_that_was_aborted_stays_so_for_all(pair: list[Verbs]) -> None:
    first, second = pair
    assert actions(calls([first], 10))[-1] == "abort"
    assert second.before("other", {}, call_id="x", run_id="r").action == "abort"
    second.forget(run_id="r")
    assert actions(calls([first], 10)) == EXPECTED


def test_a_run_can_be_saved_and_restored(pair: list[Verbs]) -> None:
    first, second = pair
    calls([first], 4)
    saved = second.save(run_id="r")
    assert saved is not None
    calls([first], 6)
    second.restore(saved, run_id="r")
    assert actions(calls([first], 6)) == EXPECTED[4:]
    alone = LoopGuard(SMALL, on_error="raise")
    alone.restore(saved, run_id="r")
    assert actions(calls([alone], 6)) == EXPECTED[4:]
    with pytest.raises(StoreError, match="saved run"):
        first.restore(b"{}", run_id="r")
    assert first.save(run_id="other") is None


def test_guarded_functions_in_two_guards(address: str) -> None:
    guards = [LoopGuard(SMALL, store=address, on_error="raise") for _ in range(2)]
    tools = [guard.tool(lambda: {"same": 1}, name="look") for guard in guards]
    answers: list[Any] = []
    for number in range(9):
        try:
            answers.append(type(tools[number % 2]()).__name__)
        except LoopAborted:
            answers.append("abort")
    assert answers == ["dict"] * 5 + ["str"] * 4
    with guards[0].run() as one, guards[1].run() as other:
        assert one != other
    for guard in guards:
        guard.close()


def test_arguments_and_results_are_not_stored(tmp_path: Path) -> None:
    guard = LoopGuard({"enabled": True}, store=f"sqlite:{tmp_path / 'runs.db'}", on_error="raise")
    for number in range(25):
        guard.before("read", {"path": "the-argument"}, call_id=f"c{number}", run_id="r")
        guard.after(f"c{number}", error=f"the-failure {number}", run_id="r")
    guard.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"read" in stored
    assert b"the-argument" not in stored
    assert b"the-failure" not in stored


class Name(StrEnum):
    """A host may have its tools in an enumeration."""

    READ = "read"


class Seconds(float):
    """Like the numbers of numpy."""


def test_odd_hosts_are_taken_as_they_are(pair: list[Verbs]) -> None:
    odd: Any = ToolCall(
        tool=Name.READ,
        call_id=7,  # type: ignore[arg-type]  # that is the point
        turn_id=8,  # type: ignore[arg-type]
        run_id=9,  # type: ignore[arg-type]
        at=Seconds(1.5),
    )
    for guard in pair * 3:
        assert guard.feed(odd).action == "allow"
    for number in range(3):
        for guard in pair:
            guard.before(
                "t\ud800", {"\udfff": "\ud800"}, call_id=f"\ud800{number}", run_id="\ud800", turn_id="\udfff"
            )
            guard.after(f"\ud800{number}", error="Unknown tool: \ud800", run_id="\ud800")


def test_a_guard_that_is_off_asks_no_store() -> None:
    guard = LoopGuard({"enabled": False}, store=Failing(), on_error="raise")
    assert actions(calls([guard], 3)) == ["allow"] * 3


def test_keys_are_unlike_and_bounded() -> None:
    keys: list[Any] = [
        (None, None), (None, ""), ("", None), (None, "None"), ("a", "b"), ('a","b', None), ("ab", ""),
        (None, 1), (None, "1"), (None, "x" * 10_000), (None, "x" * 10_001), (None, "\ud800"),
        (None, object()),
    ]  # fmt: skip
    texts = [key_text(key) for key in keys]
    assert len(set(texts)) == len(keys)
    assert max(map(len, texts)) < 300


class Failing(MemoryStore):
    """Fails while it is told to, and takes its time for it.

    Attributes:
        fails: Whether it fails.
        asked: How often it was asked.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fails = True
        self.asked = 0
        self.takes: Callable[[], None] = lambda: None

    def update(self, key: str, change: Change[Answer]) -> Answer:
        self.asked += 1
        self.takes()
        if self.fails:
            raise StoreError("no disk")
        return super().update(key, change)


def store_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if line.startswith("store")]


def test_an_outage_is_said_once_and_the_agent_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    store = Failing()
    store.fails = False
    guard = LoopGuard(SMALL, store=store)
    calls([guard], 4)
    for _ in range(2):
        caplog.clear()
        store.fails = True
        assert set(actions(calls([guard], 20))) == {"allow"}
        guard._runs._outages._until = 0.0  # type: ignore[union-attr]  # as if the pause was over
        store.fails = False
        assert store_lines(caplog) == ["store: no disk; calls are let through until it is back"]
        assert actions(calls([guard], 1, path="b")) == ["allow"]
        assert store_lines(caplog)[1:] == ["store is back"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert actions(calls([guard], 6)) == EXPECTED[4:]


def test_a_fault_of_the_store_is_raised_if_asked_for() -> None:
    guard = LoopGuard(SMALL, store=Failing(), on_error="raise")
    for _ in range(3):
        with pytest.raises(StoreError):
            guard.before("read", {}, call_id="c", run_id="r")


def test_a_store_that_is_slow_to_fail_is_left_alone_for_a_while() -> None:
    now = [100.0]
    store = Failing()
    store.takes = lambda: now.__setitem__(0, now[0] + 2.0)
    runs = SharedRuns(Settings(enabled=True), store, clock=lambda: now[0])
    asked = []
    for _ in range(100):
        with pytest.raises(StoreError):
            runs.get((None, "r")).call("read", {}, "c", None, None)
        asked.append(store.asked)
        now[0] += 1.0
    assert asked[:21] == [1] * 20 + [2]
    assert store.asked == 5
    now[0] += 30.0
    store.fails = False
    assert runs.get((None, "r")).call("read", {}, "c", None, None).action == "allow"


DAMAGES = {
    "cut": lambda data: data[:-100],
    "empty": lambda _: b"",
    "other": lambda _: b'{"theirs": true}',
    "version": lambda data: orjson.dumps(orjson.loads(data) | {"version": "0.next"}),
    "nested": lambda _: b"[" * 100_000,
    "binary": lambda data: bytes(255 - byte for byte in data),
    "class": lambda data: data.replace(b'"Ladder"', b'"os"'),
    "columns": lambda data: json.dumps(json.loads(data) | {"objects": [["Log", []]]}).encode(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_state_is_dropped_and_said_once(
    damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    guard = LoopGuard(SMALL, store=store)
    key = key_text((None, "r"))
    calls([guard], 5)
    data = store.read(key)
    assert data is not None
    store.update(key, put(damage(data)))
    caplog.clear()
    strict = LoopGuard(SMALL, store=store, on_error="raise")
    with pytest.raises(StoreError, match="saved run"):
        strict.before("read", {}, call_id="c", run_id="r")
    assert store_lines(caplog) == []
    assert actions(calls([guard], 10)) == EXPECTED
    (line,) = store_lines(caplog)
    assert line.startswith("store: a saved run ")
    assert line.endswith("; the run starts afresh: run=r")


def test_a_restart_of_redis_is_gone_through(lasting: Server, caplog: pytest.LogCaptureFixture) -> None:
    guard = LoopGuard(SMALL, store=lasting.url)
    calls([guard], 4)
    lasting.stop()
    assert actions(calls([guard], 10, path="b")) == ["allow"] * 10
    assert len(store_lines(caplog)) == 1
    lasting.start()
    guard._runs._outages._until = 0.0  # type: ignore[union-attr]  # as if the pause was over
    assert actions(calls([guard], 6)) == EXPECTED[4:]
    assert store_lines(caplog)[1:] == ["store is back"]
    guard.close()


def test_a_restart_of_redis_that_forgets_starts_afresh(
    passing: Server, caplog: pytest.LogCaptureFixture
) -> None:
    guard = LoopGuard(SMALL, store=passing.url)
    calls([guard], 4)
    passing.stop()
    passing.start()
    assert actions(calls([guard], 10)) == EXPECTED
    assert store_lines(caplog) == []
    guard.close()


def ask_and_leave(address: str, number: int) -> None:
    """One call in a process that then ends without a word."""
    guard = LoopGuard(SMALL, store=address, on_error="raise")
    guard.before("read", {"path": "a"}, call_id=f"p{number}", run_id="r")
    guard.after(f"p{number}", result="same", run_id="r")
    os._exit(0)


def test_hooks_that_live_for_one_call_are_counted_together(address: str) -> None:
    for _ in range(2):
        in_processes(2, ask_and_leave, address)
    guard = LoopGuard(SMALL, store=address, on_error="raise")
    verdict = guard.before("read", {"path": "a"}, call_id="last", run_id="r")
    assert (verdict.action, verdict.count) == ("warn", 4)
    guard.close()


FORKED = """
    import os, sys
    from loopwarden import LoopGuard

    config = {"enabled": True, "warningThreshold": 3}
    guard = LoopGuard(config, store=sys.argv[1], on_error="raise")
    for number in range(3):
        child = os.fork()
        if child == 0:
            guard.before("read", {}, call_id=str(number), run_id="r")
            guard.after(str(number), result="x", run_id="r")
            os._exit(0)
        os.waitpid(child, 0)
    print(guard.before("read", {}, call_id="c", run_id="r").count)
    guard.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_the_run_goes_on_together(address: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(FORKED), address]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (ended.stdout, ended.stderr) == ("3\n", "")


def test_the_number_of_runs_is_bounded(tmp_path: Path) -> None:
    guard = LoopGuard(SMALL, store=f"sqlite:{tmp_path / 'runs.db'}", max_runs=3, on_error="raise")
    for number in range(10):
        calls([guard], 1, f"r{number}")
    assert [guard.save(run_id=f"r{number}") is not None for number in range(10)] == [False] * 7 + [True] * 3
    guard.close()


def test_a_state_stays_small_however_often_it_is_stored() -> None:
    """What says the same is written once, also after many trips through the store."""
    guards = [LoopGuard({"enabled": True}, store=(store := MemoryStore()), on_error="raise")]
    guards.append(LoopGuard({"enabled": True}, store=store, on_error="raise"))
    for number in range(800):
        guard = guards[number % 2]
        guard.before("read", {"n": number}, call_id=f"c{number}", run_id="r")
        guard.after(f"c{number}", result=f"{number}", run_id="r")
    saved = guards[0].save(run_id="r")
    assert saved is not None
    assert len(saved) < 40_000
    assert len(orjson.loads(saved)["objects"]) < 25
