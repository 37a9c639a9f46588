"""Replies of a LiteLLM proxy that are streamed: read while they pass, held back from the first call on.

A stream is cut into units: a chunk of a chat completion, a whole event of the other APIs. What is held back
goes on as it is, without refused calls, or not at all, where the model is asked again: then the units of the
new reply follow those that the client has.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from loopwarden.adapters.litellm_formats import DIALECTS, is_client_call, plain
from loopwarden.transcripts.fields import mapping, whole, word

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from loopwarden.adapters.litellm_formats import Item

_OPENING: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
_CLOSING: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_ENDS: Final = re.compile(rb"(\r\n\r\n|\n\n)")
_DELTAS: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class ChatStream:
    """Chunks of chat completions."""

    def __init__(self) -> None:
        self._chunks: list[Any] = []
        self._id: str | None = None
        self._places: dict[int, int] = {}

    def units(self, chunk: Any) -> Iterator[Any]:
        """The units that are complete with this chunk."""
        self._chunks.append(chunk)
        yield chunk

    def rest(self) -> Any:
        """What is left of the stream at its end, `None` for nothing."""
        return None

    def is_call(self, unit: Any) -> bool:
        """Whether it belongs to a call that the client would run."""
        return any(self._calls(unit))

    def reply(self) -> list[Item]:
        """The whole reply, as it will stand in the history."""
        if not any(self.is_call(chunk) for chunk in self._chunks):
            deltas = [choice.delta for chunk in self._chunks for choice in chunk.choices[:1]]
            words = "".join(getattr(delta, "content", None) or "" for delta in deltas)
            return [{"role": "assistant", "content": words}]
        from litellm import stream_chunk_builder

        return DIALECTS["acompletion"].reply(stream_chunk_builder(self._chunks))

    def again(self) -> None:
        """The model is asked again: what follows is another reply."""
        self._id = self._id or next((chunk.id for chunk in self._chunks), None)
        self._chunks = []

    def passed(self, unit: Any, refused: Collection[str] = ()) -> Any:
        """A unit as the client gets it, without refused calls; `None` for nothing."""
        if self._id is not None:
            unit.id = self._id
        if refused and (calls := list(self._calls(unit))):
            for call in calls:
                if call.id in refused:
                    self._places[call.index] = -1
                elif call.index not in self._places:
                    self._places[call.index] = sum(place >= 0 for place in self._places.values())
            left = [call for call in calls if self._places[call.index] >= 0]
            for call in left:
                call.index = self._places[call.index]
            delta = unit.choices[0].delta
            delta.tool_calls = left or None
            if not left and not delta.content and unit.choices[0].finish_reason is None:
                return None
        return unit

    @staticmethod
    def _calls(unit: Any) -> Iterator[Any]:
        for choice in (getattr(unit, "choices", None) or ())[:1]:
            yield from getattr(getattr(choice, "delta", None), "tool_calls", None) or ()


class AnthropicStream:
    """Server-sent events of Anthropic's messages, as bytes."""

    def __init__(self) -> None:
        self._tail = b""
        self._blocks: dict[int, Item] = {}
        self._pieces: dict[int, list[str]] = {}
        self._begun = False
        self._sent = 0
        self._places: dict[int, int] = {}

    def units(self, chunk: Any) -> Iterator[bytes]:
        """See `ChatStream.units`."""
        self._tail += chunk.encode() if isinstance(chunk, str) else bytes(chunk)
        *found, self._tail = _ENDS.split(self._tail)
        for event, end in zip(found[::2], found[1::2], strict=True):
            self._read(_event(event))
            yield event + end

    def rest(self) -> bytes | None:
        """See `ChatStream.rest`."""
        tail, self._tail = self._tail, b""
        return tail or None

    def is_call(self, unit: bytes) -> bool:
        """See `ChatStream.is_call`."""
        return mapping(_event(unit).get("content_block")).get("type") == "tool_use"

    def reply(self) -> list[Item]:
        """See `ChatStream.reply`."""
        for index, pieces in self._pieces.items():
            if index in self._blocks:
                self._blocks[index]["input"] = _json("".join(pieces) or "{}")
        return [{"role": "assistant", "content": list(self._blocks.values())}]

    def again(self) -> None:
        """See `ChatStream.again`."""
        self._blocks, self._pieces = {}, {}

    def passed(self, unit: bytes, refused: Collection[str] = ()) -> bytes | None:
        """See `ChatStream.passed`."""
        event = _event(unit)
        kind, index = event.get("type"), whole(event.get("index"))
        if kind == "message_start":
            first, self._begun = not self._begun, True
            return unit if first else None
        if index is None:
            return unit
        if kind == "content_block_start":
            gone = mapping(event.get("content_block")).get("id") in refused
            self._places[index] = -1 if gone else self._sent
            self._sent += not gone
        place = self._places.get(index, index)
        if place == index:
            return unit
        if place < 0:
            return None
        return b"event: %b\ndata: %b\n\n" % (str(kind).encode(), orjson.dumps(event | {"index": place}))

    def _read(self, event: Item) -> None:
        index = whole(event.get("index"))
        if index is None:
            return
        if event.get("type") == "content_block_start":
            self._blocks[index] = dict(mapping(event.get("content_block")))
        delta = mapping(event.get("delta"))
        if "partial_json" in delta:
            self._pieces.setdefault(index, []).append(word(delta["partial_json"]) or "")
        name = _DELTAS.get(word(delta.get("type")) or "")
        if name is not None and index in self._blocks:
            block = self._blocks[index]
            block[name] = (word(block.get(name)) or "") + (word(delta.get(name)) or "")


