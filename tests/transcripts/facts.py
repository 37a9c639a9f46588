"""The numbers of the "facts" column in `samples/SOURCES.md`, worked out from what a reader gives."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopwarden.events import Outcome, ToolCall
from loopwarden.transcripts.model import ReadNotes, Recorded, StreamStart
from loopwarden.transcripts.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from loopwarden.transcripts.model import Item, Reader

SAMPLES = Path(__file__).parent / "samples"
WINDOW = 30


@dataclass(frozen=True)
class Facts:
    """`alt` and `cycle` are 0 where the table leaves them out: under 3 calls, or under 2 whole laps."""

    calls: int = 0
    win: int = 0
    winres: int = 0
    streak: int = 0
    alt: int = 0
    cycle: int = 0
    period: int = 0


def items_of(reader: Reader, sample: str, notes: ReadNotes | None = None) -> list[Item]:
    """Every item of `samples/<sample>`."""
    return list(reader.read(Source(SAMPLES / sample), notes if notes is not None else ReadNotes()))


def facts(items: Iterable[Item], *, every_stream: bool = False) -> Facts:
    """Facts over the first stream that has calls (the first stream if none has), or over all as one."""
    items = list(items)
    first = next(
        (item.stream for item in items if isinstance(item, Recorded) and isinstance(item.event, ToolCall)),
        None,
    )
    signatures: list[str] = []
    results: list[str | None] = []
    open_calls: dict[tuple[str, str], int] = {}
    for item in items:
        if not isinstance(item, Recorded) or not (every_stream or item.stream == first):
            continue
        event = item.event
        if isinstance(event, ToolCall):
            open_calls[item.stream, event.call_id] = len(signatures)
            signatures.append(_canonical([event.tool, event.arguments]))
            results.append(None)
        elif isinstance(event, Outcome):
            place = open_calls.pop((item.stream, event.call_id), None)
            if place is not None:
                results[place] = result_text(event)
    # a call without a result equals no other
    pairs = [
        f"{signature}\0{result if result is not None else ('none', place)}"
        for place, (signature, result) in enumerate(zip(signatures, results, strict=True))
    ]
    cycle, period = _longest_cycle(signatures)
    return Facts(
        calls=len(signatures),
        win=_most_in_window(signatures),
        winres=_most_in_window(pairs),
        streak=_longest_streak(signatures),
        alt=_longest_alternation(signatures),
        cycle=cycle,
        period=period,
    )


def streams(items: Iterable[Item]) -> list[str]:
    """Ids of the streams in order; each must start once and before its other items."""
    seen: list[str] = []
    for item in items:
        if isinstance(item, StreamStart):
            assert item.stream not in seen
            seen.append(item.stream)
        else:
            assert item.stream in seen
    return seen


def events(items: Iterable[Item], kind: type) -> list[Any]:
    """The events of one class, over all streams."""
    return [item.event for item in items if isinstance(item, Recorded) and isinstance(item.event, kind)]


def result_text(outcome: Outcome) -> str:
    """The text of a result, without details and flags."""
    if outcome.error is not None:
        return outcome.error
    result = outcome.result
    if isinstance(result, dict) and isinstance(result.get("content"), list):
        parts = result["content"]
        return "\n".join(
            part["text"] if isinstance(part, dict) and "text" in part else _canonical(part) for part in parts
        )
    return _canonical(result)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


def _most_in_window(row: Sequence[str]) -> int:
    return max(
        (
            max(Counter(row[end - WINDOW if end > WINDOW else 0 : end]).values())
            for end in range(1, len(row) + 1)
        ),
        default=0,
    )


def _longest_streak(row: Sequence[str]) -> int:
    best = length = 0
    for place, signature in enumerate(row):
        length = length + 1 if place and row[place - 1] == signature else 1
        best = max(best, length)
    return best


def _longest_alternation(row: Sequence[str]) -> int:
    best = length = 0
    for place in range(2, len(row)):
        alternates = row[place] == row[place - 2] != row[place - 1]
        length = max(length, 2) + 1 if alternates else 0
        best = max(best, length)
    return best


def _longest_cycle(row: Sequence[str]) -> tuple[int, int]:
    best = (0, 0)
    for period in range(3, 7):
        length = 0
        for place in range(period, len(row)):
            length = max(length, period) + 1 if row[place] == row[place - period] else 0
            lap = row[place - period + 1 : place + 1]
            shorter = any(all(lap[i] == lap[i - p] for i in range(p, period)) for p in range(1, period))
            if length >= 2 * period and not shorter and length > best[0]:
                best = (length, period)
    return best
