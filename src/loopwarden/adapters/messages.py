"""Loops written by hand around the OpenAI or Anthropic client: the growing list of messages is all it takes.

    guarded = GuardedMessages(LoopGuard({"enabled": True}), tools=tools)
    while True:
        reply = client.chat.completions.create(model=..., messages=messages, tools=schemas)
        messages.append(reply.choices[0].message)
        judged = guarded.judge(messages)  # raises LoopAborted
        if not judged.calls:
            break
        results = {call.call_id: tools[call.tool](**call.arguments) for call in judged.run}
        messages += judged.answers(results)

One object is one conversation, and so one list; any number of them share one guard. An aborted run leaves the
newest calls of the list without answers, which `closing` gives, should the conversation go on.

With Anthropic's client append `{"role": "assistant", "content": reply.content}`; the rest is the same.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from loopwarden.adapters import Abilities, with_note
from loopwarden.adapters.message_formats import (
    AskedCall,
    calls_of,
    content_of,
    ids_of,
    noted,
    parsed_message,
    without_note,
    words_of,
    written,
)
from loopwarden.errors import LoopAborted
from loopwarden.guarded import is_out_of_time
from loopwarden.transcripts.messages import Message, Result, Summary, Words, json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from loopwarden.events import Verdict
    from loopwarden.guard import Verbs

ABILITIES = Abilities(
    host="OpenAI and Anthropic clients",
    package="",
    warns="result",
    aborts="raises",
    unknown_tools="call",
    compaction="inferred",
    call_ids=True,
    run_ids=False,
    turns=True,
)


_SUMMARY: Final = re.compile(
    r"\b(?:summary|summari[sz]ed|compacted)\b|continued from a previous conversation|<state_snapshot>",
    re.IGNORECASE,
)
"""How Claude Code, Codex, Gemini CLI, LangChain and the tool runner of Anthropic's client begin a summary."""

_SUMMARY_BEGINS: Final = 500
"""Characters of a message in which a summary says that it is one."""

_TELLING: Final = 24
"""Characters from which words that are found again within other words are no chance."""


