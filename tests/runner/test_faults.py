"""What goes wrong around a run: providers that are busy, connections that break, watchers, limits."""

# ruff: noqa: ARG001, ARG002 - tools and journals take what they are given

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from pydantic_ai import ToolReturn
from pydantic_ai.exceptions import ModelHTTPError

from loopwarden.runner.retries import Backoff, in_words
from tests.runner.agents import Seen, runner_for
from tests.runner.model_server import Call, ModelServer, Reply, asks, breaks, limits

if TYPE_CHECKING:
    from loopwarden.runner.happenings import Happening


def look(query: str) -> str:
    return f"nothing about {query}"


LOOK = asks(Call("look", {"query": "a"}))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (limits(), "429"),
        (breaks(), "500"),
        (Reply(drop="before"), "connection"),
    ],
    ids=["429", "500", "dropped"],
)
def test_what_passes_is_tried_again(fault: Reply, words: str) -> None:
    seen = Seen()
    with ModelServer([LOOK, fault, fault, Reply("ok")]) as server:
        result = asyncio.run(runner_for(server, seen, look).run("main", "Look."))
    assert (result.reason, result.answer, result.requests) == ("done", "ok", 2)
    assert len(server.requests) == 4, "the client makes no retries of its own"
    notices = [data["text"] for data in seen.of("notice")]
    assert len(notices) == 2
    assert all(words in notice for notice in notices)
    assert len(seen.of("call")) == len(seen.of("outcome")) == 1
    assert server.requests[3].messages == server.requests[1].messages


def test_a_provider_that_stays_broken_ends_the_run() -> None:
    seen = Seen()
    with ModelServer([breaks()] * 9) as server:
        backoff = Backoff(tries=2, first=0.01, longest=0.01)
        result = asyncio.run(runner_for(server, seen, look, backoff=backoff).run("main", "Look."))
    assert (result.reason, result.code) == ("failed", None)
    assert "500" in (result.message or "")
    assert len(server.requests) == 3
    assert seen.of("ended")[0]["reason"] == "failed"


def test_a_pause_that_is_too_long_is_not_waited_for() -> None:
    with ModelServer([limits(after=3600)]) as server:
        result = asyncio.run(runner_for(server, Seen(), look).run("main", "Look."))
    assert result.reason == "failed"
    assert len(server.requests) == 1


def test_a_wrong_key_is_not_tried_again() -> None:
    with ModelServer([LOOK], key="right") as server:
        result = asyncio.run(runner_for(server, Seen(), look).run("main", "Look."))
    assert result.reason == "failed"
    assert (result.message or "").startswith("the provider answered 401: Incorrect API key")
    assert len(server.requests) == 1


def test_empty_replies_are_told_of_and_end_the_run_at_last() -> None:
    seen = Seen()
    with ModelServer([LOOK, *[Reply("")] * 9]) as server:
        result = asyncio.run(runner_for(server, seen, look).run("main", "Look."))
    assert (result.reason, result.requests) == ("failed", 5)
    assert [data["text"] for data in seen.of("notice")] == [
        f"the model's reply was empty; asking again ({number} of 3)" for number in (1, 2, 3)
    ]
    assert result.message == "the model's last 4 replies had neither text nor a call (finish reason: stop)"


def test_empty_replies_now_and_then_do_not_end_it() -> None:
    seen = Seen()
    script = [part for number in range(6) for part in (asks(Call("look", {"query": f"{number}"})), Reply(""))]
    with ModelServer([*script, Reply("ok")]) as server:
        result = asyncio.run(runner_for(server, seen, look).run("main", "Look."))
    assert (result.reason, result.answer) == ("done", "ok")
    assert len(seen.of("notice")) == 6


