"""Event streams that loop often: few tools of every kind, few arguments, few results.

A stream is a list of steps; `Host` turns them into events as a host would, with ids, turns and open calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from loopwarden.core.settings import Detectors, Settings, ToolProfile
from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from loopwarden.events import Event

TOOLS = ("run", "look", "poll", "wait", "save", "send", "other", "nope", "gate", "free", "strict")
PROFILES = (
    ToolProfile(pattern="run", kind="exec"),
    ToolProfile(pattern="look", kind="read"),
    ToolProfile(pattern="poll", kind="poll"),
    ToolProfile(pattern="wait", kind="wait"),
    ToolProfile(pattern="save", kind="write"),
    ToolProfile(pattern="send", kind="send"),
    ToolProfile(pattern="free", exempt=True),
    ToolProfile(pattern="strict", warning_threshold=2, critical_threshold=3),
)


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def _exec(code: int, output: str) -> dict[str, Any]:
    details = {"status": "completed", "exitCode": code, "timedOut": False, "aggregated": output}
    return _text(output) | {"details": details}


RESULTS: tuple[dict[str, Any], ...] = (
    {"result": _text("same")},
    {"result": _text("other")},
    {"result": _text("three lines that are the same whatever is asked, again and again, and nothing else")},
    {"error": "permission denied"},
    {"error": "no such host"},
    {"error": "request 1234567 was turned away"},
    {"error": "request 7654321 was turned away"},
    {"error": "took too long", "timed_out": True},
    {"error": "Unknown tool: nope"},
    {"error": "Unknown tool: nada"},
    {"result": _text("no") | {"isError": True}},
    {"result": _exec(2, "2 errors")},
    {"result": _exec(1, "")},
    {"result": _exec(0, "fine")},
)


@dataclass(frozen=True)
class Step:
    """One thing that happens.

    Attributes:
        what: `call` (with its outcome), `open` (the outcome comes later or never), `end` (of the open call
            number `number`), `again` (the event of that open call once more), `stray` (an outcome of no
            call), `turn` (a new reply begins), `pause` (of the clock), `user`, `compact`, `move` (there and
            back, under another run id), `retract` (the last reply, or the last two).
        tool: Index into `TOOLS`.
        argument: The only argument.
        result: Index into `RESULTS`; one past the end is a new result each time.
        together: Whether the call belongs to the present reply; else it has no turn.
        run: Index of the run; 0 is the unscoped session.
    """

    what: str = "call"
    tool: int = 0
    argument: int = 0
    result: int = 0
    run: int = 0
    number: int = 0
    together: bool = False


RUNS = (None, "r1", "r2")

IDLE = 50
"""Seconds after which an unscoped session starts afresh, where it does; an event takes one second."""


@dataclass
class Host:
    """Makes events of steps.

    Attributes:
        reused: All calls that end at once have the same id.
        twins: Whether one reply may ask for the same call twice.
        reports: Whether a refusal is reported as the outcome of the refused call.
    """

    reused: bool = False
    twins: bool = True
    reports: bool = False
    made: int = 0
    clock: float = 0
    turn: int = 0
    fresh: int = 0
    open: list[tuple[str, int, ToolCall]] = field(default_factory=list)
    asked: list[ToolCall] = field(default_factory=list)

    def events(self, step: Step) -> Iterator[Event]:
        run = RUNS[step.run]
        self.clock += 1
        if step.what in ("call", "open"):
            self.made += 1
            twin = any(
                (one.tool, one.arguments, one.turn_id)
                == (TOOLS[step.tool], {"n": step.argument}, f"t{self.turn}")
                for one in self.asked[-10:]
            )
            self.turn += not step.together or (twin and not self.twins)
            call = ToolCall(
                tool=TOOLS[step.tool],
                arguments={"n": step.argument},
                call_id="c" if self.reused and step.what == "call" else f"c{self.made}",
                run_id=run,
                turn_id=f"t{self.turn}" if step.together else None,
                at=self.clock,
            )
            self.asked.append(call)
            if step.what == "open":
                self.open.append((call.call_id, step.run, call))
            yield call
            if step.what == "call":
                yield self.outcome(call, step.result)
        elif step.what in ("end", "again") and self.open:
            place = step.number % len(self.open)
            call = self.open[place][2]
            if step.what == "again":
                yield call
            else:
                del self.open[place]
                yield self.outcome(call, step.result)
        elif step.what == "stray":
            yield Outcome(call_id="nobody", run_id=run, result="?")
        elif step.what == "pause":
            self.clock += 2 * IDLE
        elif step.what == "turn":
            self.turn += 1
        elif step.what == "user":
            yield UserMessage(run_id=run)
        elif step.what == "compact":
            yield Compaction(run_id=run)
        elif step.what == "move" and run is not None:
            yield Compaction(run_id=f"{run}-{self.made}", continues=run)
            yield Compaction(run_id=run, continues=f"{run}-{self.made}")
        elif step.what == "retract" and not self.reused:
            replies = list(
                dict.fromkeys(call.turn_id or call.call_id for call in self.asked if call.run_id == run)
            )
            gone = replies[-1 - step.number % 2 :]
            ids = tuple(c.call_id for c in self.asked if c.run_id == run and (c.turn_id or c.call_id) in gone)
            self.asked = [call for call in self.asked if call.run_id != run or call.call_id not in ids]
            self.open = [entry for entry in self.open if entry[2].run_id != run or entry[0] not in ids]
            yield Retraction(call_ids=ids, run_id=run)

    def outcome(self, call: ToolCall, result: int) -> Outcome:
        self.fresh += 1
        if result >= len(RESULTS):
            return Outcome(call_id=call.call_id, run_id=call.run_id, result=_text(f"news {self.fresh}"))
        return Outcome(call_id=call.call_id, run_id=call.run_id, **RESULTS[result])


SETTINGS = st.builds(
    lambda warning, more, most, **others: Settings(
        warning_threshold=warning,
        critical_threshold=warning + more,
        global_circuit_breaker_threshold=warning + more + most,
        profiles=PROFILES,
        **others,
    ),
    warning=st.integers(1, 5),
    more=st.integers(1, 4),
    most=st.sampled_from((1, 2, 4, 100)),
    enabled=st.sampled_from((True, True, True, None)),
    history_size=st.integers(3, 12) | st.just(30),
    unknown_tool_threshold=st.integers(1, 4),
    detectors=st.builds(
        Detectors, **dict.fromkeys(Detectors.__slots__, st.sampled_from((True, True, True, False)))
    ),
    post_compaction_window=st.integers(2, 4),
    on_critical=st.sampled_from(("block", "block", "block", "ask", "abort", "warn")),
    refused_call_limit=st.sampled_from((1, 3, 5, 15, 50)),
    reset_on_write=st.booleans(),
    idle_reset_seconds=st.sampled_from((None, None, IDLE)),
    mode=st.sampled_from(("enforce", "enforce", "observe")),
)
"""Small thresholds, all switches; mostly enforcing."""


@st.composite
def streams(draw: st.DrawFn, *, others: Sequence[str] = ()) -> list[Step]:
    """A stream with many loops; `others` are the kinds of steps besides calls that come up."""
    few = {
        "tool": st.sampled_from(
            draw(st.lists(st.integers(0, len(TOOLS) - 1), min_size=1, max_size=4, unique=True))
        ),
        "result": st.sampled_from(
            draw(st.lists(st.integers(0, len(RESULTS)), min_size=1, max_size=4, unique=True))
        ),
        "argument": st.integers(0, draw(st.integers(0, 2))),
        "run": st.sampled_from(draw(st.sampled_from(((0,), (1,), (1,), (0, 1, 2))))),
        "number": st.integers(0, 2),
        "together": st.booleans() if "turn" in others else st.just(False),
    }
    call = st.builds(Step, **few)
    other = st.builds(Step, what=st.sampled_from(others), **few) if others else call
    word = st.lists(call | other if "turn" in others else call, min_size=1, max_size=7)
    loop = st.builds(lambda word, times: word * times, word, st.integers(2, 8))
    parts = draw(
        st.lists(loop | st.lists(call, max_size=3) | st.lists(other, max_size=2), min_size=1, max_size=7)
    )
    return [step for part in parts for step in part][:120]
