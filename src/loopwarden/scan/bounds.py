"""Bounds on verdicts: what a case states about the answers it wants.

Numbers count the calls from 1. The weight of an answer grows in the order allow, warn, block, abort.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from loopwarden.events import AbortCode, Action, DetectorId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from loopwarden.events import Verdict

WEIGHT: Final[dict[Action, int]] = {"allow": 0, "warn": 1, "block": 2, "abort": 3}
"""How strict an answer is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the guard said to one event.

    Attributes:
        calls: How many call events came up to here, this one included.
        call: Whether the event was a call; an abort may also come with an outcome or a compaction.
        action: What was done or, in observe mode, would have been done.
        verdict: The whole verdict.
    """

    calls: int
    call: bool
    action: Action
    verdict: Verdict


def check_bound(name: str, value: Any, calls: int) -> str | None:
    """What is wrong with a bound as written, `None` if nothing.

    Args:
        name: Name of the bound.
        value: Its value.
        calls: How many calls the case has.
    """
    if name not in BOUNDS:
        near = difflib.get_close_matches(name, BOUNDS, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return f"unknown bound {name!r}{hint}; known are {', '.join(BOUNDS)}"
    allowed = _WORDS.get(name)
    if allowed is not None:
        return None if value in allowed else f"{name} is {value!r}; allowed are {', '.join(allowed)}"
    numbers = value if name in ("blocked", "allowed") else [value]
    if not isinstance(numbers, list):
        return f"{name} must be a list of call numbers"
    if not numbers:
        return f"{name} is empty; give call numbers"
    for number in numbers:
        if type(number) is not int or not 1 <= number <= calls:
            return f"{name} has {number!r}; allowed are call numbers, here 1 to {calls}"
    return None


def broken_bounds(bounds: Mapping[str, Any], answers: list[Answer]) -> list[str]:
    """One line for each bound that does not hold.

    Args:
        bounds: Bounds that passed `check_bound`.
        answers: The answers to every event that was fed, in order.
    """
    failures = []
    for name, value in bounds.items():
        failure = BOUNDS[name](value, answers)
        if failure is not None:
            failures.append(f"{name} {value}: {failure}")
    return failures


def _calls(answers: list[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.call]


def _said(answer: Answer | None) -> str:
    if answer is None:
        return "never"
    where = f"call {answer.calls}" if answer.call else f"an event after call {answer.calls}"
    by = f" by {answer.verdict.detector}" if answer.verdict.detector else ""
    return f"{answer.action} at {where}{by}"


def _first(answers: Iterable[Answer], weight: int) -> Answer | None:
    return next((answer for answer in answers if WEIGHT[answer.action] >= weight), None)


def _by(answers: list[Answer], weight: int, limit: int, word: str) -> str | None:
    first = _first(answers, weight)
    if first is not None and first.calls <= limit:
        return None
    return f"no {word} up to call {limit} (first: {_said(first)})"


def _warn_by(value: Any, answers: list[Answer]) -> str | None:
    return _by(_calls(answers), 1, value, "warning")


def _block_by(value: Any, answers: list[Answer]) -> str | None:
    return _by(_calls(answers), 2, value, "block")


def _abort_by(value: Any, answers: list[Answer]) -> str | None:
    return _by(answers, 3, value, "abort")


def _never(value: Any, answers: list[Answer]) -> str | None:
    weight = WEIGHT[value]
    for answer in answers:
        if answer.action == "abort" or (answer.call and WEIGHT[answer.action] >= weight):
            return _said(answer)
    return None


def _first_warn(value: Any, answers: list[Answer]) -> str | None:
    first = _first(_calls(answers), 1)
    if first is not None and first.calls == value and first.action == "warn":
        return None
    return f"first answer other than allow: {_said(first)}"


def _first_block(value: Any, answers: list[Answer]) -> str | None:
    first = _first(_calls(answers), 2)
    if first is not None and first.calls == value:
        return None
    return f"first block or abort: {_said(first)}"


def _blocked(value: Any, answers: list[Answer]) -> str | None:
    ran = [answer.calls for answer in _calls(answers) if answer.calls in value and not _refused(answer)]
    return f"ran: {ran}" if ran else None


def _allowed(value: Any, answers: list[Answer]) -> str | None:
    refused = [answer for answer in _calls(answers) if answer.calls in value and _refused(answer)]
    return "; ".join(_said(answer) for answer in refused) if refused else None


def _refused(answer: Answer) -> bool:
    return answer.action in ("block", "abort")


def _deciding(answers: list[Answer]) -> Answer | None:
    """The first block; if there is none, the first abort; else the first warning."""
    for action in ("block", "abort", "warn"):
        for answer in answers:
            if answer.action == action and (answer.call or action == "abort"):
                return answer
    return None


def _detector(value: Any, answers: list[Answer]) -> str | None:
    answer = _deciding(answers)
    if answer is not None and answer.verdict.detector == value:
        return None
    return f"first finding: {_said(answer)}"


def _error(value: Any, answers: list[Answer]) -> str | None:
    answer = _first(answers, 3)
    if answer is not None and answer.verdict.error == value:
        return None
    return f"first abort: {_said(answer)}" + (f" with {answer.verdict.error}" if answer else "")


BOUNDS: Final[dict[str, Callable[[Any, list[Answer]], str | None]]] = {
    "warn_by": _warn_by,
    "block_by": _block_by,
    "abort_by": _abort_by,
    "never": _never,
    "first_warn": _first_warn,
    "first_block": _first_block,
    "blocked": _blocked,
    "allowed": _allowed,
    "detector": _detector,
    "error": _error,
}
"""Each bound with its check, which says why the bound does not hold or `None`."""

_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "never": ("warn", "block", "abort"),
    "detector": get_args(DetectorId),
    "error": get_args(AbortCode),
}
