"""smolagents: where runs begin and end, whose calls count, agents under agents, results."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

pytest.importorskip("smolagents", reason="needs smolagents; see scripts/check-hosts")

import PIL.Image
from smolagents import ActionStep, AgentImage
from smolagents.agents import ToolOutput
from smolagents.memory import TaskStep
from smolagents.monitoring import Timing
from smolagents.utils import AgentError

from loopwarden import LoopAborted
from loopwarden.adapters.smolagents import guard_agent
from tests.adapters.contract import Ask, Tools, asking
from tests.adapters.smolagents_scripts import (
    ABORTING,
    LADDER,
    Asking,
    Coding,
    Query,
    actions,
    asking_agent,
    coding_agent,
)
from tests.adapters.writing_guard import WritingGuard


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


@pytest.fixture
def tools() -> Tools:
    return Tools()


# --- the end of a run


def test_a_run_leaves_nothing_behind(guard: WritingGuard, tools: Tools) -> None:
    asking_agent(Asking(asking(3)), tools(), guard).run("go")
    assert guard.told
    assert len(guard._runs) == 0


def test_a_run_that_fails_leaves_nothing_behind(guard: WritingGuard, tools: Tools) -> None:
    class Breaking(Asking):
        def generate(self, *args: Any, **options: Any) -> Any:
            if self.ran.requests == 3:
                raise ConnectionError("gone")
            return super().generate(*args, **options)

    with pytest.raises(AgentError, match="gone"):
        asking_agent(Breaking(asking(9)), tools(), guard).run("go")
    assert len(guard.of("after")) == 3
    assert len(guard._runs) == 0


def test_a_stream_that_is_closed_leaves_nothing_behind(guard: WritingGuard, tools: Tools) -> None:
    stream = asking_agent(Asking(asking(9)), tools(), guard).run("go", stream=True)
    for event in stream:
        if isinstance(event, ActionStep):
            break
    stream.close()
    assert guard.told
    assert len(guard._runs) == 0


def test_a_stream_that_is_not_read_runs_nothing(guard: WritingGuard, tools: Tools) -> None:
    asking_agent(Asking(asking(9)), tools(), guard).run("go", stream=True)
    assert guard.told == []


@pytest.mark.parametrize("threads", [1, 4])
def test_an_abort_in_a_batch_keeps_the_step_and_the_next_run_is_new(tools: Tools, threads: int) -> None:
    guard = WritingGuard(ABORTING)
    batch = [Ask(tool="look", call_id="d1"), Ask(tool="fails", call_id="d2", query="b")]
    model = Asking([*asking(5), batch])
    agent = asking_agent(model, tools(), guard, max_tool_threads=threads)
    with pytest.raises(LoopAborted) as aborted:
        agent.run("go")
    assert str(aborted.value) == aborted.value.verdict.message
    assert model.ran.requests == 6
    assert [step.step_number for step in agent.memory.steps[1:]] == [1, 2, 3, 4, 5, 6]
    model.replies = []
    assert agent.run("and now?") == "done"


def test_a_run_that_was_interrupted_goes_on_as_a_new_one(guard: WritingGuard, tools: Tools) -> None:
    def interrupt(step: ActionStep, agent: Any) -> None:
        if step.step_number == 2:
            agent.interrupt()

    model = Asking(asking(4))
    agent = asking_agent(model, tools(), guard, step_callbacks=[interrupt])
    with pytest.raises(AgentError, match="interrupted"):
        agent.run("go")
    agent.step_callbacks._callbacks[ActionStep].remove(interrupt)
    assert agent.run("go on", reset=False) == "done"
    assert len(guard.of("before")) == len(guard.of("after")) == len(tools.ran) == 4
    assert len({told.run_id for told in guard.told}) == 2


def test_steps_that_are_taken_by_hand_are_guarded(guard: WritingGuard, tools: Tools) -> None:
    """As the host's documentation does it."""
    model = Asking(asking(6))
    agent = asking_agent(model, tools(), guard)
    agent.memory.steps.append(TaskStep(task="go"))
    for number in range(1, 8):
        step = ActionStep(step_number=number, timing=Timing(0.0))
        agent.step(step)
        agent.memory.steps.append(step)
    assert actions(guard) == LADDER
    assert model.ran.answers["c6"] == [guard.of("before")[5].verdict.message]


# --- whose calls


def test_calls_by_code_are_not_the_models(guard: WritingGuard, tools: Tools) -> None:
    agent = asking_agent(Asking([]), tools(), guard)
    assert agent.execute_tool_call("look", {"query": "a"}) == "nothing about a"
    coder = coding_agent(Coding([]), tools(), guard)
    coder.python_executor.send_tools(coder.tools)
    assert coder.python_executor('look("a")').output == "nothing about a"
    assert guard.told == []


