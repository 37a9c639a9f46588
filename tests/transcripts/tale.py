"""Items as short texts, so that a test shows what happened on one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.transcripts.model import Recorded, Spent, StreamStart
from tests.transcripts.facts import result_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.transcripts.model import Item


def tales(items: Iterable[Item]) -> list[str]:
    """One text a stream, in the order of their starts.

    `u` a person, `name(arguments)` a call, `=text` its result, `!text` a failure, `|` a compaction,
    `<n` n calls taken back, `$in/out` tokens.
    """
    told: dict[str, list[str]] = {}
    for item in items:
        if isinstance(item, StreamStart):
            told[item.stream] = []
        else:
            told[item.stream].append(_word(item))
    return [" ".join(words) for words in told.values()]


def tale(items: Iterable[Item]) -> str:
    """The same for items of one stream."""
    (only,) = tales(items)
    return only


def turns(items: Iterable[Item]) -> list[list[str]]:
    """The calls of each turn, by tool."""
    found: dict[str | None, list[str]] = {}
    for item in items:
        if isinstance(item, Recorded) and isinstance(item.event, ToolCall):
            found.setdefault(item.event.turn_id, []).append(item.event.tool)
    return list(found.values())


def _word(item: Item) -> str:
    if isinstance(item, Spent):
        return f"${item.input_tokens}/{item.output_tokens}"
    assert isinstance(item, Recorded)
    event = item.event
    if isinstance(event, ToolCall):
        return f"{event.tool}({json.dumps(event.arguments, separators=(',', ':'))})"
    if isinstance(event, Outcome):
        failed = event.error is not None or (isinstance(event.result, dict) and event.result.get("isError"))
        return f"{'!' if failed else '='}{result_text(event).replace(' ', '_')}"
    if isinstance(event, Retraction):
        return f"<{len(event.call_ids)}"
    return {UserMessage: "u", Compaction: "|"}[type(event)]
