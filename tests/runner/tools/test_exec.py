"""Commands that are waited for."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra runner")

from tests.runner.tools.benches import Scene, alive, file_text, gone

if TYPE_CHECKING:
    from pathlib import Path


def test_a_command_says_how_it_ended_and_what_it_wrote(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            good = await scene.call("exec", command="echo out; echo err >&2; pwd")
            assert good.text == f"out\nerr\n{tmp_path}\nExit code 0."
            assert good.details["status"] == "completed"
            assert good.details["exitCode"] == 0
            bad = await scene.call("exec", command="echo no; exit 3")
            assert (bad.details["status"], bad.details["exitCode"]) == ("failed", 3)
            assert bad.details["aggregated"] == "no\n"
            assert not bad.failed, "the exit code says it"
            killed = await scene.call("exec", command="kill -9 $$")
            assert (killed.details["exitCode"], killed.details["exitSignal"]) == (None, "SIGKILL")
            assert (await scene.call("exec", command="true")).text == "(no output)\nExit code 0."

    asyncio.run(main())


def test_standard_input_is_empty(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            assert (await scene.call("exec", command="cat; echo end")).details["aggregated"] == "end\n"

    asyncio.run(main())


def test_the_folder_is_in_the_workspace(tmp_path: Path) -> None:
    inside, outside = tmp_path / "work", tmp_path / "other"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()
    (inside / "link").symlink_to(outside)

    async def main() -> None:
        async with Scene(inside) as scene:
            ran = await scene.call("exec", command="pwd", workdir="sub")
            assert ran.details["aggregated"] == f"{inside / 'sub'}\n"
            for folder in ("..", "link", "/", "none", "sub/../..", str(outside)):
                assert (await scene.call("exec", command="touch hit", workdir=folder)).failed, folder

    asyncio.run(main())
    assert not list(tmp_path.rglob("hit"))


def test_secrets_stay_out_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1234")
    monkeypatch.setenv("LD_PRELOAD_X", "x")
    monkeypatch.setenv("WANTED", "yes")
    monkeypatch.setenv("LC_TIME", "C")

    async def main() -> None:
        agent = {"tools": {"exec": {"environment": ["WANTED"]}}}
        async with Scene(tmp_path, agent) as scene:
            names = (await scene.call("exec", command="env")).details["aggregated"]
            assert "sk-1234" not in names
            assert "LD_PRELOAD_X" not in names
            assert "WANTED=yes" in names
            assert "LC_TIME=C" in names
            assert f"PATH={os.environ['PATH']}" in names

    asyncio.run(main())


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            command = (
                "sleep 1000 & echo $! > a; setsid sleep 1000 & echo $! > b; "
                "trap '' TERM; echo on; while :; do sleep 1000; done"
            )
            for seconds in (0.5, 5, 50):  # more, if the machine is too slow for what is to be seen
                ended = await scene.call("exec", command=command, timeout=seconds)
                if ended.details["aggregated"]:
                    break
            assert ended.details["timedOut"] is True
            assert ended.details["status"] == "failed"
            assert ended.details["aggregated"] == "on\n"
            assert f"ended after {seconds:g} seconds" in ended.text
            for name in "ab":
                assert await gone(int(await file_text(tmp_path / name)))
            assert not list(scene.processes.sessions())

    asyncio.run(main())


def test_the_configured_time_holds_where_the_model_gives_none(tmp_path: Path) -> None:
    async def main() -> None:
        agent = {"tools": {"exec": {"timeoutSeconds": 1}}}
        async with Scene(tmp_path, agent) as scene:
            assert (await scene.call("exec", command="sleep 1000")).details["timedOut"] is True

    asyncio.run(main())


def test_a_command_that_was_cancelled_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            command = "sleep 1000 & echo $! > child; echo $$ > shell; wait"
            call = asyncio.create_task(scene.call("exec", command=command, yieldMs=600_000))
            pids = [int(await file_text(tmp_path / name)) for name in ("child", "shell")]
            assert all(alive(pid) for pid in pids)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            for pid in pids:
                assert await gone(pid)

    asyncio.run(main())


def test_what_a_command_leaves_behind_is_ended_with_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            ended = await scene.call("exec", command="sleep 1000 > /dev/null 2>&1 & echo $! > pid")
            assert ended.details["exitCode"] == 0
            assert await gone(int(await file_text(tmp_path / "pid")))
            assert "left behind" in ended.text

    asyncio.run(main())


def test_large_output_keeps_its_ends(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            first = await scene.call("exec", command="seq 200000")
            assert first.text.startswith("1\n2\n3\n")
            assert first.text.endswith("199999\n200000\nExit code 0.")
            assert first.details["truncated"] is True
            assert "bytes left out" in first.text
            assert len(first.text) < 32_000
            same = await scene.call("exec", command="seq 200000")
            assert same.details["aggregated"] == first.details["aggregated"]
            other = await scene.call("exec", command="seq 200000 | sed 's/^100000$/200001/'")
            assert other.details["aggregated"] != first.details["aggregated"], "a change in the middle is one"

    asyncio.run(main())


def test_output_that_is_no_text(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            zero = await scene.call("exec", command="printf 'a\\0b'")
            one = await scene.call("exec", command="printf 'a\\0c'")
            assert zero.details["aggregated"].startswith("[binary output: 3 bytes")
            assert zero.details["aggregated"] != one.details["aggregated"]
            odd = await scene.call("exec", command="printf '\\xe9 \\033[31mred\\033[0m \\a'")
            assert odd.details["aggregated"] == "\\xe9 red \\x07"
            await scene.call("write", path="umlaut", content="ä" * 50_000)
            assert "\\x" not in (await scene.call("exec", command="cat umlaut")).text

    asyncio.run(main())


def test_commands_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            calls = [scene.call("exec", command=f"echo {number}; exit {number}") for number in range(20)]
            for number, ended in enumerate(await asyncio.gather(*calls)):
                assert ended.details["aggregated"] == f"{number}\n"
                assert ended.details["exitCode"] == number

    asyncio.run(main())


@pytest.mark.parametrize("command", ["echo a\0b", "-i", "x" * 5000])
def test_odd_commands_are_results(tmp_path: Path, command: str) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            ended = await scene.call("exec", command=command)
            assert ended.failed or ended.details["exitCode"] != 0

    asyncio.run(main())


def test_who_has_no_tool_for_sessions_gets_none(tmp_path: Path) -> None:
    async def main() -> None:
        agent = {"tools": {"deny": ["process"], "exec": {"timeoutSeconds": 1}}}
        async with Scene(tmp_path, agent) as scene:
            assert set(scene.tools) == {"exec", "command_status", "read", "write", "edit", "message"}
            assert (await scene.call("exec", command="sleep 9", background=True)).failed
            assert (await scene.call("exec", command="sleep 9", yieldMs=1)).details["timedOut"] is True

    asyncio.run(main())
