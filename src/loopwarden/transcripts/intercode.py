"""InterCode results: one JSON object with a task by key, each with its actions and observations.

`valid_action` says whether the environment could execute an action; where it is false the call failed.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.fields import elements, mapping, word
from loopwarden.transcripts.messages import json_text
from loopwarden.transcripts.outline import outline
from loopwarden.transcripts.shape import command_result, text_of, tool_result
from loopwarden.transcripts.stream import Stream, StreamNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

_ARGUMENTS = {"bash": "command", "sql": "query", "python": "code"}


class InterCodeReader:
    """Result files of InterCode experiments."""

    name = "intercode"
    title = "InterCode results"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        return any(path[1:] == ("turn_history", "actions") for path in outline(source.head))

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        tasks = source.document()
        if not isinstance(tasks, dict):
            raise TranscriptError(source.label, "no InterCode results: it is no object of tasks")
        names = StreamNames()
        for key, task in tasks.items():
            if not isinstance(task, dict) or not isinstance(task.get("turn_history"), dict):
                notes.add("bad_line")
                continue
            stream = Stream(names.take(f"task_{key}"), notes)
            query = task.get("query")
            yield stream.start(query, f"task {key}", agent="InterCode")
            if isinstance(query, str):
                yield stream.user()
            yield from _turns(task, stream, notes)
            stream.finish()


READER = InterCodeReader()


def _turns(task: dict[str, Any], stream: Stream, notes: ReadNotes) -> Iterator[Item]:
    history = mapping(task.get("turn_history"))
    tool = (word(task.get("environment")) or "").removeprefix("ic_") or "action"
    argument = _ARGUMENTS.get(tool, "action")
    rows = zip_longest(
        elements(history.get("actions")),
        elements(history.get("observations")),
        elements(history.get("valid_action")),
        fillvalue=...,
    )
    for place, (action, observation, valid) in enumerate(rows):
        if action is ... and observation is ...:
            return
        if isinstance(action, str):
            yield stream.call(tool, {argument: action}, given=f"turn {place}")
        elif action is not ...:
            notes.add("bad_line")
            continue
        if observation is ... or observation is None:
            continue
        text = observation if isinstance(observation, str) else text_of(observation) or json_text(observation)
        failed = valid is False
        shape = command_result if tool == "bash" else tool_result
        yield from stream.result(f"turn {place}", shape(text, is_error=failed))
