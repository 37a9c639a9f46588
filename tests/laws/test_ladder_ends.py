"""Every ladder ends, and every rung of it can be reached."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, cycle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from loopwarden.core.settings import Settings
from loopwarden.guard import LoopGuard
from tests.laws.streams import PROFILES, RESULTS, TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Call = tuple[str, Any, dict[str, Any]]
"""Tool, arguments and what comes of it, as for `after`."""

LONG = "the answer to this question can be found nowhere in the files that were searched"


def until_the_end(guard: LoopGuard, calls: Iterator[Call], most: int) -> None:
    """Ask for the calls until the run is ended; it must be within `most` calls."""
    told = []
    for number in range(most):
        tool, arguments, outcome = next(calls)
        verdict = guard.before(tool, arguments, call_id=str(number), run_id="r")
        told.append((verdict.detector, verdict.level, verdict.action))
        if verdict.action == "abort":
            assert guard.before("look", {"new": number}, call_id="later", run_id="r").action == "abort"
            return
        if verdict.action != "block":
            guard.after(str(number), run_id="r", **outcome)
    raise AssertionError(f"no end within {most} calls: {told[-20:]}")


def around(*word: Call) -> Iterator[Call]:
    return cycle(word)


def varied(tool: str, outcome: Callable[[int], dict[str, Any]]) -> Iterator[Call]:
    return ((tool, {"n": n}, outcome(n)) for n in count())


STUBBORN: dict[str, Callable[[], Iterator[Call]]] = {
    "repeat": lambda: around(("look", {}, {"result": "same"})),
    "poll": lambda: around(("poll", {}, {"result": "same"})),
    "alternation": lambda: around(("look", {}, {"result": 1}), ("run", {}, {"result": 2})),
    "alternating polls": lambda: around(("poll", 1, {"result": 1}), ("poll", 2, {"result": 2})),
    "cycle of 3": lambda: around(*(("look", n, {"result": n}) for n in range(3))),
    "cycle of 64": lambda: around(*(("look", n, {"result": n}) for n in range(64))),
    "cycle with an edit": lambda: around(
        ("look", {}, {"result": 1}), ("save", {}, {"result": 2}), ("run", {}, {"error": "failed"})
    ),
    "unknown tool": lambda: varied("nope", lambda _: {"error": "Unknown tool: nope"}),
    "unknown tools": lambda: ((f"nope{n}", {}, {"error": f"Unknown tool: nope{n}"}) for n in count()),
    "unknown tools through a gateway": lambda: varied("gate", lambda n: {"error": f"Unknown tool: nope{n}"}),
    "failing variants": lambda: varied("run", lambda _: {"error": "permission denied"}),
    "the same failure in other words": lambda: (
        ("run", {}, {"error": f"request {n}12345 failed"}) for n in count()
    ),
}
"""Agents that nothing stops; all of their loops are of the kind that is refused."""


@pytest.mark.parametrize("name", STUBBORN)
@pytest.mark.parametrize("reset", [True, False])
def test_a_stubborn_agent_is_ended_at_the_defaults(name: str, reset: bool) -> None:
    rules = Settings(enabled=True, profiles=PROFILES, reset_on_write=reset)
    most = 64 * 4 + 20 if name == "cycle of 64" else 70
    until_the_end(LoopGuard(rules, on_error="raise"), STUBBORN[name](), most)


REACHABLE: dict[str, Callable[[], Iterator[Call]]] = {
    **{name: STUBBORN[name] for name in STUBBORN},
    "everything fails": lambda: (
        (("look", "run")[n % 2], {"n": n}, {"error": f"failure {'abcdefghijklmnopqrst'[n % 20]}"})
        for n in count()
    ),
    "other words for one question": lambda: varied(
        "look", lambda _: {"result": {"content": [{"type": "text", "text": LONG}]}}
    ),
}


def test_every_detector_and_level_is_reachable_at_the_defaults() -> None:
    rules = Settings(enabled=True, profiles=PROFILES)
    reached = set()
    for agent in REACHABLE.values():
        guard, calls = LoopGuard(rules, on_error="raise"), agent()
        for number in range(300):
            tool, arguments, outcome = next(calls)
            verdict = guard.before(tool, arguments, call_id=str(number), run_id="r")
            reached.add((verdict.detector, verdict.level))
            if verdict.action in ("allow", "warn"):
                guard.after(str(number), run_id="r", **outcome)
    both = (
        "generic_repeat",
        "known_poll_no_progress",
        "ping_pong",
        "cycle",
        "unknown_tool_churn",
        "repeated_failure",
    )
    assert reached - {(None, None)} == {
        *((name, level) for name in both for level in ("warning", "critical")),
        ("unknown_tool_repeat", "critical"),
        ("global_circuit_breaker", "critical"),
        ("failure_streak", "warning"),
        ("stagnation", "warning"),
    }


RULES = st.builds(
    lambda warning, more, most, **others: Settings(
        enabled=True,
        warning_threshold=warning,
        critical_threshold=warning + more,
        global_circuit_breaker_threshold=warning + more + most,
        profiles=PROFILES,
        **others,
    ),
    warning=st.integers(1, 6),
    more=st.integers(1, 4),
    most=st.integers(1, 50),
    unknown_tool_threshold=st.integers(1, 6),
    refused_call_limit=st.integers(1, 15),
    reset_on_write=st.booleans(),
)

JUDGED = [tool for tool in TOOLS if tool not in ("wait", "free")]


@given(
    rules=RULES,
    known=st.lists(
        st.tuples(st.sampled_from(JUDGED), st.integers(0, 2), st.integers(0, len(RESULTS) - 1)),
        min_size=1,
        max_size=6,
        unique_by=lambda entry: entry[:2],
    ),
    choices=st.randoms(use_true_random=False),
    stubbornness=st.floats(0.1, 1),
)
def test_asking_for_refused_calls_again_and_again_ends_the_run(
    rules: Settings, known: list[tuple[str, int, int]], choices: Any, stubbornness: float
) -> None:
    """An agent that knows a few calls, each with one outcome, comes back to those that were refused.

    What is no loop isn't refused; only the calls that come back to a refused one are counted.
    """
    guard = LoopGuard(rules, on_error="raise")
    refused: list[tuple[str, int, int]] = []
    again = 0
    for number in range(3000):
        back = bool(refused) and choices.random() < stubbornness
        tool, argument, result = choices.choice(refused) if back else choices.choice(known)
        again += back
        verdict = guard.before(tool, {"n": argument}, call_id=str(number), run_id="r")
        if verdict.action == "abort":
            return
        if verdict.action == "block":
            refused = list(dict.fromkeys([*refused, (tool, argument, result)]))
        else:
            guard.after(str(number), run_id="r", **_after(result))
        assert again <= 40 + 4 * rules.refused_call_limit * (1 + rules.warning_threshold)
    assume(bool(refused))


def _after(result: int) -> dict[str, Any]:
    outcome = dict(RESULTS[result])
    return {"error": TimeoutError("took too long")} if outcome.pop("timed_out", False) else outcome


@given(
    rules=RULES,
    word=st.lists(st.tuples(st.sampled_from(JUDGED), st.integers(0, 1)), min_size=1, max_size=7),
    results=st.lists(st.integers(0, len(RESULTS) - 1), min_size=20, max_size=20),
)
def test_going_round_for_ever_ends_the_run(
    rules: Settings, word: list[tuple[str, int]], results: list[int]
) -> None:
    """Any word of calls, again and again, with the same results; watching several jobs is no loop.

    A round longer than the warning number would let each of its calls probe whenever it comes up again.
    """
    more = max(0, len(word) - rules.warning_threshold)
    rules = replace(
        rules,
        warning_threshold=rules.warning_threshold + more,
        critical_threshold=rules.critical_threshold + more,
        global_circuit_breaker_threshold=rules.global_circuit_breaker_threshold + more,
    )
    assume(len(set(word)) <= 2 or any(tool != "poll" for tool, _ in word))
    calls = [(tool, {"n": n}, _after(results[2 * JUDGED.index(tool) + n])) for tool, n in word]
    until_the_end(LoopGuard(rules, on_error="raise"), around(*calls), 300)
