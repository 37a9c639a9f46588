"""The errors, one tree.

    LoopwardenError
    +-- ConfigError         what a person wrote is wrong (all faults at once)
    +-- StoreError          state could not be read or written
    +-- TranscriptError     a recorded run could not be read
    +-- MissingExtraError   an optional package is not installed
    LoopAborted             a signal: the guard ended the run

`LoopAborted` is no `LoopwardenError`: it says that the guard worked, so code that handles faults of
the guard must not swallow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from loopwarden.events import Verdict


LONGEST_REASON: Final = 500
"""Longest reason of a `TranscriptError` in characters; what is beyond is cut."""


def _plain(text: str) -> str:
    """`text` as a terminal may show it on one line: what is not printable is replaced."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


class LoopwardenError(Exception):
    """Anything that went wrong in loopwarden itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigProblem:
    """One thing in a configuration that is wrong or was repaired.

    Attributes:
        path: Where it stands, as `tools.loopDetection.historySize`; empty for the whole file.
        message: What is wrong, what was given, what is allowed.
        line: Line in the file counted from 1, where it is known.
        suggestion: The nearest known name for an unknown key, else `None`.
    """

    path: str
    message: str
    line: int | None = None
    suggestion: str | None = None

    def __str__(self) -> str:
        where = self.path or "(file)"
        if self.line is not None:
            where = f"line {self.line}, {where}"
        hint = f" (did you mean {self.suggestion!r}?)" if self.suggestion else ""
        return f"{where}: {self.message}{hint}"


class ConfigError(LoopwardenError):
    """A configuration is wrong; nothing runs on half of one.

    Attributes:
        problems: Every fault that was found, in the order of the file.
        source: File or other origin of the configuration, `None` for a Python mapping.
    """

    def __init__(self, problems: tuple[ConfigProblem, ...], source: str | None = None) -> None:
        self.problems = problems
        self.source = source
        head = _plain(source) if source is not None else "configuration"
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__("\n".join([f"{head}: {count}", *(f"  {problem}" for problem in problems)]))


class StoreError(LoopwardenError):
    """The guard's state could not be read or written."""


class TranscriptError(LoopwardenError):
    """A recorded run could not be read.

    Attributes:
        source: Name of the file or stream, safe to print.
        reason: What is wrong with it, one line of bounded length, safe to print.
    """

    def __init__(self, source: str, reason: str) -> None:
        self.source = _plain(source)
        reason = _plain(reason)
        self.reason = reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 3]}..."
        super().__init__(f"{self.source}: {self.reason}")


class MissingExtraError(LoopwardenError):
    """An optional package is not installed.

    Attributes:
        package: What could not be imported.
        extra: The extra of loopwarden that brings it.
    """

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{package} is not installed; run: pip install 'loopwarden[{extra}]'")


class LoopAborted(Exception):  # noqa: N818 - a signal, not a fault
    """The guard ended the run.

    Attributes:
        verdict: The verdict that ended it; its `message` says why.
    """

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(verdict.message or verdict.error or "the run was ended")
