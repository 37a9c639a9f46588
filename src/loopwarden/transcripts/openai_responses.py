"""OpenAI Responses: item lists, requests, answers and captures of them.

Calls are items whose type ends in `_call`, results items of `<type>_output` with the same `call_id`;
tools that the API runs itself keep their result inside the call. A request may repeat all items or
name the answer it goes on from. A `compaction` item stands for a history that was summarised.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from loopwarden.transcripts import captures, shape
from loopwarden.transcripts.fields import elements, mapping, whole, word
from loopwarden.transcripts.messages import (
    Author,
    Call,
    Exchange,
    Message,
    Reply,
    Result,
    Step,
    Summary,
    Words,
    json_text,
    plain_text,
    tool_output,
)
from loopwarden.transcripts.shape import count, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

_AUTHORS: dict[str, Author] = {
    "assistant": "model",
    "developer": "system",
    "system": "system",
    "user": "user",
}
_GIVEN = ("arguments", "input", "action", "actions", "operation", "queries", "code")
"""Where the different kinds of call keep what the tool is asked for."""

_OWN_RESULT = ("output", "results", "outputs", "result")
"""Where calls that the API runs itself keep what came out."""

_SILENT = frozenset(
    {"reasoning", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "item_reference"}
)
_SUMMARIES = frozenset({"compaction", "compaction_summary"})
_ENDED_BADLY = frozenset({"failed", "incomplete"})


class ResponsesDialect:
    """What the Responses API calls things."""

    def is_item(self, value: dict[str, Any]) -> bool:
        """Whether this is an item of an input or output list."""
        kind = word(value.get("type"))
        if kind is None or kind == "message":
            return word(value.get("role")) in _AUTHORS and "content" in value and "tool_calls" not in value
        return _is_call(kind) or kind.endswith("_output") or kind in _SILENT or kind in _SUMMARIES

    def is_request(self, body: dict[str, Any]) -> bool:
        """Whether this has an input."""
        given = body.get("input")
        if isinstance(given, str):
            return "model" in body and "messages" not in body
        return isinstance(given, list) and any(
            isinstance(each, dict) and self.is_item(each) for each in given[:2]
        )

    def is_answer(self, body: dict[str, Any]) -> bool:
        """Whether this is a response."""
        kind = word(body.get("object")) or ""
        return isinstance(body.get("output"), list) and (kind.startswith("response") or "usage" in body)

    def messages(self, items: Sequence[Any], notes: ReadNotes) -> tuple[Message, ...]:
        """What an item list says; a run of items of the model is one reply."""
        found: list[tuple[bool, list[Step]]] = []
        for item in items:
            steps = _steps(item) if isinstance(item, dict) else None
            if steps is None:
                notes.add("unknown_record")
            elif steps:
                found.append((_by_model(item), steps))
        return tuple(
            Message(by_model=by_model, steps=tuple(step for _, steps in run for step in steps))
            for by_model, run in groupby(found, key=lambda pair: pair[0])
        )

    def exchange(self, request: dict[str, Any], notes: ReadNotes) -> Exchange:
        """What a request says."""
        given = request.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else elements(given)
        conversation = request.get("conversation")
        return Exchange(
            history=self.messages(items, notes),
            follows=word(request.get("previous_response_id"))
            or word(conversation)
            or word(mapping(conversation).get("id")),
            model=word(request.get("model")),
        )

    def reply(self, body: dict[str, Any], notes: ReadNotes) -> Reply | None:
        """What a response says."""
        messages = self.messages(elements(body.get("output")), notes)
        told = mapping(body.get("usage"))
        return Reply(
            message=Message(by_model=True, steps=tuple(step for each in messages for step in each.steps)),
            reply_id=word(body.get("id")),
            follows=word(body.get("previous_response_id")),
            model=word(body.get("model")),
            usage=(count(told.get("input_tokens")), count(told.get("output_tokens"))) if told else None,
            cached=count(mapping(told.get("input_tokens_details")).get("cached_tokens")),
            at=seconds(body.get("created_at")),
            replaces_history=body.get("object") == "response.compaction",
        )

    def assembled(self, events: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """A response from the last event of its stream, or from the items that were finished."""
        ends = ("response.completed", "response.incomplete", "response.failed")
        for event in reversed(events):
            if event.get("type") in ends and isinstance(event.get("response"), dict):
                return mapping(event["response"])
        done = [event.get("item") for event in events if event.get("type") == "response.output_item.done"]
        return {"object": "response", "output": done} if done else None


DIALECT = ResponsesDialect()


def _is_call(kind: str) -> bool:
    return kind.endswith("_call") or kind == "custom_tool_call"


def _by_model(item: dict[str, Any]) -> bool:
    kind = word(item.get("type"))
    if kind is None or kind == "message":
        return item.get("role") == "assistant"
    return not kind.endswith("_output")


def _steps(item: dict[str, Any]) -> list[Step] | None:
    """What an item says, `None` if its type is not known."""
    kind = word(item.get("type"))
    role = item.get("role")
    if kind in {None, "message"}:
        author = _AUTHORS.get(role) if isinstance(role, str) else None
        if author is None:
            return None
        written = plain_text(item.get("content"))
        return [Words(author=author, text=written)] if written else []
    if kind in _SILENT:
        return []
    if kind in _SUMMARIES:
        return [Summary(name=word(item.get("id")) or json_text(item.get("encrypted_content")))]
    if kind is not None and _is_call(kind):
        return _call(kind, item)
    if kind is not None and kind.endswith("_output"):
        return [_output(item)]
    return None


def _call(kind: str, item: dict[str, Any]) -> list[Step]:
    call_id = word(item.get("call_id")) or word(item.get("id"))
    given = next((item[key] for key in _GIVEN if item.get(key) is not None), None)
    tool = word(item.get("name")) or kind.removesuffix("_call") or kind
    steps: list[Step] = [Call(tool=tool, arguments=shape.arguments(given), call_id=call_id)]
    error = item.get("error")
    own = next((item[key] for key in _OWN_RESULT if item.get(key) is not None), None)
    if error is not None:
        message = word(error) or word(mapping(error).get("message")) or json_text(error)
        steps.append(Result(call_id=call_id, error=message))
    elif own is not None:
        steps.append(Result(call_id=call_id, result=tool_output(own)))
    elif "call_id" not in item and word(item.get("status")) in _ENDED_BADLY:
        steps.append(Result(call_id=call_id, error=str(item["status"])))
    return steps


def _output(item: dict[str, Any]) -> Result:
    call_id = word(item.get("call_id")) or word(item.get("id"))
    output = item.get("output")
    runs = [mapping(each) for each in elements(output)]
    if runs and all("stdout" in run for run in runs):
        return Result(call_id=call_id, result=_shell_result(runs))
    given = output if output is not None else item.get("tools")
    return Result(call_id=call_id, result=tool_output(given, is_error=item.get("status") == "failed"))


def _shell_result(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of the commands of one `shell_call`; the exit code is that of the last one."""
    printed = "\n".join((word(run.get("stdout")) or "") + (word(run.get("stderr")) or "") for run in runs)
    ended = mapping(runs[-1].get("outcome"))
    return shape.command_result(
        printed, exit_code=whole(ended.get("exit_code")), timed_out=ended.get("type") == "timeout"
    )


class OpenAIResponsesReader:
    """Reads Responses."""

    name = "openai-responses"
    title = "OpenAI Responses"

    def sniff(self, source: Source) -> bool:
        """Requests with an input, responses, or lists with at least one item that is no message."""
        return any(map(_is_certain, captures.sample(DIALECT, source)))

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        return captures.read(DIALECT, source, notes)


def _is_certain(part: captures.Part) -> bool:
    if part.answer is not None or part.request is not None:
        return True
    kinds = [word(mapping(each).get("type")) for each in part.items or []]
    return any(
        kind is not None
        and (kind in _SILENT or kind in _SUMMARIES or _is_call(kind) or kind.endswith("_call_output"))
        for kind in kinds
    )


READER = OpenAIResponsesReader()
