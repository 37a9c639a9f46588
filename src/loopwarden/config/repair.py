"""What is put right instead of refused, and what is worth a warning.

Thresholds in the wrong order would switch a level off without a word, so the higher one is raised. All
of this runs on the merged result of an agent; the caller drops what two agents have in common.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from loopwarden.config.merge import Fields, Layer, Profiles, Value
from loopwarden.config.wording import dotted, line_of, shown
from loopwarden.errors import ConfigProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopwarden.config.document import Path

SMALLEST_WINDOW: Final = 2
"""Fewest identical outcomes that are a repeat."""

_WARNING, _CRITICAL, _BREAKER = "warningThreshold", "criticalThreshold", "globalCircuitBreakerThreshold"
_WINDOW = "postCompactionGuard.windowSize"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the blocks of one merged result stand.

    Attributes:
        shared: Path of the global block.
        own: Path of the agent's block; that of the global block where there is none.
        lines: Lines by path.
    """

    shared: Path
    own: Path
    lines: Mapping[Path, int]

    def problem(self, name: Path, values: tuple[Value, ...], message: str) -> ConfigProblem:
        """A problem with the first of `values`, the others being its cause.

        It stands where the value was written, else in the block that brought the values together.
        """
        base = self.own if any(value.layer is Layer.AGENT for value in values) else self.shared
        path = values[0].path or (*base, *name)
        seen = next((value.path for value in values if value.path is not None), path)
        return ConfigProblem(path=dotted(path), message=message, line=line_of(seen, self.lines))


def repair(fields: Fields, profiles: Profiles, places: Places) -> list[ConfigProblem]:
    """Put `fields` and `profiles` right in place; return what was done and what can never happen."""
    found = [
        *_raise_above(fields, _CRITICAL, _WARNING, places),
        *_raise_above(fields, _BREAKER, _CRITICAL, places),
    ]
    window = fields[_WINDOW]
    if window.value < SMALLEST_WINDOW:
        message = f"{window.value} is too small, since a single call is no repeat; {SMALLEST_WINDOW} is used"
        found.append(places.problem(tuple(_WINDOW.split(".")), (window,), message))
        fields[_WINDOW] = _repaired(window, SMALLEST_WINDOW)
    found += _repair_profiles(fields, profiles, places)
    return found + _never_reached(fields, profiles, places)


def _repaired(given: Value, used: int) -> Value:
    return replace(given, value=used, origin=f"repaired (given {shown(given.value)}, {given.origin})")


def _said(value: Value) -> str:
    return f"{value.value} ({value.origin.partition(' (')[0]})"


def _raise_above(fields: Fields, high: str, low: str, places: Places) -> list[ConfigProblem]:
    upper, lower = fields[high], fields[low]
    if upper.value > lower.value:
        return []
    used = lower.value + 1
    fields[high] = _repaired(upper, used)
    message = f"{_said(upper)} is not above {low} {_said(lower)}; {used} is used"
    return [places.problem((high,), (upper, lower), message)]


def _repair_profiles(fields: Fields, profiles: Profiles, places: Places) -> list[ConfigProblem]:
    """The same order within tool profiles, as far as it is known which of them meet.

    A profile inherits a threshold from the most specific profile whose pattern covers its own, else from
    the block. Patterns that only overlap (`a*`, `*b`) are left to the core.
    """
    found = []
    for pattern in sorted(profiles, key=_weight):
        profile = profiles[pattern]
        if _WARNING not in profile and _CRITICAL not in profile:
            continue
        lower = _effective(_WARNING, pattern, fields, profiles)
        upper = _effective(_CRITICAL, pattern, fields, profiles)
        if upper.value > lower.value:
            continue
        used = lower.value + 1
        if _CRITICAL not in profile:
            upper = replace(upper, path=None)  # it is not the inherited number that is changed
        profile[_CRITICAL] = _repaired(upper, used)
        message = f"{_said(upper)} is not above {_WARNING} {_said(lower)} of the same calls; {used} is used"
        found.append(places.problem(("toolProfiles", pattern, _CRITICAL), (upper, lower), message))
    return found


def _effective(name: str, pattern: str, fields: Fields, profiles: Profiles) -> Value:
    covering = [
        other
        for other, profile in profiles.items()
        if name in profile and (other == pattern or fnmatchcase(pattern, other))
    ]
    if not covering:
        return fields[name]
    return profiles[max(covering, key=_weight)][name]


def _weight(pattern: str) -> tuple[bool, int]:
    """How specific a pattern is, as in the core: a name, then the glob with the most fixed characters."""
    exact = not any(sign in pattern for sign in "*?[")
    return exact, len(pattern if exact else re.sub(r"\[[^]]*\]|[*?]", "", pattern))


def _never_reached(fields: Fields, profiles: Profiles, places: Places) -> list[ConfigProblem]:
    """Thresholds that the window is too small for.

    Counts are taken before the present call is added, so a call can be counted `historySize` times and an
    alternation once more. Refused calls go on counting without a place in the window, so the breaker is
    reached wherever calls are refused first.
    """
    history = fields["historySize"]
    size = history.value
    refuses = fields[_CRITICAL].value <= size and fields["onCritical"].value != "warn"
    names = [_WARNING, _CRITICAL, "unknownToolThreshold"] + ([] if refuses else [_BREAKER])
    checked: list[tuple[Path, Value]] = [((name,), fields[name]) for name in names]
    checked += [
        (("toolProfiles", pattern, name), profile[name])
        for pattern, profile in profiles.items()
        for name in (_WARNING, _CRITICAL)
        if name in profile
    ]
    found = []
    for name, threshold in checked:
        if threshold.value <= size:
            continue
        message = f"{threshold.value} can never be reached: historySize {_said(history)} keeps too few calls"
        if name[-1] in (_WARNING, _CRITICAL):
            if threshold.value == size + 1:
                message += "; only an alternation of two calls counts so far"
            message += "; detectors with a memory of their own are not concerned"
        found.append(places.problem(name, (threshold, history), message))
    return found
