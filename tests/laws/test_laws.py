"""What always holds, whatever happens (the laws of the architecture)."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.core.profile import ToolUses
from loopwarden.core.run_state import RunState
from loopwarden.core.settings import Detectors, Settings
from loopwarden.core.snapshot import dump, load
from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage, Verdict
from loopwarden.guard import LoopGuard
from tests.laws.streams import PROFILES, SETTINGS, TOOLS, Host, Step, streams

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.events import Event

EVERYTHING = (
    "turn",
    "open",
    "open",
    "end",
    "end",
    "again",
    "user",
    "compact",
    "move",
    "stray",
    "retract",
    "pause",
)
ANY_STREAM = streams(others=EVERYTHING)
SEVERITY = {None: 0, "allow": 0, "warn": 1, "block": 2, "abort": 3}


def played(rules: Settings, steps: list[Step], *, run: int | None = None) -> list[tuple[Event, Verdict]]:
    """The events that a host made of the steps, with the verdicts; what is refused doesn't run.

    Args:
        rules: Settings of the guard.
        steps: What happens.
        run: Put all steps into this run.
    """
    guard, host = LoopGuard(rules, on_error="raise"), Host()
    told: list[tuple[Event, Verdict]] = []
    refused: set[str] = set()
    for step in steps:
        for event in host.events(step if run is None else replace(step, run=run)):
            if isinstance(event, Outcome) and event.call_id in refused:
                continue
            verdict = guard.feed(event)
            told.append((event, verdict))
            if verdict.action in ("block", "abort") and isinstance(event, ToolCall):
                refused.add(event.call_id)
    return told


@given(rules=SETTINGS, steps=ANY_STREAM, cut=st.integers(0, 200))
def test_a_verdict_depends_on_the_past_only(rules: Settings, steps: list[Step], cut: int) -> None:
    assert played(rules, steps[:cut]) == played(rules, steps)[: len(played(rules, steps[:cut]))]


@given(rules=SETTINGS, steps=ANY_STREAM)
def test_replay_says_what_the_live_guard_said(rules: Settings, steps: list[Step]) -> None:
    live = played(rules, steps)
    session = LoopGuard(rules, on_error="raise").session("again")
    for event, verdict in live:
        match event:
            case ToolCall():
                again = session.before(
                    event.tool,
                    event.arguments,
                    call_id=event.call_id,
                    run_id=event.run_id,
                    turn_id=event.turn_id,
                    at=event.at,
                )
            case Outcome() if not event.timed_out:
                again = session.after(
                    event.call_id, result=event.result, error=event.error, run_id=event.run_id
                )
            case Compaction():
                again = session.compacted(run_id=event.run_id, continues=event.continues)
            case UserMessage():
                again = session.user_message(run_id=event.run_id)
            case Retraction():
                again = session.retract(event.call_ids, run_id=event.run_id)
            case _:
                again = session.feed(event)
        assert again == verdict


@given(rules=SETTINGS, steps=ANY_STREAM, cut=st.integers(0, 200))
def test_a_saved_and_restored_run_goes_on_alike(rules: Settings, steps: list[Step], cut: int) -> None:
    told = [(event, said) for event, said in played(rules, steps, run=1) if not _moves(event)]
    uses = ToolUses(rules)
    first = RunState(rules, uses, scoped=True)
    for event, _ in told[:cut]:
        first.apply(event)
    second = load(json.loads(json.dumps(dump(first))), rules, ToolUses(rules))
    assert dump(second) == dump(first)
    assert [second.apply(event) for event, _ in told[cut:]] == [first.apply(event) for event, _ in told[cut:]]


def _moves(event: Event) -> bool:
    return isinstance(event, Compaction) and event.continues is not None


@given(rules=SETTINGS, one=ANY_STREAM, other=ANY_STREAM, mixed=st.randoms(use_true_random=False))
def test_runs_and_sessions_are_independent(
    rules: Settings, one: list[Step], other: list[Step], mixed: Any
) -> None:
    guard = LoopGuard(rules, on_error="raise")
    first, second, third = played(rules, one, run=1), played(rules, other, run=2), played(rules, other, run=1)
    waiting = [
        (guard.session("a"), iter(first)),
        (guard.session("a"), iter(second)),
        (guard.session("b"), iter(third)),
    ]
    while waiting:
        place = mixed.randrange(len(waiting))
        session, events = waiting[place]
        told = next(events, None)
        if told is None:
            del waiting[place]
        else:
            assert session.feed(told[0]) == told[1]


RAISED = st.sampled_from(
    ("warning_threshold", "critical_threshold", "unknown_tool_threshold", "global_circuit_breaker_threshold")
)


@given(
    rules=SETTINGS, steps=streams(others=("turn", "open", "end", "user")), name=RAISED, by=st.integers(1, 5)
)
def test_raising_a_threshold_never_makes_a_verdict_stricter(
    rules: Settings, steps: list[Step], name: str, by: int
) -> None:
    """What would be done to each call, where everything runs.

    The memory of `repeated_failure` is as long as its critical number (SPEC section 8), so that a raised one
    sees more arguments to vary; it is left out where that number is raised.
    """
    rules = replace(rules, enabled=True, mode="observe")
    raised = replace(rules, **{name: getattr(rules, name) + by})
    if raised.critical_threshold <= raised.warning_threshold:
        raised = replace(raised, critical_threshold=raised.warning_threshold + 1)
    if raised.global_circuit_breaker_threshold <= raised.critical_threshold:
        raised = replace(raised, global_circuit_breaker_threshold=raised.critical_threshold + 1)
    if raised.critical_threshold > rules.critical_threshold:
        fewer = replace(rules.detectors, repeated_failure=False)
        rules, raised = replace(rules, detectors=fewer), replace(raised, detectors=fewer)
    for (event, before), (_, after) in zip(played(rules, steps), played(raised, steps), strict=True):
        assert SEVERITY[after.would] <= SEVERITY[before.would], event


@given(
    rules=SETTINGS,
    steps=streams(others=("turn", "open", "end", "user", "compact")),
    tool=st.sampled_from(("run", "look", "poll", "save", "other", "gate")),
    places=st.lists(st.integers(0, 3), min_size=1, max_size=60),
)
def test_a_changing_result_is_never_blocked(
    rules: Settings, steps: list[Step], tool: str, places: list[int]
) -> None:
    """One call has a new result each time, whatever else happens; only other calls may end the run.

    An alternation of four has but one outcome on one of its sides, which can't have changed yet: the
    critical number is 5 or more here, and the tool that has a lower one of its own stays out.
    """
    rules = replace(rules, critical_threshold=rules.critical_threshold + 4)
    rules = replace(
        rules,
        global_circuit_breaker_threshold=rules.critical_threshold + rules.global_circuit_breaker_threshold,
    )
    guard, host, numbers = LoopGuard(rules, on_error="raise"), Host(), count()
    refused: set[str] = set()
    steps = [step for step in steps if TOOLS[step.tool] not in (tool, "strict")] * 2

    def news() -> None:
        number = next(numbers)
        call = ToolCall(tool=tool, arguments={"always": "this"}, call_id=f"new{number}", run_id="r1")
        verdict = guard.feed(call)
        assert verdict.action in ("allow", "warn"), verdict
        result = {"content": [{"type": "text", "text": f"new {number}"}]}
        assert guard.feed(Outcome(call_id=call.call_id, run_id="r1", result=result)).action == "allow"

    news()  # a tool that has not worked yet may be refused among unknown ones
    for step, times in zip(steps, places, strict=False):
        for event in host.events(replace(step, run=1)):
            if isinstance(event, Outcome) and event.call_id in refused:
                continue
            verdict = guard.feed(event)
            if verdict.action == "abort":
                return
            if verdict.action == "block" and isinstance(event, ToolCall):
                refused.add(event.call_id)
        for _ in range(times):
            news()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


def _other_way(value: Any) -> Any:
    """The same JSON value, written differently."""
    if isinstance(value, dict):
        return {key: _other_way(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [_other_way(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@given(one=VALUES, other=VALUES)
def test_equal_values_are_the_same_call_and_others_are_not(one: Any, other: Any) -> None:
    rules = Settings(enabled=True, warning_threshold=1, critical_threshold=2)
    for second, same in (
        (_other_way(one), True),
        (other, json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)),
    ):
        guard = LoopGuard(rules, on_error="raise")
        guard.before("look", one, call_id="1")
        guard.after("1", result=one)
        assert (guard.before("look", second, call_id="2").detector is not None) is same


def _endless(kind: str) -> Iterator[Event]:
    """Events that never repeat themselves, so that whatever is kept by name grows if it can."""
    for n in count():
        tool = {"tools": f"tool-{n}", "failing": f"tool-{n}", "unknown": f"tool-{n}"}.get(
            kind, TOOLS[n % len(TOOLS)]
        )
        turn = "always" if kind == "turn" else f"t{n // 3}" if kind == "turns" else None
        yield ToolCall(
            tool=tool,
            arguments=[n] if kind != "twins" else [],
            call_id=f"c{n}",
            turn_id="t" if kind == "twins" else turn,
        )
        if kind == "failing":
            yield Outcome(call_id=f"c{n}", error=f"no {n % 7}")
        elif kind == "unknown":
            yield Outcome(call_id=f"c{n}", error=f"Unknown tool: tool-{n}")
        elif kind == "same failure":
            yield Outcome(call_id=f"c{n}", error="permission denied")
        elif kind == "late":
            yield Outcome(call_id=f"c{n - 1000}", error=f"no {n}")
        elif kind != "open":
            yield Outcome(call_id=f"c{n}", result=n)
        if kind == "mixed" and n % 50 == 0:
            yield from (Compaction(), Retraction(call_ids=(f"c{n - 3}", f"c{n}")))


FEWER = Detectors(generic_repeat=False, known_poll_no_progress=False)
KINDS = (
    "tools",
    "failing",
    "unknown",
    "same failure",
    "open",
    "late",
    "turn",
    "turns",
    "twins",
    "mixed",
    "plain",
)


@pytest.mark.parametrize(("kind", "detectors"), [*((kind, Detectors()) for kind in KINDS), ("twins", FEWER)])
def test_state_stays_within_its_bounds(kind: str, detectors: Detectors) -> None:
    rules = Settings(enabled=True, profiles=PROFILES, detectors=detectors, refused_call_limit=10**9)
    state, events = RunState(rules, ToolUses(rules), scoped=True), _endless(kind)
    sizes = []
    for _ in range(6):
        for event in islice(events, 4096):
            state.apply(event)
        sizes.append(len(json.dumps(dump(state))))
    assert max(sizes[3:]) < 1.5 * max(sizes[:3])  # what is dropped in blocks comes and goes
    assert max(sizes) < 2_000_000
