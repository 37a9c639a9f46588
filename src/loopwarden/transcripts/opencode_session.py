"""Sessions, messages and parts of opencode, which it keeps alike in all its containers.

Source: anomalyco/opencode `packages/opencode/src/session/message-v2.ts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwarden.transcripts.fields import mapping, money, whole, word
from loopwarden.transcripts.shape import arguments, command_result, count, seconds, tool_result
from loopwarden.transcripts.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.transcripts.model import Item, ReadNotes

    Message = tuple[dict[str, Any], Iterable[dict[str, Any]]]

SHELL_TOOL = "bash"

UNKNOWN_TOOL = "invalid"
"""The tool that opencode runs in place of a call that it can't make; the name asked for is an argument."""

SILENT_PARTS = frozenset({
    "text", "reasoning", "file", "snapshot", "patch", "agent", "retry", "subtask", "step-start",
})  # fmt: skip
"""Parts that hold no event by themselves."""


class Session:
    """Turns the messages of one session into items."""

    def __init__(self, stream: str, notes: ReadNotes, *, revert: object = None) -> None:
        self._notes = notes
        self._stream = Stream(stream, notes)
        self._turn = ""
        self._steps = 0
        self._messages = 0
        point = mapping(revert)
        self._revert = word(point.get("messageID")), word(point.get("partID"))
        self._reverted = False

    def start(self, info: dict[str, Any], model: str | None = None) -> Item:
        """The start of the stream; `model` is that of the messages, for a session that names none."""
        chosen = mapping(info.get("model"))
        return self._stream.start(
            info.get("title"),
            parent=word(info.get("parentID")),
            agent=word(info.get("agent")) or "opencode",
            model=word(chosen.get("modelID")) or word(chosen.get("id")) or model,
        )

    def message(self, info: dict[str, Any], parts: Iterable[dict[str, Any]]) -> Iterator[Item]:
        """The items of a message. A person's undo leaves messages in place that no longer count."""
        message, part_id = self._revert
        here = message is not None and word(info.get("id")) == message
        self._reverted = self._reverted or (here and part_id is None)
        if self._reverted:
            self._notes.add("abandoned_branch")
            return
        at = seconds(mapping(info.get("time")).get("created"))
        by_user = info.get("role") == "user"
        kept = list(parts)
        if here:
            self._reverted = True
            place = next((i for i, part in enumerate(kept) if word(part.get("id")) == part_id), len(kept))
            kept = kept[:place]
            self._notes.add("abandoned_branch")
        if by_user and any(_written(part) for part in kept):
            yield self._stream.user(at)
        self._messages += 1
        turn = word(info.get("id")) or f"message {self._messages}"
        finished = False
        for part in kept:
            finished = finished or part.get("type") == "step-finish"
            yield from self.part(part, turn, at)
        yield from self.end_step()
        if not finished and not by_user:
            yield from self.spent(info, at)

    def part(
        self, part: dict[str, Any], turn: str, at: float | None, *, line: int | None = None
    ) -> Iterator[Item]:
        """The items of one part; `turn` is its message, `at` the time of what has none of its own."""
        if turn != self._turn:
            yield from self.end_step()
            self._turn, self._steps = turn, 0
        kind = part.get("type")
        if kind == "tool":
            yield from self._tool(part, at, line)
        elif kind == "step-finish":
            yield from self.end_step()
            self._steps += 1
            yield from self.spent(part, at)
        elif kind == "compaction":
            yield self._stream.compaction(at)
        elif not isinstance(kind, str) or kind not in SILENT_PARTS:
            self._notes.add("unknown_record", line)

    def end_step(self) -> Iterator[Item]:
        """The results of the calls of the reply that is over."""
        yield from self._stream.release()

    def spent(self, told: dict[str, Any], at: float | None) -> Iterable[Item]:
        """What `told` (a step-finish part or a message) says about tokens and cost."""
        tokens = mapping(told.get("tokens"))
        cache = mapping(tokens.get("cache"))
        read = count(tokens.get("input")) + count(cache.get("read")) + count(cache.get("write"))
        written = count(tokens.get("output")) + count(tokens.get("reasoning"))
        cost = money(told.get("cost"))
        return self._stream.spent(read, written, cost, at, cached=count(cache.get("read")))

    def finish(self) -> Iterator[Item]:
        """The session is over."""
        yield from self.end_step()
        self._stream.finish()

    def _tool(self, part: dict[str, Any], at: float | None, line: int | None) -> Iterator[Item]:
        tool = word(part.get("tool"))
        if tool is None:
            self._notes.add("bad_line", line)
            return
        state = mapping(part.get("state"))
        asked = arguments(state.get("input"))
        times = mapping(state.get("time"))
        began = seconds(times.get("start"))
        ended = seconds(times.get("end"))
        refused = tool == UNKNOWN_TOOL
        name = (word(mapping(asked).get("tool")) or tool) if refused else tool
        turn = self._turn if not self._steps else f"{self._turn} step {self._steps + 1}"
        began = began if began is not None else at
        yield self._stream.call(name, asked, given=part.get("callID"), turn=turn, at=began, line=line)
        status = state.get("status")
        result: dict[str, Any] | None = None
        error: str | None = None
        if status == "completed" and refused:
            error = word(state.get("output")) or "invalid call"
        elif status == "completed":
            result = _result(tool, state)
        elif status == "error":
            error = word(state.get("error")) or "error"
        else:
            return
        self._stream.hold(result, error=error, at=ended)


def _written(part: dict[str, Any]) -> bool:
    """Whether a part of a user message was written by a person, not put there by the program."""
    return (
        part.get("type") == "text"
        and word(part.get("text")) is not None
        and not part.get("synthetic")
        and not part.get("ignored")
    )


def _result(tool: str, state: dict[str, Any]) -> dict[str, Any]:
    output = state.get("output")
    told = mapping(state.get("metadata"))
    if tool == SHELL_TOOL and isinstance(output, str) and "exit" in told:
        return command_result(output, exit_code=whole(told["exit"]))
    attached = state.get("attachments")
    if isinstance(attached, list) and attached:
        # ids of attachments change from call to call
        shown = [{"type": "text", "text": output}] if isinstance(output, str) else [output]
        shown += [
            {key: value for key, value in file.items() if key not in ("id", "messageID", "sessionID")}
            for file in attached
            if isinstance(file, dict)
        ]
        return tool_result(shown)
    return tool_result(output if isinstance(output, str) else [output])
