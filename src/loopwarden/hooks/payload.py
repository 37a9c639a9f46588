"""One hook event as JSON, read leniently: what is missing or of another shape counts as not said."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopwarden.hooks.hosts import Fields, HookHost, Kind

_LONGEST_NAME: Final = 512
"""Characters of an id or a name; longer ones are cut."""

_MOST_CALLS: Final = 256
"""Calls of one batch that are looked at."""

_SUMMARY_WITHIN: Final = 4
"""A summary is among so many first messages."""

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
    """

    tool: str
    arguments: object = None
    call_id: str | None = None
    result: object = None
    error: str | None = None
    interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """An event, in words that are the same for all hosts.

    Attributes:
        name: The host's name for it.
        kind: What it means; `None` for one that is of no interest.
        session: The session; empty where the host names none.
        run: The run, `None` where the host names none.
        agent: The sub-agent, `None` for the main one.
        project: The folder that the agent works in.
        calls: The calls it is about.
        summary: Digest of the summary that the history begins with; empty for one that was not compacted,
            `None` if that is not said.
    """

    name: str
    kind: Kind | None
    session: str
    run: str | None
    agent: str | None
    project: str
    calls: tuple[HookCall, ...] = ()
    summary: str | None = None


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
        project=_text(data, fields.project) or "",
        calls=_calls(host, kind, data),
        summary=_summary(data, fields) if kind == "request" else None,
    )


def _object(payload: bytes) -> dict[str, Any]:
    try:
        data = orjson.loads(payload)
    except orjson.JSONDecodeError:
        # Lone surrogates and huge numbers, which other writers of JSON produce.
        try:
            data = json.loads(payload.decode("utf-8", "replace"))
        except RecursionError:
            raise ValueError("the event is nested too deeply") from None
        except ValueError:
            raise ValueError("the event is no JSON") from None
    if not isinstance(data, dict):
        raise ValueError("the event is no JSON object")  # noqa: TRY004 - what was read, not what was passed
    extra = data.get("extra")  # Hermes: what its shell hooks have besides
    return {**extra, **data} if isinstance(extra, dict) else data


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
    error = _error(_first(data, fields.error)) if kind != "before" else None
    if error is None and isinstance(result, dict):
        error = _error(result.get("error"))
    if kind == "failed" and error is None:
        error = _error(result) or "the call failed"
    if kind == "batch" and data.get("status") == "error" and error is None:
        error = _error(result) or "the call failed"
    return HookCall(
        tool=tool,
        arguments=_arguments(_first(data, fields.arguments)),
        call_id=_text(data, fields.call),
        result=_read(result, fields.read),
        error=error,
        interrupted=data.get("is_interrupt") is True or data.get("status") == "cancelled",
    )


def _read(result: object, names: tuple[str, ...]) -> object:
    """What the model reads of a result."""
    found = _first(result, names) if isinstance(result, dict) else None
    return result if found is None else found


def _arguments(value: object) -> object:
    """Arguments that are JSON as text are what the text says."""
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
