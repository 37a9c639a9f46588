"""Commands that go on in the background."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra runner")

from loopwarden.runner import processes
from tests.runner.tools.benches import Result, Scene, alive, file_text, gone

if TYPE_CHECKING:
    from pathlib import Path


def over(result: Result) -> bool:
    return result.details["status"] != "running"


async def started(scene: Scene, command: str) -> str:
    result = await scene.call("exec", command=command, background=True)
    assert result.details["status"] == "running"
    session: str = result.details["sessionId"]
    return session


def test_a_command_that_takes_long_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            command = "echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 4"
            yielded = await scene.call("exec", command=command, yieldMs=300)
            assert yielded.details["status"] == "running"
            session = yielded.details["sessionId"]
            assert session in yielded.text
            assert f"{session}: running: echo one;" in (await scene.call("process", action="list")).text
            (tmp_path / "go").touch()
            ended = await scene.until("process", over, action="poll", sessionId=session, waitMs=1000)
            assert (ended.details["status"], ended.details["exitCode"]) == ("failed", 4)
            assert ended.details["aggregated"] == "one\ntwo\n"
            assert ended.text.endswith("Exit code 4.")
            log = await scene.call("process", action="log", sessionId=session)
            assert log.details["aggregated"] == "one\ntwo"
            assert (log.details["totalLines"], log.details["totalChars"]) == (2, 8)

    asyncio.run(main())


def test_a_poll_gives_what_is_new(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            session = await started(scene, "while read line; do echo got $line; done")
            silent = await scene.call("process", action="poll", sessionId=session)
            assert silent.text == "(no new output)\nStill running."
            await scene.call("process", action="write", sessionId=session, data="a\n")
            first = await scene.call("process", action="poll", sessionId=session, waitMs=60_000)
            assert first.text == "got a\nStill running."
            await scene.call("process", action="write", sessionId=session, data="b\n")
            second = await scene.call("command_status", sessionId=session, waitMs=60_000)
            assert second.text == "got b\nStill running."
            assert second.details["aggregated"] == "got a\ngot b\n"
            await scene.call("process", action="write", sessionId=session, eof=True)
            await scene.until("command_status", over, sessionId=session, waitMs=1000)
            late = await scene.call("process", action="write", sessionId=session, data="c\n")
            assert late.failed

    asyncio.run(main())


def test_a_command_whose_input_is_not_read(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            session = await started(scene, "sleep 1000")
            full = 64 * 1024
            wrote = [
                await scene.call("process", action="write", sessionId=session, data="x" * full)
                for _ in range(4)
            ]
            assert wrote[-1].failed
            waited = await scene.call("exec", command="sleep 1000", yieldMs=10)
            unread = await scene.call(
                "process", action="write", sessionId=waited.details["sessionId"], data="x"
            )
            assert unread.failed

    asyncio.run(main())


def test_lines_of_a_log(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            session = await started(scene, "seq 1000")
            await scene.until("command_status", over, sessionId=session)
            last = await scene.call("process", action="log", sessionId=session, limit=2)
            assert last.details["aggregated"] == "999\n1000"
            page = await scene.call("process", action="log", sessionId=session, offset=10, limit=3)
            assert page.details["aggregated"] == "10\n11\n12"
            assert page.text == "10\n11\n12\n[Lines 10 to 12 of 1000. Exit code 0.]"
            none = await scene.call("process", action="log", sessionId=session, offset=2000)
            assert none.text == "[1000 lines in all.]"

    asyncio.run(main())


@pytest.mark.parametrize("stubborn", ["", "trap '' TERM; "])
def test_kill_takes_grandchildren_along(tmp_path: Path, stubborn: str) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            session = await started(
                scene,
                f"{stubborn}sh -c 'sleep 1000 & echo $! > deep; wait' & "
                "setsid sleep 1000 & echo $! > away; while :; do sleep 1000; done",
            )
            pids = [int(await file_text(tmp_path / name)) for name in ("deep", "away")]
            killed = await scene.call("process", action="kill", sessionId=session)
            assert killed.details["status"] == "failed"
            for pid in pids:
                assert await gone(pid)
            assert (await scene.call("process", action="kill", sessionId=session)).details == killed.details

    asyncio.run(main())


def test_the_time_that_the_model_gives_holds_in_the_background(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            for more in ({"background": True}, {"yieldMs": 10}):
                begun = await scene.call("exec", command="sleep 1000", timeout=0.5, **more)
                session = begun.details["sessionId"]
                ended = await scene.until("command_status", over, sessionId=session, waitMs=1000)
                assert ended.details["timedOut"] is True

    asyncio.run(main())


def test_nothing_survives_the_end(tmp_path: Path) -> None:
    async def main() -> list[int]:
        async with Scene(tmp_path) as scene:
            await started(scene, "sleep 1000 & echo $! > a; wait")
            await started(scene, "setsid sh -c 'sleep 1000 & echo $! > b; wait' & sleep 1000")
            await started(scene, "trap '' TERM HUP; (trap '' TERM HUP; sleep 1000 & echo $! > c; wait)")
            await started(scene, "(setsid sh -c 'echo $$ > d; exec sleep 1000' &) ; exit 0")
            waiting = asyncio.create_task(
                scene.call("exec", command="echo $$ > e; sleep 1000", yieldMs=600_000)
            )
            pids = [int(await file_text(tmp_path / name)) for name in "abcde"]
            assert all(alive(pid) for pid in pids)
            await scene.processes.close()
            assert (await waiting).details["exitSignal"] == "SIGKILL"
            assert (await scene.call("exec", command="echo late")).failed
            await scene.processes.close()
            return [pid for pid in pids if not await gone(pid)]

    assert asyncio.run(main()) == []


def test_sessions_are_bounded_and_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST_RUNNING", 2)
    monkeypatch.setattr(processes, "MOST_FINISHED", 3)

    async def main() -> None:
        async with Scene(tmp_path) as scene:
            first = await started(scene, "sleep 1000")
            await started(scene, "sleep 1000")
            assert (await scene.call("exec", command="sleep 1000", background=True)).failed
            ended = await scene.call("exec", command="sleep 1000", yieldMs=1, timeout=0.2)
            assert ended.details["timedOut"] is True, "without room it is waited for"
            await scene.call("process", action="kill", sessionId=first)
            for _ in range(4):
                session = await started(scene, "true")
                await scene.until("command_status", over, sessionId=session)
            listed = (await scene.call("process", action="list")).details["sessions"]
            assert len(listed) == 1 + 3
            unknown = await scene.call("process", action="poll", sessionId=first)
            assert unknown.failed
            monkeypatch.setattr(processes, "KEPT_SECONDS", -1)
            assert len((await scene.call("process", action="list")).details["sessions"]) == 1

    asyncio.run(main())


def test_output_without_end_is_bounded(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            session = await started(scene, "yes")
            await scene.until(
                "command_status", lambda said: said.details["totalChars"] > 2_000_000, sessionId=session
            )
            command = scene.processes.find(session)
            assert command is not None
            assert command.output.truncated
            assert len(command.output.text()) < 300_000
            assert (await scene.call("process", action="kill", sessionId=session)).text.startswith("Ended.")

    asyncio.run(main())


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            for action in ("poll", "log", "write", "kill"):
                assert (await scene.call("process", action=action)).failed
                assert (await scene.call("process", action=action, sessionId="exec-9")).failed
            assert (await scene.call("command_status", sessionId="exec-9")).failed
            assert (await scene.call("process", action="list")).text == "No background sessions."

    asyncio.run(main())
