"""Agents that start agents and write to them, with the real tools."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from loopwarden.runner.tools import toolset
from tests.runner.agents import GUARD, Seen, runner_for
from tests.runner.model_server import Call, ModelServer, Reply, Request, asks

if TYPE_CHECKING:
    from pathlib import Path

    from loopwarden.runner.engine import Runner

SPAWN = asks(Call("sessions_spawn", {"task": "Look for a.", "agentId": "below"}))
EXEC = asks(Call("exec", {"command": "echo nothing"}))
ALLOW = {"exec": {"policy": "allow"}}


def two(server: ModelServer, seen: Seen, folder: Path, **options: object) -> Runner:
    agents = [
        {"id": "main", "model": "above", **options},
        {"id": "below", "model": "below"},
    ]
    agent = {"workspace": str(folder), "tools": ALLOW}
    return runner_for(server, seen, agent=agent, agents=agents, tools=toolset, guard=GUARD)


async def run(runner: Runner, task: str = "Look.", **options: str) -> object:
    try:
        return await runner.run("main", task, **options)
    finally:
        await runner.close()


def test_a_sub_agent_answers(tmp_path: Path) -> None:
    seen = Seen()
    script = {"above": [SPAWN, Reply("It found nothing.")], "below": [EXEC, Reply("Nothing here.")]}
    with ModelServer(script) as server:
        result = asyncio.run(run(two(server, seen, tmp_path)))
    assert result.answer == "It found nothing."  # type: ignore[attr-defined] - a RunResult
    assert "Nothing here." in server.of("above")[-1].last_result
    above, below = seen.of("began")
    assert (below["trigger"], below["task"], above["parent"]) == ("spawn", "Look for a.", None)
    runs = list(dict.fromkeys(one.run for one in seen.all))
    assert below["parent"] == runs[0]
    assert len({one.session for one in seen.all}) == 2
    assert [data["reason"] for data in seen.of("ended")] == ["done", "done"]


def test_a_loop_in_a_sub_agent_ends_it_and_the_run_above_is_told(tmp_path: Path) -> None:
    seen = Seen()
    script = {"above": [SPAWN, Reply("It went in circles.")], "below": [EXEC] * 30}
    with ModelServer(script) as server:
        result = asyncio.run(run(two(server, seen, tmp_path)))
    assert result.reason == "done"  # type: ignore[attr-defined] - a RunResult
    below, above = seen.of("ended")
    assert (below["reason"], below["code"]) == ("aborted", "tool_loop_persisted")
    assert above["reason"] == "done"
    told = server.of("above")[-1].last_result
    assert "did not finish (aborted)" in told
    assert below["message"] in told
    spawned = next(data["call_id"] for data in seen.of("call") if data["tool"] == "sessions_spawn")
    assert [data["ok"] for data in seen.of("outcome") if data["call_id"] == spawned] == [False]


def test_sub_agents_are_bounded_in_depth(tmp_path: Path) -> None:
    seen = Seen()
    again = asks(Call("sessions_spawn", {"task": "Do it."}))

    def script(request: Request) -> Reply:
        return Reply("done") if request.results else again

    with ModelServer(script) as server:
        agents = [{"id": "main", "subagents": {"maxDepth": 2}}]
        runner = runner_for(server, seen, agents=agents, agent={"workspace": str(tmp_path)}, tools=toolset)
        asyncio.run(run(runner))
    assert len(seen.of("began")) == 3
    refused = [data["text"] for data in seen.of("outcome") if not data["ok"]]
    assert len(refused) == 1


def test_an_unknown_agent_is_named(tmp_path: Path) -> None:
    seen = Seen()
    ask = asks(Call("sessions_spawn", {"task": "x", "agentId": "nobody"}))
    with ModelServer({"above": [ask, Reply("ok")]}) as server:
        asyncio.run(run(two(server, seen, tmp_path)))
    assert "no agent 'nobody'; there are: main, below" in server.of("above")[-1].last_result


def test_cancelling_the_run_above_cancels_those_below(tmp_path: Path) -> None:
    async def talk() -> None:
        runner = two(server, seen, tmp_path)
        running = asyncio.create_task(runner.run("main", "Look.", run_id="r"))
        await asyncio.to_thread(server.wait_for, 2)
        assert runner.cancel("r")
        assert (await running).reason == "cancelled"
        await runner.close()

    gate = threading.Event()
    seen = Seen()
    with ModelServer({"above": [SPAWN], "below": [Reply("late", wait=gate)]}) as server:
        asyncio.run(talk())
        gate.set()
    assert [data["reason"] for data in seen.of("ended")] == ["cancelled"] * 2


def test_a_text_for_another_session_starts_a_run_there(tmp_path: Path) -> None:
    async def talk() -> None:
        runner = two(server, seen, tmp_path)
        await runner.run("below", "Remember a.", session_id="other")
        await runner.run("main", "Ask.", session_id="mine")
        await asyncio.gather(*(live.task for live in runner._live.values() if live.task))
        await runner.close()

    seen = Seen()
    ask = asks(Call("sessions_send", {"sessionKey": "other", "message": "What was it?"}))
    script = {"above": [ask, Reply("asked")], "below": [Reply("noted"), Reply("It was a.")]}
    with ModelServer(script) as server:
        asyncio.run(talk())
    assert server.of("below")[-1].said == ["Remember a.", "What was it?"]
    assert [data["trigger"] for data in seen.of("began")] == ["user", "user", "send"]
    assert all(data["ok"] for data in seen.of("outcome"))


def test_a_text_for_an_unknown_session_is_a_failed_call(tmp_path: Path) -> None:
    seen = Seen()
    ask = asks(Call("sessions_send", {"sessionKey": "nowhere", "message": "Hello?"}))
    with ModelServer({"above": [ask, Reply("ok")]}) as server:
        asyncio.run(run(two(server, seen, tmp_path)))
    assert "no session 'nowhere'" in server.of("above")[-1].last_result
    assert seen.of("outcome")[0]["ok"] is False


def test_commands_outlive_the_run_and_end_with_the_runner(tmp_path: Path) -> None:
    async def talk() -> None:
        runner = two(server, seen, tmp_path)
        await runner.run("main", "Start.", session_id="s")
        assert list(runner._benches._processes) == ["s"]
        await runner.run("main", "Look.", session_id="s")
        await runner.close()
        assert not runner._benches._processes

    seen = Seen()
    start = asks(Call("exec", {"command": "echo up; sleep 600", "background": True}))
    listed = asks(Call("process", {"action": "list"}))
    with ModelServer({"above": [start, Reply("started"), listed, Reply("still there")]}) as server:
        asyncio.run(talk())
    assert "sleep 600" in server.of("above")[-1].last_result


def test_the_repeated_command_is_refused_with_the_real_tools(tmp_path: Path) -> None:
    seen = Seen()
    with ModelServer({"above": [EXEC] * 30}) as server:
        result = asyncio.run(run(two(server, seen, tmp_path)))
    assert result.code == "tool_loop_persisted"  # type: ignore[attr-defined] - a RunResult
    assert [data["ok"] for data in seen.of("outcome")] == [True] * 5 + [False] * 3
