"""Turns what was found in a stream into the words and sums of a report."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from math import isnan, nan
from typing import TYPE_CHECKING, Final

from loopwarden.masking import clean
from loopwarden.scan.loops import END, SEQUENCES, ordered, told
from loopwarden.scan.summary import CallRef, Loop, Pattern, Run, Spend, Step, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.events import DetectorId
    from loopwarden.scan.loops import Finding
    from loopwarden.scan.trace import Trace
    from loopwarden.transcripts.model import StreamStart

STEPS_SHOWN: Final = 8
_LONGEST_LAP: Final = 64
_TOOL_NAME: Final = 80
_PROBED: Final[frozenset[DetectorId]] = frozenset({"repeated_failure", "unknown_tool_churn"})
"""A block by these refuses one call and lets the next one try: every second call is refused."""


def describe_run(start: StreamStart, trace: Trace, findings: list[Finding], refused_call_limit: int) -> Run:
    """The report on one stream.

    Args:
        start: How the stream was announced.
        trace: Its calls.
        findings: Its loops.
        refused_call_limit: The refusal with this number would have ended the run.
    """
    ledger = _Ledger(trace)
    loops = [_loop(trace, ledger, finding, refused_call_limit) for finding in findings]
    loops.sort(key=lambda loop: loop.badness, reverse=True)
    inside, wasted = _calls(finding for finding in findings if finding.level == "critical")
    repeating, repeated = _calls(finding for finding in findings if finding.level == "warning")
    tool_of = dict(zip(trace.signature, trace.tool, strict=True))
    return Run(
        stream=clean(start.stream),
        title=clean(start.title),
        parent=None if start.parent is None else clean(start.parent),
        agent=None if start.agent is None else clean(start.agent),
        model=None if start.model is None else clean(start.model),
        calls=len(trace),
        calls_in_loops=len(inside),
        calls_in_repetitions=len(repeating - inside),
        first_at=_ref(trace, 0).at if len(trace) else None,
        last_at=trace.last_at,
        spent=ledger.whole(),
        waste=ledger.of(wasted),
        repeated=ledger.of(repeated - wasted),
        loops=tuple(loops),
        timeline=Timeline(
            signatures=trace.signature,
            weights=_weights(trace, findings),
            tools=tuple(clean(tool, _TOOL_NAME) for tool in trace.tools),
            tool_of=type(trace.tool)("L", (tool_of[number] for number in range(len(tool_of)))),
            compactions=tuple(trace.compactions),
        ),
    )


def _calls(findings: Iterable[Finding]) -> tuple[set[int], set[int]]:
    """The calls of these findings, and those of them that came after the first verdict."""
    inside: set[int] = set()
    after: set[int] = set()
    for finding in findings:
        inside |= finding.calls
        after.update(index for index in finding.calls if index > finding.begun)
    return inside, after


def _loop(trace: Trace, ledger: _Ledger, finding: Finding, refused_call_limit: int) -> Loop:
    members = sorted(finding.calls)
    verdict = finding.strongest
    detectors = ordered(finding.detectors)
    first, last = (members[0], members[-1]) if members else (finding.begun, finding.begun)
    inside = range(first + 1, last + 1) if members else range(first + 1, first + 2)
    places, ender = finding.places, finding.ender
    blocked = places.get(2)
    pattern, steps, more = _steps(trace, finding, members)
    return Loop(
        key=finding.key,
        detectors=told(finding.detectors),
        level=finding.level,
        tool=clean(verdict.tool or "", _TOOL_NAME),
        paired_tools=tuple(clean(tool, _TOOL_NAME) for tool in verdict.paired_tools),
        pattern=pattern,
        steps=steps,
        more_steps=more,
        signatures=tuple(dict.fromkeys(trace.signature[index] for index in members)),
        calls=len(members),
        count=verdict.count,
        threshold=verdict.threshold,
        first=_ref(trace, first),
        last=_ref(trace, last),
        same_results=_same_results(trace, members, pattern),
        compactions=sum(number in inside for number in trace.compactions),
        warned=_ref_or_none(trace, places.get(1)),
        blocked=_ref_or_none(trace, blocked),
        aborted=_ref_or_none(trace, places.get(END)),
        aborted_by=None if ender is None else ender.detector,
        aborted_count=0 if ender is None else ender.count,
        ended_by=_ref_or_none(trace, _ended_by(finding, members, detectors[0], refused_call_limit)),
        after_warning=ledger.of(index for index in members if index > finding.begun),
        after_block=None if blocked is None else ledger.of(index for index in members if index > blocked),
        message=clean(finding.message, 600),
    )


def _weights(trace: Trace, findings: list[Finding]) -> bytes:
    """What the guard would have said to each call, and nothing in a loop that it would have ended."""
    weights = bytearray(trace.weight)
    for finding in findings:
        end = finding.firsts.get(END)
        if end is not None:
            for index in finding.calls:
                if index > end:
                    weights[index] = 0
    return bytes(weights)


def _ref(trace: Trace, index: int) -> CallRef:
    at = trace.at[index] if 0 <= index < len(trace) else nan
    return CallRef(number=index + 1, at=None if isnan(at) else at)


def _ref_or_none(trace: Trace, index: int | None) -> CallRef | None:
    return None if index is None else _ref(trace, index)


def _ended_by(finding: Finding, members: list[int], detector: DetectorId, limit: int) -> int | None:
    """Index of the call that would be refused as number `limit`, or of an earlier abort."""
    aborted, blocked = finding.places.get(END), finding.places.get(2)
    if blocked is None:
        return aborted
    refusable = [index for index in members if index >= blocked]
    place = (limit - 1) * (2 if detector in _PROBED else 1)
    counted = refusable[place] if place < len(refusable) else None
    known = [index for index in (aborted, counted) if index is not None]
    return min(known, default=None)


def _same_results(trace: Trace, members: list[int], pattern: Pattern) -> bool | None:
    """Whether equal calls, or all calls where they are varied, gave equal results throughout."""
    results: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for index in members:
        if trace.result[index]:
            results[0 if pattern == "varied" else trace.signature[index]][trace.result[index]] += 1
    repeated = [counts for counts in results.values() if counts.total() > 1]
    return all(len(counts) == 1 for counts in repeated) if repeated else None


def _steps(trace: Trace, finding: Finding, members: list[int]) -> tuple[Pattern, tuple[Step, ...], int]:
    sequence = [trace.signature[index] for index in members]
    counts = Counter(sequence)
    if not sequence:
        return "none", (), 0
    distinct = list(counts)
    pattern: Pattern = "same" if len(distinct) == 1 else "varied"
    if pattern == "varied" and not SEQUENCES.isdisjoint(finding.detectors):
        pattern, distinct = "sequence", _lap(sequence)
    names = list(trace.tools)
    tools = {trace.signature[index]: names[trace.tool[index]] for index in members}
    known = [number for number in distinct if number in finding.arguments] or distinct
    steps = tuple(
        Step(
            tool=clean(tools[number], _TOOL_NAME),
            arguments=finding.arguments.get(number, "…"),
            calls=counts[number],
            signature=number,
        )
        for number in known[:STEPS_SHOWN]
    )
    return pattern, steps, len(distinct) - len(steps)


def _lap(sequence: list[int]) -> list[int]:
    """One lap of the sequence, begun as the loop began; its distinct members if it has no period."""
    size = len(sequence)
    for period in range(2, min(_LONGEST_LAP, size // 2) + 1):
        lap = sequence[size - period :]
        if sequence[size - 2 * period : size - period] == lap:
            start = lap.index(sequence[0]) if sequence[0] in lap else 0
            return lap[start:] + lap[:start]
    return list(dict.fromkeys(sequence))


class _Ledger:
    """Sums over the calls of a stream."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._replies = [reply for reply in trace.replies if reply.end > reply.first]
        self._firsts = [reply.first for reply in self._replies]
        self._tokens = bool(trace.replies)
        self._money = any(reply.cost is not None for reply in trace.replies)
        self._cached = any(reply.cached_tokens for reply in trace.replies)

    def whole(self) -> Spend:
        """What the stream took: replies without calls included."""
        replies = self._trace.replies
        return Spend(
            calls=len(self._trace),
            seconds=sum(self._trace.seconds) if self._trace.timed else None,
            input_tokens=sum(reply.input_tokens for reply in replies) if self._tokens else None,
            output_tokens=sum(reply.output_tokens for reply in replies) if self._tokens else None,
            cost=sum(reply.cost or 0.0 for reply in replies) if self._money else None,
            cached_tokens=sum(reply.cached_tokens for reply in replies) if self._cached else None,
        )

    def of(self, indices: Iterable[int]) -> Spend:
        """What these calls took, each given once; a reply counts by the share of its calls among them."""
        count, seconds = 0, 0.0
        shares: Counter[int] = Counter()
        for index in indices:
            count += 1
            seconds += self._trace.seconds[index]
            place = bisect_right(self._firsts, index) - 1
            if place >= 0 and index < self._replies[place].end:
                shares[place] += 1
        read = written = money = cached = 0.0
        for place, part in shares.items():
            reply = self._replies[place]
            share = part / (reply.end - reply.first)
            read += share * reply.input_tokens
            written += share * reply.output_tokens
            money += share * (reply.cost or 0.0)
            cached += share * reply.cached_tokens
        return Spend(
            calls=count,
            seconds=seconds if self._trace.timed else None,
            input_tokens=read if self._tokens else None,
            output_tokens=written if self._tokens else None,
            cost=money if self._money else None,
            cached_tokens=cached if self._cached else None,
        )
