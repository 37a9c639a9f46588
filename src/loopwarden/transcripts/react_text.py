"""Plain console logs of ReAct agents, told apart by their labels.

Three layouts: `Act 3: go to desk 1` and `Obs 3: ...` on a line each (ALFWorld experiments);
`Thought:`, `Action:`, `Action Input:` and `Observation:` (ReAct papers, LangChain); and `> go to desk 1`
with the observation on the lines after it. Everything else is noise of the program around the agent.
A `think:` action is a call of a tool named `think`; a `Thought:` is none, since nothing answers it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from loopwarden.transcripts.outline import OUTLINE_BYTES
from loopwarden.transcripts.shape import arguments, tool_result
from loopwarden.transcripts.stream import Stream, StreamNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

TEXT_LENGTH = 8 * 1024 * 1024
"""Longest observation or action input, in characters; lines beyond it are left out and counted."""

EMPTY = "(none)"
"""Tool of an action that names none."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LABEL = re.compile(
    r"(?P<label>Act|Action|Obs|Observation|Thought|Question|Action Input|Final Answer)"
    r"(?: (?P<number>\d{1,6}))?: ?(?P<text>.*)",
    re.DOTALL,
)
_BRACKETS = re.compile(r"(?P<tool>[A-Za-z_]\w{0,63})\[(?P<text>.*)\]", re.DOTALL)
_PROMPT = re.compile(r"> ?(?P<text>\w.*)", re.DOTALL)
_TRIAL = re.compile(r"[\w-]{1,200}/trial_T[\w-]{1,80}")
_QUOTED_BEGIN = re.compile(r"-{3,}.{0,40}LLM output start-{3,}")
_QUOTED_END = re.compile(r"-{3,}.{0,40}LLM output end-{3,}")
_SCENE = "You are in the middle of a room"
_TASK = "Your task is to:"
_CHAIN_BEGIN = re.compile(r"> Entering new .{0,80}chain")
_CHAIN_END = re.compile(r"> Finished chain")

_SHORT = (re.compile(rb"^Act \d+: ", re.MULTILINE), re.compile(rb"^Obs \d+: ", re.MULTILINE))
_LONG = (
    re.compile(rb"^(?:\x1b\[[0-9;]*m)*Action(?: \d+)?: ?\S", re.MULTILINE),
    re.compile(rb"^(?:\x1b\[[0-9;]*m)*Observation(?: \d+)?: ?", re.MULTILINE),
)
_JSON = re.compile(rb"[\xef\xbb\xbf\s]*(?:\{\s*[\"}]|\[\s*[\[{\"\]])")
_ANGLE = re.compile(rb"^> ?\w", re.MULTILINE)


class ReactTextReader:
    """Console logs of ReAct agents."""

    name = "react-text"
    title = "ReAct console log"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        head = source.head[:OUTLINE_BYTES]
        if source.kind != "text" or _JSON.match(head):
            return False
        if _labelled(head):
            return True
        return _TASK.encode() in head and len(_ANGLE.findall(head)) > 1

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        log = _Log(notes, labelled=_labelled(source.head[:OUTLINE_BYTES]))
        quoted = False
        for number, line in source.text_lines(notes):
            text = _COLOUR.sub("", line).strip()
            if _QUOTED_BEGIN.fullmatch(text):
                quoted = True
            elif _QUOTED_END.fullmatch(text):
                quoted = False
            elif not quoted and text:
                yield from log.line(text, number)
        yield from log.finish()


READER = ReactTextReader()


def _labelled(head: bytes) -> bool:
    return any(all(label.search(head) for label in labels) for labels in (_SHORT, _LONG))