@pytest.mark.parametrize("outer", ["asks", "codes"])
def test_a_managed_agent_is_a_run_of_its_own(tools: Tools, outer: str) -> None:
    guard = WritingGuard(ABORTING)
    inner = asking_agent(Asking(asking(9)), tools(), guard, name="inner", description="Looks.")
    if outer == "codes":
        model: Any = Coding(['print(inner("look"))'])
        agent = coding_agent(model, {}, guard, managed_agents=[inner])
    else:
        model = Delegating([])
        agent = asking_agent(model, {}, guard, managed_agents=[inner])
    assert agent.run("go") == "done"
    runs = {told.run_id: told.tool for told in guard.of("before") if told.tool in {"inner", "look"}}
    assert sorted(runs.values()) == ["inner", "look"]
    ended = guard.of("before")[-2 if outer == "codes" else -1].verdict
    assert ended.action == "abort"
    (failed,) = (told.error for told in guard.of("after") if isinstance(told.error, LoopAborted))
    assert failed.verdict == ended


class Delegating(Asking):
    """It asks another agent, once."""

    def _next(self, messages: Any) -> list[tuple[str, dict[str, Any], str]]:
        index, self.ran.requests = self.ran.requests, self.ran.requests + 1
        if index:
            return [("final_answer", {"answer": "done"}, "last")]
        return [("inner", {"task": "look"}, "p1")]


def test_two_agents_at_once_are_two_runs(guard: WritingGuard, tools: Tools) -> None:
    agents = [asking_agent(Asking(asking(3)), tools(), guard) for _ in range(2)]
    threads = [threading.Thread(target=agent.run, args=("go",)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({told.run_id for told in guard.told}) == 2
    assert actions(guard) == ["allow"] * 6


def test_the_answer_is_no_call(guard: WritingGuard, tools: Tools) -> None:
    def never(answer: Any, *args: Any, **options: Any) -> bool:
        return False

    agent = asking_agent(Asking([]), tools(), guard, final_answer_checks=[never])
    agent.max_steps = 8
    agent.run("go")
    assert guard.told == []


# --- what is asked, and what comes back


@pytest.mark.parametrize("arguments", [{}, {"other": 1}, "a", None, {"query": 5}], ids=repr)
def test_arguments_of_any_kind(guard: WritingGuard, tools: Tools, arguments: Any) -> None:
    class Strange(Asking):
        def _next(self, messages: Any) -> Any:
            index, self.ran.requests = self.ran.requests, self.ran.requests + 1
            if index >= 6:
                return [("final_answer", {"answer": "done"}, "last")]
            return [("look", arguments, f"c{index}")]

    assert asking_agent(Strange([]), tools(), guard).run("go") == "done"
    assert actions(guard) == LADDER


def test_arguments_are_told_as_the_model_wrote_them(guard: WritingGuard, tools: Tools) -> None:
    agent = asking_agent(Asking(asking(1, query="name")), tools(), guard)
    agent.run("go", additional_args={"name": "what it stands for"})
    assert guard.of("before")[0].arguments == {"query": "name"}
    assert tools.ran == [("look", "what it stands for")]


@pytest.mark.parametrize(
    "result",
    [{"rows": [1]}, 7, None, "", "two\nlines", ["a", {"b": object}]],
    ids=lambda result: repr(result)[:20],
)
def test_a_warning_comes_along_with_any_result(guard: WritingGuard, result: Any) -> None:
    model = Asking(asking(6))
    agent = asking_agent(model, {"look": lambda query: result}, guard)
    outputs = [event for event in agent.run("go", stream=True) if isinstance(event, ToolOutput)]
    assert actions(guard) == LADDER
    warning = guard.of("before")[3].verdict.message
    plain = model.ran.answers["c1"][0]
    assert model.ran.answers["c4"] == [f"{plain}\n\n{warning}" if plain else warning]
    assert model.ran.answers["c5"] == [plain]
    assert [output.output for output in outputs[:5]] == [result] * 5


@pytest.mark.parametrize(("colours", "last"), [(["red"], "block"), (["red", "blue"], "warn")])
def test_pictures_stay_pictures_and_are_told_apart(
    guard: WritingGuard, colours: list[str], last: str
) -> None:
    class Picture(Query):
        output_type = "image"

    sequence = itertools.cycle(colours)
    picture = Picture("look", lambda query: PIL.Image.new("RGB", (2, 2), next(sequence)))
    agent = asking_agent(Asking(asking(6)), {}, None)
    agent.tools["look"] = picture
    guard_agent(agent, guard).run("go")
    assert isinstance(agent.state["image.png"], AgentImage)
    assert actions(guard)[5] == last


def test_a_warning_comes_along_with_a_failure(guard: WritingGuard, tools: Tools) -> None:
    model = Asking(asking(5, "fails"))
    asking_agent(model, tools(), guard).run("go")
    warning = guard.of("before")[3].verdict.message
    plain = model.ran.answers["c1"][0]
    assert "Error:" in plain
    assert model.ran.answers["c4"] == [f"{warning}\n{plain}"]
    assert model.ran.answers["c5"] == [plain]
