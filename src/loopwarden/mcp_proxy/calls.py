"""What becomes of a line: the part that knows JSON-RPC, MCP and the guard, and does no I/O.

Only calls of tools and their results are looked at; everything else goes on as the bytes that came. Both
generations of the protocol are alike here: a call is `tools/call`, whether a session was opened for it or
each request says by itself what it needs.
"""

from __future__ import annotations

import itertools
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from loopwarden.mcp_proxy.wire import RequestId, dump, elements, id_key, parse, with_note
from loopwarden.telemetry.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.events import Verdict
    from loopwarden.guard import Verbs
    from loopwarden.mcp_proxy.hints import Naming
    from loopwarden.mcp_proxy.lines import LongLine

SOFT_STOP: Final = (
    "From now on every call of a tool of this server will be refused; more than that can't be stopped from "
    "here. Stop calling tools, and tell the user what was done and what is in the way."
)
"""Added to the message where the guard ends the run."""

_OF_CLIENT: Final = (b"/call", b"/cancelled", b"tasks", b"\\u00")
"""A line of the client is read if it holds one of these: of methods that count, or an escaped letter."""

MODERN: Final = "io.modelcontextprotocol/protocolVersion"
"""Key of `_meta` in every request of the generation without sessions."""

_REFUSED: Final = -32603
"""Code of the error that refuses a call whose caller expects no result but a task."""

_TIMEOUT: Final = re.compile(r"time[d -]{0,2}out", re.IGNORECASE)
"""In the reason that a client gives for a cancellation."""

_OPEN: Final = 4096
"""Calls, paused calls and tasks that are remembered, of each kind; the oldest is forgotten first."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that was let through.

    Attributes:
        note: What the model is to read with the result; `None`: nothing.
        asked: Tool and digest of the arguments, by which the call is known again if the server asks for input
            first; `None` where the generation has no such thing.
    """

    call_id: str
    run_id: str
    note: str | None
    asked: tuple[str, bytes] | None


@dataclass(frozen=True, slots=True)
class _Fetch:
    """A request for what became of a task."""

    task_id: str
    status: bool


