"""mini-swe-agent trajectories (`.traj.json`), versions 1 and 2: one JSON document with the messages.

Version 1 (a bare list, later an object) has the one command of a reply in a fence of its text and the
result in the user message after it. Version 2 has tool calls (chat completions, or items of the
Responses API) and keeps output, exit code, cost and time under `extra`.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.chat_calls import ChatCall, chat_calls
from loopwarden.transcripts.fields import elements, mapping, money, whole, word
from loopwarden.transcripts.outline import outline
from loopwarden.transcripts.shape import command_result, count, seconds, text_of
from loopwarden.transcripts.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

STREAM = "main"
TOOL = "bash"

_FENCE = re.compile(r"```(?:bash|mswea_bash_command)[^\S\n]*\n(.*?)\n```", re.DOTALL)
_RETURN_CODE = re.compile(r"\s*<returncode>(-?\d{1,6})</returncode>[^\S\n]*\n?")
_OUTPUT = re.compile(r"\s*<output>\n?(.*?)\n?</output>\s*\Z", re.DOTALL)
_FENCE_MARK = re.compile(rb"```(?:bash|mswea_bash_command)")
_OTHER_MARK = re.compile(rb"returncode>|(?:COMPLETE_TASK_AND_SUBMIT|MINI_SWE_AGENT)_FINAL_OUTPUT")


def _cached(usage: dict[str, Any]) -> int:
    """Tokens read from a cache, as the two APIs call them."""
    for name in ("prompt_tokens_details", "input_tokens_details"):
        if told := count(mapping(usage.get(name)).get("cached_tokens")):
            return told
    return count(usage.get("cache_read_input_tokens"))


class MiniSweAgentReader:
    """Runs of mini-swe-agent."""

    name = "mini-swe-agent"
    title = "mini-swe-agent trajectory"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        keys = outline(source.head)
        version = keys.get(("trajectory_format",))
        if version is not None:
            return version.startswith("mini-swe-agent")
        if ("info", "mini_version") in keys:
            return True
        if ("[]", "role") not in keys or ("[]", "content") not in keys or ("[]", "tool_calls") in keys:
            return False
        return bool(_FENCE_MARK.search(source.head) and _OTHER_MARK.search(source.head))

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        document = source.document()
        info = mapping(document.get("info")) if isinstance(document, dict) else {}
        messages = document.get("messages") if isinstance(document, dict) else document
        if not isinstance(messages, list):
            raise TranscriptError(source.label, "no mini-swe-agent trajectory: it has no list of messages")
        config = mapping(info.get("config"))
        run = _Run(Stream(STREAM, notes), notes, cost=_cost_of_reply(info, messages))
        instance = word(document.get("instance_id")) if isinstance(document, dict) else None
        yield run.stream.start(
            instance,
            "mini-swe-agent run",
            agent="mini-swe-agent",
            model=word(mapping(config.get("model")).get("model_name")),
        )
        for place, message in enumerate(messages):
            if isinstance(message, dict):
                yield from run.items(message, place)
            else:
                notes.add("bad_line")
        run.stream.finish()


READER = MiniSweAgentReader()


class _Run:
    """The messages of one run, in their order.

    Attributes:
        stream: Where the events go.
    """

    def __init__(self, stream: Stream, notes: ReadNotes, cost: float | None) -> None:
        self.stream = stream
        self._notes = notes
        self._cost = cost
        self._replied = False
        self._untold: deque[str] = deque()  # calls without an id, whose result a user message brings
        self._by_person = 0  # results to come of commands that a person gave

    def items(self, message: dict[str, Any], place: int) -> Iterator[Item]:
        role = message.get("role")
        if role == "assistant" or message.get("object") == "response":
            yield from self._reply(message, place)
        elif role == "tool" or message.get("type") == "function_call_output":
            given = word(message.get("tool_call_id")) or word(message.get("call_id"))
            yield from self._result(message, given)
        elif role == "user":
            yield from self._user(message)
        elif role not in ("system", "developer", "exit"):
            self._notes.add("unknown_record")

    def _reply(self, message: dict[str, Any], place: int) -> Iterator[Item]:
        self._replied = True
        self._untold.clear()
        extra = mapping(message.get("extra"))
        response = mapping(extra.get("response"))
        at = seconds(extra.get("timestamp") or message.get("created_at") or response.get("created"))
        turn = f"reply {place}"
        for number, call in enumerate(self._calls(message, extra)):
            given = call.call_id or f"{turn}/{number}"
            if call.call_id is None:
                self._untold.append(given)
            yield self.stream.call(call.tool, call.arguments, given=given, turn=turn, at=at)
        usage = mapping(message.get("usage")) or mapping(response.get("usage"))
        tokens_in = count(usage.get("prompt_tokens")) or count(usage.get("input_tokens"))
        tokens_out = count(usage.get("completion_tokens")) or count(usage.get("output_tokens"))
        cost = money(extra.get("cost"))
        cost = self._cost if cost is None else cost
        yield from self.stream.spent(tokens_in, tokens_out, cost, at, cached=_cached(usage))

    def _calls(self, message: dict[str, Any], extra: dict[str, Any]) -> Iterator[ChatCall]:
        """The calls of a reply, from the first place that has any."""
        calls = elements(message.get("tool_calls")) or [
            item for item in elements(message.get("output")) if mapping(item).get("type") == "function_call"
        ]
        if calls:
            yield from chat_calls(calls, self._notes)
            return
        if isinstance(extra.get("actions"), list):
            for action in extra["actions"]:
                command = word(mapping(action).get("command"))
                if command is None:
                    self._notes.add("bad_line")
                else:
                    yield ChatCall(TOOL, {"command": command}, word(action.get("tool_call_id")))
            return
        fences = _FENCE.findall(text_of(message.get("content")))
        if len(fences) == 1:  # with more or fewer the agent runs nothing and asks again
            yield ChatCall(TOOL, {"command": fences[0].strip()}, None)

    def _user(self, message: dict[str, Any]) -> Iterator[Item]:
        extra = mapping(message.get("extra"))
        interruption = word(extra.get("interrupt_type")) or ""
        at = seconds(extra.get("timestamp"))
        if interruption:
            if interruption.startswith("User"):
                yield self.stream.user(at)
        elif elements(extra.get("actions")):
            self._by_person += len(extra["actions"])
            yield self.stream.user(at)
        elif self._by_person and "raw_output" in extra:
            self._by_person -= 1
        elif self._untold:
            yield from self._result(message, self._untold.popleft())
        elif not self._replied and text_of(message.get("content")):
            yield self.stream.user(at)

    def _result(self, message: dict[str, Any], given: str | None) -> Iterator[Item]:
        extra = mapping(message.get("extra"))
        content = message.get("content") if message.get("content") is not None else message.get("output")
        text = text_of(content)
        code, shown = _exit_code(text)
        known = whole(extra.get("returncode"))
        if isinstance(extra.get("raw_output"), str):
            shown = extra["raw_output"]
        failure = word(extra.get("exception_info"))
        result = command_result(
            f"{shown}\n{failure}".strip() if failure else shown,
            exit_code=code if known is None else known,
            timed_out=extra.get("exception_type") in ("TimeoutExpired", "TimeoutError"),
            is_error=failure is not None,
        )
        yield from self.stream.result(given, result, at=seconds(extra.get("timestamp")))


def _exit_code(text: str) -> tuple[int | None, str]:
    """Exit code and output in the message that the model was shown."""
    code = None
    if found := _RETURN_CODE.match(text):
        code, text = int(found[1]), text[found.end() :]
        if output := _OUTPUT.match(text):
            text = output[1]
    return code, text


def _cost_of_reply(info: dict[str, Any], messages: list[Any]) -> float | None:
    """An equal share of the run's cost, if the replies do not say what they cost."""
    replies = [m for m in messages if isinstance(m, dict) and m.get("role") == "assistant"]
    cost = money(mapping(info.get("model_stats")).get("instance_cost"))
    if not cost or any("cost" in mapping(reply.get("extra")) for reply in replies):
        return None
    return cost / max(1, len(replies))
