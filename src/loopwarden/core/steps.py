"""Events as the steps of a run: what a journal of a run holds, without arguments and results.

A state is a function of the events alone, so several programs that take the same steps in the same order have
the same state. A step is a list of JSON values that begins with its kind: `c` a call with its signature, `o`
an outcome with its fingerprint, `k` a compaction, `u` a user message, `r` calls that are rolled back.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from loopwarden.core.fingerprint import Observed, observe, signature
from loopwarden.errors import StoreError
from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage

if TYPE_CHECKING:
    from loopwarden.core.profile import ToolUses
    from loopwarden.core.run_state import RunState
    from loopwarden.events import Event, Verdict

Step: TypeAlias = "list[Any]"

_FLAGS: Final = 7
_STRAY: Final = 2


def step_of(event: Event, state: RunState, uses: ToolUses) -> Step | None:
    """An event as a step.

    Args:
        event: What happened.
        state: Where it happens; an outcome is compared by what its call is there.
        uses: As for `RunState`.

    Returns:
        What `take` takes; `None` for the outcome of a call that is not open in this state.
    """
    if type(event) is ToolCall:
        use = uses.find(event.tool, event.arguments)
        turn = event.turn_id
        return [
            "c", use.tool, use.kind, signature(use, event.arguments).hex(), str(event.call_id),
            turn if turn is None else str(turn), _written(event.at),
        ]  # fmt: skip
    if type(event) is Outcome:
        call_id = str(event.call_id)
        use_then = state.open_use(call_id)
        if use_then is None:
            return None
        if use_then.exempt:
            return stray(call_id)
        seen = observe(use_then, event.result, event.error, event.unknown_tool, event.timed_out)
        failure = seen.failure.hex() if seen.failure is not None else None
        return ["o", call_id, seen.fingerprint.hex(), failure, seen.missing]
    if isinstance(event, Compaction):
        return ["k"]
    if isinstance(event, Retraction):
        return ["r", *map(str, event.call_ids)]
    return ["u"]


def take(step: Step, state: RunState, uses: ToolUses) -> Verdict:
    """Take a step, and answer it.

    Raises:
        StoreError: It is none; the state is of no use afterwards.
    """
    state.compared = None
    try:
        kind = step[0]
        if kind == "c":
            _, tool, sort, name, call_id, turn, at = step
            use = uses.restore(_text(tool), sort)
            turn = turn if turn is None else _text(turn)
            return state.called(use, bytes.fromhex(name), _text(call_id), turn, _time(at))
        if kind == "o":
            return state.completed(_text(step[1]), None if len(step) == _STRAY else _observed(*step[2:]))
        if kind == "k":
            return state.apply(Compaction())
        if kind == "u":
            return state.apply(UserMessage())
        if kind == "r":
            return state.apply(Retraction(call_ids=tuple(map(str, step[1:]))))
    except Exception as error:  # whatever a line does that anybody may have written
        raise StoreError(f"a step of a run is damaged: {type(error).__name__}: {error}") from error
    raise StoreError("a step of a run is of no known kind")


def stray(call_id: str) -> Step:
    """The outcome of a call that is not open, or of an exempt tool: nothing is compared."""
    return ["o", call_id]


def _written(at: float | None) -> float | str | None:
    """A time as JSON has it; what is no number there is written out."""
    return at if at is None or isfinite(at) else str(float(at))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text that is none")
    return value


def _observed(found: str, failure: str | None, missing: str | None) -> Observed:
    fingerprint = bytes.fromhex(found)
    failed = bytes.fromhex(failure) if failure is not None else None
    named = _text(missing) if missing is not None else None
    return Observed(fingerprint, fingerprint[-1] & _FLAGS, failed, named)


def _time(at: object) -> float | None:
    if at is None or isinstance(at, int | float):
        return at
    if isinstance(at, str):
        return float(at)
    raise TypeError("a time that is none")
