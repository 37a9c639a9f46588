"""Calls in the layout of OpenAI's APIs, which many agents keep in their own files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loopwarden.transcripts.fields import elements, mapping, word
from loopwarden.transcripts.shape import arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import ReadNotes


class ChatCall(NamedTuple):
    """One call of a reply.

    Attributes:
        tool: Name of the tool.
        arguments: What it is asked, parsed.
        call_id: Its id, `None` if it has none.
    """

    tool: str
    arguments: object
    call_id: str | None


def chat_calls(calls: object, notes: ReadNotes, line: int | None = None) -> Iterator[ChatCall]:
    """The calls of a list: `tool_calls` of a chat message, or items of a response.

    One without a name is counted as a bad line.
    """
    for call in map(mapping, elements(calls)):
        function = mapping(call.get("function")) or call
        tool = word(function.get("name"))
        if tool is None:
            notes.add("bad_line", line)
        else:
            # of an item of a response `id` is that of the item
            call_id = word(call.get("call_id")) or word(call.get("id"))
            yield ChatCall(tool, arguments(function.get("arguments")), call_id)
