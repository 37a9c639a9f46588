"""Runs of agents over HTTP: what is said, called, refused and ended."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from tests.runner.agents import GUARD, Seen, runner_for
from tests.runner.model_server import Call, ModelServer, Reply, asks


def look(query: str) -> str:
    return f"nothing about {query}"


def same(times: int) -> list[Reply]:
    return [asks(Call("look", {"query": "a"})) for _ in range(times)]


def test_a_run_from_its_task_to_its_end() -> None:
    seen = Seen()
    with ModelServer([asks(Call("look", {"query": "a"}), text="I look."), Reply("Found nothing.")]) as server:
        result = asyncio.run(runner_for(server, seen, look).run("main", "Look for a."))
    assert (result.reason, result.code, result.answer, result.requests) == ("done", None, "Found nothing.", 2)
    assert [one.kind for one in seen.all if one.data.get("partial") is not True] == [
        "began",
        "text",
        "call",
        "outcome",
        "text",
        "ended",
    ]
    assert seen.of("outcome") == [
        {"call_id": seen.of("call")[0]["call_id"], "ok": True, "text": "nothing about a"}
    ]
    pieces = [data["text"] for data in seen.of("text") if data["partial"]]
    assert len(pieces) > 2
    assert "".join(pieces) == "I look.Found nothing."
    assert [one.number for one in seen.all] == list(range(1, len(seen.all) + 1))
    assert seen.of("ended")[0]["requests"] == 2
    assert {one.run for one in seen.all} == {result.run}


def test_the_guard_warns_refuses_and_ends() -> None:
    seen = Seen()
    with ModelServer(same(30)) as server:
        result = asyncio.run(runner_for(server, seen, look).run("main", "Look for a."))
    assert (result.reason, result.code) == ("aborted", "tool_loop_persisted")
    verdicts = seen.of("verdict")
    assert [data["action"] for data in verdicts][:3] == ["warn", "warn", "block"]
    assert verdicts[-1]["action"] == "abort"
    calls = [data["call_id"] for data in seen.of("call")]
    assert {data["call_id"] for data in verdicts} <= set(calls)
    answers = server.requests[-1].results
    assert verdicts[0]["message"] in answers[calls[3]]
    assert verdicts[2]["message"] in answers[calls[5]]
    assert [data["ok"] for data in seen.of("outcome")][:6] == [True] * 5 + [False]
    assert seen.of("ended")[0]["code"] == "tool_loop_persisted"
    assert seen.of("ended")[0]["message"] == verdicts[-1]["message"]


def test_more_requests_than_the_host_allows_by_itself() -> None:
    replies = [asks(Call("look", {"query": f"q{number}"})) for number in range(60)]
    with ModelServer([*replies, Reply("ok")]) as server:
        result = asyncio.run(runner_for(server, Seen(), look, guard={}).run("main", "Look."))
    assert (result.reason, result.requests) == ("done", 61)


def test_observed_loops_are_told_and_nothing_is_refused() -> None:
    seen = Seen()
    guard = {**GUARD}
    del guard["enabled"]
    with ModelServer([*same(7), Reply("ok")]) as server:
        result = asyncio.run(runner_for(server, seen, look, guard=guard).run("main", "Look."))
    assert result.reason == "done"
    assert {data["action"] for data in seen.of("verdict")} == {"allow"}
    assert [data["would"] for data in seen.of("verdict")] == ["warn", "warn", "block", "block"]
    assert [data["ok"] for data in seen.of("outcome")] == [True] * 7


def test_an_abort_among_calls_made_at_once_ends_the_run_and_pairs_them() -> None:
    async def both() -> None:
        runner = runner_for(server, seen, look, slow, guard={**GUARD, "onCritical": "abort"})
        assert (await runner.run("main", "Look.", session_id="s")).reason == "aborted"
        assert (await runner.run("main", "Go on.", session_id="s")).answer == "ok"

    async def slow(query: str) -> str:
        await asyncio.Event().wait()
        return query

    seen = Seen()
    batch = asks(Call("slow", {"query": "b"}), Call("look", {"query": "a"}))
    with ModelServer([*same(5), batch, Reply("ok")]) as server:
        asyncio.run(both())
    assert len(server.requests[-1].results) == 7
    assert "cancelled" in server.requests[-1].last_result


def test_settings_of_each_agent() -> None:
    async def both() -> list[str]:
        agents = [{"id": "main"}, {"id": "free", "tools": {"loopDetection": {"enabled": False}}}]
        runner = runner_for(server, Seen(), look, agents=agents)
        return [(await runner.run(name, "Look.")).reason for name in ("main", "free")]

    with ModelServer([*same(8), *same(20), Reply("ok")]) as server:
        assert asyncio.run(both()) == ["aborted", "done"]
