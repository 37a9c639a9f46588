"""Other sessions and sub-agents."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra runner")

from tests.runner.tools.benches import Scene

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Ended:
    run: str = "r2"
    session: str = "s2"
    reason: str = "done"
    message: str | None = None
    answer: str | None = "42"


def test_a_sub_agent_does_its_task(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    async def spawn(agent_id: str, task: str) -> Ended:
        asked.append((agent_id, task))
        if agent_id == "looping":
            return Ended(reason="aborted", message="The run was ended: a loop", answer=None)
        if agent_id == "none":
            raise KeyError("no agent 'none'")
        return Ended(run=f"r{len(asked)}", answer="x" * 50_000 if agent_id == "long" else "42")

    async def main() -> None:
        async with Scene(tmp_path, {"subagents": {"maxChildren": 5}}, {"spawn": spawn}) as scene:
            one = await scene.call("sessions_spawn", task="count")
            assert one.text == "42\n[agent tester, session s2, run r1]"
            again = await scene.call("sessions_spawn", task="count")
            assert again.text != one.text
            assert again.shaped == one.shaped, "another run with the same answer is no progress"
            loop = await scene.call("sessions_spawn", task="count", agentId="looping")
            assert loop.failed
            assert "did not finish (aborted): The run was ended: a loop" in loop.text
            assert len((await scene.call("sessions_spawn", task="x", agentId="long")).text) < 31_000
            assert "no agent 'none'" in (await scene.call("sessions_spawn", task="x", agentId="none")).text
            most = await scene.call("sessions_spawn", task="count")
            assert most.failed
            assert "5, the most" in most.text
        assert len(asked) == 5
        async with Scene(tmp_path, {}, {"spawn": spawn, "depth": 2}) as scene:
            deep = await scene.call("sessions_spawn", task="count")
            assert (deep.failed, len(asked)) == (True, 5)

    asyncio.run(main())


def test_sub_agents_at_once_are_counted(tmp_path: Path) -> None:
    running = 0

    async def spawn(*_: str) -> Ended:
        nonlocal running
        running += 1
        await asyncio.sleep(0)
        return Ended()

    async def main() -> None:
        async with Scene(tmp_path, {}, {"spawn": spawn}) as scene:
            calls = [scene.call("sessions_spawn", task=str(number)) for number in range(10)]
            assert sum(result.failed for result in await asyncio.gather(*calls)) == 6

    asyncio.run(main())
    assert running == 4


def test_a_message_goes_to_another_session(tmp_path: Path) -> None:
    async def send(session: str, text: str) -> str:
        if session == "none":
            raise LookupError("no session 'none'")
        return f"run-of-{session}-{len(text)}"

    async def main() -> None:
        async with Scene(tmp_path, {}, {"send": send}) as scene:
            sent = await scene.call("sessions_send", sessionKey="s9", message="hello")
            assert sent.details["runId"] == "run-of-s9-5"
            assert "run-of-s9-5" in sent.text
            for session in ("none", "s1"):
                assert (await scene.call("sessions_send", sessionKey=session, message="hello")).failed

    asyncio.run(main())


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        ({}, ["exec", "process", "command_status", "read", "write", "edit", "message"]),
        ({"allow": ["read", "exec"]}, ["exec", "read"]),
        ({"allow": ["read", "exec"], "deny": ["exec"]}, ["read"]),
        ({"allow": []}, []),
        ({"allow": ["sessions_spawn"]}, []),
    ],
)
def test_only_the_allowed_tools_are_there(tmp_path: Path, tools: dict[str, Any], names: list[str]) -> None:
    async def main() -> None:
        async with Scene(tmp_path, {"tools": tools}) as scene:
            assert list(scene.tools) == names

    asyncio.run(main())
