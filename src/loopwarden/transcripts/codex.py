"""Codex CLI rollouts (`~/.codex/sessions`), from the first bare items to the wrapped records of today.

The rollout is no public contract, so unknown records are passed over. A rollout of a sub-agent or a
fork may begin with a copy of its parent's history, whose calls were judged in the parent's file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.transcripts.codex_output import result
from loopwarden.transcripts.fields import mapping, word
from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.shape import arguments, count, seconds, text_of
from loopwarden.transcripts.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from loopwarden.transcripts.model import Item
    from loopwarden.transcripts.source import Source

WRAPPED_TYPES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
SILENT_TYPES = frozenset({"inter_agent_communication_metadata", "token_usage_record", "world_state"})
BARE_TYPES = frozenset({
    "message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
    "custom_tool_call_output", "local_shell_call", "web_search_call", "tool_search_call",
    "tool_search_output", "image_generation_call", "ghost_snapshot", "compaction", "other",
})  # fmt: skip
"""Items of a model's history; the oldest files have them without a wrapper."""

CALLS = frozenset({
    "function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "web_search_call",
})  # fmt: skip

NOT_FROM_A_PERSON = ("<", "# AGENTS.md", "# Context from my IDE")
"""How user messages begin that the program wrote itself (`<environment_context>` and the like)."""


class CodexReader:
    """Rollout files of the Codex CLI and its sub-agents."""

    name = "codex"
    title = "Codex CLI rollout"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        records = source.head_records
        if any(word(r.get("type")) in WRAPPED_TYPES and isinstance(r.get("payload"), dict) for r in records):
            return True
        if len(records) < 2 or "type" in records[0]:  # noqa: PLR2004 - the head and one item
            return False
        head = records[0]
        return {"id", "timestamp"} <= head.keys() and ("instructions" in head or "git" in head)

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        source.keep()
        copied = _copied_records(source)
        session = _Rollout(source.label, notes)
        for place, (line, record) in enumerate(source.records(notes)):
            if 0 < place < copied:
                notes.add("copied_history", line)
                session.skip(record)
            else:
                yield from session.items(record, line)
        yield from session.finish()


READER = CodexReader()


def _copied_records(source: Source) -> int:
    """How many records at the beginning belong to the parent (the own head, the first, included); or 0.

    A child's file starts with its own head and then, if history was copied, with its parent's. The own
    work begins with the first turn that is younger than the child; turn ids tell their time (UUID 7).
    Where they don't, it begins at a record that only sub-agents have, or else at the last turn.
    """
    own: dict[str, Any] | None = None
    born: int | None = None
    copied = timed = False
    mark = last_turn = end = 0
    for place, (_, record) in enumerate(source.records(ReadNotes())):
        kind, payload = record.get("type"), mapping(record.get("payload"))
        end = place + 1
        if own is None:
            if kind != "session_meta" or _parent(payload) == (None, False):
                return 0
            own, born = payload, _uuid_time(payload.get("id"))
        elif kind == "session_meta" and payload.get("id") != own.get("id"):
            copied = True
        elif kind == "inter_agent_communication_metadata":
            mark = mark or place
        elif kind == "turn_context" or (kind == "event_msg" and payload.get("type") == "task_started"):
            began = _uuid_time(payload.get("turn_id"))
            if born is not None and began is not None:
                timed = True
                if began >= born:
                    return place if copied else 0
            last_turn = place
    if not copied:
        return 0
    return end if timed else mark or last_turn


def _parent(head: dict[str, Any]) -> tuple[str | None, bool]:
    """The session that this one came from, and whether this one is a sub-agent."""
    agent = mapping(head.get("source")).get("subagent")
    spawn = mapping(mapping(agent).get("thread_spawn"))
    parent = spawn.get("parent_thread_id") or head.get("parent_thread_id") or head.get("forked_from_id")
    return word(parent), agent is not None or head.get("thread_source") == "subagent"


_UUID_7 = (36, "7")  # length, and the digit that names the version


def _uuid_time(value: object) -> int | None:
    """Milliseconds since the epoch in a UUID of version 7, `None` for anything else."""
    if not isinstance(value, str) or len(value) != _UUID_7[0] or value[14] != _UUID_7[1]:
        return None
    try:
        return int(value[:8] + value[9:13], 16)
    except ValueError:
        return None


