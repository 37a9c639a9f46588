"""Trajectories of Hermes agent: ShareGPT conversations with calls as `<tool_call>` text, one a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from loopwarden.transcripts.fields import elements, mapping, numbered, whole, word
from loopwarden.transcripts.shape import arguments, command_result, tool_result
from loopwarden.transcripts.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

SHELL_TOOL = "terminal"
PROCESS_TOOL = "process"
"""Tool that asks how a command in the background is going; its answers count the seconds."""

_ENCODED = re.compile(r"^[\x00\x01]json:")  # content that is no text, as the database keeps it
_HEAD = re.compile(rb'\s*\{\s*"conversations"\s*:\s*\[\s*\{\s*"from"\s*:')


def is_trajectory(source: Source) -> bool:
    """Whether the first line holds such a conversation with tools; never raises."""
    for record in source.head_records[:1]:
        return any(
            isinstance(turn, dict) and isinstance(turn.get("value"), str) and _has_tools(turn["value"])
            for turn in elements(record.get("conversations"))
        )
    return bool(_HEAD.match(source.head)) and (b"<tools>" in source.head or b"<tool_call>" in source.head)


def read_trajectories(source: Source, notes: ReadNotes) -> Iterator[Item]:
    """Each line is a stream of its own."""
    for line, record in source.records(notes):
        turns = record.get("conversations")
        if not isinstance(turns, list):
            notes.add("unknown_record", line)
            continue
        stream = Stream(f"line {line}", notes)
        yield stream.start(
            word(record.get("prompt_index")), agent="Hermes agent", model=word(record.get("model"))
        )
        for place, turn in numbered(turns, notes):
            value = turn.get("value")
            text = value if isinstance(value, str) else ""
            if turn.get("from") == "human" and text:
                yield stream.user()
            elif turn.get("from") == "gpt":
                for call in _tagged(text, "tool_call", line, notes):
                    name = word(call.get("name"))
                    if name is None:
                        notes.add("bad_line", line)
                        continue
                    asked = arguments(call.get("arguments"))
                    yield stream.call(name, asked, given=call.get("id"), turn=f"reply {place}", line=line)
            elif turn.get("from") == "tool":
                for answer in _tagged(text, "tool_response", line, notes):
                    # calls are kept without their ids, so results pair by name and order
                    name = word(answer.get("name"))
                    result = result_of(name, answer.get("content"))
                    yield from stream.result(None, result, tool=name, line=line)
        stream.finish()


def result_of(tool: str | None, content: object) -> dict[str, Any]:
    """The result from the content of a tool message; the shell tools answer in JSON."""
    if isinstance(content, str) and _ENCODED.match(content):
        content = arguments(content[6:])
    if tool == SHELL_TOOL:
        told = mapping(arguments(content))
        code = whole(told.get("exit_code"))
        if isinstance(told.get("output"), str) and code is not None:
            error = told.get("error")
            printed = f"{told['output']}\n{error}" if isinstance(error, str) and error else told["output"]
            return command_result(printed, exit_code=code)
    elif tool == PROCESS_TOOL:
        told = mapping(arguments(content))
        tail, status = told.get("output_preview"), told.get("status")
        if isinstance(tail, str) and status in ("running", "exited"):
            return command_result(tail, exit_code=whole(told.get("exit_code")), running=status == "running")
    return tool_result("" if content is None else content)


def _has_tools(text: str) -> bool:
    return "<tools>" in text or "<tool_call>" in text


def _tagged(text: str, tag: str, line: int, notes: ReadNotes) -> Iterator[dict[str, Any]]:
    """The JSON objects between `<tag>` and `</tag>`; others are counted."""
    for piece in text.split(f"<{tag}>")[1:]:
        inside, closed, _ = piece.partition(f"</{tag}>")
        try:
            value = mapping(orjson.loads(inside)) if closed else {}
        except orjson.JSONDecodeError:
            value = {}
        if value:
            yield value
        else:
            notes.add("bad_line", line)
