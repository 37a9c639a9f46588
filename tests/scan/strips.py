"""Recorded runs from strips of letters, and what a scan says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.config import load_config
from loopwarden.events import Compaction, Outcome, ToolCall, UserMessage
from loopwarden.guard import LoopGuard
from loopwarden.scan.describe import describe_run
from loopwarden.scan.replay import Stream, play_items
from loopwarden.scan.summary import FileReport, Report
from loopwarden.transcripts.model import Recorded, Spent, StreamStart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from loopwarden.scan.summary import Run
    from loopwarden.transcripts.model import Item

SMALL = {"enabled": True, "warningThreshold": 3, "criticalThreshold": 5, "globalCircuitBreakerThreshold": 9}
"""Thresholds that keep strips short."""


def events(strip: str, *, seconds: float | None = None, tokens: int | None = None) -> Iterator[Item]:
    """Items of one stream.

    A small letter is a call with its usual result, a capital one the same call with a new result, `|` a
    compaction, `u` a user message. Each call lasts half of its `seconds`.

    Args:
        strip: What happened.
        seconds: Time from call to call; `None` leaves times out.
        tokens: Tokens read by each reply, a tenth of it written; `None` leaves them out.
    """
    yield StreamStart(stream="s", title="run s")
    for number, letter in enumerate(strip):
        at = None if seconds is None else 1_800_000_000 + number * seconds
        end = None if at is None or seconds is None else at + seconds / 2
        if letter == "|":
            yield Recorded("s", Compaction(at=at))
            continue
        if letter == "u":
            yield Recorded("s", UserMessage(at=at))
            continue
        tool = "look" if letter.lower() != "z" else "wait"
        yield Recorded("s", ToolCall(tool=tool, arguments={"q": letter.lower()}, call_id=f"c{number}", at=at))
        text = f"result of {letter}" + (str(number) if letter.isupper() else "")
        if tokens is not None:
            yield Spent(stream="s", input_tokens=tokens, output_tokens=tokens // 10, cost=0.01, at=at)
        yield Recorded("s", Outcome(call_id=f"c{number}", result=text, at=end))


def scan_items(items: Iterable[Item], config: Mapping[str, Any] = SMALL) -> list[Run]:
    """What a scan makes of the items."""
    loaded = load_config(config)
    streams: dict[str, Stream] = {}
    play_items(items, LoopGuard(loaded, mode="observe"), streams)
    limit = loaded.settings().refused_call_limit
    return [
        describe_run(stream.start, stream.trace, stream.findings.loops(), limit)
        for stream in streams.values()
    ]


def scan_strip(strip: str, config: Mapping[str, Any] = SMALL, **given: Any) -> Run:
    """What a scan makes of one strip."""
    (run,) = scan_items(events(strip, **given), config)
    return run


def report_of(*runs: Run, path: str = "runs.jsonl", **given: Any) -> Report:
    """A report on one file with these runs."""
    return Report(files=(FileReport(path=path, size=10, format="events", runs=runs),), **given)