class _Rollout:
    """Turns the records of one file into items."""

    def __init__(self, label: str, notes: ReadNotes) -> None:
        self._label = label
        self._notes = notes
        self._head: dict[str, Any] | None = None
        self._stream: Stream | None = None  # none before it has begun
        self._model: str | None = None
        self._person = True  # user messages are a person's
        self._said: str | None = None  # the user message given last, until something else comes
        self._turn = 0
        self._turn_over = True  # the next call belongs to a new reply
        self._total = (0, 0, 0)  # tokens so far: read, written, read from a cache

    def items(self, record: dict[str, Any], line: int) -> Iterator[Item]:
        kind, payload, written = word(record.get("type")), record.get("payload"), record.get("timestamp")
        if kind in WRAPPED_TYPES and isinstance(payload, dict):
            yield from self._wrapped(kind, payload, written, line)
        elif kind in BARE_TYPES:
            yield from self._response_item(record, written, line)
        elif kind is None and "id" in record and self._head is None:
            self._head = record
        elif kind not in SILENT_TYPES and "record_type" not in record:
            self._notes.add("unknown_record", line)

    def skip(self, record: dict[str, Any]) -> None:
        """Take over from a copied record only how many tokens were counted before."""
        payload = mapping(record.get("payload"))
        if payload.get("type") == "token_count":
            self._more_tokens(payload)

    def finish(self) -> Iterator[Item]:
        stream = yield from self._begun()
        stream.finish()

    def _begun(self) -> Generator[Item, None, Stream]:
        """The stream, after its start, which comes as late as possible: the model is named after the head."""
        if self._stream is None:
            head = self._head or {}
            identity = word(head.get("id"))
            self._stream = Stream(identity or "session", self._notes)
            parent, side = _parent(head)
            yield self._stream.start(
                identity or self._label,
                parent=parent if side else None,
                agent=word(head.get("agent_nickname")) or word(head.get("agent_role")),
                model=self._model,
            )
        return self._stream

    def _wrapped(self, kind: str, payload: dict[str, Any], written: object, line: int) -> Iterator[Item]:
        if kind == "response_item":
            yield from self._response_item(payload, written, line)
        elif kind == "compacted":
            stream = yield from self._begun()
            self._turn_over = True
            yield stream.compaction(seconds(written))
        elif kind == "session_meta" and self._head is None:
            self._head = payload
            self._person = not _parent(payload)[1]
        elif kind == "turn_context":
            self._model = self._model or word(payload.get("model"))
        elif kind == "event_msg" and payload.get("type") == "user_message":
            yield from self._user(payload.get("message"), seconds(written))
        elif kind == "event_msg" and payload.get("type") == "token_count":
            self._turn_over = True
            read, made, cached = self._more_tokens(payload)
            if read or made:
                stream = yield from self._begun()
                yield from stream.spent(read, made, at=seconds(written), cached=cached)

    def _response_item(self, item: dict[str, Any], written: object, line: int) -> Iterator[Item]:
        kind = word(item.get("type"))
        if kind == "message":
            if item.get("role") == "user":
                yield from self._user(text_of(item.get("content")), seconds(written))
        elif kind in CALLS:
            yield from self._call(item, seconds(written), line)
        elif kind in ("function_call_output", "custom_tool_call_output", "tool_search_output"):
            self._turn_over = True
            self._said = None
            stream = yield from self._begun()
            given = item.get("call_id")
            output = item.get("tools") if kind == "tool_search_output" else item.get("output")
            tool = stream.tool_of(given) or ""
            yield from stream.result(given, result(output, tool), at=seconds(written), line=line)

    def _call(self, item: dict[str, Any], at: float | None, line: int) -> Iterator[Item]:
        kind, tool = item.get("type"), item.get("name")
        asked = arguments(item.get("arguments"))
        if kind == "local_shell_call":
            tool, asked = "local_shell", item.get("action")
        elif kind == "web_search_call":  # runs at the model's side; its result is not written
            tool, asked = "web_search", item.get("action")
        elif kind == "tool_search_call":
            tool = "tool_search"
        elif kind == "custom_tool_call":
            asked = item.get("input")
        tool = word(tool)
        if tool is None:
            self._notes.add("bad_line", line)
            return
        space = item.get("namespace")
        if isinstance(space, str) and space.startswith("mcp__"):
            tool = f"{space.removesuffix('__')}__{tool}"
        stream = yield from self._begun()
        self._said = None
        if self._turn_over:  # calls before any result or token count are those of one reply
            self._turn += 1
            self._turn_over = False
        given = item.get("call_id") or item.get("id")
        turn, local = f"reply {self._turn}", kind != "web_search_call"
        yield stream.call(tool, asked, given=given, turn=turn, at=at, line=line, answered=local)

    def _user(self, message: object, at: float | None) -> Iterator[Item]:
        """A user message, which the file has twice: as an event and as an item of the history."""
        if not self._person or not isinstance(message, str) or message == self._said:
            return
        if message.lstrip().startswith(NOT_FROM_A_PERSON):
            return
        stream = yield from self._begun()
        self._said = message
        self._turn_over = True
        yield stream.user(at)

    def _more_tokens(self, payload: dict[str, Any]) -> tuple[int, int, int]:
        """Tokens read, written and read from a cache since the last count.

        The events repeat, so the totals are compared.
        """
        total = mapping(mapping(payload.get("info")).get("total_token_usage"))
        if not total:
            return (0, 0, 0)
        read, written = count(total.get("input_tokens")), count(total.get("output_tokens"))
        cached = count(total.get("cached_input_tokens"))
        before, self._total = self._total, (read, written, cached)
        if read < before[0] or written < before[1]:  # counted afresh
            return (read, written, cached)
        return (read - before[0], written - before[1], max(cached - before[2], 0))
