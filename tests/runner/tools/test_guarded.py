"""What the guard makes of the tools' results: equal is what says the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra runner")

from loopwarden import LoopGuard
from tests.runner.tools.benches import Result, Scene, file_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from loopwarden import Verdict

WARNING, CRITICAL = 10, 20
"""The defaults of the guard."""


class Guarded:
    """A scene whose calls go through the guard, as the engine's do."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.guard = LoopGuard({"enabled": True}, on_error="raise")
        self._calls = 0

    async def call(self, tool: str, **arguments: Any) -> tuple[Verdict, Result | None]:
        self._calls += 1
        call_id = f"c{self._calls}"
        verdict = self.guard.before(tool, arguments, call_id=call_id, run_id="r1")
        if verdict.action in {"block", "abort"}:
            return verdict, None
        result = await self.scene.call(tool, **arguments)
        self.guard.after(call_id, result=result.shaped, run_id="r1")
        return verdict, result

    async def again(self, times: int, tool: str, **arguments: Any) -> list[Verdict]:
        return [(await self.call(tool, **arguments))[0] for _ in range(times)]


def in_scene(folder: Path, script: Callable[[Guarded], Any], agent: dict[str, Any] | None = None) -> None:
    async def main() -> None:
        async with Scene(folder, agent or {}) as scene:
            await script(Guarded(scene))

    asyncio.run(main())


def said(verdict: Verdict) -> tuple[str, str | None]:
    return verdict.action, verdict.detector


def test_a_command_that_fails_the_same_way_is_stopped(tmp_path: Path) -> None:
    async def script(guarded: Guarded) -> None:
        first = await guarded.call("exec", command="echo no such target; exit 2")
        second = await guarded.call("exec", command="echo no such target; exit 2")
        assert first[1] is not None
        assert second[1] is not None
        assert first[1].details["pid"] != second[1].details["pid"]
        verdicts = await guarded.again(CRITICAL - 1, "exec", command="echo no such target; exit 2")
        assert said(verdicts[WARNING - 2]) == ("warn", "generic_repeat")
        assert said(verdicts[-1]) == ("block", "generic_repeat")

    in_scene(tmp_path, script)


def test_a_command_whose_output_changes_is_never_stopped(tmp_path: Path) -> None:
    async def script(guarded: Guarded) -> None:
        command = "echo x >> count; seq 20000; wc -l < count; seq 20000"
        verdicts = await guarded.again(CRITICAL + 5, "exec", command=command)
        assert {verdict.action for verdict in verdicts} == {"allow", "warn"}

    in_scene(tmp_path, script)


def test_polls_of_a_silent_process_are_no_progress(tmp_path: Path) -> None:
    async def script(guarded: Guarded) -> None:
        _, begun = await guarded.call("exec", command="echo begun; sleep 1000", background=True)
        assert begun is not None
        session = begun.details["sessionId"]
        await guarded.scene.until(
            "process", lambda said: said.details["totalChars"] > 0, action="poll", sessionId=session
        )
        for tool, more in (
            ("process", {"action": "poll"}),
            ("process", {"action": "log"}),
            ("command_status", {}),
        ):
            verdicts = await guarded.again(CRITICAL + 1, tool, sessionId=session, **more)
            assert said(verdicts[WARNING]) == ("warn", "known_poll_no_progress")
            assert said(verdicts[-1]) == ("block", "known_poll_no_progress")

    in_scene(tmp_path, script)


@pytest.mark.parametrize("more", [{"action": "poll"}, {"action": "log"}])
@pytest.mark.parametrize("padding", [0, 400_000])
def test_polls_of_output_that_grows_are_never_blocked(
    tmp_path: Path, more: dict[str, str], padding: int
) -> None:
    async def script(guarded: Guarded) -> None:
        command = f"yes tick | head -c {padding}; echo x; while read line; do echo tick; done"
        _, begun = await guarded.call("exec", command=command, background=True)
        assert begun is not None
        session = begun.details["sessionId"]
        process = guarded.scene.processes.find(session)
        assert process is not None
        await guarded.scene.until(
            "process",
            lambda said: said.details["totalChars"] == padding + 2,
            action="poll",
            sessionId=session,
        )
        for number in range(CRITICAL + 15):
            await guarded.scene.call("process", action="write", sessionId=session, data="\n")
            while process.output.size < padding + 2 + 5 * (number + 1):
                await process.reader.more(1)
            verdict, _ = await guarded.call("process", sessionId=session, **more)
            assert verdict.action in {"allow", "warn"}, number

    in_scene(tmp_path, script)


def test_the_same_message_again_is_the_same(tmp_path: Path) -> None:
    async def script(guarded: Guarded) -> None:
        for channel in ("log", "terminal"):
            verdicts = await guarded.again(
                CRITICAL + 1, "message", action="send", channel=channel, message="done"
            )
            assert said(verdicts[-1]) == ("block", "generic_repeat"), channel
        lines = (await file_text(tmp_path / "log")).splitlines()
        assert len(set(lines)) == CRITICAL, "message ids and times differ"
        verdicts = await guarded.again(CRITICAL + 1, "message", action="send", channel="none", message="done")
        assert said(verdicts[-1]) == ("block", "generic_repeat")

    in_scene(tmp_path, script, {"tools": {"channels": {"log": {"type": "file", "path": "log"}}}})


def test_reading_the_same_file_is_stopped_and_a_changed_one_is_not(tmp_path: Path) -> None:
    async def script(guarded: Guarded) -> None:
        (tmp_path / "file").write_text("same", encoding="utf-8")
        verdicts = await guarded.again(CRITICAL + 1, "read", path="file")
        assert said(verdicts[-1]) == ("block", "generic_repeat")
        for number in range(CRITICAL + 5):
            (tmp_path / "new").write_text(str(number), encoding="utf-8")
            verdict, _ = await guarded.call("read", path="new")
            assert verdict.action in {"allow", "warn"}

    in_scene(tmp_path, script)


def test_approvals_that_nobody_gives_are_the_same(tmp_path: Path) -> None:
    async def script(guarded: Guarded) -> None:
        _, first = await guarded.call("exec", command="touch made")
        assert first is not None
        assert first.details["status"] == "approval-unavailable"
        assert not first.failed
        verdicts = await guarded.again(CRITICAL, "exec", command="touch made")
        assert said(verdicts[-1]) == ("block", "generic_repeat")

    in_scene(tmp_path, script, {"tools": {"exec": {"policy": "ask"}}})
    assert not (tmp_path / "made").exists()


def test_edits_that_find_nothing_are_a_repeated_failure(tmp_path: Path) -> None:
    async def script(guarded: Guarded) -> None:
        (tmp_path / "file").write_text("text", encoding="utf-8")
        verdicts = [
            (await guarded.call("edit", path="file", oldText=f"x{number}", newText="y"))[0]
            for number in range(CRITICAL + 1)
        ]
        assert said(verdicts[-1]) == ("block", "repeated_failure")

    in_scene(tmp_path, script)
