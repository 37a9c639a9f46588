"""What a reader gives: the events of a recorded file, stream by stream, with what they cost.

A file may hold several streams (an agent and its sub-agents, several sessions, several samples); each
is judged alone. Items of different streams may come interleaved; within one stream they come in the
order in which they happened.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.events import Event
    from loopwarden.transcripts.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """A stream begins; comes before any other item of that stream.

    Attributes:
        stream: Id, unique within the file.
        title: What a person would call it (session id, task id), at most one line.
        parent: Stream of the agent that started this one, `None` for a main agent.
        agent: Name of the agent or program, where the file tells.
        model: Name of the model, where the file tells.
    """

    stream: str
    title: str
    parent: str | None = None
    agent: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """One event of a stream. Run ids are those of the file, `None` where it has none."""

    stream: str
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Tokens and money of one model reply, given once per reply, after the calls of that reply.

    Attributes:
        stream: The stream that spent it.
        input_tokens: Tokens read, cached ones included.
        output_tokens: Tokens written.
        cached_tokens: Those of `input_tokens` that came from the provider's cache, which cost less; 0 where
            the file does not tell.
        cost: US dollars, where the file has it.
        at: Seconds since the epoch, where known.
    """

    stream: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    at: float | None = None
    cached_tokens: int = 0


Item: TypeAlias = StreamStart | Recorded | Spent


@dataclass(slots=True)
class ReadNotes:
    """What a reader met and handled, filled in while it reads; complete once the iterator is exhausted.

    Attributes:
        counts: How often each kind of oddity came up. The keys are words of `NOTE_KINDS`.
        first_line: Where it came up first (line counted from 1), per kind, where there are lines.
    """

    counts: Counter[str] = field(default_factory=Counter)
    first_line: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, line: int | None = None) -> None:
        """Count one oddity of `kind` (a key of `NOTE_KINDS`), met at `line`."""
        if kind not in NOTE_KINDS:
            raise KeyError(kind)
        self.counts[kind] += 1
        if line is not None:
            self.first_line.setdefault(kind, line)

    def merge(self, others: ReadNotes) -> None:
        """Add what was counted apart, of earlier lines."""
        self.counts.update(others.counts)
        for kind, line in others.first_line.items():
            self.first_line[kind] = min(line, self.first_line.get(kind, line))


NOTE_KINDS: dict[str, str] = {
    "bad_line": "lines that are no valid record",
    "long_line": "lines over the size limit, left out",
    "two_on_a_line": "lines that hold more than one record",
    "unknown_record": "records of an unknown type, left out",
    "result_without_call": "results whose call is not in the file",
    "call_without_result": "calls whose result is not in the file",
    "reused_id": "call ids used again for another call",
    "abandoned_branch": "records on branches that were abandoned, left out",
    "copied_history": "records copied from another session or step, left out",
    "replaced_record": "records replaced by a later one with the same id",
    "not_utf8": "lines that are no valid UTF-8, read with replacement characters",
    "too_deep": "records nested deeper than the limit, left out",
    "too_many_values": "records that hold more values than the limit, left out",
    "still_growing": "the file grew while it was read",
    "cut_member": "archive members over the size limit, left out",
}
"""Every kind of oddity with the words used for it in reports."""


class Reader(Protocol):
    """One format. Instances have no state; `READER` in the format's module is the one used."""

    @property
    def name(self) -> str:
        """Name used with `--format`, as `claude-code`."""

    @property
    def title(self) -> str:
        """Name for people, as `Claude Code session`."""

    def sniff(self, source: Source) -> bool:
        """Whether the content is of this format, told from `source.head` (and `source.kind`) alone.

        Must be quick, must not raise, and must say no to every other format's samples.
        """

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """The items of the file.

        Raises:
            TranscriptError: The file as a whole can't be read. Single bad records are counted in `notes`.
        """
