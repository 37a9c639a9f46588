"""Log lines: stable words in a stable order, so that `grep` and alerts can rely on them.

Everything goes to the logger `loopwarden`. A program that has not set up logging sees nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loopwarden.events import Event, Verdict

logger = logging.getLogger("loopwarden")
logger.addHandler(logging.NullHandler())


def armed(window: int) -> None:
    """A compaction armed the post-compaction guard for `window` outcomes."""
    logger.info("post-compaction guard armed for %d attempts", window)


def found(verdict: Verdict, event: Event) -> None:
    """Something was found: one line when the model is told, and for every call that was refused.

    The line ends with `observed` where the action was not taken.
    """
    action = verdict.would or verdict.action
    if not verdict.announce and verdict.action not in {"block", "abort"}:
        return
    logger.warning(
        "loop tool=%s level=%s action=%s detector=%s count=%d threshold=%d run=%s key=%s%s",
        one_word(verdict.tool),
        verdict.level,
        action,
        verdict.detector,
        verdict.count,
        verdict.threshold,
        one_word(event.run_id),
        one_word(verdict.key),
        " observed" if verdict.would is not None else "",
    )


def one_word(text: str | None) -> str:
    """A name as it stands in a line: no white space, nothing that a terminal would obey, `-` for none."""
    if not text:
        return "-"
    return "".join(char if char.isprintable() and not char.isspace() else "?" for char in text)
