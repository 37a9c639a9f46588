"""Folds verdicts on single calls into loops: who belongs to it, where it began, what it took.

A verdict says how many calls it counted, not which. The calls are found by walking back from the call
that it was given on, over what its detector looks at: calls of the same signature, of the same tool, or
all of them; of one model reply's calls the detector counts one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from loopwarden.events import Action, DetectorId
from loopwarden.masking import shorten
from loopwarden.scan.trace import Shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.events import Level, Verdict
    from loopwarden.scan.trace import Trace

_Scope: TypeAlias = Literal["signature", "tool", "all"]

_SCOPES: Final[dict[DetectorId, _Scope]] = {
    "unknown_tool_repeat": "tool",
    "global_circuit_breaker": "signature",
    "known_poll_no_progress": "signature",
    "ping_pong": "all",
    "generic_repeat": "signature",
    "cycle": "all",
    "unknown_tool_churn": "all",
    "repeated_failure": "tool",
    "failure_streak": "all",
    "stagnation": "tool",
    "post_compaction": "signature",
}
"""Which calls a detector counts together."""

_COUNTS_PRESENT: Final = frozenset({"ping_pong", "cycle", "post_compaction"})
_BY_TURN: Final = frozenset(
    {"unknown_tool_repeat", "unknown_tool_churn", "repeated_failure", "failure_streak"}
)
_FARTHEST: Final = 8192
_MOST_KEYS: Final = 12
_MOST_ROUNDS: Final = 256

SEQUENCES: Final = frozenset({"ping_pong", "cycle"})
"""Detectors of calls that come in an order."""

_BREAKER: Final[DetectorId] = "global_circuit_breaker"
_ORDER: Final = {name: place for place, name in enumerate(get_args(DetectorId))}
_WEIGHTS: Final[dict[Action, int]] = {"allow": 0, "warn": 1, "block": 2, "abort": 3}

END: Final = _WEIGHTS["abort"]
"""Weight of a verdict that ends the run."""


@dataclass(slots=True)
class Finding:
    """Every verdict with one key, or several findings that are one loop.

    Attributes:
        key: The verdicts' key.
        run: Number of the run id.
        strongest: The verdict that names the loop; of equal ones the latest. The breaker's only if there
            is no other, since it says nothing but how long the loop went on.
        detectors: Weight and level by detector, to order them by.
        calls: Indices of the calls that belong to it.
        firsts: Index of the first call with each weight: 1 warn, 2 block, 3 abort.
        ender: The verdict at `firsts[END]`, `None` if the run would not have been ended.
        message: What the model would have been told first.
        arguments: Arguments by number of signature, as they may be shown, as far as they were at hand.
        latest: Index of the latest call that was looked at.
    """

    key: str
    run: int
    strongest: Verdict
    detectors: dict[DetectorId, tuple[int, int]] = field(default_factory=dict)
    calls: set[int] = field(default_factory=set)
    firsts: dict[int, int] = field(default_factory=dict)
    ender: Verdict | None = None
    message: str = ""
    arguments: dict[int, str] = field(default_factory=dict)
    latest: int = -1

    @property
    def level(self) -> Level:
        """The strongest level among its detectors."""
        return "critical" if any(level == 2 for _, level in self.detectors.values()) else "warning"  # noqa: PLR2004 - see `_level`

    @property
    def begun(self) -> int:
        """Index of the call with the first verdict."""
        return min(self.firsts.values())

    @property
    def places(self) -> dict[int, int]:
        """`firsts` without what would have come after the end of the run."""
        return {
            weight: index for weight, index in self.firsts.items() if index <= self.firsts.get(END, index)
        }


def weigh(verdict: Verdict) -> int:
    """What the guard would have said: 0 nothing, 1 warn, 2 block, 3 abort."""
    action = verdict.would or verdict.action
    if action == "allow":
        return 1 if verdict.level is not None else 0
    return _WEIGHTS[action]


class Findings:
    """The findings of one stream."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._found: dict[tuple[int, str], Finding] = {}

    def note(self, verdict: Verdict, index: int, *, call: bool) -> None:
        """Fold one verdict in.

        Args:
            verdict: A verdict with a detector.
            index: The call it is about; -1 if there was no call before a compaction.
            call: Whether it was given on a call, not on an outcome or a compaction.
        """
        detector, weight = verdict.detector, weigh(verdict)
        if detector is None or not weight:
            return
        trace = self._trace
        run = trace.run[index] if index >= 0 else -1
        where = (run, verdict.key or detector)
        finding = self._found.get(where)
        if finding is None:
            finding = self._found[where] = Finding(key=where[1], run=run, strongest=verdict)
        if not finding.message:
            finding.message = verdict.message or ""
        strength = (weight, 2 if verdict.level == "critical" else 1)
        if _rank(verdict) >= _rank(finding.strongest):
            finding.strongest = verdict
        if strength > finding.detectors.get(detector, (0, 0)):
            finding.detectors[detector] = strength
        if index >= 0:
            trace.weight[index] = max(trace.weight[index], weight)
            self._members(finding, verdict, index, call=call)
        if weight == END and finding.ender is None:
            finding.ender = verdict
        finding.firsts.setdefault(weight, index)

    def loops(self) -> list[Finding]:
        """The findings, those that describe mostly the same calls joined, in order of their first verdict."""
        found = list(self._found.values())
        return sorted(_joined(found, self._trace), key=lambda finding: finding.begun)

    def _members(self, finding: Finding, verdict: Verdict, index: int, *, call: bool) -> None:
        detector = verdict.detector
        if detector is None or (detector == "post_compaction" and not call and verdict.tool is None):
            return
        trace = self._trace
        calls, floor = finding.calls, max(finding.latest, index - _FARTHEST)
        calls.add(index)
        left = verdict.count - (detector in _COUNTS_PRESENT)
        scope, by_turn = _SCOPES[detector], detector in _BY_TURN
        signature, tool = trace.signature[index], trace.tool[index]
        run, turn = trace.run[index], trace.turn[index]
        counted = -1
        for place in range(index - 1, floor, -1):
            if left <= 0 and trace.turn[place] != counted:
                break
            if trace.run[place] != run:
                continue
            same = trace.signature[place] == signature
            if (scope == "signature" and not same) or (scope == "tool" and trace.tool[place] != tool):
                continue
            if trace.turn[place] == turn:
                if same:
                    calls.add(place)
                continue
            if trace.turn[place] != counted or not (same or by_turn):
                left -= 1
            counted = trace.turn[place]
            calls.add(place)
        finding.latest = max(finding.latest, index)
        if not finding.firsts:
            members = {trace.signature[place] for place in calls}
            for number, arguments in trace.recent_arguments().items():
                if number in members:
                    finding.arguments[number] = (
                        arguments if isinstance(arguments, Shown) else Shown(shorten(arguments))
                    )


