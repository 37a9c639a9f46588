"""The ten detectors, each from the whole history, after the tables of the specification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.laws.history import Found, outcome
from tests.laws.sameness import RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.laws.history import Call, Run, Signature


def streak(run: Run, now: Call) -> int:
    """How many outcomes of this signature in a row are the same, refusals included."""
    same = [group for group in run.window() if group[0].sig == now.sig and not run.fenced(group[0])]
    shared = [outcome(group) for group in reversed(same) if outcome(group) is not None]
    count = 0
    for value in shared:
        if value != shared[0]:
            break
        count += 1
    return count + run.refused(now.sig)


def past(calls: list[Call], now: Call) -> Iterator[Call]:
    """The calls of earlier replies, the newest first, without those that only wait."""
    return (c for c in reversed(calls) if c.reply != now.reply and c.how.kind != "wait")


def counted(run: Run, row: list[Call]) -> int:
    """How many replies asked for these calls, within the window: what failed in one reply counts once."""
    return min(len({call.reply for call in row}), run.settings.history_size)


def unknown_tool_repeat(run: Run, now: Call) -> Found | None:
    row: list[Call] = []
    for call in past(run.row, now):
        missing = call.row_end.missing
        if call.tool != now.tool or missing is None or (row and missing != row[0].row_end.missing):
            break
        row.append(call)
    count, limit = counted(run, row), run.settings.unknown_tool_threshold
    if count >= limit:
        return Found("critical", "unknown_tool_repeat", count, limit, frozenset({now.tool}))
    return None


def global_circuit_breaker(run: Run, now: Call) -> Found | None:
    if now.how.kind == "wait":
        return None
    count, limit = streak(run, now), max(run.settings.global_circuit_breaker_threshold, now.how.critical + 1)
    if count >= limit:
        return Found("critical", "global_circuit_breaker", count, limit, frozenset({now.sig}), now.sig)
    return None


def known_poll_no_progress(run: Run, now: Call) -> Found | None:
    if now.how.kind != "poll":
        return None
    count = streak(run, now)
    return graded("known_poll_no_progress", now, count, count, frozenset({now.sig}), now.sig)


def crowd(run: Run, now: Call) -> Found | None:
    """More identical calls in one reply than the critical number."""
    count, limit = sum(len(g) for g in run.present if g[0].sig == now.sig) + 1, now.how.critical
    switches = run.settings.detectors
    watched = switches.known_poll_no_progress if now.how.kind == "poll" else switches.generic_repeat
    if count <= limit or not watched or now.how.kind == "wait":
        return None
    return Found("critical", "generic_repeat", count, limit, frozenset({now.sig}), now.sig)


def generic_repeat(run: Run, now: Call) -> Found | None:
    if now.how.kind in ("poll", "wait"):
        return None
    seen = sum(group[0].sig == now.sig and not run.fenced(group[0]) for group in run.window())
    return graded("generic_repeat", now, seen, streak(run, now), frozenset({now.sig}), now.sig)


def ping_pong(run: Run, now: Call) -> Found | None:
    window = [group for group in run.window() if group[0].how.kind != "wait"]
    if not window or window[-1][0].sig == now.sig or now.how.kind == "wait":
        return None
    pair = (window[-1][0].sig, now.sig)
    tail: list[list[Call]] = []
    for place, group in enumerate(reversed(window)):
        if group[0].sig != pair[place % 2]:
            break
        tail.append(group)
    if len(tail) < 2:
        return None
    still = all(same_ends(tail[side::2]) for side in (0, 1))
    count = len(tail) + 1
    both = now.how, window[-1][0].how
    return graded("ping_pong", now, count, count if still else 0, frozenset(pair), hows=both)


def same_ends(side: list[list[Call]]) -> bool:
    ends = [outcome(group) for group in side]
    return None not in ends and len(set(ends)) == 1


def cycle(run: Run, now: Call) -> Found | None:
    if all(group[0].sig != now.sig for group in run.groups[-64:]):
        return None
    whole = [g for g in run.groups if g[0].made >= run.fence]
    sigs = [g[0].sig for g in whole] + [now.sig]
    for period in range(3, 65):
        if sigs[-period - 1 : -period] != [now.sig]:
            continue
        lap = sigs[-period:]
        if any(lap == lap[:p] * (period // p) for p in range(1, period) if period % p == 0):
            continue
        hows = [g[0].how for g in whole[1 - period :]] + [now.how]
        if {how.kind for how in hows} <= {"poll", "wait"}:
            continue
        firm = next((i for i in range(len(whole), 0, -1) if outcome(whole[i - 1]) is None), 0)
        warn = max(*(how.warning for how in hows), 3 * period)
        block = max(*(how.critical for how in hows), warn + period)
        if (count := tail(whole[firm:], now, period)) >= block:
            return Found("critical", "cycle", count, block, frozenset(lap), rotation(lap))
        if (count := tail(whole, now, period)) >= warn:
            return Found("warning", "cycle", count, warn, frozenset(lap), rotation(lap))
    return None


def tail(story: list[list[Call]], now: Call, period: int) -> int:
    """Length of the longest end of the story, present call included, that repeats itself lap by lap."""
    if len(story) < period or story[-period][0].sig != now.sig:
        return 0
    length = period
    while length < len(story):
        one, later = story[-length - 1], story[-length - 1 + period]
        ends = {outcome(one), outcome(later)} - {None}
        if one[0].sig != later[0].sig or len(ends) > 1:
            break
        length += 1
    return length + 1


def rotation(lap: list[Signature]) -> Any:
    return min(tuple(lap[i:] + lap[:i]) for i in range(len(lap)))


def unknown_tool_churn(run: Run, now: Call) -> Found | None:
    row: list[Call] = []
    for call in past(run.row, now):
        if call.row_end.missing is None:
            break
        row.append(call)
    through = {c.tool for c in row}
    if len({c.row_end.missing for c in row}) < 2 or (run.works(now.tool) and now.tool not in through):
        return None
    count, limit = counted(run, row), run.settings.unknown_tool_threshold
    if count < limit or now.how.kind == "wait":
        return None
    level, reached = ("critical", 2 * limit) if count >= 2 * limit else ("warning", limit)
    return Found(level, "unknown_tool_churn", count, reached, frozenset())


def repeated_failure(run: Run, now: Call) -> Found | None:
    row: list[Call] = []
    remembered: dict[Any, None] = {}
    for call in past(run.of_tool.get(now.tool, []), now):
        end = call.row_end
        if end is RUNNING or end.timed_out:
            continue
        if not end.failed or (row and end.cause != row[0].row_end.cause) or call.made < run.fence:
            break
        remembered[call.reply] = None
        if len(remembered) > 2 * now.how.critical:
            del remembered[call.reply]
            break
        row.append(call)
    if len({c.sig for c in row}) < 2 and len({c.row_end.value for c in row}) < 2:
        return None
    cause = row[0].row_end.cause
    return graded("repeated_failure", now, len(remembered), len(remembered), frozenset(), (now.tool, cause))


def failure_streak(run: Run, now: Call) -> Found | None:
    row: list[Call] = []
    for call in past(run.row, now):
        if not call.row_end.failed or call.made < run.fence:
            break
        row.append(call)
    if (
        len({c.tool for c in row}) < 2
        or counted(run, row) < run.settings.warning_threshold
        or now.how.kind == "wait"
    ):
        return None
    return Found("warning", "failure_streak", counted(run, row), run.settings.warning_threshold, frozenset())


def stagnation(run: Run, now: Call) -> Found | None:
    if now.how.kind in ("write", "send"):
        return None
    row: list[Call] = []
    for call in past(run.row, now):
        end = call.row_end
        if call.tool != now.tool or end.failed or len(end.text.encode()) < 64:
            break
        if row and end.value != row[0].row_end.value:
            break
        row.append(call)
    if len({call.sig for call in row}) < 2:
        return None
    return graded("stagnation", now, counted(run, row), 0, frozenset(), now.tool)


def graded(
    name: str,
    now: Call,
    warn: int,
    block: int,
    members: frozenset[Any],
    about: Any = None,
    hows: Sequence[Any] = (),
) -> Found | None:
    """Critical if `block` reaches the critical number, a warning if `warn` reaches the other.

    The numbers are the tool's, of several tools the highest.
    """
    critical = max(how.critical for how in hows or (now.how,))
    warning = max(how.warning for how in hows or (now.how,))
    if block >= critical:
        return Found("critical", name, block, critical, members, about)
    if warn >= warning:
        return Found("warning", name, warn, warning, members, about)
    return None


DETECTORS = (
    unknown_tool_repeat, global_circuit_breaker, known_poll_no_progress, ping_pong, generic_repeat, crowd,
    cycle, unknown_tool_churn, repeated_failure, failure_streak, stagnation,
)  # fmt: skip
