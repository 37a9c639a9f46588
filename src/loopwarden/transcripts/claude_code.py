"""Claude Code sessions (`~/.claude/projects`) and `claude -p --output-format stream-json`.

Records form a graph by `uuid` and `parentUuid`; a rewind leaves a branch that no longer counts. One
model reply is written as several records with the same `message.id`. The format has no public
specification; where it is unclear, more is kept rather than less.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from loopwarden.transcripts.claude_code_copies import Copies
from loopwarden.transcripts.claude_code_graph import abandoned, is_tool_result
from loopwarden.transcripts.fields import elements, mapping, money, whole, word
from loopwarden.transcripts.passes import Passes
from loopwarden.transcripts.shape import command_result, count, seconds, text_of, tool_result
from loopwarden.transcripts.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.transcripts.model import Item, ReadNotes, StreamStart
    from loopwarden.transcripts.source import Source

SILENT_TYPES = frozenset({
    "summary", "file-history-snapshot", "queue-operation", "progress", "attachment", "last-prompt",
    "custom-title", "ai-title", "agent-name", "permission-mode", "stream_event", "rate_limit_event",
    "control_request", "control_response", "tool_progress",
})  # fmt: skip
"""Record types without any event."""

NOT_FROM_A_PERSON = (
    "<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>",
    "<task-notification>", "<system-reminder>", "Caveat: The messages below were generated",
)  # fmt: skip
"""How user records begin that the program wrote itself."""

SHELLS = frozenset({"Bash", "PowerShell"})
POLLS = frozenset({"BashOutput"})


class ClaudeCodeReader:
    """Sessions, sub-agent files and the stream of the print mode."""

    name = "claude-code"
    title = "Claude Code session"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        return any(_typical(record) for record in source.head_records)

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        passes = Passes(source)
        dead = abandoned(passes.first())
        copies = Copies(source)
        session = _File(source.label, notes)
        for place, (line, record) in enumerate(passes.second(notes)):
            if place in dead:
                notes.add("abandoned_branch", line)
            elif record in copies:
                notes.add("copied_history", line)
            else:
                yield from session.items(record, line)
        yield from session.finish()


READER = ClaudeCodeReader()


def _typical(record: dict[str, Any]) -> bool:
    kind, message = record.get("type"), record.get("message")
    if kind in ("user", "assistant"):
        named = (
            "sessionId" in record or "session_id" in record or ("uuid" in record and "parentUuid" in record)
        )
        return named and isinstance(message, dict) and "content" in message and message.get("role") == kind
    if kind == "system":
        return "isSidechain" in record or (record.get("subtype") == "init" and "session_id" in record)
    return (
        (kind == "summary" and "leafUuid" in record)
        or (kind == "file-history-snapshot" and "snapshot" in record)
        or (kind == "queue-operation" and "sessionId" in record)
    )


class _Agent(Stream):
    """The stream of one agent of the file, with what is not told yet."""

    def __init__(self, key: str, notes: ReadNotes, *, is_main: bool) -> None:
        super().__init__(key, notes)
        self.is_main = is_main
        self.reply: str | None = None  # message id whose usage waits for the reply to end
        self.usage: dict[str, Any] = {}
        self.usage_at: float | None = None
        self.paid: set[str] = set()  # message ids whose usage was given
        self.cost = 0.0  # given so far
        self.compacted = False  # the last record was a compaction

    def end_reply(self) -> Iterable[Item]:
        """What the last reply cost, once for all of its records."""
        reply, usage = self.reply, self.usage
        self.reply, self.usage = None, {}
        if reply is None or reply in self.paid:
            return ()
        self.paid.add(reply)
        fields = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        read, written = sum(count(usage.get(name)) for name in fields), count(usage.get("output_tokens"))
        cached = count(usage.get("cache_read_input_tokens"))
        return self.spent(read, written, at=self.usage_at, cached=cached)

    def price(self, cost: object, at: float | None, *, total: bool) -> Iterable[Item]:
        """Money that a record names, for the session so far (`total`) or for itself."""
        cost = money(cost)
        if cost is None:
            return ()
        new = cost - self.cost if total else cost
        if new <= 0:
            return ()
        self.cost += new
        return self.spent(cost=new, at=at)


class _File:
    """Turns the live records of one file into items."""

    def __init__(self, label: str, notes: ReadNotes) -> None:
        self._label = label
        self._notes = notes
        self._streams: dict[str, _Agent] = {}
        self._stream_of: dict[str, str] = {}  # uuid -> stream; the uuids seen
        self._calls: set[tuple[str, str | None]] = set()  # (message id, call id) seen
        self._turns = 0

    def items(self, record: dict[str, Any], line: int) -> Iterator[Item]:
        kind, message = word(record.get("type")), record.get("message")
        if kind in SILENT_TYPES:
            return
        if kind not in ("user", "assistant", "system", "result"):
            self._notes.add("unknown_record", line)
            return
        if kind in ("user", "assistant") and not isinstance(message, dict):
            self._notes.add("bad_line", line)
            return
        uuid = record.get("uuid")
        if isinstance(uuid, str) and uuid in self._stream_of:
            self._notes.add("copied_history", line)
            return
        key, started = self._place(record)
        if started is not None:
            yield started
        if isinstance(uuid, str):
            self._stream_of[uuid] = key
        stream = self._streams[key]
        at = seconds(record.get("timestamp"))
        if kind == "assistant" and isinstance(message, dict):
            yield from self._reply(stream, record, message, at, line)
            stream.compacted = False
        elif kind == "user" and isinstance(message, dict):
            yield from self._user(stream, record, message, at, line)
        elif kind == "system" and record.get("subtype") == "compact_boundary":
            yield from stream.end_reply()
            yield stream.compaction(at)
            stream.compacted = True
        elif kind == "result":
            yield from stream.end_reply()
            yield from stream.price(record.get("total_cost_usd"), at, total=True)

    def finish(self) -> Iterator[Item]:
        if not self._streams:
            yield Stream("session", self._notes).start(self._label)
        for stream in self._streams.values():
            yield from stream.end_reply()
            stream.finish()

    def _place(self, record: dict[str, Any]) -> tuple[str, StreamStart | None]:
        """The stream that a record belongs to, with its start if it is new.

        A record follows the stream of its parent, so that a resumed session goes on in its stream though
        the session id changes.
        """
        above = record.get("parentUuid") or record.get("logicalParentUuid")
        session = word(record.get("sessionId")) or word(record.get("session_id")) or "session"
        task, agent = record.get("parent_tool_use_id"), record.get("agentId")
        parent = self._stream_of.get(above) if isinstance(above, str) else None
        side = record.get("isSidechain") is True
        if isinstance(task, str):
            key, starter = f"task {task}", session
        elif side and isinstance(agent, str):
            key, starter = f"agent {agent}", session
        elif parent is not None and self._streams[parent].is_main != side:
            return parent, None
        elif side:
            key, starter = f"sidechain {word(record.get('uuid'))}", session
        else:
            key, starter = session, None
        if key in self._streams:
            return key, None
        stream = self._streams[key] = _Agent(key, self._notes, is_main=starter is None)
        model = mapping(record.get("message")).get("model") or record.get("model")
        return key, stream.start(key if key != "session" else self._label, parent=starter, model=word(model))

    def _reply(
        self, stream: _Agent, record: dict[str, Any], message: dict[str, Any], at: float | None, line: int
    ) -> Iterator[Item]:
        identity = word(message.get("id"))
        if identity is None:
            self._turns += 1
            identity = f"reply {self._turns}"
        if identity != stream.reply:
            yield from stream.end_reply()
            stream.reply = identity
        usage = message.get("usage")
        if isinstance(usage, dict):
            stream.usage, stream.usage_at = usage, at
        content = message.get("content")
        for part in map(mapping, elements(content)):
            if part.get("type") not in ("tool_use", "server_tool_use"):
                continue
            tool, given = word(part.get("name")), word(part.get("id"))
            if tool is None:
                self._notes.add("bad_line", line)
                continue
            if given is not None and (identity, given) in self._calls:
                self._notes.add("copied_history", line)
                continue
            self._calls.add((identity, given))
            yield stream.call(tool, part.get("input"), given=given, turn=identity, at=at, line=line)
        yield from self._results(stream, record, content, at, line)
        yield from stream.price(record.get("costUSD"), at, total=False)

    def _user(
        self, stream: _Agent, record: dict[str, Any], message: dict[str, Any], at: float | None, line: int
    ) -> Iterator[Item]:
        content = message.get("content")
        if record.get("isCompactSummary") is True:
            if not stream.compacted:  # older versions write no boundary
                yield from stream.end_reply()
                yield stream.compaction(at)
            stream.compacted = True
        elif is_tool_result(content):
            yield from self._results(stream, record, content, at, line)
        elif stream.is_main and record.get("isMeta") is not True:
            text = text_of(content)
            if content and not text.startswith(NOT_FROM_A_PERSON):
                yield from stream.end_reply()
                yield stream.user(at)

    def _results(
        self, stream: _Agent, record: dict[str, Any], content: object, at: float | None, line: int
    ) -> Iterator[Item]:
        for part in map(mapping, elements(content)):
            if not (word(part.get("type")) or "").endswith("tool_result"):
                continue
            given = part.get("tool_use_id")
            structured = record.get("toolUseResult", record.get("tool_use_result"))
            result = _result(part, stream.tool_of(given), structured)
            yield from stream.result(given, result, at=at, line=line)


_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (\d{1,10})(?:\n|$)")


def _result(part: dict[str, Any], tool: str | None, structured: object) -> dict[str, Any]:
    content, failed = part.get("content"), part.get("is_error") is True
    if tool not in SHELLS and tool not in POLLS:
        return tool_result(content, is_error=failed)
    text = text_of(content)
    if (
        isinstance(structured, dict)
        and isinstance(structured.get("stdout"), str)
        and not structured.get("isImage")
    ):
        stderr = structured.get("stderr")
        streams = (structured["stdout"], stderr if isinstance(stderr, str) else "")
        return command_result(
            "\n".join(output for output in streams if output),
            exit_code=whole(structured.get("exitCode")),
            running=structured.get("status") == "running" or bool(structured.get("backgroundTaskId")),
            is_error=failed,
        )
    ended = _EXIT_CODE.match(text) if failed else None
    if ended:
        return command_result(text[ended.end() :], exit_code=int(ended[1]), is_error=True)
    if tool in SHELLS and isinstance(content, str) and not failed:
        return command_result(text)
    return tool_result(content, is_error=failed)