class _Log:
    """The lines so far: the episode that goes on, the call that waits, the text that grows."""

    def __init__(self, notes: ReadNotes, *, labelled: bool) -> None:
        self._notes = notes
        self._labelled = labelled
        self._names = StreamNames()
        self._episodes = 0
        self._name: str | None = None  # of the episode to come
        self._stream: Stream | None = None
        self._action: str | None = None  # a call that is not told yet, since its input may follow
        self._waiting: str | None = None  # id of the call that the next observation belongs to
        self._text: list[str] | None = None  # the observation, or the input of `_action`, that may go on
        self._length = 0

    def line(self, text: str, number: int) -> Iterator[Item]:
        if _TRIAL.fullmatch(text):
            yield from self._end_episode()
            self._name = text
        elif _CHAIN_BEGIN.match(text):
            yield from self._end_episode()
        elif _CHAIN_END.match(text):
            yield from self._close()
        elif text.startswith(_TASK):
            yield from self._task(text.removeprefix(_TASK).strip())
        elif self._labelled:
            yield from self._labelled_line(text, number)
        elif found := _PROMPT.fullmatch(text):
            yield from self._close()
            self._action = found["text"]
            yield from self._tell_action()
            self._text, self._length = [], 0
        elif self._text is not None:
            self._grow(text, number)

    def finish(self) -> Iterator[Item]:
        """The log is over."""
        yield from self._end_episode()

    def _labelled_line(self, text: str, number: int) -> Iterator[Item]:
        found = _LABEL.fullmatch(text)
        label = found["label"] if found else None
        said = found["text"].strip() if found else text
        if label is None:
            if self._text is not None:
                self._grow(said, number)
        elif label == "Action Input":
            if self._action is not None:
                self._text, self._length = [], 0
                self._grow(said, number)
        elif label in ("Obs", "Observation"):
            yield from self._tell_action()
            if self._waiting is None:
                self._notes.add("result_without_call", number)
                return
            if self._text is None:
                self._text, self._length = [], 0
            self._grow(said, number)
            if label == "Obs":  # always one line; what follows is noise
                yield from self._close()
        elif label in ("Act", "Action"):
            yield from self._close()
            self._action = said
        elif label == "Question":
            yield from self._task(said)
        else:
            yield from self._close()

    def _task(self, task: str) -> Iterator[Item]:
        """A task begins an episode, unless the present one has done nothing yet."""
        if self._text and self._text[-1].startswith(_SCENE):  # it describes the task's room
            self._text.pop()
        yield from self._close()
        if self._stream is not None and self._stream.calls:
            yield from self._end_episode()
        stream, begun = self._episode(task)
        yield from begun
        yield stream.user()

    def _episode(self, title: str = "") -> tuple[Stream, list[Item]]:
        """The stream of the present episode, and its start if it begins here."""
        if self._stream is not None:
            return self._stream, []
        self._episodes += 1
        self._stream = Stream(self._names.take(self._name or f"episode {self._episodes}"), self._notes)
        begun = self._stream.start(self._name or title)
        self._name = None
        return self._stream, [begun]

    def _end_episode(self) -> Iterator[Item]:
        yield from self._close()
        if self._stream is not None:
            self._stream.finish()
        self._stream = self._name = None

    def _close(self) -> Iterator[Item]:
        """Tell the call, or the observation, that may have gone on until here."""
        yield from self._tell_action()
        if self._stream is not None and self._waiting is not None and self._text is not None:
            yield from self._stream.result(self._waiting, tool_result("\n".join(self._text)))
        self._text = self._waiting = None

    def _tell_action(self) -> Iterator[Item]:
        if self._action is None:
            return
        tool, asked = _asked(self._action, "\n".join(self._text) if self._text is not None else None)
        self._action = self._text = None
        stream, begun = self._episode()
        yield from begun
        self._waiting = f"action {stream.calls + 1}"
        yield stream.call(tool, asked, given=self._waiting, turn=self._waiting)

    def _grow(self, text: str, number: int) -> None:
        self._length += len(text) + 1
        if self._length > TEXT_LENGTH:
            self._notes.add("long_line", number)
        elif text and self._text is not None:
            self._text.append(text)


def _asked(action: str, given: str | None) -> tuple[str, Any]:
    """Tool and arguments of an action."""
    if given is not None:
        parsed = arguments(given)
        return action or EMPTY, parsed if isinstance(parsed, dict | list) else {"input": given}
    if found := _BRACKETS.fullmatch(action):
        return found["tool"], {"input": found["text"]}
    tool, _, rest = action.partition(" ")
    return tool.rstrip(":") or EMPTY, {"input": rest.strip()}
