"""The three APIs of a LiteLLM proxy: what a request and a reply say, and how the guard's words get in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from loopwarden.adapters.message_formats import noted, parsed_message
from loopwarden.transcripts.fields import elements, mapping, word
from loopwarden.transcripts.messages import Call, Message, Result
from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.openai_responses import DIALECT as RESPONSES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

Item = dict[str, Any]
"""A message, or an item of the Responses API, as it stands in a request."""

_CLIENT_CALLS: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
}
"""Items of the Responses API that the client answers, and with what."""


def plain(value: Any) -> Item:
    """A mapping, or the host's own object as one; empty for anything else."""
    dump = getattr(value, "model_dump", None)
    found = dump(mode="json", exclude_none=True) if callable(dump) else value
    return dict(found) if isinstance(found, dict) else {}


class Chat:
    """Chat completions.

    Attributes:
        route: What the host calls the API.
        field: Where the history stands in a request.
        in_words: The choice of tools by which the model may only answer in words.
    """

    route = "acompletion"
    field = "messages"
    in_words: Any = "none"

    def items(self, data: Mapping[str, Any]) -> list[Item] | None:
        """The history of a request; `None` if it has none that can be read."""
        found = data.get(self.field)
        return found if isinstance(found, list) and all(isinstance(item, dict) for item in found) else None

    def parsed(self, items: Sequence[Item]) -> list[Message]:
        """What they say."""
        return [parsed_message(item)[0] for item in items]

    def is_part(self, data: Mapping[str, Any]) -> bool:
        """Whether the request holds only what is new."""
        return False

    def reply(self, response: Any) -> list[Item]:
        """The model's reply as it will stand in the history; of several choices the first."""
        choice = next(iter(getattr(response, "choices", None) or ()), None)
        message = plain(getattr(choice, "message", None))
        return [{"content": None, **message, "role": "assistant"}] if message else []

    def strip(self, response: Any, refused: Collection[str]) -> None:
        """Take calls out of a response, in place."""
        message = response.choices[0].message
        message.tool_calls = [call for call in message.tool_calls if call.id not in refused]

    def refusals(self, refused: Mapping[str, str], reply: Sequence[Item]) -> list[Item]:
        """The results of refused calls."""
        return [
            {"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in refused.items()
        ]

    def whole(self, item: Item, reply: Sequence[Item], refused: Collection[str]) -> list[Item]:
        """What stands in place of the reply that the client got: all of its calls."""
        return list(reply)

    def noted(self, item: Item, notes: Mapping[str, str]) -> Item:
        """An item of the history with the notes on its results."""
        note = notes.get(word(item.get("tool_call_id")) or "") if item.get("role") == "tool" else None
        return item if note is None else item | {"content": _with(item.get("content"), note, "text")}

    def put(self, items: list[Item], more: Sequence[Item]) -> None:
        """Add items behind others."""
        items.extend(more)


class Anthropic(Chat):
    """Anthropic's messages."""

    route = "anthropic_messages"
    in_words: Any = {"type": "none"}  # noqa: RUF012 - never changed

    def reply(self, response: Any) -> list[Item]:
        """See `Chat.reply`."""
        content = plain(response).get("content")
        return [{"role": "assistant", "content": content}] if isinstance(content, list) else []

    def strip(self, response: Any, refused: Collection[str]) -> None:
        """See `Chat.strip`."""
        response["content"] = [
            block for block in response["content"] if mapping(block).get("id") not in refused
        ]

    def refusals(self, refused: Mapping[str, str], reply: Sequence[Item]) -> list[Item]:
        """See `Chat.refusals`."""
        blocks = [
            {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": True}
            for call_id, text in refused.items()
        ]
        return [{"role": "user", "content": blocks}]

    def noted(self, item: Item, notes: Mapping[str, str]) -> Item:
        """See `Chat.noted`."""
        blocks = elements(item.get("content"))
        if not any(_note_on(block, notes) for block in blocks):
            return item
        return item | {
            "content": [
                block if note is None else block | {"content": _with(block.get("content"), note, "text")}
                for block in blocks
                for note in [_note_on(block, notes)]
            ]
        }

    def put(self, items: list[Item], more: Sequence[Item]) -> None:
        """Add items; all results of a reply stand in one message."""
        first, last = more[0], items[-1]
        if last.get("role") == first["role"] == "user" and isinstance(last["content"], list):
            items[-1] = last | {"content": [*last["content"], *first["content"]]}
            more = more[1:]
        items.extend(more)


class Responses(Chat):
    """OpenAI's Responses."""

    route = "aresponses"
    field = "input"

    def items(self, data: Mapping[str, Any]) -> list[Item] | None:
        """See `Chat.items`."""
        found = data.get(self.field)
        return [{"role": "user", "content": found}] if isinstance(found, str) else super().items(data)

    def parsed(self, items: Sequence[Item]) -> list[Message]:
        """See `Chat.parsed`."""
        found: list[Message] = []
        for message in RESPONSES.messages(items, ReadNotes()):
            if message.by_model:
                found.append(message)
            else:  # results and words that follow each other are no one message here
                found += [replace(message, steps=(step,)) for step in message.steps]
        return found

    def is_part(self, data: Mapping[str, Any]) -> bool:
        """See `Chat.is_part`."""
        return bool(data.get("previous_response_id") or data.get("conversation"))

    def reply(self, response: Any) -> list[Item]:
        """See `Chat.reply`."""
        return [plain(item) for item in getattr(response, "output", None) or ()]

    def strip(self, response: Any, refused: Collection[str]) -> None:
        """See `Chat.strip`."""
        response.output = [item for item in response.output if _call_id(plain(item)) not in refused]

    def refusals(self, refused: Mapping[str, str], reply: Sequence[Item]) -> list[Item]:
        """See `Chat.refusals`."""
        kinds = {_call_id(item): word(item.get("type")) or "" for item in reply}
        return [
            {
                "type": _CLIENT_CALLS.get(kinds.get(call_id, ""), "function_call_output"),
                "call_id": call_id,
                "output": text,
            }
            for call_id, text in refused.items()
        ]

    def whole(self, item: Item, reply: Sequence[Item], refused: Collection[str]) -> list[Item]:
        """See `Chat.whole`."""
        return [*(each for each in reply if _call_id(each) in refused), item]

    def noted(self, item: Item, notes: Mapping[str, str]) -> Item:
        """See `Chat.noted`."""
        note = notes.get(_call_id(item) or "") if (word(item.get("type")) or "").endswith("_output") else None
        return item if note is None else item | {"output": _with(item.get("output"), note, "input_text")}


DIALECTS: Final[dict[str, Chat]] = {
    "completion": Chat(),
    "acompletion": Chat(),
    "anthropic_messages": Anthropic(),
    "aresponses": Responses(),
    "responses": Responses(),
}
"""By what the host calls the kind of a request."""


def is_client_call(item: Item) -> bool:
    """Whether an item of the Responses API is a call that the client answers."""
    return word(item.get("type")) in _CLIENT_CALLS


def asked_in(messages: Iterable[Message]) -> list[str]:
    """Ids of the calls that messages of the model ask for."""
    steps = [step for message in messages if message.by_model for step in message.steps]
    return [step.call_id for step in steps if isinstance(step, Call) and step.call_id is not None]


def answered_in(messages: Iterable[Message]) -> list[str]:
    """Ids of the calls that have their result in messages of the client."""
    steps = [step for message in messages if not message.by_model for step in message.steps]
    return [step.call_id for step in steps if isinstance(step, Result) and step.call_id is not None]


def tools_of(data: Mapping[str, Any]) -> frozenset[str] | None:
    """Names of the tools of a request; `None` if they can't all be told."""
    tools = [mapping(tool) for tool in elements(data.get("tools"))]
    names = [word(mapping(tool.get("function")).get("name")) or word(tool.get("name")) for tool in tools]
    known = [name for name in names if name]
    return frozenset(known) if known and len(known) == len(names) else None


def _call_id(item: Item) -> str | None:
    return word(item.get("call_id"))


def _note_on(block: Any, notes: Mapping[str, str]) -> str | None:
    return notes.get(word(mapping(block).get("tool_use_id")) or "")


def _with(content: Any, note: str, part: str) -> Any:
    if isinstance(content, list):
        return [*content, {"type": part, "text": note}]
    return noted(content, note) if isinstance(content, str) and content else note