def closing(
    messages: Sequence[Any], text: str, results: Mapping[str, object] | None = None
) -> list[dict[str, Any]]:
    """The messages to append to a list whose newest calls have no answers, as after an abort.

    APIs reject such a list, so that the conversation can't go on from it.

    Args:
        messages: The whole list, as for `GuardedMessages.judge`.
        text: What the model reads in place of a result: the message of the verdict.
        results: What came of those that ran, as for `Judged.answers`; their answer is the result.
    """
    parsed = [parsed_message(message) for message in messages]
    asked = max((place for place, (message, _) in enumerate(parsed) if ids_of(message)), default=None)
    if asked is None:
        return []
    newest, anthropic = parsed[asked]
    given = {
        step.call_id for message, _ in parsed[asked:] for step in message.steps if isinstance(step, Result)
    }
    ran = results or {}
    contents = {
        call_id: content_of(ran[call_id]) if call_id in ran else (text, True)
        for call_id in ids_of(newest)
        if call_id not in given
    }
    return written(contents, anthropic=anthropic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What to do with the newest reply.

    Attributes:
        calls: All calls it asks for, in order; none if the list does not end with a reply that asks.
        run: Those to run.
        refused: What to answer to the others, by call id.
        notes: What to add to a result, by call id.
    """

    calls: tuple[AskedCall, ...]
    run: tuple[AskedCall, ...]
    refused: Mapping[str, str]
    notes: Mapping[str, str]
    _anthropic: bool
    _tell: Callable[[str, Result, bool], None]

    def answers(self, results: Mapping[str, object]) -> list[dict[str, Any]]:
        """The messages to append: one result for each call, refusals and notes included.

        Args:
            results: What came of each call of `run`, by call id: a text, a list of content parts, any JSON
                value, or an exception.

        Raises:
            KeyError: A result is missing.
            LoopAborted: The guard ended the run.
        """
        contents: dict[str, tuple[Any, bool]] = {call: (text, True) for call, text in self.refused.items()}
        for call in self.run:
            result = results[call.call_id]
            content, failed = content_of(result)
            (message,) = written({call.call_id: (content, failed)}, anthropic=self._anthropic)
            (told,) = parsed_message(message)[0].steps
            if isinstance(told, Result):
                failure = content if failed else None
                told = replace(told, error=failure, result=None if failed else told.result)
                self._tell(call.call_id, told, isinstance(result, BaseException) and is_out_of_time(result))
            contents[call.call_id] = noted(content, self.notes.get(call.call_id)), failed
        return written(
            {call.call_id: contents[call.call_id] for call in self.calls}, anthropic=self._anthropic
        )


class GuardedMessages:
    """Watches one conversation by its list of messages.

    One object is one conversation, and is used by one thread at a time; objects are cheap, and share a guard.

    A list that is seen for the first time is replayed in, so that a conversation may be taken up again in
    another process. A message of a person after the first begins a new run. A list that lost its beginning
    was compacted; one that has nothing in common with the list before, and no summary of it, begins a new
    run. Calls that the API runs itself are not seen.

    Args:
        verbs: The guard, or a session of it.
        tools: Names of the tools there are; calls of others are answered without the caller. `None`: the
            caller answers them.
        run_id: Id of the runs; the second gets `-2` behind it. `None`: one is made up.
    """

    def __init__(
        self, verbs: Verbs, *, tools: Collection[str] | None = None, run_id: str | None = None
    ) -> None:
        self._verbs = verbs
        self._tools = tools
        self._base = run_id if run_id is not None else uuid.uuid4().hex
        self._number = 1
        self._turns: list[tuple[str, ...]] = []
        self._length = 0
        self._words: frozenset[int] = frozenset()
        self._question = ""
        self._last_words: str | None = None
        self._replies = 0
        self._last: Judged | None = None
        self._open: dict[str, tuple[str, str | None]] = {}
        self._summaries: set[str] = set()
        self._worked = False

    @property
    def run_id(self) -> str:
        """Id of the present run."""
        return self._id_of(self._number)

    def _id_of(self, number: int) -> str:
        return self._base if number == 1 else f"{self._base}-{number}"

    def judge(self, messages: Sequence[Any]) -> Judged:
        """Read what is new and judge the calls of the newest reply.

        Args:
            messages: The whole list, in either format; mappings or the clients' own objects.

        Raises:
            LoopAborted: The guard ended the run.
        """
        parsed = [parsed_message(message) for message in messages]
        news = self._news([message for message, _ in parsed])
        if news is None and self._last is not None:
            return self._last
        calls, verdicts = news or ((), [])
        for verdict in verdicts:
            _leave(verdict)
        self._last = self._judged(calls, verdicts, anthropic=bool(parsed) and parsed[-1][1])
        return self._last

    def _news(
        self, parsed: Sequence[Message], *, person: bool = True
    ) -> tuple[tuple[AskedCall, ...], list[Verdict]] | None:
        """Read what is new in the whole list.

        Args:
            parsed: The list.
            person: Whether words of a user may begin a new run.

        Returns:
            The calls of the newest reply and the verdicts on them, if it ends the list; `None` if it was
            judged just now.

        Raises:
            LoopAborted: The guard ended the run at a compaction or an outcome.
        """
        asked = [(place, ids) for place, message in enumerate(parsed) if (ids := ids_of(message))]
        kept, compacted = self._aligned([ids for _, ids in asked], parsed)
        self._remember(parsed)
        start = asked[kept - 1][0] + 1 if kept else 0
        if kept and start == len(parsed):
            if self._last is not None and self._last.calls == tuple(calls_of(parsed[-1])):
                return None
            self._drop(
                asked[kept - 1][1]
            )  # wound back to a reply that was answered once: its calls are made again
            start -= 1
        if compacted:
            for message in parsed:  # results that were there before the compaction
                self._results(message)
            _leave(self._verbs.compacted(run_id=self.run_id, at=time.monotonic()))
        return self._read(parsed[start:], person=person and (kept > 0 or not compacted))

    def _read(
        self, messages: Sequence[Message], *, person: bool
    ) -> tuple[tuple[AskedCall, ...], list[Verdict]]:
        """Read messages that are new; `person`: whether words of a user begin a new run."""
        calls: tuple[AskedCall, ...] = ()
        verdicts: list[Verdict] = []
        for message in messages:
            calls, verdicts = (), []
            self._told(message, person=person)
            if ids_of(message):
                self._replies += 1
                calls = tuple(calls_of(message))
                verdicts = [self._before(call) for call in calls]
        return calls, verdicts

    def _judged(self, calls: tuple[AskedCall, ...], verdicts: list[Verdict], *, anthropic: bool) -> Judged:
        refused: dict[str, str] = {}
        for call, verdict in zip(calls, verdicts, strict=True):
            if verdict.action == "block":
                refused[call.call_id] = verdict.message or ""
            elif not self._exists(call.tool):
                text = f"There is no tool named {call.tool}. There are: {', '.join(self._tools or ())}."
                note = self._open[call.call_id][1]
                self._ended(call.call_id, Result(call_id=call.call_id, error=text))
                refused[call.call_id] = with_note(text, note) if note else text
        return Judged(
            calls=calls,
            run=tuple(call for call in calls if call.call_id not in refused),
            refused=refused,
            notes={
                call.call_id: note
                for call in calls
                if (note := self._open.get(call.call_id, (None, None))[1]) is not None
            },
            _anthropic=anthropic,
            _tell=self._ended,
        )

    def _aligned(self, turns: list[tuple[str, ...]], parsed: Sequence[Message]) -> tuple[int, bool]:
        """How many of the list's turns are known, and whether the list was compacted since.

        A list that lost turns between its beginning and its end, or at its beginning, was compacted; where
        only the newest reply is another, it was made again. A list of another conversation begins a run.
        """
        known, shrunken = self._turns, len(parsed) < self._length
        self._turns, self._length = turns, len(parsed)
        same = (ours == theirs for ours, theirs in zip(known, turns, strict=False))
        head = sum(itertools.takewhile(bool, same))
        lost = len(known) - head
        for count in range(min(lost, len(turns) - head), 0, -1):
            if known[-count:] == turns[head : head + count]:
                return head + count, True
        wound_back = head > 0 and head == len(turns) and bool(ids_of(parsed[-1]))
        if lost and not head and self._is_another(parsed, turns_lost=lost):
            self._begin()
        elif lost > 1 and shrunken and not wound_back:
            return head, True
        elif lost:
            self._drop([call_id for ids in known[head:] for call_id in ids])
        return head, False

    def _remember(self, parsed: Sequence[Message]) -> None:
        """Keep by what the next list is known, if it has none of the calls."""
        words = words_of(parsed)
        self._words = frozenset(hash(text) for _, text in words)
        ended = bool(parsed) and parsed[-1].by_model and not ids_of(parsed[-1])
        self._last_words = words[-1][1] if ended and words else None
        self._question = next((text for by, text in reversed(words) if by == "user"), "")

    def _is_another(self, parsed: Sequence[Message], *, turns_lost: int) -> bool:
        """Whether a list without any known call is one of another conversation, not of a compacted one."""
        if any(isinstance(step, Summary) for message in parsed for step in message.steps):
            return False
        words = words_of(parsed)
        if self._last_words is not None:  # it had ended, unless its end was a summary that was asked for
            return not _holds(words, self._last_words)
        if _holds(words, self._question) or any(
            _SUMMARY.search(text, 0, _SUMMARY_BEGINS) for _, text in words
        ):
            return False
        texts = {hash(text) for _, text in words}
        return self._words.isdisjoint(texts) or (len(texts) == 1 and turns_lost > 1)

    def _drop(self, call_ids: Collection[str]) -> None:
        self._verbs.retract(call_ids, run_id=self.run_id)
        for call_id in call_ids:
            self._open.pop(call_id, None)

    def _told(self, message: Message, *, person: bool) -> None:
        """What a message tells but for its calls: results, a summary, a person's words."""
        answers = self._results(message)
        for step in message.steps:
            if isinstance(step, Summary) and step.name not in self._summaries:
                self._summaries.add(step.name)
                if self._worked:
                    _leave(self._verbs.compacted(run_id=self.run_id, at=time.monotonic()))
            elif (
                isinstance(step, Words) and step.author == "user" and person and self._worked and not answers
            ):
                self._begin()

    def _begin(self) -> None:
        """A person wrote: another run begins."""
        self._verbs.forget(run_id=self.run_id)
        self._number += 1
        self._worked = False
        self._open.clear()

    def _results(self, message: Message) -> bool:
        """Tell the results of a message, and whether it has any."""
        results = [step for step in message.steps if isinstance(step, Result)]
        for step in results:
            if step.call_id is not None:
                self._ended(step.call_id, step)
        return bool(results)

    def _before(self, call: AskedCall) -> Verdict:
        self._worked = True
        verdict = self._verbs.before(
            call.tool,
            call.arguments,
            call_id=call.call_id,
            run_id=self.run_id,
            turn_id=f"reply-{self._replies}",
            at=time.monotonic(),
        )
        if verdict.action not in {"block", "abort"}:
            note = verdict.message if verdict.action == "warn" and verdict.announce else None
            self._open[call.call_id] = call.tool, note
        return verdict

    def _ended(self, call_id: str, told: Result, timed_out: bool = False) -> None:
        """A result stands in the list, or is about to; what is known already is nothing new."""
        if call_id not in self._open:
            return
        tool, note = self._open.pop(call_id)
        result, error = without_note(told.result, note), told.error
        missing = None if self._exists(tool) else tool
        if missing is not None and error is None:
            result, error = None, json_text(result)
        outcome: dict[str, Any] = {"result": result, "error": error, "timed_out": timed_out}
        outcome |= {"unknown_tool": missing, "run_id": self.run_id, "at": time.monotonic()}
        _leave(self._verbs.after(call_id, **outcome))

    def _exists(self, tool: str) -> bool:
        return self._tools is None or tool in self._tools


def _leave(verdict: Verdict) -> None:
    if verdict.action == "abort":
        raise LoopAborted(verdict)


def _holds(words: Sequence[tuple[str, str]], text: str) -> bool:
    """Whether a message of the user quotes a text, and says more."""
    return len(text) >= _TELLING and any(by == "user" and text in said and text != said for by, said in words)
