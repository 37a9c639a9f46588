"""The breaker over all tools: a call without progress that nothing else stopped.

## What it sees
The number of outcomes in a row that are the same for one call, of any tool and kind, refused repeats
included. Where it is reached the run is ended, whichever detector is named.

## Why it matters
Refusals, a detector that is switched off, and a tool with thresholds of its own all leave room for a
loop to go on. The breaker is the end of that room.

## When it stays silent
Below its threshold, and whenever an outcome changed. It has no switch.

## What it doesn't catch
Loops over several calls of which none repeats often enough by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.core.finding import Finding, short

if TYPE_CHECKING:
    from loopwarden.core.profile import ToolUse

OPTIONS = ("globalCircuitBreakerThreshold", "historySize")
EXAMPLE = "p" * 33
LEGEND = (("p", "process", {"action": "poll", "sessionId": "s1"}, "running"),)


def judge(use: ToolUse, signature: bytes, streak: int) -> Finding | None:
    """Judge a call whose newest `streak` outcomes are the same, refusals counted in."""
    if streak < use.breaker:
        return None
    seen = f"{use.tool} was asked for {streak} times with the same arguments and never brought anything new."
    key = f"repeat:{short(signature)}"
    return Finding(
        "global_circuit_breaker", "critical", streak, use.breaker, key, seen, (signature,), (use.tool,)
    )
