"""Gemini CLI: chat files (one JSON object, or since 2026 JSON lines) and saved checkpoints.

In a file of lines a record whose id came before replaces it where it stood, `$set` changes the metadata
(and with `messages` the whole history), and `$rewindTo` takes back a message and all after it. Source:
google-gemini/gemini-cli `packages/core/src/services/chatRecordingService.ts`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts import gemini_content as content
from loopwarden.transcripts.documents import first_element
from loopwarden.transcripts.fields import elements, mapping, numbered, word
from loopwarden.transcripts.shape import arguments, count, seconds
from loopwarden.transcripts.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

    Message = tuple[int | None, dict[str, Any]]

REPLY_TYPES = frozenset({"gemini", "qwen"})
"""Type of a model reply; Qwen Code wrote such files before it had a format of its own."""

COMPACTION_TOKENS = 8_000
"""A compaction is read from the prompt shrinking to under half; prompts below this size don't count."""

_CHAT_HEAD = re.compile(rb'\s*\{\s*"sessionId"\s*:\s*"[^"]*",\s*"projectHash"\s*:\s*"')
_HISTORY_HEAD = re.compile(rb'\s*\{\s*"history"\s*:\s*(?=\[)')


class GeminiReader:
    """Chat files and checkpoints of Gemini CLI."""

    name = "gemini-cli"
    title = "Gemini CLI session"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        if source.kind != "text":
            return False
        if _is_chat(source.first) or _CHAT_HEAD.match(source.head):
            return True
        history = _HISTORY_HEAD.match(source.head)
        return _is_content(first_element(source.head[history.end() :] if history else source.head))

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        if any("history" not in record for record in source.head_records[:1]):  # one line is enough for one
            metadata, messages = _replay(source, notes)
            yield from _chat(metadata, messages, source.label, notes)
            return
        document = source.document()
        history = mapping(document).get("history", document)
        if isinstance(history, list):
            yield from _checkpoint(history, source.label, notes)
        elif isinstance(document, dict) and isinstance(document.get("messages"), list):
            messages = list(numbered(document["messages"], notes))
            yield from _chat(document, [(None, message) for _, message in messages], source.label, notes)
        else:
            raise TranscriptError(source.label, "no Gemini CLI session: it has no messages")


READER = GeminiReader()


def _is_chat(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("sessionId"), str)
        and isinstance(value.get("projectHash"), str)
    )


def _is_content(value: object) -> bool:
    if not isinstance(value, dict) or value.get("role") not in ("user", "model"):
        return False
    inner = value.get("parts")
    return isinstance(inner, list) and all(isinstance(part, dict) and "type" not in part for part in inner)


def _replay(source: Source, notes: ReadNotes) -> tuple[dict[str, Any], list[Message]]:
    """The metadata and the messages that are left after all lines were applied."""
    metadata: dict[str, Any] = {}
    messages: dict[str, Message] = {}
    for line, record in source.records(notes, kept=True):
        identity = record.get("id")
        if isinstance(record.get("$rewindTo"), str):
            target = record["$rewindTo"] if record["$rewindTo"] in messages else None
            while messages:  # without such a message the program starts from nothing
                gone, (first_line, _) = messages.popitem()
                notes.add("abandoned_branch", first_line)
                if gone == target:
                    break
        elif isinstance(identity, str) and "$patch" not in record:
            if identity in messages:
                notes.add("replaced_record", line)
            messages[identity] = (line, record)
        elif isinstance(record.get("$set"), dict):
            metadata |= record["$set"]
        elif _is_chat(record):
            metadata |= record
        else:
            notes.add("unknown_record", line)
    history = metadata.get("messages")
    if isinstance(history, list) and history:
        return metadata, [(None, message) for _, message in numbered(history, notes)]
    return metadata, list(messages.values())


def _chat(
    metadata: dict[str, Any], messages: Iterable[Message], label: str, notes: ReadNotes
) -> Iterator[Item]:
    messages = list(messages)
    stream = Stream(word(metadata.get("sessionId")) or "session", notes)
    yield stream.start(
        metadata.get("summary"),
        metadata.get("sessionId"),
        label,
        agent="Gemini CLI",
        model=next((model for _, message in messages if (model := word(message.get("model")))), None),
    )
    prompt = 0
    for place, (line, message) in enumerate(messages):
        kind = message.get("type")
        at = seconds(message.get("timestamp"))
        if kind == "user":
            if content.has_text(message.get("content")):
                yield stream.user(at)
        elif isinstance(kind, str) and kind in REPLY_TYPES:
            tokens = mapping(message.get("tokens"))
            size = count(tokens.get("input"))
            if size and prompt >= COMPACTION_TOKENS and size * 2 < prompt:
                yield stream.compaction(at)
            prompt = size or prompt
            turn = word(message.get("id")) or f"message {place + 1}"
            yield from _reply(stream, message, turn, at, notes, line=line)
            read = size + count(tokens.get("tool"))
            written = count(tokens.get("output")) + count(tokens.get("thoughts"))
            yield from stream.spent(read, written, at=at, cached=count(tokens.get("cached")))
        elif kind not in ("info", "warning", "error"):
            notes.add("unknown_record", line)
    stream.finish()


def _reply(
    stream: Stream,
    message: dict[str, Any],
    turn: str,
    at: float | None,
    notes: ReadNotes,
    *,
    line: int | None,
) -> Iterator[Item]:
    for call in elements(message.get("toolCalls")):
        tool = word(call.get("name")) if isinstance(call, dict) else None
        if tool is None:
            notes.add("bad_line", line)
            continue
        ended = seconds(call.get("timestamp"))
        began = at if at is None or ended is None else min(at, ended)
        asked = arguments(call.get("args"))
        yield stream.call(tool, asked, given=call.get("id"), turn=turn, at=began, line=line)
        if not call.get("result"):
            continue
        status = call.get("status")
        answer = content.result_of(tool, call["result"], failed=status in ("error", "cancelled"))
        stream.hold(answer.result, error=answer.error, at=ended)
    yield from stream.release()


def _checkpoint(history: list[Any], label: str, notes: ReadNotes) -> Iterator[Item]:
    """A checkpoint has no ids and no times: results pair by name and order."""
    stream = Stream("checkpoint", notes)
    yield stream.start(label, agent="Gemini CLI")
    for place, entry in numbered(history, notes):
        if entry.get("role") == "model":
            for tool, call in content.calls(entry):
                asked = arguments(call.get("args"))
                yield stream.call(tool, asked, given=call.get("id"), turn=f"reply {place}")
            continue
        if content.has_text(entry):
            yield stream.user()
        for response in content.responses(entry):
            tool = word(response.get("name")) or ""
            answer = content.result_of(tool, [{"functionResponse": response}])
            yield from stream.result(response.get("id"), answer.result, error=answer.error, tool=tool)
    stream.finish()
