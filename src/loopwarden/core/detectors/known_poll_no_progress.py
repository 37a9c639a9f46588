"""A poll that brings nothing new.

## What it sees
Outcomes in a row that are the same, for a call that asks how something long is going (kind `poll`).
Status, exit code and output are compared; hints when to ask again are not.

## Why it matters
Polling is good work as long as it brings news, so polls are no matter for `generic_repeat`. A job that
hangs looks the same on every poll, and nobody but the guard counts.

## When it stays silent
Whenever the answer changed: a poll with new output starts again at one. Editing files does not free it,
since a job that hangs is not helped by that.

## What it doesn't catch
A job whose output moves on for ever without an end (a progress bar that goes round).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.core.finding import Finding, short

if TYPE_CHECKING:
    from loopwarden.core.profile import ToolUse
    from loopwarden.events import Level

OPTIONS = ("detectors.knownPollNoProgress", "warningThreshold", "criticalThreshold", "toolProfiles.*.kind")
EXAMPLE = "p" * 23
LEGEND = (("p", "process", {"action": "poll", "sessionId": "s1"}, "running"),)


def judge(use: ToolUse, signature: bytes, streak: int) -> Finding | None:
    """Judge a poll whose newest `streak` outcomes are the same."""
    level: Level
    if streak >= use.critical:
        level, threshold = "critical", use.critical
    elif streak >= use.warning:
        level, threshold = "warning", use.warning
    else:
        return None
    seen = f"{use.tool} was polled {streak} times and nothing changed."
    key = f"repeat:{short(signature)}"
    return Finding("known_poll_no_progress", level, streak, threshold, key, seen, (signature,), (use.tool,))
