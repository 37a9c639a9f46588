"""Log lines: stable words in a stable order, so that `grep` and alerts can rely on them.

Everything goes to the logger `loopwarden`. A program that has not set up logging sees nothing. Each
record carries the same facts as a mapping (`record.loopwarden`), which the JSON formatter writes out.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from loopwarden.events import Event, Verdict

logger = logging.getLogger("loopwarden")
logger.addHandler(logging.NullHandler())

FACTS: Final = "loopwarden"
"""Attribute of a log record with its facts by name; records of other kinds have none."""


def armed(window: int) -> None:
    """A compaction armed the post-compaction guard for `window` outcomes."""
    facts = {"event": "armed", "attempts": window}
    logger.info("post-compaction guard armed for %d attempts", window, extra={FACTS: facts})


def found(verdict: Verdict, event: Event) -> None:
    """Something was found: one line, a warning where the model is told or the call was refused, else debug.

    The line ends with `observed` where the action was not taken.
    """
    loud = verdict.announce or verdict.action in {"block", "abort"}
    severity = logging.WARNING if loud else logging.DEBUG
    if not logger.isEnabledFor(severity):
        return
    facts = {
        "event": "loop",
        "tool": verdict.tool,
        "level": verdict.level,
        "action": verdict.would or verdict.action,
        "detector": verdict.detector,
        "count": verdict.count,
        "threshold": verdict.threshold,
        "run": event.run_id,
        "key": verdict.key,
        "observed": verdict.would is not None,
    }
    logger.log(
        severity,
        "loop tool=%s level=%s action=%s detector=%s count=%d threshold=%d run=%s key=%s%s",
        one_word(verdict.tool),
        verdict.level,
        facts["action"],
        verdict.detector,
        verdict.count,
        verdict.threshold,
        one_word(event.run_id),
        one_word(verdict.key),
        " observed" if verdict.would is not None else "",
        extra={FACTS: facts},
    )


def one_word(name: object) -> str:
    """A name as it stands in a line: no white space, nothing that a terminal would obey, `-` for none."""
    text = "" if name is None else str(name)  # a host may count its runs
    if not text:
        return "-"
    return "".join(char if char.isprintable() and not char.isspace() else "?" for char in text)
