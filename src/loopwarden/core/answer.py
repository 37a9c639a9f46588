"""From a finding to the verdict: what the model is told, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loopwarden.events import Verdict

if TYPE_CHECKING:
    from loopwarden.core.finding import Finding
    from loopwarden.events import AbortCode, Action

GROWTH: Final = 10
"""A loop is announced again when it has grown by this many."""

_LOOPS: Final = 256
"""Loops whose announcements are remembered; the oldest is forgotten first."""

_NEXT: Final = {
    "warn": (
        "If the next step would be the same again, change the arguments or the approach, or say what is "
        "missing."
    ),
    "block": (
        "This call was refused and did not run. Do something else: use what you already know, try another "
        "way, or tell the user what is in the way. Asking again for the same will be refused again."
    ),
    "abort": "This call did not run, and the run ends here.",
}

_ENDS: Final = "The run ends here."


class Announcements:
    """Remembers what was said of which loop, so that it is said on crossings and every ten."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: dict[str, tuple[str, int, int]] = {}

    def due(self, finding: Finding, now: int, quiet: int) -> bool:
        """Whether the model is to be told now.

        Args:
            finding: What was found.
            now: Number of the present call.
            quiet: Calls without a finding after which it counts as another loop.
        """
        level, count, when = self._said.get(finding.key, ("", 0, now))
        news = level not in {finding.level, "critical"}
        due = news or finding.count >= count + GROWTH or now - when > quiet
        said = (finding.level, finding.count, now) if due else (level, count, now)
        self._said.pop(finding.key, None)
        self._said[finding.key] = said
        if len(self._said) > _LOOPS:
            del self._said[next(iter(self._said))]
        return due


def verdict(
    finding: Finding,
    action: Action,
    *,
    tool: str | None,
    ran: bool = False,
    acts: bool,
    announce: bool,
    error: AbortCode | None = None,
    reason: str = "",
) -> Verdict:
    """The verdict on a finding.

    Args:
        finding: What was found.
        action: What is to be done.
        tool: Tool of the present call, `None` where the event is no call.
        ran: Whether the present call has run already.
        acts: Whether the action is taken; else it stands in `would`.
        announce: Whether the model is to be told now.
        error: Code of the abort.
        reason: A further sentence, put after what was seen.
    """
    parts = [finding.seen]
    if reason:
        parts.append(reason)
    if acts and action in _NEXT:  # where nothing is done, nothing of it is to be claimed
        parts.append(_ENDS if ran or tool is None else _NEXT[action])
    return Verdict(
        action=action if acts else "allow",
        level=finding.level,
        detector=finding.detector,
        count=finding.count,
        threshold=finding.threshold,
        tool=tool,
        paired_tools=tuple(one for one in finding.tools if one != tool),
        message=" ".join(parts),
        key=finding.key,
        error=error,
        would=None if acts or action == "allow" else action,
        announce=announce,
    )
