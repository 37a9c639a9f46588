"""Runs as journals in Redis: entries and what is told of them, and the guards that follow them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("redis", reason="the extra redis is not installed")
from loopwarden import LoopGuard, StoreError, ToolCall
from loopwarden.journaled_runs import KEPT, KEPT_SECONDS, STEPS, JournaledRuns
from loopwarden.live_runs import Mark, Told
from loopwarden.store_contract import put
from loopwarden.stores.journal import Entry, Found, Place
from loopwarden.stores.redis import PREFIX, RedisStore
from loopwarden.stores.redis_scripts import INDEX
from tests.guards import SMALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden import Verdict
    from tests.stores.servers import Server


@pytest.fixture
def store(server: Server) -> Iterator[RedisStore]:
    store = RedisStore(server.url)
    yield store
    store.close()


def append(store: RedisStore, seen: Place | None, data: bytes, *, alone: bool = False) -> Found:
    (found,) = store.append([Entry("a", seen, data, alone)])
    assert isinstance(found, Found)
    return found


def test_who_has_seen_a_journal_is_told_what_came_after(store: RedisStore) -> None:
    first = append(store, None, b"1")
    assert (first.done, first.afresh, first.news) == (True, True, b"")
    second = append(store, first.place, b"2")
    third = append(store, first.place, b"3")
    assert (second.afresh, second.news, third.news) == (False, b"", b"2")
    assert append(store, third.place, b"").news == b""
    assert append(store, second.place, b"") == (False, third.place, False, b"3")
    assert append(store, None, b"") == (False, third.place, True, b"123")
    assert store.read("a") == b"123"


def test_an_entry_that_must_be_alone_waits_for_what_it_has_not_seen(store: RedisStore) -> None:
    first = append(store, None, b"1", alone=True)
    assert append(store, None, b"x", alone=True) == (False, first.place, True, b"1")
    second = append(store, first.place, b"2", alone=True)
    assert second.done
    assert append(store, first.place, b"x", alone=True) == (False, second.place, False, b"2")
    store.delete("a")
    assert append(store, second.place, b"x", alone=True) == (False, None, True, b"")
    assert store.read("a") is None


def test_a_journal_written_anew_is_told_from_the_start(store: RedisStore) -> None:
    first = append(store, None, b"1").place
    second = append(store, first, b"2").place
    assert first is not None
    assert second is not None
    assert store.rewrite("a", first, b"x") is None
    third = store.rewrite("a", second, b"state")
    assert third is not None
    fourth = append(store, second, b"3")
    assert fourth == (True, Place(third.token, third.end + 1), True, b"state")
    store.update("a", put(b"y"))
    assert append(store, fourth.place, b"").news == b"y"


def test_an_update_sees_what_was_appended_meanwhile(store: RedisStore) -> None:
    place = append(store, None, b"1").place
    seen = []

    def change(data: bytes | None) -> tuple[bytes | None, None]:
        seen.append(data)
        if len(seen) == 1:
            append(store, place, b"2")
        return data, None

    store.update("a", change)
    assert seen == [b"1", b"12"]


def test_a_key_at_fault_does_not_keep_others_from_theirs(store: RedisStore, server: Server) -> None:
    with server.client() as client:
        client.lpush(f"{PREFIX}b", "x")
        client.script_flush()
    found = store.append([Entry(key, None, b"1", alone=False) for key in "abc"])
    assert [type(one) for one in found] == [Found, StoreError, Found]
    assert (store.read("a"), store.read("c")) == (b"1", b"1")


def test_a_journal_that_is_over_is_gone_and_others_stay(store: RedisStore, server: Server) -> None:
    seen = append(store, None, b"1").place
    with server.client() as client:
        client.lpush(f"{PREFIX}b", "x")
    store.update("c", put(b"c"))
    over = [Entry(key, None, None, alone=False) for key in ("a", "b", "never")]
    refused, done = store.append(over)[1], store.append([over[0]])
    assert isinstance(refused, StoreError)
    assert done == [Found(done=True, place=None, afresh=False, news=b"")]
    assert (store.read("a"), store.read("c")) == (None, b"c")
    assert append(store, seen, b"") == (False, None, True, b"")
    with server.client() as client:
        assert client.zrange(INDEX, 0, -1) == [b"c"]


def call(number: int, name: str | None = None) -> Told:
    event = ToolCall(tool="read", arguments={"path": "a"}, call_id=f"c{number}", run_id="r")
    return Told(None, event, Mark(name, "digest", None) if name is not None else None)


def tell(guard: LoopGuard, told: Told) -> Verdict:
    runs = guard.shared
    assert isinstance(runs, JournaledRuns)
    (answer,) = runs.tell([told])
    return answer.verdict


def test_a_long_run_is_written_anew_and_others_follow(server: Server) -> None:
    guards = [LoopGuard(SMALL, store=server.url, on_error="raise") for _ in range(3)]
    alone = LoopGuard(SMALL, on_error="raise")
    for number in range(STEPS + 10):
        for guard in (guards[number % 2], alone):
            guard.before("read", {"path": str(number)}, call_id=f"c{number}", run_id="r")
            guard.after(f"c{number}", result=str(number), run_id="r")
    with server.client() as client:
        (name,) = client.scan_iter(f"{PREFIX}*")
        assert client.get(name)[8:].startswith(b'{"version"')
    assert {guard.save(run_id="r") for guard in guards} == {alone.save(run_id="r")}
    for guard in guards:
        guard.close()


def test_a_mark_counts_once_also_after_the_journal_was_written_anew(server: Server) -> None:
    first, second = (LoopGuard(SMALL, store=server.url, on_error="raise") for _ in range(2))
    for number in range(9):
        refused = tell(first, call(number, f"m{number}"))
        first.after(f"c{number}", result="same", run_id="r")
    assert refused.action == "block"
    for number in range(STEPS):
        first.after("nothing", run_id="r", result=number)
    with server.client() as client:
        (name,) = client.scan_iter(f"{PREFIX}*")
        assert b'\n{"answers":' in client.get(name)
    assert tell(second, call(8, "m8")) == refused
    assert tell(second, call(9, "m9")).action == "abort"
    first.close()
    second.close()


def test_states_at_hand_are_bounded_and_let_go_when_idle(store: RedisStore) -> None:
    now = [0.0]
    runs = JournaledRuns(LoopGuard(SMALL).settings, store, clock=lambda: now[0])
    many = [ToolCall(tool="read", call_id="c", run_id=str(number)) for number in range(KEPT + 50)]
    runs.tell([Told(None, event) for event in many])
    assert runs.at_hand == KEPT
    now[0] += KEPT_SECONDS + 1
    runs.tell([Told(None, many[0])])
    assert runs.at_hand == 1
    assert runs.save((None, "7")) is not None


LINES = [b"nonsense", b"[]", b"[null,[]]", b'[null,["c"]]', b'[null,["z"]]', b'[[1,2,3],["u"]]', b"{}"]


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_makes_no_sense_begins_the_run_afresh(
    store: RedisStore, server: Server, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    runs = JournaledRuns(LoopGuard(SMALL).settings, store)
    runs.tell([call(0)])
    with server.client() as client:
        (name,) = client.scan_iter(f"{PREFIX}*")
    store.update(name.decode().removeprefix(PREFIX), lambda data: ((data or b"") + line + b"\n", None))
    assert [answer.verdict.action for answer in runs.tell([call(1)])] == ["allow"]
    assert "starts afresh" in caplog.text
    caplog.clear()
    other = JournaledRuns(LoopGuard(SMALL).settings, store)
    assert [answer.verdict.action for answer in other.tell([call(2)])] == ["allow"]
    assert not caplog.records