@pytest.mark.parametrize("kind", ["text/html", "text/event-stream"])
def test_a_web_page_is_no_reply(kind: str) -> None:
    page = Reply(raw=(kind, "<!DOCTYPE html>\n<html><body>Welcome</body></html>\n"))
    with ModelServer([page]) as server:
        result = asyncio.run(runner_for(server, Seen(), look).run("main", "Look."))
    assert result.reason == "failed"
    assert "baseUrl" in (result.message or "")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"message": "no such model", "type": "x", "param": None}, ": no such model"),
        ({"error": {"message": "no such model"}}, ": no such model"),
        ({"error": "no such model"}, ": no such model"),
        ([{"error": {"code": 404, "message": "no such model"}}], ": no such model"),
        ({"detail": [{"msg": "no such model"}]}, ": no such model"),
        ("no such model", ": no such model"),
        ({"code": 404}, ""),
        (None, ""),
        ({"error": {"error": {"error": {"error": {"error": {"error": "deep"}}}}}}, ""),
    ],
)
def test_a_provider_s_answer_is_told_in_words(body: object, words: str) -> None:
    assert in_words(ModelHTTPError(404, "m", body)) == f"the provider answered 404{words}"


def test_another_fault_is_told_as_it_is() -> None:
    assert in_words(ValueError("what it says")) == "ValueError: what it says"


def test_calls_of_a_reply_that_broke_off_are_never_counted() -> None:
    ran: list[str] = []

    def look(query: str) -> str:
        ran.append(query)
        return "nothing"

    seen = Seen()
    broken = Reply("I look now, at once.", [Call("look", {"query": "a"})] * 4, drop="middle")
    script = [LOOK, broken, broken, broken, LOOK, Reply("ok")]
    with ModelServer(script) as server:
        result = asyncio.run(runner_for(server, seen, look).run("main", "Look."))
    assert (result.reason, result.answer) == ("done", "ok")
    assert ran == ["a", "a"]
    assert seen.of("verdict") == []
    assert server.requests[4].messages == server.requests[1].messages, "nothing is left of it"
    assert [data["text"] for data in seen.of("text") if not data["partial"]] == ["ok"]


def test_the_limit_of_requests_ends_the_run() -> None:
    seen = Seen()
    replies = [asks(Call("look", {"query": f"q{number}"})) for number in range(9)]
    with ModelServer(replies) as server:
        runner = runner_for(server, seen, look, agent={"maxRequests": 4})
        result = asyncio.run(runner.run("main", "Look."))
    assert (result.reason, result.requests) == ("failed", 4)
    assert "4 model requests (maxRequests)" in (result.message or "")
    assert len(server.requests) == 4


def test_a_watcher_that_fails_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def broken(happening: Happening) -> None:
        raise RuntimeError(happening.kind)

    seen = Seen()
    with ModelServer([LOOK, Reply("ok")]) as server:
        runner = runner_for(server, seen, look)
        runner._watchers = (broken, seen)
        result = asyncio.run(runner.run("main", "Look."))
    assert result.reason == "done"
    assert seen.kinds()["ended"] == 1
    assert "fault in a watcher" in caplog.text


class BrokenJournal:
    """A journal that can do nothing."""

    def history(self, session: str, /) -> bytes | None:
        raise OSError("history")

    def save_history(self, session: str, agent: str, history: bytes, /) -> None:
        raise OSError("save")

    def put_evidence(self, run: str, evidence: bytes, /) -> None:
        raise OSError("evidence")

    def session(self, session: str, /) -> None:
        raise OSError("session")

    def add(self, happening: Happening, /) -> None:
        raise OSError("add")


def test_a_journal_that_fails_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()
    with ModelServer([LOOK, Reply("ok")]) as server:
        result = asyncio.run(
            runner_for(server, seen, look, journal=BrokenJournal()).run("main", "Look.", session_id="s")
        )
    assert (result.reason, seen.of("ended")[0]["reason"]) == ("done", "done")
    assert "can't be read" in caplog.text
    assert "can't be kept" in caplog.text


def test_a_tool_that_fails_is_a_result() -> None:
    def look(query: str) -> str:
        raise RuntimeError(f"no {query}")

    seen = Seen()
    with ModelServer([LOOK, Reply("ok")]) as server:
        result = asyncio.run(runner_for(server, seen, look).run("main", "Look."))
    assert (result.reason, result.answer) == ("done", "ok")
    assert [(data["ok"], data["text"]) for data in seen.of("outcome")] == [(False, "RuntimeError: no a")]
    assert "RuntimeError: no a" in server.requests[-1].last_result


