"""One hook event as JSON, read leniently: what is missing or of another shape counts as not said."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import orjson

from loopwarden.hooks.results import readable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopwarden.hooks.hosts import Fields, HookHost, Kind

_LONGEST_NAME: Final = 512
"""Characters of an id or a name; longer ones are cut."""

_MOST_CALLS: Final = 256
"""Calls of one batch that are looked at."""

_SUMMARY_WITHIN: Final = 4
"""A summary is among so many first messages."""

_MISSING: Final = ("no such tool", "not found in registry", "unknown tool", "does not exist", "not available")
"""What hosts say of a tool that doesn't exist, in small letters, where nothing but the text tells it."""

_SAID_WITHIN: Final = 400
"""Characters of a result in which that is looked for."""

_TEXTS: Final = ("message", "text", "error")
"""Where an error that is an object has its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall:
    """A tool call as an event tells it.

    Attributes:
        tool: The tool's name.
        arguments: Any value.
        call_id: The host's id; `None` where it gives none.
        result: What the tool gave.
        error: What went wrong; `None` where it went well or is not over.
        interrupted: Whether a person stopped it.
        went_well: Whether the host says in so many words that it did.
        made: The sub-agent that it started.
        unknown: Whether the host says that there is no such tool.
    """

    tool: str
    arguments: object = None
    call_id: str | None = None
    result: object = None
    error: str | None = None
    interrupted: bool = False
    went_well: bool = False
    made: str | None = None
    unknown: bool = False

    @property
    def digest(self) -> str:
        """Of tool and arguments, to pair a call with its end."""
        text = json.dumps([self.tool, self.arguments], sort_keys=True, default=repr)
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    @property
    def text(self) -> str | None:
        """What went wrong, or the result; `None` where that is no text."""
        text = self.error if self.error is not None else self.result
        return text if isinstance(text, str) else None

    def says_missing(self, host: HookHost) -> bool:
        """Whether the end of this call says that there is no such tool."""
        text = (self.text or "")[:_SAID_WITHIN]
        if host.says_missing is not None:
            return host.says_missing.format(tool=self.tool) in text
        return any(phrase in text.lower() for phrase in _MISSING)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """An event, in words that are the same for all hosts.

    Attributes:
        name: The host's name for it.
        kind: What it means; `None` for one that is of no interest.
        session: The session; empty where the host names none.
        run: The run, `None` where the host names none.
        agent: The sub-agent, `None` for the main one.
        turn: The reply that the calls were asked for in; `None` where the host names none.
        project: The folder that the agent works in.
        calls: The calls it is about.
        summary: Digest of the summary that the history begins with; empty for one that was not compacted,
            `None` if that is not said.
        notice: Whether a prompt is none of the user's, but the host's.
    """

    name: str
    kind: Kind | None
    session: str
    run: str | None
    agent: str | None
    turn: str | None
    project: str
    calls: tuple[HookCall, ...] = ()
    summary: str | None = None
    notice: bool = False


def read_event(host: HookHost, payload: bytes, name: str | None = None) -> HookEvent:
    """Read an event.

    Args:
        host: Who sends it.
        payload: JSON.
        name: Its name, for hosts that don't say it inside.

    Raises:
        ValueError: It is no JSON object.
    """
    data = _object(payload)
    fields = host.fields
    event = name or _text(data, fields.event) or ""
    kind = host.events.get(event)
    return HookEvent(
        name=event,
        kind=kind,
        session=_text(data, fields.session) or "",
        run=_text(data, fields.run),
        agent=_text(data, fields.agent),
        turn=_text(data, fields.turn),
        project=_text(data, fields.project) or "",
        calls=_calls(host, kind, data),
        summary=_summary(data, fields) if kind == "request" else None,
        notice=kind == "prompt" and host.notice is not None and _starts(data, fields.prompt, host.notice),
    )


def _object(payload: bytes) -> dict[str, Any]:
    try:
        data = orjson.loads(payload)
    except orjson.JSONDecodeError:
        # Lone surrogates and huge numbers, which other writers of JSON produce.
        try:
            data = json.loads(payload.decode("utf-8", "replace"), parse_int=_integer)
        except RecursionError:
            raise ValueError("the event is nested too deeply") from None
        except ValueError:
            raise ValueError("the event is no JSON") from None
    if not isinstance(data, dict):
        raise ValueError("the event is no JSON object")  # noqa: TRY004 - what was read, not what was passed
    extra = data.get("extra")  # Hermes: what its shell hooks have besides
    return {**extra, **data} if isinstance(extra, dict) else data


def _integer(digits: str) -> int | str:
    """An integer; one with more digits than Python reads counts as text."""
    try:
        return int(digits)
    except ValueError:
        return digits


def _calls(host: HookHost, kind: Kind | None, data: Mapping[str, Any]) -> tuple[HookCall, ...]:
    if kind in {"before", "after", "failed"}:
        call = _call(host, kind, data)
        return () if call is None else (call,)
    if kind == "batch":
        listed = data.get(host.fields.calls)
        if isinstance(listed, list):
            found = (_call(host, kind, one) for one in listed[:_MOST_CALLS] if isinstance(one, dict))
            return tuple(call for call in found if call is not None)
    return ()


def _call(host: HookHost, kind: Kind | None, data: Mapping[str, Any]) -> HookCall | None:
    fields = host.fields
    tool = _text(data, fields.tool)
    if tool is None:
        return None
    result = _first(data, fields.result)
    if fields.encoded:
        result = _decoded(result)
    error = _error(_first(data, fields.error)) if kind != "before" else None
    if error is None and isinstance(result, dict):
        error = _error(result.get("error"))
    if kind == "failed" and error is None:
        error = _error(result) or "the call failed"
    if kind == "batch" and data.get("status") == "error" and error is None:
        error = _error(result) or "the call failed"
    if kind == "batch" and host.says_failed and isinstance(result, str):
        error = result if result.startswith(host.says_failed) else error
    return HookCall(
        tool=tool,
        arguments=_decoded(_first(data, fields.arguments)),
        call_id=_text(data, fields.call),
        result=readable(_read(result, fields.read)),
        error=error,
        interrupted=data.get("is_interrupt") is True or data.get("status") == "cancelled",
        went_well=data.get("status") == "success",
        made=_text(result, fields.made_by) if isinstance(result, dict) else None,
        unknown=data.get("unknown_tool") is True,
    )


def _read(result: object, names: tuple[str, ...]) -> object:
    """What the model reads of a result."""
    found = _first(result, names) if isinstance(result, dict) else None
    return result if found is None else found


def _decoded(value: object) -> object:
    """What is JSON as text is what the text says."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _error(value: object) -> str | None:
    if isinstance(value, dict):
        for name in _TEXTS:
            if isinstance(value.get(name), str) and value[name]:
                return str(value[name])
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode() if value else None
    return value if isinstance(value, str) and value else None


def _first(data: Mapping[str, Any], names: tuple[str, ...]) -> object:
    for name in names:
        if data.get(name) is not None:
            return data[name]
    return None


def _text(data: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    value = _first(data, names)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        return None
    return value[:_LONGEST_NAME].encode("utf-8", "replace").decode()  # no half of a surrogate pair


def _starts(data: Mapping[str, Any], names: tuple[str, ...], words: str) -> bool:
    value = _first(data, names)
    return isinstance(value, str) and value.startswith(words)


def _summary(data: Mapping[str, Any], fields: Fields) -> str | None:
    value: Any = data
    for name in fields.messages:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, list):
        return None
    texts = [one.get("content") if isinstance(one, dict) else None for one in value[:_SUMMARY_WITHIN]]
    reply, preamble_end = fields.summary
    found = next((text for text, answer in pairwise(texts) if answer == reply), None)
    if not isinstance(found, str):
        return ""
    summary = found.rpartition(preamble_end)[2].encode("utf-8", "surrogatepass")
    return blake2b(summary, digest_size=8).hexdigest()
