"""Numbers, times and loops in words, the same in the terminal and on the page."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from loopwarden.scan.summary import CallRef, Loop, Report, Spend, Totals

_EPOCH_FROM: Final = 100_000_000.0
_EPOCH_TO: Final = 4_102_444_800.0  # the year 2100; later ones are no times of recorded runs
_MINUTE: Final = 60
_HOUR: Final = 3600
_FEW_SECONDS: Final = 10
_FEW_CENTS: Final = 0.01
_SHORT: Final = 1000


def number(value: float) -> str:
    """A whole number with groups of three."""
    return f"{round(value):,}"


def plural(value: int, word: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{value:,} {word}" if value == 1 else f"{value:,} {word}s"


def amount(value: float) -> str:
    """A large number in few characters: `950`, `12.3k`, `1.2M`."""
    for divisor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= divisor:
            scaled = value / divisor
            return f"{scaled:.0f}{unit}" if scaled >= 100 else f"{scaled:.1f}{unit}"  # noqa: PLR2004 - three digits
    return f"{value:.0f}"


def duration(seconds: float) -> str:
    """A length of time: `0.4 s`, `35 s`, `12 min`, `3 h 20 min`."""
    if seconds < _FEW_SECONDS:
        return f"{seconds:.1f} s"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    hours, rest = divmod(round(seconds / _MINUTE), _MINUTE)
    return f"{hours:,} h {rest} min"


def money(dollars: float) -> str:
    """US dollars: `$3.10`, `$0.004`."""
    return f"${dollars:,.2f}" if dollars >= _FEW_CENTS or dollars == 0 else f"${dollars:.4f}"


def percent(share: float) -> str:
    """A share from 0 to 1: `12 %`, `0.4 %`."""
    return f"{share * 100:.1f} %" if 0 < share < 0.1 else f"{share * 100:.0f} %"  # noqa: PLR2004 - two digits


def moment(at: float | None) -> str:
    """Date and time in UTC, or seconds where the file counts from something else; empty if unknown."""
    if at is None:
        return ""
    if _EPOCH_FROM <= at < _EPOCH_TO:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{at:.1f} s"


def place(ref: CallRef) -> str:
    """`call 12 (2026-01-02 03:04:05)`."""
    if ref.number == 0:
        return "before the first call"
    when = moment(ref.at)
    return f"call {ref.number:,}" + (f" ({when})" if when else "")


def spend(value: Spend) -> str:
    """`28 calls, 12 min, 120k tokens, 90k of them cached, $0.31`.

    What the file does not tell is left out, and no money too.
    """
    parts = [plural(value.calls, "call")]
    if value.seconds is not None:
        parts.append(duration(value.seconds))
    if value.tokens is not None:
        parts.append(f"{amount(value.tokens)} tokens")
    if value.cached_tokens:
        parts.append(f"{amount(value.cached_tokens)} of them cached")
    if value.cost:
        parts.append(money(value.cost))
    return ", ".join(parts)


def repetitions(totals: Totals) -> str:
    """`2 repetitions with news would only have been warned about: 12 calls, 40 s`."""
    news = " with news" if totals.with_news == totals.repetitions else f" ({totals.with_news:,} with news)"
    news = news if totals.with_news else ""
    return (
        f"{plural(totals.repetitions, 'repetition')}{news} would only have been warned about:"
        f" {spend(totals.repeated)}"
    )


def headline(totals: Totals) -> str:
    """`3 loops in 2 runs`."""
    return f"{plural(totals.loops, 'loop')} in {plural(totals.runs_with_loops, 'run')}"


def nothing(report: Report) -> str:
    """What stands in place of the loops where there are none."""
    if any(file.runs for file in report.files):
        return "No loops found."
    older = report.only_older
    if not older:
        return "No recorded runs found."
    return f"{plural(older, 'file')} {'holds' if older == 1 else 'hold'} only older runs."


def names(report: Report) -> dict[tuple[str, str], str]:
    """What to call each run, by path of its file and id of its stream: no two have the same name.

    That is its title, with as much of its file and stream before it as it takes to tell it apart.
    """
    runs = [(file.path, run.stream, run.title) for file in report.files for run in file.runs]
    forms = [
        (title, f"{PurePath(path).name}: {title}", f"{path}: {title}", f"{path} {stream}: {title}")
        for path, stream, title in runs
    ]
    taken = [Counter(column) for column in zip(*forms, strict=True)]
    return {
        (path, stream): next(
            (form[place] for place, counts in enumerate(taken) if counts[form[place]] == 1), form[-1]
        )
        for (path, stream, _), form in zip(runs, forms, strict=True)
    }


SWITCHED_OFF: Final = "The configuration switches all detectors off (enabled: false)"


def results(loop: Loop) -> str:
    """Whether the results were the same."""
    if loop.same_results is None:
        return "too few results to compare"
    if loop.pattern == "varied":
        return "all results the same" if loop.same_results else "results differ"
    return "the same results each time" if loop.same_results else "results changed"


def how(loop: Loop) -> str:
    """How the loop repeats, in a few words."""
    match loop.pattern:
        case "same":
            return f"one call, {plural(loop.calls, 'time')}"
        case "sequence":
            lap = len(loop.steps) + loop.more_steps
            word = "two calls in turn" if lap == 2 else f"a round of {lap} calls"  # noqa: PLR2004 - a pair
            return f"{word}, {plural(loop.calls, 'call')}"
        case "varied":
            kinds = len(loop.steps) + loop.more_steps
            return f"{plural(loop.calls, 'call')}, {kinds:,} different"
        case "none":
            return "compactions without any call between them"


_COUNTS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def guard_line(loop: Loop) -> str:
    """Where the guard would have acted, in the order of the calls; nothing after the end of the run."""
    parts = []
    if loop.warned is not None:
        parts.append(f"warned at call {loop.warned.number:,}")
    if loop.blocked is not None:
        parts.append(f"refused call {loop.blocked.number:,}")
    sooner = loop.ended_by is not None and (
        loop.aborted is None or loop.ended_by.number < loop.aborted.number
    )
    if loop.aborted is not None and not sooner:
        parts.append(f"ended the run {_end(loop, loop.aborted)}")
    line = "the guard would have " + ", ".join(parts) if parts else "the guard would have said nothing"
    if loop.ended_by is not None and sooner:
        line += (
            f"; had the agent gone on as recorded, the run would have ended"
            f" at call {loop.ended_by.number:,} at the latest"
        )
    return line


def _end(loop: Loop, at: CallRef) -> str:
    """Where the run would have ended, and why where it isn't that the loop went on."""
    where = f"at call {at.number:,}" if at.number else "before its first call"
    if loop.aborted_by != "post_compaction":
        return where
    count = loop.aborted_count
    many = _COUNTS[count] if count < len(_COUNTS) else f"{count:,}"
    if loop.pattern == "none":
        return f"{where} ({many} compactions without a finished call between them)"
    return f"{where} ({many} identical calls after a compaction)"