class ResponsesStream:
    """Events of OpenAI's Responses, as the host's objects."""

    def __init__(self) -> None:
        self._output: list[Item] = []
        self._begun = False
        self._round = 0
        self._sent = 0
        self._number = 0
        self._places: dict[int, int] = {}

    def units(self, chunk: Any) -> Iterator[Any]:
        """See `ChatStream.units`."""
        kind = _kind(chunk)
        if kind in _CLOSING:
            self._output = [plain(item) for item in getattr(chunk.response, "output", None) or ()]
        elif kind == "response.output_item.done":
            self._output.append(plain(chunk.item))
        yield chunk

    def rest(self) -> Any:
        """See `ChatStream.rest`."""
        return None

    def is_call(self, unit: Any) -> bool:
        """See `ChatStream.is_call`."""
        return _kind(unit) == "response.output_item.added" and is_client_call(plain(unit.item))

    def reply(self) -> list[Item]:
        """See `ChatStream.reply`."""
        return self._output

    def again(self) -> None:
        """See `ChatStream.again`."""
        self._output, self._round = [], self._round + 1

    def passed(self, unit: Any, refused: Collection[str] = ()) -> Any:
        """See `ChatStream.passed`."""
        kind, index = _kind(unit), whole(getattr(unit, "output_index", None))
        if kind in _OPENING and self._round and self._begun:
            return None
        self._begun = True
        if kind == "response.output_item.added" and index is not None:
            gone = plain(unit.item).get("call_id") in refused
            self._places[index] = -1 if gone else self._sent
            self._sent += not gone
        if index is not None and (place := self._places.get(index, index)) != index:
            if place < 0:
                return None
            unit.output_index = place
        if kind in _CLOSING and refused:
            DIALECTS["aresponses"].strip(unit.response, refused)
        if (self._round or refused) and getattr(unit, "sequence_number", None) is not None:
            unit.sequence_number = self._number
        self._number += 1
        return unit


Stream: TypeAlias = ChatStream | AnthropicStream | ResponsesStream

STREAMS: Final[dict[str, Callable[[], Stream]]] = {
    "acompletion": ChatStream,
    "anthropic_messages": AnthropicStream,
    "aresponses": ResponsesStream,
}
"""By what the host calls the API."""


def _kind(unit: Any) -> str:
    kind = getattr(unit, "type", None)
    return str(getattr(kind, "value", kind))


def _event(unit: bytes) -> Item:
    data = [line[5:].strip() for line in unit.splitlines() if line.startswith(b"data:")]
    found = _json(b"\n".join(data)) if data else None
    return found if isinstance(found, dict) else {}


def _json(text: str | bytes) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return text if isinstance(text, str) else text.decode("utf-8", "replace")
