"""The tools in an agent of Pydantic AI, with the guard around them: who decides first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra runner")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from loopwarden import LoopAborted
from loopwarden.adapters.pydantic_ai import GuardCapability
from loopwarden.runner.tools import exec as exec_module
from tests.adapters.writing_guard import CONFIG, WritingGuard
from tests.runner.tools.benches import Scene, file_text, gone

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pydantic_ai.messages import ModelMessage

    from loopwarden import LoopGuard

Calls = list[tuple[str, dict[str, Any]]]


async def played(scene: Scene, turns: Iterable[Calls], guard: LoopGuard) -> list[ToolReturnPart]:
    """Run a model that makes these calls, turn by turn; the results, in order."""
    results: list[ToolReturnPart] = []
    left = iter(enumerate(turns))

    def model(messages: list[ModelMessage], _: object) -> ModelResponse:
        results.extend(part for part in messages[-1].parts if isinstance(part, ToolReturnPart))
        number, calls = next(left, (0, []))
        parts = [
            ToolCallPart(tool, arguments, tool_call_id=f"c{number}.{index}")
            for index, (tool, arguments) in enumerate(calls)
        ]
        return ModelResponse(parts=parts or [TextPart("done")])

    tools = list(scene.tools.values())
    agent = Agent(FunctionModel(model), tools=tools, capabilities=[GuardCapability(guard)])
    await agent.run("go")
    return results


def test_the_policy_denies_before_the_guard_is_asked(tmp_path: Path) -> None:
    async def main() -> None:
        guard = WritingGuard(CONFIG)
        asked_before: list[int] = []
        async with Scene(tmp_path, {"tools": {"exec": {"deny": ["touch*"]}}}) as scene:
            policy: Any = scene.tools["exec"].args_validator

            def noted(*given: Any, **arguments: Any) -> None:
                asked_before.append(len(guard.told))
                policy(*given, **arguments)

            scene.tools["exec"].args_validator = noted
            turns: list[Calls] = [
                [("exec", {"command": "true && touch made"})],
                [("exec", {"command": "echo fine"})],
            ]
            denied, fine = await played(scene, turns, guard)
        assert denied.outcome == "failed"
        assert "the exec policy denies it (deny pattern 'touch*'" in denied.model_response_str()
        assert fine.model_response_str() == "fine\nExit code 0."
        assert asked_before == [0, 2], "nothing was told of a call before the policy had decided about it"
        assert [(told.verb, told.error is not None) for told in guard.told] == [
            ("before", False), ("after", True), ("before", False), ("after", False),
        ]  # fmt: skip

    asyncio.run(main())
    assert not (tmp_path / "made").exists()


def test_who_goes_on_with_a_denied_command_is_stopped(tmp_path: Path) -> None:
    async def main() -> None:
        guard = WritingGuard(CONFIG)
        async with Scene(tmp_path, {"tools": {"exec": {"policy": "deny"}}}) as scene:
            turns: Iterable[Calls] = ([("exec", {"command": "touch made"})] for _ in range(100))
            with pytest.raises(LoopAborted):
                await played(scene, turns, guard)

    asyncio.run(main())
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(("answer", "status"), [(True, None), (False, "approval-denied")])
def test_a_person_decides_about_a_command(tmp_path: Path, answer: bool, status: str | None) -> None:
    questions: list[str] = []

    async def ask(question: str) -> bool:
        questions.append(question)
        return answer

    async def main() -> None:
        agent = {"tools": {"exec": {"ask": ["touch *"]}}}
        async with Scene(tmp_path, agent, {"ask": ask}) as scene:
            [result] = await played(scene, [[("exec", {"command": "touch made"})]], WritingGuard(CONFIG))
        assert questions == [f"Agent tester wants to run in {tmp_path}: touch made"]
        details = result.metadata["details"]
        if status is None:
            assert details["exitCode"] == 0
        else:
            assert details["status"] == status
            assert {name: details[name] for name in ("host", "command", "reason")} == {
                "host": "runner",
                "command": "touch made",
                "reason": "ask pattern 'touch *' matches 'touch made'",
            }

    asyncio.run(main())
    assert (tmp_path / "made").exists() is answer


def test_a_person_who_does_not_answer_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_module, "ASK_SECONDS", 0.05)

    async def ask(_: str) -> bool:
        await asyncio.Event().wait()
        return True

    async def main() -> None:
        async with Scene(tmp_path, {"tools": {"exec": {"policy": "ask"}}}, {"ask": ask}) as scene:
            [result] = await played(scene, [[("exec", {"command": "touch made"})]], WritingGuard(CONFIG))
        assert result.metadata["details"]["status"] == "approval-pending"

    asyncio.run(main())
    assert not (tmp_path / "made").exists()


def test_a_person_is_not_asked_about_what_the_guard_refuses(tmp_path: Path) -> None:
    questions: list[str] = []

    async def ask(question: str) -> bool:
        questions.append(question)
        return False

    async def main() -> None:
        guard = WritingGuard(CONFIG)
        async with Scene(tmp_path, {"tools": {"exec": {"policy": "ask"}}}, {"ask": ask}) as scene:
            turns: Iterable[Calls] = ([("exec", {"command": "touch made"})] for _ in range(100))
            with pytest.raises(LoopAborted):
                await played(scene, turns, guard)
        ran = [
            told for told in guard.told if told.verb == "before" and told.verdict.action in {"allow", "warn"}
        ]
        assert len(questions) == len(ran) < len([told for told in guard.told if told.verb == "before"])

    asyncio.run(main())


def test_questions_come_one_at_a_time(tmp_path: Path) -> None:
    open_questions = most = 0

    async def ask(_: str) -> bool:
        nonlocal open_questions, most
        open_questions += 1
        most = max(most, open_questions)
        await asyncio.sleep(0)
        open_questions -= 1
        return True

    async def main() -> None:
        async with Scene(tmp_path, {"tools": {"exec": {"policy": "ask"}}}, {"ask": ask}) as scene:
            calls: Calls = [("exec", {"command": f"echo {number}"}) for number in range(5)]
            results = await played(scene, [calls], WritingGuard(CONFIG))
        assert [result.metadata["details"]["aggregated"] for result in results] == [
            f"{number}\n" for number in range(5)
        ]

    asyncio.run(main())
    assert most == 1


def test_a_cancelled_run_leaves_no_process(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            calls: Calls = [
                ("exec", {"command": f"echo $$ > {name}; sleep 1000 & wait", "yieldMs": 600_000})
                for name in "ab"
            ]
            run = asyncio.create_task(played(scene, [calls], WritingGuard(CONFIG)))
            pids = [int(await file_text(tmp_path / name)) for name in "ab"]
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            for pid in pids:
                assert await gone(pid)

    asyncio.run(main())


def test_wrong_arguments_are_told_and_end_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        wrong: list[dict[str, Any]] = [
            {},
            {"command": 5},
            {"command": ""},
            {"command": "ls", "elevated": True},
        ]
        turns: list[Calls] = [[("exec", arguments)] for arguments in wrong]
        async with Scene(tmp_path) as scene:
            results = await played(scene, [*turns, [("exec", {"command": "echo fine"})]], WritingGuard({}))
        assert [result.outcome for result in results] == ["retried"] * 4 + ["success"]

    asyncio.run(main())
