"""Watches live sessions and says when a loop begins, grows into a refusal, or would have ended the run.

A file that changed is read again as a whole, since what a later record means may depend on all before it
(branches, replaced messages); how long that took decides how soon it may be read again. A file that is
replaced or cut short is thereby nothing special.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from loopwarden.scan.replay import scan_file
from loopwarden.transcripts.discover import Candidate
from loopwarden.transcripts.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from loopwarden.scan.replay import ScanOptions
    from loopwarden.scan.summary import FileReport, Loop, Run
    from loopwarden.transcripts.discover import Skipped

LIVE_SECONDS: Final = 300.0
"""A file that changed within this time before the watch began is looked at right away."""

_PATIENCE: Final = 10.0
_STAGES: Final = ("begins", "would now be refused", "would now end the run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something to tell the person.

    Attributes:
        file: Path of the file.
        run: The run, as far as it has come.
        loop: The loop, as far as it has come.
        stage: What is new about it, in words.
    """

    file: str
    run: Run
    loop: Loop
    stage: str


@dataclass(slots=True)
class _Watched:
    """A file that is known; `due` is the earliest time at which it is read again."""

    size: int
    modified: float | None
    known: bool
    due: float = 0.0
    changed: bool = False
    said: dict[tuple[str, str | int], int] = field(default_factory=dict)


class Follower:
    """Finds what is new each time it looks.

    Args:
        find: Lists the files there are now.
        options: How they are scanned.
        clock: Seconds that do not go back, for how long reading takes.
        now: Seconds since the epoch, compared with the files' times once, at the first look.
    """

    def __init__(
        self,
        find: Callable[[], Iterable[Candidate | Skipped]],
        options: ScanOptions,
        *,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._find = find
        self._options = options
        self._clock = clock
        self._now = now
        self._watched: dict[str, _Watched] | None = None

    @property
    def files(self) -> int:
        """How many files are watched."""
        return len(self._watched or {})

    def look(self) -> list[Notice]:
        """Look once: read what changed since the last time, and say what is new."""
        first = self._watched is None
        watched = self._watched = {} if self._watched is None else self._watched
        notices: list[Notice] = []
        for candidate in self._find():
            if not isinstance(candidate, Candidate) or candidate.source.path is None:
                continue
            label = candidate.source.label
            state = watched.get(label)
            if state is None:
                state = watched[label] = _Watched(candidate.size, candidate.modified, known=first)
                recent = (candidate.modified or 0.0) > self._now() - LIVE_SECONDS
                state.changed = not first or recent
            elif (candidate.size, candidate.modified) != (state.size, state.modified):
                state.size, state.modified, state.changed = candidate.size, candidate.modified, True
            if state.changed and self._clock() >= state.due:
                notices += self._read(candidate, state)
        return notices

    def _read(self, candidate: Candidate, state: _Watched) -> list[Notice]:
        begun = self._clock()
        source = Source(candidate.source.path, label=candidate.source.label, limits=candidate.source.limits)
        report = scan_file(source, candidate.reader, self._options)
        ended = self._clock()
        state.changed = False
        state.due = ended + _PATIENCE * (ended - begun)
        notices = list(self._news(report, state))
        state.known = False
        return notices

    def _news(self, report: FileReport, state: _Watched) -> Iterable[Notice]:
        for run in report.runs:
            for loop in run.loops:
                names: tuple[tuple[str, str | int], ...] = (
                    (run.stream, loop.key),
                    (run.stream, loop.first.number),
                )
                stage = 2 if loop.aborted is not None else 1 if loop.blocked is not None else 0
                before = max(state.said.get(name, -1) for name in names)
                for name in names:
                    state.said[name] = max(stage, before)
                over = state.known and run.calls - loop.last.number > self._history
                if stage > before and not over:
                    yield Notice(file=report.path, run=run, loop=loop, stage=_STAGES[stage])

    @property
    def _history(self) -> int:
        return self._options.config.settings(self._options.agent_id).history_size