def test_cancelling_in_a_pause_ends_at_once() -> None:
    async def talk() -> str:
        def cancel(happening: Happening) -> None:
            if happening.kind == "notice":
                runner.cancel("r")

        runner = runner_for(server, seen, look, backoff=Backoff(first=3600, longest=3600))
        runner._watchers = (seen, cancel)
        return (await runner.run("main", "Look.", run_id="r")).reason

    seen = Seen()
    with ModelServer([breaks(), Reply("ok")]) as server:
        assert asyncio.run(talk()) == "cancelled"
    assert len(server.requests) == 1


@pytest.mark.parametrize("failure", [TimeoutError("too slow"), RuntimeError("too slow")], ids=repr)
def test_a_tool_out_of_time_is_told_by_structure(failure: Exception) -> None:
    def look(query: str) -> str:
        raise failure

    seen = Seen()
    guard = {"enabled": True, "warningThreshold": 3, "criticalThreshold": 5}
    replies = [asks(Call("look", {"query": f"q{number}"})) for number in range(8)]
    with ModelServer([*replies, Reply("ok")]) as server:
        result = asyncio.run(runner_for(server, seen, look, guard=guard).run("main", "Look."))
    assert result.reason == "done"
    found = {data["detector"] for data in seen.of("verdict")}
    assert ("repeated_failure" in found) == isinstance(failure, RuntimeError)


def test_a_fault_of_a_tool_that_is_broken_itself() -> None:
    class BrokenError(Exception):
        def __str__(self) -> str:
            raise ValueError

    def look(query: str) -> str:
        raise BrokenError if query == "b" else RuntimeError("x" * 100_000)

    seen = Seen()
    with ModelServer([LOOK, asks(Call("look", {"query": "b"})), Reply("ok")]) as server:
        result = asyncio.run(runner_for(server, seen, look).run("main", "Look."))
    assert result.reason == "done"
    long, broken = (data["text"] for data in seen.of("outcome"))
    assert len(long) < 5000
    assert broken == "BrokenError"


def test_unknown_tools_and_wrong_arguments_are_results() -> None:
    seen = Seen()
    script = [
        asks(Call("nope", {})),
        asks(Call("look", {"wrong": 1})),
        asks(Call("look", "{broken")),
        Reply("ok"),
    ]
    with ModelServer(script) as server:
        result = asyncio.run(runner_for(server, seen, look).run("main", "Look."))
    assert (result.reason, result.answer) == ("done", "ok")
    assert [data["ok"] for data in seen.of("outcome")] == [False] * 3


def test_the_guard_compares_the_structure_of_a_result() -> None:
    times = iter(range(100))

    def look(query: str) -> ToolReturn[str]:
        shaped: dict[str, Any] = {
            "content": [{"type": "text", "text": "the same"}],
            "details": {"found": 0},
            "isError": False,
        }
        return ToolReturn(return_value=f"the same, at {next(times)}", metadata=shaped)

    with ModelServer([LOOK] * 30) as server:
        runner = runner_for(server, Seen(), look)
        result = asyncio.run(runner.run("main", "Look.", session_id="s"))
    assert (result.reason, result.code) == ("aborted", "tool_loop_persisted")
    kept = runner._sessions._kept["s"][1]
    assert b"the same, at" in kept
    assert b'"found"' not in kept, "what is compared is not kept"


def test_a_result_that_says_it_failed_did() -> None:
    def look(query: str) -> ToolReturn[str]:
        return ToolReturn(return_value="no", metadata={"content": [], "details": {}, "isError": True})

    seen = Seen()
    with ModelServer([LOOK, Reply("ok")]) as server:
        asyncio.run(runner_for(server, seen, look).run("main", "Look."))
    assert seen.of("outcome")[0]["ok"] is False
