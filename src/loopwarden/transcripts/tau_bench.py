"""tau-bench results: a JSON list of runs, each with its task, trial and chat messages.

A tool result that begins with "Error:" is a failure: that is how the benchmark's environments say it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.chat_calls import chat_calls
from loopwarden.transcripts.fields import word
from loopwarden.transcripts.outline import outline
from loopwarden.transcripts.shape import text_of, tool_result
from loopwarden.transcripts.stream import Stream, StreamNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

ERROR_MARK = "Error:"


class TauBenchReader:
    """Result files of tau-bench."""

    name = "tau-bench"
    title = "tau-bench results"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        keys = outline(source.head)
        if ("[]", "task_id") not in keys:
            return False
        return ("[]", "traj", "[]") in keys or ("[]", "info", "task", "instruction") in keys

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        runs = source.document()
        if not isinstance(runs, list):
            raise TranscriptError(source.label, "no tau-bench results: it is no list of runs")
        names = StreamNames()
        for run in runs:
            if not isinstance(run, dict) or not isinstance(run.get("traj"), list):
                notes.add("bad_line")
                continue
            task, trial = word(run.get("task_id")) or "?", word(run.get("trial")) or "0"
            stream = Stream(names.take(f"task_{task}_trial_{trial}"), notes)
            yield stream.start(f"task {task}, trial {trial}")
            yield from _messages(run["traj"], stream, notes)
            stream.finish()


READER = TauBenchReader()


def _messages(messages: list[Any], stream: Stream, notes: ReadNotes) -> Iterator[Item]:
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            notes.add("bad_line")
            continue
        role, text = message.get("role"), text_of(message.get("content"))
        if role == "assistant":
            for call in chat_calls(message.get("tool_calls"), notes):
                yield stream.call(call.tool, call.arguments, given=call.call_id, turn=f"reply {place}")
        elif role == "tool":
            shown = tool_result(text, is_error=text.startswith(ERROR_MARK))
            yield from stream.result(message.get("tool_call_id"), shown, tool=word(message.get("name")))
        elif role == "user":
            if text:
                yield stream.user()
        elif role != "system":
            notes.add("unknown_record")
