"""What a scan found, in plain values: safe to show, to send between processes, to write as JSON.

Numbers of calls count from 1 within a run. A *run* of a report is one stream of a file: a main agent or
a sub-agent of a session. Everything that came from a file has been shortened, masked and cleaned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from array import array

    from loopwarden.events import DetectorId, Level
    from loopwarden.transcripts.discover import Why

Pattern: TypeAlias = Literal["same", "sequence", "varied", "none"]
"""How a loop repeats: `same` call again and again; a `sequence` of calls in order; `varied` calls that
the detector counts together; `none`: compactions without any call."""

LEVEL_WEIGHT: Final[dict[Level, int]] = {"warning": 1, "critical": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """What some calls took.

    Attributes:
        calls: How many calls.
        seconds: Time from the latest moment recorded before each call to its end, summed; a person's
            pause before a message is not in it. `None` where the file has no times.
        input_tokens: Tokens that the replies which asked for these calls read, cached ones included; a
            reply with other calls too counts by its share. `None` where the file has no tokens.
        output_tokens: Tokens that those replies wrote, likewise.
        cost: US dollars of those replies, likewise.
        cached_tokens: Those of `input_tokens` that came from a provider's cache, where the file tells.
    """

    calls: int = 0
    seconds: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    cost: float | None = None
    cached_tokens: float | None = None

    @property
    def tokens(self) -> float | None:
        """Tokens read and written, `None` where the file has none."""
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    def __add__(self, other: Spend) -> Spend:
        return Spend(
            calls=self.calls + other.calls,
            seconds=_sum(self.seconds, other.seconds),
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            cost=_sum(self.cost, other.cost),
            cached_tokens=_sum(self.cached_tokens, other.cached_tokens),
        )


def _sum(left: float | None, right: float | None) -> float | None:
    if left is None:
        return right
    return left if right is None else left + right


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRef:
    """A place in a run.

    Attributes:
        number: The call with this number; 0 is before the first.
        at: Its time in seconds as recorded (since the epoch in most formats), `None` if unknown.
    """

    number: int
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One kind of call in a loop.

    Attributes:
        tool: Name of the tool.
        arguments: Shortened, with secrets masked.
        calls: How many calls of the loop are this one.
        signature: Number of its colour in the run's timeline.
    """

    tool: str
    arguments: str
    calls: int
    signature: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One loop of a run. Findings of several detectors about mostly the same calls are one loop.

    What is only of level `warning` would go on under a guard, which says a word about it and no more:
    a *repetition*. Sums keep the two apart.

    Attributes:
        key: Names it within the run.
        detectors: Who found it, the strongest first, those that say more than how long it went on before
            the others.
        level: The strongest level.
        tool: Tool of the strongest finding, empty for `none`.
        paired_tools: The other tools of an alternation or a cycle.
        pattern: How it repeats.
        steps: The calls that repeat, in order of the sequence where there is one, shortened to a few.
        more_steps: How many different calls are left out of `steps`.
        signatures: Numbers of all its different calls, those of `steps` included.
        calls: How many calls belong to it.
        count: What the strongest detector counted at last.
        threshold: The number which that count reached.
        first: Its first call.
        last: Its last call.
        same_results: Whether each call of it gave the same result every time; `None`: fewer than two
            results to compare.
        compactions: Compactions between its first and its last call.
        warned: Where the guard would have warned; `None` where it would have refused or ended the run
            before that.
        blocked: Where it would have refused a call first; `None` where the run would have ended before.
        aborted: Where it would have ended the run, from this loop's verdicts alone.
        aborted_by: The detector that would have ended it, `None` if `aborted` is.
        aborted_count: What that detector counted then.
        ended_by: Where it would have ended the run at the latest, had the agent gone on as recorded:
            the call of this loop that is refused for the last time before the limit.
        after_warning: What went on after the first finding, to the last call of the loop, the call with
            the finding left out.
        after_block: The same after the first refusal; `None` where there is none.
        message: What the model would have been told first.
    """

    key: str
    detectors: tuple[DetectorId, ...]
    level: Level
    tool: str
    paired_tools: tuple[str, ...] = ()
    pattern: Pattern
    steps: tuple[Step, ...]
    more_steps: int = 0
    signatures: tuple[int, ...] = ()
    calls: int
    count: int
    threshold: int
    first: CallRef
    last: CallRef
    same_results: bool | None
    compactions: int
    warned: CallRef | None
    blocked: CallRef | None
    aborted: CallRef | None
    aborted_by: DetectorId | None = None
    aborted_count: int = 0
    ended_by: CallRef | None
    after_warning: Spend
    after_block: Spend | None
    message: str

    @property
    def repetition(self) -> bool:
        """Whether the guard would only have warned about it."""
        return self.level == "warning"

    @property
    def badness(self) -> tuple[float, ...]:
        """Sorts the worst last: critical before warning, then calls and tokens spent after the warning."""
        spend = self.after_warning
        return (LEVEL_WEIGHT[self.level], spend.calls, spend.tokens or 0, self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Every call of a run in order, as numbers.

    Attributes:
        signatures: Number of the call's signature; equal calls have equal numbers.
        weights: What the guard would have said: 0 nothing, 1 warn, 2 block, 3 abort. After an abort the
            calls of its loop have 0.
        tools: Names of the tools.
        tool_of: Index in `tools` for each signature.
        compactions: Numbers of the calls after which the history was summarised.
    """

    signatures: array[int]
    weights: bytes
    tools: tuple[str, ...]
    tool_of: array[int]
    compactions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One stream of a file.

    Attributes:
        stream: Id within the file.
        title: What a person would call it.
        parent: Stream that started it, `None` for a main agent.
        agent: Name of the agent, where the file tells.
        model: Name of the model, where the file tells.
        calls: How many calls.
        calls_in_loops: How many of them belong to a loop that would be refused or ended, each counted once.
        calls_in_repetitions: How many of the others belong to a repetition.
        first_at: Time of the first call in seconds, `None` if unknown.
        last_at: Time of the last event.
        spent: What the whole run took.
        waste: What went on in loops after the first finding of each, each call counted once.
        repeated: The same for repetitions, without what is in `waste`.
        loops: Loops and repetitions, the worst first.
        timeline: Every call.
    """

    stream: str
    title: str
    parent: str | None = None
    agent: str | None = None
    model: str | None = None
    calls: int
    calls_in_loops: int
    calls_in_repetitions: int = 0
    first_at: float | None
    last_at: float | None
    spent: Spend
    waste: Spend
    repeated: Spend = Spend()
    loops: tuple[Loop, ...]
    timeline: Timeline

    @property
    def stuck(self) -> int:
        """How many of `loops` would have been refused or ended."""
        return sum(not loop.repetition for loop in self.loops)

    @property
    def repetitions(self) -> int:
        """How many of `loops` would only have been warned about."""
        return sum(loop.repetition for loop in self.loops)

    @property
    def badness(self) -> tuple[float, ...]:
        """Sorts the worst last."""
        level = max((LEVEL_WEIGHT[loop.level] for loop in self.loops), default=0)
        spend = self.waste if level == LEVEL_WEIGHT["critical"] else self.repeated
        return (level, spend.calls, spend.tokens or 0, self.calls_in_loops, self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """One file.

    Attributes:
        path: How the file is called.
        size: Bytes on disk.
        format: Name of the format, `None` where it is not known.
        runs: Its runs, the worst first.
        notes: Oddities that the reader handled, kind to how often.
        error: Why the file could not be read (wholly), one line; `None` if it was.
        why: The kind of reason; a file that is `empty` counts as read, since there was nothing in it.
        older: How many of its runs were left out because they ended before `since`.
    """

    path: str
    size: int = 0
    format: str | None = None
    runs: tuple[Run, ...] = ()
    notes: dict[str, int] = field(default_factory=dict)
    error: str | None = None
    why: Why | None = None
    older: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole scan.

    Attributes:
        files: In the order in which they were given, those without any known format at the end.
        config: Where the configuration came from, for people.
        config_warnings: What was repaired in it.
        since: Runs whose last event is older (seconds since the epoch) were left out; `None`: none were.
        looked_in: Where sessions were looked for when no path was given, each with how many were found.
        switched_off: Whether the configuration says `enabled: false`, so that nothing can be found.
        unchanged: How many more files were not read through, since they last changed before `since`.
    """

    files: tuple[FileReport, ...]
    config: str = "built-in defaults"
    config_warnings: tuple[str, ...] = ()
    since: float | None = None
    looked_in: tuple[tuple[str, str, int], ...] = ()
    switched_off: bool = False
    unchanged: int = 0

    @property
    def runs(self) -> list[tuple[FileReport, Run]]:
        """Every run with its file, the worst first."""
        found = [(file, run) for file in self.files for run in file.runs]
        return sorted(found, key=lambda pair: pair[1].badness, reverse=True)

    @property
    def loops(self) -> list[tuple[FileReport, Run, Loop]]:
        """Every loop that would have been refused or ended, the worst first."""
        return self._loops(repetitions=False)

    @property
    def repetitions(self) -> list[tuple[FileReport, Run, Loop]]:
        """Every repetition that would only have been warned about, the longest first."""
        return self._loops(repetitions=True)

    def _loops(self, *, repetitions: bool) -> list[tuple[FileReport, Run, Loop]]:
        found = [
            (file, run, loop)
            for file in self.files
            for run in file.runs
            for loop in run.loops
            if loop.repetition is repetitions
        ]
        return sorted(found, key=lambda triple: triple[2].badness, reverse=True)

    @property
    def only_older(self) -> int:
        """How many files hold nothing but runs that ended before `since`."""
        return self.unchanged + sum(bool(file.older) and not file.runs for file in self.files)

    @property
    def unreadable(self) -> list[FileReport]:
        """The files that could not be read."""
        return [file for file in self.files if file.error is not None and file.why != "empty"]

    @property
    def totals(self) -> Totals:
        """The sums over all runs."""
        runs = [run for file in self.files for run in file.runs]
        spent = waste = repeated = Spend()
        for run in runs:
            spent += run.spent
            waste += run.waste
            repeated += run.repeated
        repetitions = [loop for run in runs for loop in run.loops if loop.repetition]
        return Totals(
            files=len(self.files),
            unreadable=len(self.unreadable),
            runs=len(runs),
            runs_with_loops=sum(bool(run.stuck) for run in runs),
            runs_with_repetitions=sum(bool(run.repetitions) for run in runs),
            loops=sum(run.stuck for run in runs),
            repetitions=len(repetitions),
            with_news=sum(loop.same_results is False for loop in repetitions),
            calls_in_loops=sum(run.calls_in_loops for run in runs),
            calls_in_repetitions=sum(run.calls_in_repetitions for run in runs),
            spent=spent,
            waste=waste,
            repeated=repeated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over a report; `spent.calls` are all calls, `waste` and `repeated` as in `Run`.

    `loops` would have been refused or ended, `repetitions` only warned about, `with_news` of these with
    results that changed.
    """

    files: int
    unreadable: int
    runs: int
    runs_with_loops: int
    runs_with_repetitions: int
    loops: int
    repetitions: int
    with_news: int
    calls_in_loops: int
    calls_in_repetitions: int
    spent: Spend
    waste: Spend
    repeated: Spend

    @property
    def share_in_loops(self) -> float:
        """Share of all calls that belong to loops, 0 to 1."""
        return self.calls_in_loops / self.spent.calls if self.spent.calls else 0.0
