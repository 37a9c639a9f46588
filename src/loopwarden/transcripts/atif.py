"""ATIF, the trajectory format of Harbor and terminal-bench, versions 1.0 to 1.8: one JSON document.

Steps that were copied from an earlier trajectory are left out. Commands that stand only as text in a
message (the linear history of Terminus) are no tool calls. A system step about context summarisation
is a compaction. Trajectories of sub-agents inside the document are streams of their own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.fields import elements, mapping, money, shares, word
from loopwarden.transcripts.outline import outline
from loopwarden.transcripts.shape import arguments, count, seconds, text_of, tool_result
from loopwarden.transcripts.stream import Stream, StreamNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

SUBAGENT_DEPTH = 16
"""How deep trajectories of sub-agents may lie within each other; deeper ones are left out and counted."""

_COMPACTION = re.compile(
    r"(?:context|conversation|history)[ -](?:summari[sz]|compact|condens)", re.IGNORECASE
)
_COMPACTION_MARKS = ("compaction", "context_compaction", "compact_boundary", "context_summarization")


class AtifReader:
    """Trajectories in the Agent Trajectory Interchange Format."""

    name = "atif"
    title = "ATIF trajectory (Harbor, terminal-bench)"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        keys = outline(source.head)
        version = keys.get(("schema_version",))
        return version is not None and version.upper().startswith("ATIF")

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        document = source.document()
        if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
            raise TranscriptError(source.label, "no ATIF trajectory: it has no list of steps")
        names = StreamNames()
        waiting: list[tuple[dict[str, Any], str | None, int]] = [(document, None, 0)]
        while waiting:
            trajectory, parent, depth = waiting.pop(0)
            wanted = word(trajectory.get("trajectory_id")) or word(trajectory.get("session_id"))
            stream = Stream(names.take(wanted or "trajectory"), notes)
            steps, sidechains = _split(trajectory)
            yield from _trajectory(trajectory, steps, stream, parent, notes)
            for child in [*elements(trajectory.get("subagent_trajectories")), *sidechains]:
                if not isinstance(child, dict):
                    notes.add("bad_line")
                elif depth >= SUBAGENT_DEPTH:
                    notes.add("too_deep")
                else:
                    waiting.append((child, stream.id, depth + 1))


READER = AtifReader()


def _split(trajectory: dict[str, Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """The steps of the agent itself, and a trajectory for each sub-agent whose steps stand among them.

    Steps converted from Claude Code carry the mark `is_sidechain`.
    """
    own: list[Any] = []
    sidechains: dict[str, list[Any]] = {}
    for step in elements(trajectory.get("steps")):
        extra = mapping(mapping(step).get("extra"))
        if extra.get("is_sidechain") is True:
            sidechains.setdefault(word(extra.get("agent_id")) or "sidechain", []).append(
                {**step, "extra": {**extra, "is_sidechain": False}}
            )
        else:
            own.append(step)
    agent = trajectory.get("agent")
    return own, [{"session_id": name, "agent": agent, "steps": steps} for name, steps in sidechains.items()]


def _trajectory(
    trajectory: dict[str, Any], steps: list[Any], stream: Stream, parent: str | None, notes: ReadNotes
) -> Iterator[Item]:
    agent = mapping(trajectory.get("agent"))
    yield stream.start(
        trajectory.get("session_id"),
        parent=parent,
        agent=word(agent.get("name")),
        model=word(agent.get("model_name")),
    )
    spent = _spending(trajectory, steps)
    open_calls: dict[str, tuple[str, object]] = {}  # what the calls that have no result yet ask for
    for place, step in enumerate(steps):
        if not isinstance(step, dict):
            notes.add("bad_line")
            continue
        if step.get("is_copied_context") is True:
            notes.add("copied_history")
            continue
        source, at = step.get("source"), seconds(step.get("timestamp"))
        if source == "system" and _is_compaction(step):
            yield stream.compaction(at)
        elif source == "user" and text_of(step.get("message")):
            yield stream.user(at)
        ids: list[str] = []
        for call in elements(step.get("tool_calls")):
            tool = word(mapping(call).get("function_name"))
            if tool is None:
                notes.add("bad_line")
                continue
            given = word(call.get("tool_call_id")) or f"{_turn(step, place)}/{len(ids)}"
            asked = (tool, arguments(call.get("arguments")))
            ids.append(given)
            # some converters write a call again in the step that holds its result
            if open_calls.get(given) != asked:
                open_calls[given] = asked
                yield stream.call(*asked, given=given, turn=_turn(step, place), at=at)
        for given, content in _results(step, ids, notes):
            open_calls.pop(given, None)
            yield from stream.result(given, tool_result(content), at=at)
        if place in spent:
            tokens_in, tokens_out, cost, cached = spent[place]
            yield from stream.spent(tokens_in, tokens_out, cost, at, cached=cached)
    stream.finish()


def _results(step: dict[str, Any], ids: list[str], notes: ReadNotes) -> Iterator[tuple[str, str | list[Any]]]:
    """The results of a step; those that name no call belong to its calls in order, if all have one.

    Results without content only point to the trajectory of a sub-agent, so what came out is unknown.
    """
    results = []
    for entry in elements(mapping(step.get("observation")).get("results")):
        if not isinstance(entry, dict):
            notes.add("bad_line")
        elif ids or entry.get("source_call_id") is not None:
            results.append(entry)
    by_place = len(results) == len(ids)
    for place, entry in enumerate(results):
        given = word(entry.get("source_call_id"))
        if given is None and not by_place:
            notes.add("result_without_call")
            continue
        content = entry.get("content")
        if content is not None:
            yield (
                given if given is not None else ids[place],
                content if isinstance(content, str | list) else text_of(content),
            )


def _turn(step: dict[str, Any], place: int) -> str:
    return f"step {word(step.get('step_id')) or place}"


def _is_compaction(step: dict[str, Any]) -> bool:
    marks = mapping(step.get("extra"))
    if any(marks.get(mark) for mark in _COMPACTION_MARKS):
        return True
    return _COMPACTION.search(text_of(step.get("message"))) is not None


def _spending(trajectory: dict[str, Any], steps: list[Any]) -> dict[int, tuple[int, int, float | None, int]]:
    """What each reply spent, by place; where only the whole is known, every reply gets an equal share."""
    replies = [
        place
        for place, step in enumerate(steps)
        if isinstance(step, dict)
        and step.get("source") == "agent"
        and step.get("is_copied_context") is not True
    ]
    spent: dict[int, tuple[int, int, float | None, int]] = {}
    for place in replies:
        metrics = mapping(steps[place].get("metrics"))
        row = (
            count(metrics.get("prompt_tokens")),
            count(metrics.get("completion_tokens")),
            money(metrics.get("cost_usd")),
            count(metrics.get("cached_tokens")),
        )
        if any(row):
            spent[place] = row
    if spent or not replies:
        return spent
    final = mapping(trajectory.get("final_metrics"))
    total_in, total_out = count(final.get("total_prompt_tokens")), count(final.get("total_completion_tokens"))
    cost = money(final.get("total_cost_usd"))
    if not (total_in or total_out or cost):
        return spent
    share = cost / len(replies) if cost is not None else None
    totals = (total_in, total_out, count(final.get("total_cached_tokens")))
    parts = zip(replies, *(shares(total, len(replies)) for total in totals), strict=True)
    return {place: (tokens_in, tokens_out, share, cached) for place, tokens_in, tokens_out, cached in parts}