def _level(verdict: Verdict) -> int:
    return 2 if verdict.level == "critical" else 1


def _rank(verdict: Verdict) -> tuple[bool, int, int]:
    return verdict.detector != _BREAKER, weigh(verdict), _level(verdict)


def _joined(found: list[Finding], trace: Trace) -> list[Finding]:
    """Joins findings that are one loop.

    They are if half or more of the smaller one's calls are in the larger one too, or if one goes on with
    calls of the other's sequence: once a round of three has gone on for long, each of its calls is found
    by itself.
    """
    root = list(range(len(found)))

    def top(place: int) -> int:
        while root[place] != place:
            root[place] = place = root[root[place]]
        return place

    for (left, right), count in _shared_calls(found).items():
        if 2 * count >= min(len(found[left].calls), len(found[right].calls)):
            root[top(left)] = top(right)
    for left, right in _continued(found, trace):
        root[top(left)] = top(right)
    groups: defaultdict[int, list[Finding]] = defaultdict(list)
    for place, finding in enumerate(found):
        groups[top(place)].append(finding)
    return [group[0] if len(group) == 1 else _union(group) for group in groups.values()]


def _shared_calls(found: list[Finding]) -> Counter[tuple[int, int]]:
    """How many calls two findings have in common, for each pair that has any."""
    by_call: defaultdict[int, list[int]] = defaultdict(list)
    for place, finding in enumerate(found):
        for index in finding.calls:
            if len(by_call[index]) < _MOST_KEYS:
                by_call[index].append(place)
    return Counter(pair for places in by_call.values() for pair in combinations(places, 2))


def _continued(found: list[Finding], trace: Trace) -> Iterator[tuple[int, int]]:
    """Pairs of a finding and the sequence whose calls it goes on with."""
    calls = [{trace.signature[index] for index in finding.calls} for finding in found]
    rounds = [place for place, finding in enumerate(found) if not SEQUENCES.isdisjoint(finding.detectors)]
    for other in rounds[:_MOST_ROUNDS]:
        begin, end = min(found[other].calls), max(found[other].calls) + len(calls[other])
        for place, finding in enumerate(found):
            if place != other and finding.calls and finding.run == found[other].run:
                within = min(finding.calls) <= end and max(finding.calls) >= begin
                if within and calls[place] <= calls[other]:
                    yield place, other


def _union(group: list[Finding]) -> Finding:
    group.sort(key=lambda finding: finding.begun)
    lead = max(group, key=lambda each: (*_rank(each.strongest), len(each.calls)))
    joined = Finding(key=lead.key, run=lead.run, strongest=lead.strongest, message=group[0].message)
    for finding in group:
        joined.calls |= finding.calls
        for weight, index in finding.firsts.items():
            joined.firsts[weight] = min(index, joined.firsts.get(weight, index))
        for detector, strength in finding.detectors.items():
            joined.detectors[detector] = max(strength, joined.detectors.get(detector, (0, 0)))
        joined.arguments = finding.arguments | joined.arguments
    ended = [finding for finding in group if finding.ender is not None]
    joined.ender = min(ended, key=lambda finding: finding.firsts[END]).ender if ended else None
    return joined


def ordered(detectors: dict[DetectorId, tuple[int, int]]) -> tuple[DetectorId, ...]:
    """The detectors, the strongest first, equals in the order of precedence."""
    return tuple(sorted(detectors, key=lambda name: (tuple(-part for part in detectors[name]), _ORDER[name])))


def told(detectors: dict[DetectorId, tuple[int, int]]) -> tuple[DetectorId, ...]:
    """The detectors as a report names them: as `ordered`, but of equals those of sequences come first.

    The breaker comes last in any case: the others say what goes on.
    """

    def place(name: DetectorId) -> tuple[bool, int, int, bool]:
        weight, level = detectors[name]
        return name == _BREAKER, -weight, -level, name not in SEQUENCES

    return tuple(sorted(ordered(detectors), key=place))
