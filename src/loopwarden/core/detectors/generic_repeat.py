"""The same call again and again.

## What it sees
Calls of one signature (tool and arguments) in the window. The warning counts the calls, whatever came of
them; a refusal needs outcomes that are the same in a row, with no other outcome of that call between.
Calls of other tools in between do not hide the repetition.

## Why it matters
It is the plainest loop and the most frequent one: a model reads the same file, runs the same command or
asks the same query, gets the same answer, and asks again.

## When it stays silent
Below the thresholds; for calls that poll or wait (`known_poll_no_progress` looks at polls); when a new
write came between (a build or a test after an edit is a new experiment); it never refuses a call
whose result changes. Identical calls of one model reply count once.

## What it doesn't catch
The same question in other words (`stagnation`, `repeated_failure`), and calls that take turns
(`ping_pong`, `cycle`) before each of them repeats often enough by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.core.finding import Finding, short

if TYPE_CHECKING:
    from loopwarden.core.profile import ToolUse
    from loopwarden.events import Level

OPTIONS = ("detectors.genericRepeat", "warningThreshold", "criticalThreshold", "historySize", "resetOnWrite")
EXAMPLE = "a" * 23
LEGEND = ()


def judge(use: ToolUse, signature: bytes, count: int, streak: int) -> Finding | None:
    """Judge a call that has `count` predecessors, the newest `streak` of them with one outcome."""
    if streak >= use.critical:
        seen = (
            f"{use.tool} was called {streak} times with the same arguments and always gave the same result."
        )
        return _finding(use, signature, "critical", streak, seen)
    if count >= use.warning:
        seen = f"{use.tool} was called {count} times with the same arguments."
        return _finding(use, signature, "warning", count, seen)
    return None


def judge_batch(use: ToolUse, signature: bytes, identical: int) -> Finding | None:
    """Judge a call that is number `identical` of the same kind within one turn.

    Calls of one model reply are that, and, where a host tells of no replies, calls none of which has ended.
    """
    if identical <= use.critical:
        return None
    seen = f"{use.tool} was asked for {identical} times with the same arguments before any result came back."
    return _finding(use, signature, "critical", identical, seen)


def _finding(use: ToolUse, signature: bytes, level: Level, count: int, seen: str) -> Finding:
    threshold = use.critical if level == "critical" else use.warning
    key = f"repeat:{short(signature)}"
    return Finding("generic_repeat", level, count, threshold, key, seen, (signature,), (use.tool,))
