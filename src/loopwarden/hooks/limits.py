"""What the guard can't do in a coding agent, in words, from the table of hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loopwarden.hooks.hosts import HookHost


def limits(host: HookHost) -> list[str]:
    """Sentences about a host; empty for one without limits."""
    found = []
    kinds = set(host.events.values())
    if host.unknown_tools == "no":
        found.append("calls of tools that don't exist are not seen")
    if not host.aborts:
        found.append("a run can't be ended: every further call of it is refused")
    elif "request" in host.aborts:
        found.append("a run is ended at its next request to the model, not before a call")
    elif "before" not in host.aborts:
        found.append("a run is ended when the calls of a reply are over, not before one")
    if not host.warns:
        found.append("the model can't be warned: the first it hears is a refusal")
    elif "after" not in host.warns:
        found.append("the model is warned only after a call that failed")
    if not kinds & {"compacted", "request"}:
        found.append("a compaction of the history is not seen")
    elif "compacted" not in kinds:
        found.append("a compaction is seen by the shorter history of the next request")
    if not host.fields.call:
        found.append("calls have no ids: equal calls at the same time are told apart by their order")
    if host.cut is not None:
        found.append(
            f"results are cut to {host.cut:,} characters: two long ones with equal beginnings look alike"
        )
    if host.tested == "payloads":
        found.append("not run against the real program, but on events as its documentation has them")
    return found
