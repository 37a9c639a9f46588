"""The guard in a `CodeAgent` of smolagents: the steps of code, and the tools in them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("smolagents", reason="needs smolagents; see scripts/check-hosts")

from smolagents import PythonExecutor
from smolagents.local_python_executor import CodeOutput

from loopwarden import LoopAborted, LoopGuard
from loopwarden.adapters.smolagents import guard_agent
from tests.adapters.contract import ToolFailure, Tools
from tests.adapters.smolagents_scripts import ABORTING, LADDER, Coding, actions, coding_agent
from tests.adapters.writing_guard import WritingGuard

STEP = "python_interpreter"


def varied(count: int, call: str = 'look("a")') -> list[str]:
    """Steps that call a tool in the same way, each with other code around it."""
    return [f"found = {call}\nprint('step {number}:', found)" for number in range(count)]


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


@pytest.fixture
def tools() -> Tools:
    return Tools()


def test_allow_changes_nothing(guard: WritingGuard, tools: Tools) -> None:
    codes = ['look("a")', 'both = [look("b"), fresh("c")]\nlen(both)', "1 + 1", "undefined()", 'fails("d")']
    shown = []
    for one in (None, guard):
        tools.ran.clear()
        model = Coding(codes)
        assert coding_agent(model, tools(), one).run("go") == "done"
        shown.append(model.shown)
    assert shown[0] == shown[1]
    assert set(actions(guard)) == {"allow"}


def test_observing_changes_nothing(tools: Tools) -> None:
    watching = WritingGuard(mode="observe")
    shown = []
    for one in (None, watching):
        model = Coding(varied(12))
        assert coding_agent(model, tools(), one).run("go") == "done"
        shown.append(model.shown)
    assert shown[0] == shown[1]
    assert "abort" in {told.verdict.would for told in watching.told}


def test_a_fault_in_the_guard_never_breaks_the_agent(guard: WritingGuard, tools: Tools) -> None:
    del guard._runs
    assert coding_agent(Coding(varied(7)), tools(), guard).run("go") == "done"
    assert len(tools.ran) == 7


def test_the_step_and_the_tools_in_it_are_calls_of_one_turn(guard: WritingGuard, tools: Tools) -> None:
    codes = ['print(look("a"), fresh(query="b"))', 'look({"query": "a"})']
    assert coding_agent(Coding(codes), tools(), guard).run("go") == "done"
    told = [(one.tool, one.arguments) for one in guard.of("before")]
    assert told == [
        (STEP, codes[0]),
        ("look", {"query": "a"}),
        ("fresh", {"query": "b"}),
        (STEP, codes[1]),
        ("look", {"query": "a"}),
        (STEP, 'final_answer("done")'),
    ]
    assert [one.result for one in guard.of("after")] == [
        "nothing about a",
        "b: item 2",
        "nothing about a",
        "\ndone",
    ]
    assert len(guard.of("retract")) == 2
    assert len({one.run_id for one in guard.told}) == 1
    assert [len({one.turn_id for one in guard.of("before")[at]}) for at in (slice(3), slice(6))] == [1, 3]


def test_a_tool_is_refused_whatever_the_code_around_it(guard: WritingGuard, tools: Tools) -> None:
    model = Coding(varied(7))
    assert coding_agent(model, tools(), guard).run("go") == "done"
    assert actions(guard, "look") == [*LADDER, "block"]
    assert set(actions(guard, STEP)) == {"allow"}
    assert len(tools.ran) == 5
    warning, refusal = (
        [told.verdict.message or "?" for told in guard.of("before") if told.tool == "look"][at]
        for at in (3, 5)
    )
    assert [number for number, text in model.shown.items() if warning in text] == [3]
    assert "step 3: nothing about a\n" in model.shown[3]
    assert "step 4: nothing about a\n" in model.shown[4]
    assert f"CallRefused: {refusal}" in model.shown[5]
    assert model.shown[5].count(refusal) == 1


def test_a_tool_is_refused_with_the_usual_numbers(tools: Tools) -> None:
    model = Coding(varied(24))
    assert coding_agent(model, tools(), LoopGuard({"enabled": True})).run("go") == "done"
    assert len(tools.ran) == 20


@pytest.mark.parametrize(
    ("code", "failures"),
    [('fails("a")', ["ToolFailure"]), ("1 / 0", ["InterpreterError"]), ('look("a").x', ["InterpreterError"])],
)
def test_a_failure_counts_once(guard: WritingGuard, tools: Tools, code: str, failures: list[str]) -> None:
    coding_agent(Coding([code]), tools(), guard).run("go")
    assert [type(told.error).__name__ for told in guard.of("after") if told.error] == failures


def test_a_step_that_fails_by_a_refusal_is_no_failure(guard: WritingGuard, tools: Tools) -> None:
    coding_agent(Coding(varied(7)), tools(), guard).run("go")
    assert [told.error for told in guard.of("after") if told.error] == []


def test_a_refusal_that_the_code_keeps_to_itself_reaches_the_model(guard: WritingGuard, tools: Tools) -> None:
    codes = [
        f"try:\n    {code.splitlines()[0]}\nexcept Exception:\n    {number}"
        for number, code in enumerate(varied(6))
    ]
    model = Coding(codes)
    assert coding_agent(model, tools(), guard).run("go") == "done"
    assert len(tools.ran) == 5
    refusal = [told.verdict.message or "?" for told in guard.of("before") if told.tool == "look"][5]
    assert model.shown[5].endswith(f"\n\n{refusal}")


@pytest.mark.parametrize("code", ["print('same')", "undefined()", "1 / 0"])
def test_the_same_code_is_refused(guard: WritingGuard, tools: Tools, code: str) -> None:
    model = Coding([code] * 6)
    assert coding_agent(model, tools(), guard).run("go") == "done"
    assert actions(guard)[:6] == LADDER
    warning, refusal = (guard.of("before")[at].verdict.message or "?" for at in (3, 5))
    assert [number for number, text in model.shown.items() if warning in text] == [3]
    assert refusal in model.shown[5]


HIDING = """
for _ in range(100):
    try:
        look("a")
    except:
        pass
