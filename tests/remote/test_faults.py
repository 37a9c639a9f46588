"""A gateway that fails in every way: the agent goes on, the log says so once, and nothing counts twice."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("httpx2", reason="the extra client is not installed")

from loopwarden import LoopGuard, StoreError
from loopwarden.remote import RemoteRuns, service
from tests.remote.servers import LOOP, Server, http, verdict

if TYPE_CHECKING:
    import socket


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "ANSWER_SECONDS", 0.5)
    monkeypatch.setenv("LOOPWARDEN_TOKEN", "t" * 40)


def ask(guard: LoopGuard, number: int = 1) -> str:
    return guard.before("read", {"path": "a"}, call_id=f"c{number}", run_id="r").action


def guard_at(server: Server | str, clock: Clock | None = None, **options: Any) -> LoopGuard:
    url = server if isinstance(server, str) else server.url
    guard = LoopGuard(store=url, **options)
    if clock is not None:
        assert isinstance(guard._runs, RemoteRuns)
        guard._runs._outages._clock = guard._runs._clock = clock
    return guard


def trickle(connection: socket.socket) -> bool:
    """A head, and then a body that never ends."""
    connection.sendall(b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1\r\n \r\n")
        if threading.Event().wait(0.02):
            return False


def silent(connection: socket.socket) -> bool:
    return bool(connection.recv(1))


FAULTS: dict[str, Any] = {
    "500": http(500, b"<html>"),
    "404": http(404, b'{"detail": "not here"}'),
    "429": http(429, b'{"detail": "too many"}'),
    "redirect": http(302, b"", "location: http://127.0.0.1:1/\r\n"),
    "no JSON": http(200, b"hello"),
    "no verdicts": http(200, b'{"verdicts": []}'),
    "a list": http(200, b"[]"),
    "deep": http(200, b"[" * 100_000),
    "another word": verdict(action="explode"),
    "a count that is none": verdict(action="warn", detector="cycle", count="9"),
    "a message that is none": verdict(action="block", detector="cycle", message=["x"]),
    "an unhashable word": verdict(action={}),
    "no HTTP": b"220 mail.example ESMTP\r\n\r\n",
    "too large": http(200, b" " * (service.LONGEST_ANSWER + 1)),
    "cut": http(200, b"12345")[:-2],
    "closed": None,
    "trickle": trickle,
    "silent": silent,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_agent_goes_on_or_is_told(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    def cut(connection: socket.socket) -> bool:
        connection.sendall(FAULTS["cut"])
        return False

    answer = cut if fault == "cut" else FAULTS[fault]
    with Server(answer) as server:
        guard = guard_at(server)
        assert ask(guard) == "allow"
        guard.after("c1", result="x", run_id="r")
        guard.forget(run_id="r")
        guard.close()
        told = [
            record for record in caplog.records if "calls are let through until it is back" in record.message
        ]
        assert len(told) == 1
        assert not any(record.exc_info for record in caplog.records)
        loud = guard_at(server, on_error="raise")
        with pytest.raises(StoreError):
            ask(loud)
        loud.close()


def test_nothing_answers_and_then_something_does(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    with Server(verdict(**LOOP)) as server:
        url = server.url
    guard = guard_at(url, clock)
    for number in range(5):
        assert ask(guard, number) == "allow"
        clock.now += 1
    told = [record.message for record in caplog.records]
    assert len(told) == 1
    assert "nothing answers at" in told[0]
    guard.close()


def test_a_gateway_that_is_back_is_asked_again_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with Server(http(503, b""), http(503, b""), verdict(**LOOP)) as server:
        guard = guard_at(server, clock)
        assert [ask(guard, number) for number in range(4)] == ["allow", "allow", "block", "block"]
        guard.close()
    assert [record.message.split(":")[0] for record in caplog.records if "gateway" in record.message] == [
        "gateway",
        "gateway is back",
    ]


def test_one_that_is_slow_is_left_alone_for_a_while() -> None:
    clock = Clock()

    def slow(_: socket.socket) -> bool:
        clock.now += 2.0
        return False

    with Server(slow, slow, verdict(**LOOP)) as server:
        guard = guard_at(server, clock)
        assert ask(guard) == "allow"
        asked = len(server.heads)
        clock.now += 29.0
        assert ask(guard) == "allow"
        assert len(server.heads) == asked == 2
        clock.now += 2.0
        assert ask(guard) == "block"
        guard.close()


def test_a_connection_that_is_lost_is_made_again_once_and_the_event_is_the_same() -> None:
    with Server(verdict(), None, verdict(**LOOP)) as server:
        guard = guard_at(server, on_error="raise")
        assert [ask(guard, 1), ask(guard, 2)] == ["allow", "block"]
        first, second, again = server.events
        guard.close()
    assert second == again
    assert first["event_id"] != second["event_id"]


def test_a_question_that_is_not_taken_leaves_the_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    with Server(http(422, b'{"detail": "no\\u001b[31m"}'), http(413, b""), verdict(**LOOP)) as server:
        guard = guard_at(server)
        assert [ask(guard, number) for number in range(3)] == ["allow", "allow", "block"]
        guard.close()
    told = [record.message for record in caplog.records if "once a minute" in record.message]
    assert len(told) == 1
    assert "422: no\N{REPLACEMENT CHARACTER}[31m" in told[0]


def test_a_token_that_is_not_taken_is_named_by_where_it_comes_from(caplog: pytest.LogCaptureFixture) -> None:
    with Server(http(401, b"")) as server:
        guard = guard_at(f"http://:secret@127.0.0.1:{server.port}")
        assert ask(guard) == "allow"
        guard.close()
        assert "authorization: Bearer secret" in server.heads[0].replace("Authorization", "authorization")
    (told,) = [record.message for record in caplog.records]
    assert "LOOPWARDEN_TOKEN" in told
    assert "secret" not in told


@pytest.mark.parametrize("token", ["secret\nX-More: 1", "secret\N{SNOWMAN}", "secret word", "secret" * 1000])
def test_a_token_that_can_be_none_is_not_sent_and_not_told(
    token: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LOOPWARDEN_TOKEN", token)
    with Server(verdict()) as server:
        guard = guard_at(server)
        assert [ask(guard, 1), ask(guard, 2)] == ["allow", "allow"]
        guard.close()
        assert server.heads == []
    assert "letters that no token has" in caplog.text
    assert "secret" not in caplog.text


def test_white_space_around_the_token_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWARDEN_TOKEN", f" {'t' * 40}\n")
    with Server(verdict()) as server:
        guard = guard_at(server, on_error="raise")
        ask(guard)
        guard.close()
        lines = server.heads[0].splitlines()
    assert [line.split(": ")[1] for line in lines if "Bearer" in line] == [f"Bearer {'t' * 40}"]


def test_the_token_of_the_variable_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with Server(verdict()) as server:
        guard = guard_at(server, on_error="raise")
        assert ask(guard) == "allow"
        guard.close()
        assert "Bearer " + "t" * 40 in server.heads[0]


def test_the_token_of_the_file_as_soon_as_there_is_one(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOPWARDEN_TOKEN")
    monkeypatch.setenv("LOOPWARDEN_STATE", str(tmp_path))
    with Server(verdict()) as server:
        guard = guard_at(server, on_error="raise")
        ask(guard)
        (tmp_path / "gateway").mkdir()
        (tmp_path / "gateway" / "token").write_text("f" * 43 + "\n")
        ask(guard)
        guard.close()
        assert [f"Bearer {'f' * 43}" in head for head in server.heads] == [False, True]


@pytest.mark.parametrize(
    "address", ["http://", "http://host:port", "https://h?x=1", "http://[::1", "HTTP://:x@"]
)
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(StoreError, match="allowed: http://HOST:PORT"):
        LoopGuard(store=address)


def test_a_configuration_along_with_a_gateway_is_refused() -> None:
    with pytest.raises(ValueError, match="its own configuration counts"):
        LoopGuard({"enabled": True}, store="http://127.0.0.1:1")


def test_what_is_sent_of_each_event() -> None:
    with Server(verdict()) as server:
        guard = guard_at(server, on_error="raise", agent_id="a", mode="observe")
        session = guard.session("s")
        odd: Any = 7
        session.before("read", {"x": 1}, call_id=odd, turn_id="t", at=1.5)
        session.after("7", error=TimeoutError("late"), unknown_tool="x")
        guard.compacted(run_id="new", continues="old")
        guard.user_message(at=float("nan"))
        guard.retract(["a", "b"], run_id="r")
        guard.forget(run_id="r")
        guard.close()
        events = [
            {key: value for key, value in event.items() if value is not None} for event in server.events
        ]
    assert len({event.pop("event_id") for event in events}) == 6
    always = {"agent": "a", "mode": "observe"}
    assert events == [
        {"event": "before", "tool": "read", "arguments": {"x": 1}, "call_id": "7", "turn_id": "t", "at": 1.5}
        | {"session": "s", **always},
        {
            "event": "after",
            "call_id": "7",
            "error": "TimeoutError: late",
            "unknown_tool": "x",
            "timed_out": True,
        }
        | {"session": "s", **always},
        {"event": "compacted", "run": "new", "continues": "old", **always},
        {"event": "user_message", **always},
        {"event": "retract", "run": "r", "call_ids": ["a", "b"], **always},
        {"event": "forget", "run": "r", **always},
    ]


def test_a_state_can_neither_be_saved_nor_restored() -> None:
    guard = LoopGuard(store="http://127.0.0.1:1")
    with pytest.raises(StoreError, match="kept there"):
        guard.save(run_id="r")
    with pytest.raises(StoreError, match="kept there"):
        guard.restore(b"{}", run_id="r")
    guard.close()


def test_a_detector_of_a_newer_gateway_is_taken() -> None:
    with Server(verdict(**LOOP | {"detector": "new_kind", "more": 1})) as server:
        guard = guard_at(server, on_error="raise")
        found = guard.before("read", {}, call_id="c", run_id="r")
        guard.close()
    assert (found.detector, found.action, found.message) == ("new_kind", "block", "stop")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_makes_connections_of_its_own() -> None:
    with Server(verdict()) as server:
        guard = guard_at(server, on_error="raise")
        ask(guard)
        opened = len(server._open)
        child = os.fork()
        if child == 0:
            os._exit(0 if ask(guard, 2) == "allow" else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert len(server._open) == opened + 1
        ask(guard, 3)
        assert len(server._open) == opened + 1
        guard.close()
