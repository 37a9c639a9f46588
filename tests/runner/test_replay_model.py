"""`replay:TRANSCRIPT`: a recorded agent is played, with its recorded results, under the guard."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from pydantic_ai import Agent, ToolReturnPart
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.usage import UsageLimits

from loopwarden import LoopAborted, LoopGuard
from loopwarden.adapters.pydantic_ai import GuardCapability
from loopwarden.errors import TranscriptError
from loopwarden.runner.recording import read_recording
from loopwarden.runner.replay_model import ReplayModel, replay_model
from tests.scan.recordings import lines, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pydantic_ai.agent import AgentRunResult

    from loopwarden import Verdict
    from loopwarden.events import Event


def play(model: ReplayModel, guard: LoopGuard) -> AgentRunResult[str]:
    agent = Agent(model, tools=model.tools, capabilities=[GuardCapability(guard)])
    return asyncio.run(agent.run("go", usage_limits=UsageLimits(request_limit=None)))


def results(run: AgentRunResult[str]) -> list[ToolReturnPart]:
    return [
        part for message in run.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)
    ]


def written(path: Path, *events: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


def call(number: int, tool: str = "look", turn: str | None = None, **arguments: Any) -> dict[str, Any]:
    return {"type": "call", "id": f"c{number}", "tool": tool, "args": arguments, "turn": turn}


def outcome(number: int, result: object = "done", **more: Any) -> dict[str, Any]:
    ended = {"type": "outcome", "id": f"c{number}", "result": result, **more}
    return ended if "error" not in more else {key: value for key, value in ended.items() if key != "result"}


def test_results_come_from_the_recording(tmp_path: Path) -> None:
    ended = play(replay_model(f"replay:{write(tmp_path / 'a.jsonl', 'abC')}"), LoopGuard())
    assert [part.content for part in results(ended)] == ["result of a", "result of b", "result of C2"]
    assert ended.output == "This is the end of the recording: 3 calls in 3 turns."


def test_a_recorded_loop_is_warned_of_and_refused_and_goes_on_as_recorded(tmp_path: Path) -> None:
    heard: list[Verdict] = []
    guard = LoopGuard({"enabled": True}, on_verdict=[lambda verdict, _: heard.append(verdict)])
    ended = play(replay_model(str(write(tmp_path / "a.jsonl", "a" * 22 + "b"))), guard)
    assert [part.outcome for part in results(ended)] == ["success"] * 20 + ["failed"] * 2 + ["success"]
    assert (heard[0].action, heard[-1].action) == ("warn", "block")


def test_a_recorded_loop_that_goes_on_is_ended(tmp_path: Path) -> None:
    with pytest.raises(LoopAborted) as caught:
        play(replay_model(str(write(tmp_path / "a.jsonl", "a" * 60))), LoopGuard({"enabled": True}))
    assert caught.value.verdict.error == "tool_loop_persisted"


@pytest.mark.parametrize("strip", ["a" * 60, "ab" * 40, "A" * 60, "abcd"])
def test_the_guard_hears_what_a_scan_of_the_recording_hears(tmp_path: Path, strip: str) -> None:
    """Until a call is refused: the recorded agent was told nothing of that."""
    path = write(tmp_path / "a.jsonl", strip)
    observed: list[tuple[str, int]] = []

    def note(into: list[tuple[str, int]]) -> Callable[[Verdict, Event], None]:
        return lambda verdict, _: into.append((verdict.detector or "", verdict.count))

    wanted: list[tuple[str, int]] = []
    scanned = LoopGuard({"enabled": True}, mode="observe", on_verdict=[note(wanted)])
    recording = read_recording(path)
    for place, turn in enumerate(recording.turns):
        for asked in turn.calls:
            scanned.before(asked.tool, asked.arguments, call_id=asked.id, run_id="r", turn_id=f"t{place}")
            scanned.after(asked.id, result=recording.outcomes[asked.id].result, run_id="r")
    play(ReplayModel(recording), LoopGuard({"enabled": True}, mode="observe", on_verdict=[note(observed)]))
    assert observed == wanted
    assert bool(wanted) == (strip != "abcd")


def test_nothing_is_executed(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    path = written(
        tmp_path / "a.jsonl", call(1, "exec", command=f"touch {touched}"), outcome(1, "recorded output")
    )
    ended = play(replay_model(path), LoopGuard())
    assert [part.content for part in results(ended)] == ["recorded output"]
    assert not touched.exists()


def test_calls_of_one_turn_are_asked_for_at_once(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        call(1, turn="t1", q=1),
        call(2, turn="t1", q=2),
        outcome(2, "two"),
        outcome(1, "one"),
        call(3, turn="t2", q=3),
        outcome(3, "three"),
    )
    recording = read_recording(path)
    assert [[asked.id for asked in turn.calls] for turn in recording.turns] == [["c1", "c2"], ["c3"]]
    ended = play(ReplayModel(recording), LoopGuard())
    assert {part.tool_call_id: part.content for part in results(ended)} == {
        "c1": "one", "c2": "two", "c3": "three",
    }  # fmt: skip


def test_failures_and_missing_results_are_such(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        call(1, ctx="a", self="b"),
        outcome(1, error="disk is full"),
        call(2),
        call(3),
        outcome(3, {"content": [{"type": "text", "text": "shaped"}], "details": {"exitCode": 1}}),
    )
    ended = play(replay_model(path), LoopGuard())
    assert [(part.outcome, part.content) for part in results(ended)] == [
        ("failed", "disk is full"),
        ("failed", "the recording has no result of this call"),
        ("success", "shaped"),
    ]


def test_a_tool_that_did_not_exist_does_not_exist(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        call(1, "made_up"),
        outcome(1, error="no", unknown_tool="made_up"),
        call(2, "look"),
        outcome(2),
    )
    model = replay_model(path)
    assert [tool.name for tool in model.tools] == ["look"]
    said = results(play(model, LoopGuard()))[0]
    assert "Unknown tool name: 'made_up'" in said.model_response_str()


def test_calls_that_were_taken_back_are_not_played(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        call(1, q=1),
        {"type": "retract", "ids": ["c1"]},
        call(1, q=2),
        outcome(1),
    )
    recording = read_recording(path)
    assert [[asked.arguments for asked in turn.calls] for turn in recording.turns] == [[{"q": 2}]]


def test_a_recorded_compaction_is_a_full_context_once(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        {"type": "compaction"},
        call(1),
        outcome(1),
        {"type": "compaction"},
        call(2),
        outcome(2),
    )
    model = replay_model(path)
    agent = Agent(model, tools=model.tools)

    async def tell() -> tuple[str, str]:
        with pytest.raises(ModelHTTPError) as caught:
            await agent.run("go")
        assert caught.value.status_code == 400
        assert isinstance(caught.value.body, dict)
        assert caught.value.body["error"]["code"] == "context_length_exceeded"
        summary = await Agent(model).run("summarise")
        return summary.output, (await agent.run("go on")).output

    summary, last = asyncio.run(tell())
    assert summary == "Summary: 1 turns of the recording were played."
    assert last.startswith("This is the end of the recording: 2 calls")


def test_a_person_in_the_recording_is_told_of(tmp_path: Path) -> None:
    user = {"type": "user"}
    path = written(tmp_path / "a.jsonl", user, call(1), outcome(1), user, call(2), outcome(2), user)
    model, told = replay_model(path), []
    model.person = lambda: told.append("person")
    play(model, LoopGuard())
    assert told == ["person"]


def test_the_first_main_agent_with_a_call_is_played(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines("ab", stream="one") + lines("c", stream="two", begin=7))
    assert len(read_recording(path).turns) == 2


def test_what_can_not_be_played_says_so(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match="no call of a tool"):
        replay_model(written(tmp_path / "a.jsonl", {"type": "user"}))
    with pytest.raises(TranscriptError, match=r"b\.jsonl"):
        replay_model(f"replay:{tmp_path / 'b.jsonl'}")


def test_a_long_recording_is_cut_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwarden.runner.recording.MOST_CALLS", 2)
    ended = play(replay_model(str(write(tmp_path / "a.jsonl", "abc"))), LoopGuard())
    assert ended.output == "This is the end of the recording: 2 calls in 2 turns; the rest was left out."
