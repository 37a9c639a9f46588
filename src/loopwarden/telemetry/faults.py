"""Faults, told so that they can be mended and never fill the log.

Where the state of a run is once broken, every later call of that run meets the same fault: the first one of a
kind is told with its traceback, and of the others one line each time that their number has another digit.
"""

from __future__ import annotations

import sys
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

from loopwarden.telemetry import log

if TYPE_CHECKING:
    from types import TracebackType

Kind: TypeAlias = tuple[str, str, str, int]
"""What it did, type of the exception, module and line where it was raised."""

_KINDS: Final = 64
"""Kinds of faults that are told apart."""

_OTHERS: Final[Kind] = "fault", "of another kind", "", 0


class Faults:
    """Counts faults by their kind. Safe to share between threads."""

    __slots__ = ("_lock", "_met")

    def __init__(self) -> None:
        self._lock = Lock()
        self._met: dict[Kind, int] = {}

    def tell(self, what: str) -> None:
        """Log the exception that is being handled, or only count it.

        The first of a kind is logged with its traceback; the 10th, 100th, 1,000th, ... in one line.

        Args:
            what: What happened, and what it does to the agent.
        """
        error = sys.exception()
        place = _innermost(error.__traceback__) if error is not None else ("", 0)
        kind: Kind = what, type(error).__name__, *place
        with self._lock:
            if kind not in self._met and len(self._met) >= _KINDS:
                kind = _OTHERS
            count = self._met[kind] = self._met.get(kind, 0) + 1
        if count == 1:
            log.logger.exception(what)
        elif str(count).strip("0") == "1":
            module, line = place
            log.logger.error(
                "%s (%s in %s, line %d; %d times by now)",
                what,
                log.one_word(type(error).__name__),
                log.one_word(module),
                line,
                count,
            )


def _innermost(traceback: TracebackType | None) -> tuple[str, int]:
    """Module and line where it was raised."""
    if traceback is None:
        return "", 0
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return str(traceback.tb_frame.f_globals.get("__name__", "")), traceback.tb_lineno