class Relay:
    """Decides on lines; one client, one server.

    The lines of one side are given in order; the two sides may be two threads. Nothing says which calls one
    reply of the model asked for: those between which the client got no answer are taken to be of one turn.

    Args:
        verbs: The guard, bound to a session.
        naming: Gives calls their run.
    """

    def __init__(self, verbs: Verbs, naming: Naming) -> None:
        self._verbs = verbs
        self._naming = naming
        self._token = token_hex(4)  # of a run that several proxies look at, none may have the same
        self._numbers = itertools.count(1)
        self._turn = 1
        self._open: dict[tuple[bool, RequestId], _Call | _Fetch] = {}
        self._tasks: dict[str, _Call] = {}
        self._paused: dict[tuple[str, bytes, str], _Call] = {}
        self._faults = Faults()

    def from_client(self, line: bytes) -> tuple[bytes, bytes]:
        """What goes on to the server, and what the client is answered at once; either may be empty."""
        if not any(word in line for word in _OF_CLIENT):
            return line, b""
        try:
            return self.read_client(line)
        except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
            self._faults.tell("fault in the proxy: a line of the client goes on as it is")
            return line, b""

    def from_server(self, line: bytes) -> bytes:
        """What goes on to the client."""
        if not self._open or (b'"result"' not in line and b'"error"' not in line):
            return line
        try:
            return self.read_server(line)
        except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
            self._faults.tell("fault in the proxy: a line of the server goes on as it is")
            return line

    def read_client(self, line: bytes) -> tuple[bytes, bytes]:
        """As `from_client`, for a line that may hold what counts; raises its faults."""
        message = parse(line)
        if isinstance(message, list):
            return self._client_batch(line, message)
        refusal = self._asked(message) if isinstance(message, dict) else None
        return (line, b"") if refusal is None else (b"", dump(refusal))

    def read_server(self, line: bytes) -> bytes:
        """As `from_server`, for a line that may hold what counts; raises its faults."""
        message = parse(line)
        if isinstance(message, dict):
            return self._answered(message, line)
        if not isinstance(message, list):
            return line
        parts, position = [], 0
        for one, (begin, end) in zip(message, elements(line), strict=True):
            part = line[begin:end]
            parts += [line[position:begin], self._answered(one, part) if isinstance(one, dict) else part]
            position = end
        return b"".join([*parts, line[position:]])

    def long_from_server(self, long: LongLine) -> None:
        """A line went through that was too long to be read; outcomes are compared by its digest."""
        if (found := long.id) is None:
            return
        call = self._open.pop((isinstance(found, str), found), None)
        if isinstance(call, _Fetch):
            call = None if call.status else self._tasks.pop(call.task_id, None)
        if call is not None:
            seen = {"digest": long.digest, "bytes": long.size}
            self._turn += 1
            self._verbs.after(call.call_id, result=seen, run_id=call.run_id)
            self._naming.busy()

    def _client_batch(self, line: bytes, messages: list[Any]) -> tuple[bytes, bytes]:
        refusals = [self._asked(one) if isinstance(one, dict) else None for one in messages]
        refused = [one for one in refusals if one is not None]
        if not refused:
            return line, b""
        spans = zip(elements(line), refusals, strict=True)
        kept = [line[begin:end] for (begin, end), refusal in spans if refusal is None]
        return (b"[" + b",".join(kept) + b"]\n" if kept else b""), dump(refused)

    def _asked(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The client sends a message; the answer refuses it."""
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str) or not isinstance(params, dict):
            return None
        if method == "tools/call":
            return self._called(message, params)
        if method == "notifications/cancelled":
            self._cancelled(params)
        elif method in {"tasks/get", "tasks/result"}:
            task_id, key = params.get("taskId"), id_key(message)
            if key is not None and isinstance(task_id, str) and task_id in self._tasks:
                _put(self._open, key, _Fetch(task_id, method == "tasks/get"))
        return None

    def _called(self, message: dict[str, Any], params: dict[str, Any]) -> dict[str, Any] | None:
        key, tool = id_key(message), params.get("name")
        if key is None or not isinstance(tool, str):
            return None
        arguments = params.get("arguments")
        arguments = {} if arguments is None else arguments
        meta = params.get("_meta")
        modern = isinstance(meta, dict) and MODERN in meta
        asked = (tool, _digest(arguments)) if modern else None
        if asked is not None and ("inputResponses" in params or "requestState" in params):
            resumed = self._paused.pop((*asked, _state(params)), None)
            if resumed is not None:
                _put(self._open, key, resumed)
                return None
        run_id = self._naming.run_of(meta)
        call_id, turn_id = f"{self._token}-{next(self._numbers)}", f"{self._token}-{self._turn}"
        verdict = self._verbs.before(tool, arguments, call_id=call_id, run_id=run_id, turn_id=turn_id)
        if verdict.action in {"block", "abort"}:
            self._turn += 1
            as_task = isinstance(params.get("task"), dict)
            return {
                "jsonrpc": "2.0",
                "id": message["id"],
                **_refusal(verdict, as_task=as_task, modern=modern),
            }
        note = verdict.message if verdict.action == "warn" and verdict.announce else None
        _put(self._open, key, _Call(call_id, run_id, note, asked))
        return None

    def _cancelled(self, params: dict[str, Any]) -> None:
        """The client waits no longer; where it says that time ran out, that is what came of the call."""
        key = id_key({"id": params.get("requestId")})
        call = self._open.pop(key, None) if key is not None else None
        reason = params.get("reason")
        if isinstance(call, _Call) and isinstance(reason, str) and _TIMEOUT.search(reason[:1000]):
            self._turn += 1
            self._verbs.after(call.call_id, error="timed out", timed_out=True, run_id=call.run_id)

    def _answered(self, message: dict[str, Any], data: bytes) -> bytes:
        """The server sends a message, which stands in `data`; the answer is what goes on."""
        if "method" in message or ("result" not in message and "error" not in message):
            return data
        key = id_key(message)
        call = self._open.pop(key, None) if key is not None else None
        if call is None:
            return data
        self._turn += 1
        self._naming.busy()
        if isinstance(call, _Fetch):
            return self._fetched(call, message, data)
        result = message.get("result")
        if isinstance(result, dict):
            if result.get("resultType") == "input_required" and call.asked is not None:
                _put(self._paused, (*call.asked, _state(result)), call)
                return data
            if (task_id := _task_id(result)) is not None:
                _put(self._tasks, task_id, call)
                return data
        return self._ended(call, message, data, ("result",))

    def _fetched(self, fetch: _Fetch, message: dict[str, Any], data: bytes) -> bytes:
        response = message
        path: tuple[str, ...] = ("result",)
        if fetch.status:
            state = message.get("result")
            if not isinstance(state, dict) or ("result" not in state and "error" not in state):
                return data  # not over yet, or to be had with tasks/result
            response, path = state, ("result", "result")
        call = self._tasks.pop(fetch.task_id, None)
        return data if call is None else self._ended(call, response, data, path)

    def _ended(self, call: _Call, response: dict[str, Any], data: bytes, path: tuple[str, ...]) -> bytes:
        """Tells the guard what came of a call, and the model what there is to say."""
        after: Callable[..., Verdict] = self._verbs.after
        if response.get("error") is not None or "result" not in response:
            verdict = after(call.call_id, error=_said(response.get("error")), run_id=call.run_id)
        else:
            verdict = after(call.call_id, result=_compared(response["result"]), run_id=call.run_id)
        notes = [call.note] if call.note is not None else []
        if verdict.action == "abort":
            notes.append(f"{verdict.message} {SOFT_STOP}")
        return with_note(data, "\n\n".join(notes), path) if notes else data


def _refusal(verdict: Verdict, *, as_task: bool, modern: bool) -> dict[str, Any]:
    text = verdict.message or ""
    if verdict.action == "abort":
        text = f"{text} {SOFT_STOP}"
    if as_task:
        return {"error": {"code": _REFUSED, "message": text}}
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    if modern:
        result["resultType"] = "complete"
    return {"result": result}


def _compared(result: object) -> object:
    """What of a result tells it from another one: neither `_meta` nor how it is put."""
    if not isinstance(result, dict):
        return result
    if "content" not in result and "structuredContent" not in result:
        return {name: value for name, value in result.items() if name not in {"_meta", "resultType"}}
    compared = {"content": result.get("content")}
    if (details := result.get("structuredContent")) is not None:
        compared["details"] = details
    if result.get("isError") is True:
        compared["isError"] = True
    return compared


def _said(error: object) -> str:
    text = error.get("message") if isinstance(error, dict) else None
    return text if isinstance(text, str) else "error"


def _task_id(result: dict[str, Any]) -> str | None:
    """The task that stands for the result: in a field of its own (2025-11-25), or the result itself."""
    task = result if result.get("resultType") == "task" else result.get("task")
    task_id = task.get("taskId") if isinstance(task, dict) and "content" not in result else None
    return task_id if isinstance(task_id, str) else None


def _state(said: dict[str, Any]) -> str:
    state = said.get("requestState")
    return state if isinstance(state, str) else ""


def _digest(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).digest()


def _put(places: dict[Any, Any], key: object, value: object) -> None:
    places[key] = value
    if len(places) > _OPEN:
        with suppress(RuntimeError, StopIteration):  # the thread of the other side took one out just now
            places.pop(next(iter(places)), None)
