"""One file: its events through the guard in observe mode, stream by stream.

The guard of a scan says what it would have done and never refuses, since what is recorded ran. The
rolling detectors are looked at as if `enabled` were true unless the configuration says `false`.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loopwarden.errors import LoopwardenError, TranscriptError
from loopwarden.events import Compaction, Outcome, ToolCall, UserMessage
from loopwarden.guard import LoopGuard
from loopwarden.masking import clean
from loopwarden.scan.describe import describe_run
from loopwarden.scan.loops import Findings
from loopwarden.scan.summary import FileReport
from loopwarden.scan.trace import Trace
from loopwarden.transcripts.model import ReadNotes, Recorded, Spent, StreamStart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from loopwarden.config import Config
    from loopwarden.events import Event
    from loopwarden.guard import GuardSession
    from loopwarden.scan.summary import Run
    from loopwarden.transcripts.model import Item, Reader
    from loopwarden.transcripts.source import Source

_MESSAGE_SHOWN = 300
_EPOCH_FROM = 100_000_000.0
"""Times below this many seconds count from something else than the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """How files are scanned.

    Attributes:
        config: The configuration, as loaded.
        agent_id: Entry of `agents.list` whose settings apply, `None` for the global block.
        since: Runs whose last event is older (seconds since the epoch) are left out.
    """

    config: Config
    agent_id: str | None = None
    since: float | None = None

    @property
    def switched_off(self) -> bool:
        """Whether the configuration says `enabled: false`, so that nothing can be found."""
        return self.config.settings(self.agent_id).enabled is False


@dataclass(slots=True)
class Stream:
    """A stream while it is replayed."""

    start: StreamStart
    session: GuardSession
    trace: Trace = field(default_factory=Trace)
    findings: Findings = field(init=False)

    def __post_init__(self) -> None:
        self.findings = Findings(self.trace)

    def feed(self, event: Event) -> None:
        """Give one event to the guard and keep what it said."""
        verdict, compared = self.session.examine(event)
        trace = self.trace
        if isinstance(event, ToolCall):
            index = trace.call(event, compared)
        elif isinstance(event, Outcome):
            found = trace.outcome(event.run_id, event.call_id, hash(compared), event.at)
            if found is None:
                return
            index = found
        else:
            index = len(trace) - 1
            if isinstance(event, Compaction):
                trace.compactions.append(len(trace))
            elif isinstance(event, UserMessage):
                trace.pause(event.at)
            else:
                trace.retract(event.run_id, event.call_ids)
        if verdict.detector is not None:
            self.findings.note(verdict, index, call=isinstance(event, ToolCall))


def play_items(
    items: Iterable[Item],
    guard: LoopGuard,
    streams: dict[str, Stream],
    tick: Callable[[], None] | None = None,
) -> None:
    """Replay items.

    Args:
        items: What a reader gives; what came before an error stays in `streams`.
        guard: In observe mode; each stream gets a session of its own.
        streams: Filled in, in the order in which the streams begin.
        tick: Called now and then, for a progress bar.
    """
    for count, item in enumerate(items):
        if tick is not None and not count & 0xFFF:
            tick()
        if type(item) is Recorded:
            streams[item.stream].feed(item.event)
        elif type(item) is Spent:
            streams[item.stream].trace.spent(
                item.input_tokens, item.output_tokens, item.cost, item.cached_tokens
            )
        elif type(item) is StreamStart and item.stream not in streams:
            streams[item.stream] = Stream(item, guard.session(item.stream))


def scan_file(
    source: Source, reader: Reader, options: ScanOptions, tick: Callable[[], None] | None = None
) -> FileReport:
    """The report on one file; a file that can't be read is reported, never raised."""
    notes = ReadNotes()
    streams: dict[str, Stream] = {}
    error = None
    try:
        if source.path is None:
            _ = source.head  # of a stream it can't be looked at later
        guard = LoopGuard(options.config, agent_id=options.agent_id, mode="observe")
        with _no_collection():
            play_items(reader.read(source, notes), guard, streams, tick)
    except TranscriptError as fault:
        error = fault.reason
    except (LoopwardenError, OSError) as fault:
        error = str(fault)
    except Exception as fault:  # noqa: BLE001 - one odd file must not end the scan of all others
        error = f"could not be read as {reader.title}: {type(fault).__name__}: {fault}"
    if not any(len(stream.trace) for stream in streams.values()) and not _fits(reader, source):
        error = f"not a {reader.name} file" + (f" ({error})" if error else "")
        streams = {}
    source.forget()
    limit = options.config.settings(options.agent_id).refused_call_limit
    runs = [
        describe_run(stream.start, stream.trace, stream.findings.loops(), limit)
        for stream in streams.values()
        if options.since is None or not _ended_before(stream.trace.last_at, options.since)
    ]
    return FileReport(
        path=clean(source.label, 1000),
        size=source.size,
        format=reader.name,
        runs=tuple(sorted(runs, key=_badness, reverse=True)),
        notes=dict(notes.counts),
        error=None if error is None else clean(error, _MESSAGE_SHOWN),
        why=None if error is None else "unreadable",
        older=len(streams) - len(runs),
    )


def _fits(reader: Reader, source: Source) -> bool:
    """Whether the file is of the reader's format; one that can't be opened may be."""
    try:
        return reader.sniff(source)
    except TranscriptError:
        return True


def _ended_before(last_at: float | None, since: float) -> bool:
    return last_at is not None and _EPOCH_FROM < last_at < since


def _badness(run: Run) -> tuple[float, ...]:
    return run.badness


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the garbage collector, which finds nothing in records that hold no cycles but looks at all."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