"""


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("code", ['look("a")', HIDING], ids=["plain", "hiding"])
def test_an_abort_ends_the_step_and_the_run(tools: Tools, code: str, stream: bool) -> None:
    guard = WritingGuard(ABORTING)
    model = Coding([f"{code}\n# {number}" for number in range(9)])
    agent = coding_agent(model, tools(), guard)
    with pytest.raises(LoopAborted) as aborted:
        list(agent.run("go", stream=True)) if stream else agent.run("go")
    assert aborted.value.verdict.error == "tool_loop_persisted"
    assert aborted.value.verdict.tool == "look"
    assert len(agent.memory.steps) == 1 + model.requests
    assert len(tools.ran) <= 6
    model.requests = 100
    assert agent.run("and now?", reset=False) == "done"


def test_the_same_code_ends_the_run(tools: Tools) -> None:
    model = Coding(["print(1)"] * 9)
    with pytest.raises(LoopAborted):
        coding_agent(model, tools(), WritingGuard(ABORTING)).run("go")
    assert model.requests == 6


def test_many_equal_calls_in_one_step_are_refused_past_a_number(guard: WritingGuard, tools: Tools) -> None:
    model = Coding(['for _ in range(9):\n    look("a")', 'for query in "bcdefghij":\n    look(query)'])
    assert coding_agent(model, tools(), guard).run("go") == "done"
    assert [query for _, query in tools.ran[:5]] == ["a"] * 5
    assert "CallRefused" in model.shown[0]
    assert "CallRefused" not in model.shown[1]


def test_the_tools_own_exception_is_what_the_code_catches(guard: WritingGuard) -> None:
    raised = ToolFailure("no a here")

    def fails(query: str) -> str:
        raise raised

    code = 'try:\n    fails("a")\nexcept Exception as error:\n    print(str(error))'
    model = Coding([code])
    assert coding_agent(model, {"fails": fails}, guard).run("go") == "done"
    assert "no a here" in model.shown[0]
    assert [one.error for one in guard.of("after") if one.error] == [raised]


def test_results_stay_what_they_are(guard: WritingGuard) -> None:
    def rows(query: str) -> Any:
        return {"rows": [1, 2]}

    model = Coding([f'print(rows("a")["rows"][1] + {number})' for number in range(4)])
    assert coding_agent(model, {"rows": rows}, guard).run("go") == "done"
    assert actions(guard, "rows") == ["allow"] * 3 + ["warn"]
    assert [str(number + 2) in text for number, text in model.shown.items()] == [True] * 4


def test_an_answer_that_is_turned_down_again_and_again(guard: WritingGuard, tools: Tools) -> None:
    """It is a step as any other is, and the refusal is not taken for the answer."""

    def never(answer: Any, *args: Any, **options: Any) -> bool:
        return False

    model = Coding([])
    agent = coding_agent(model, tools(), guard, final_answer_checks=[never])
    agent.run("go", max_steps=7)
    assert actions(guard) == [*LADDER, "block"]
    assert {told.tool for told in guard.of("before")} == {STEP}
    assert "failed with error" in model.shown[4]
    assert guard.of("before")[5].verdict.message in model.shown[5]


class Elsewhere(PythonExecutor):
    """An executor of one's own; what it gets are names."""

    def __init__(self) -> None:
        self.tools: dict[str, Any] = {}
        self.closed = False

    def send_tools(self, tools: dict[str, Any]) -> None:
        self.tools = tools

    def send_variables(self, variables: dict[str, Any]) -> None:
        """There are none."""

    def cleanup(self) -> None:
        self.closed = True

    def __call__(self, code_action: str) -> CodeOutput:
        return CodeOutput(output=code_action, logs="", is_final_answer="final_answer" in code_action)


def test_code_that_runs_elsewhere_is_guarded_as_a_step(guard: WritingGuard, tools: Tools) -> None:
    executor = Elsewhere()
    model = Coding(['look("a")'] * 6)
    with coding_agent(model, tools(), guard, executor=executor) as agent:
        assert agent.run("go") == 'final_answer("done")'
        assert executor.tools == agent.tools
    assert executor.closed
    assert actions(guard)[:6] == LADDER


def test_a_guard_that_is_given_again_takes_the_place_of_the_first(guard: WritingGuard, tools: Tools) -> None:
    first = WritingGuard()
    agent = guard_agent(coding_agent(Coding(['look("a")']), tools(), first), guard)
    assert agent.run("go") == "done"
    assert first.told == []
    assert [told.tool for told in guard.of("before")] == [STEP, "look", STEP]


def test_code_can_ask_of_a_tool_what_it_could_without_the_guard(guard: WritingGuard, tools: Tools) -> None:
    codes = [
        "print(look.name, look.description)\ncall = look\nprint(call('a'))",
        "look.output_type",
        "look._watch",
    ]
    shown = []
    for one in (None, guard):
        model = Coding(codes)
        assert coding_agent(model, tools(), one).run("go") == "done"
        shown.append(model.shown)
    assert shown[0] == shown[1]
    assert "look look.\nnothing about a" in shown[1][0]
