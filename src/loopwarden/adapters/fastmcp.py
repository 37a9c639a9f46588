"""FastMCP: the guard as a middleware of a server, or of a proxy in front of servers.

    server = FastMCP("files")
    server.add_middleware(LoopGuardMiddleware(LoopGuard({"enabled": True})))

A server can't end the run of the agent that calls it. So a refused call, and every further call of a run that
was ended, gets an error as its result that says so. Add it before other middleware, so that what they try
again counts once.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import OrderedDict
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from loopwarden.adapters import Abilities
from loopwarden.errors import MissingExtraError

try:
    from fastmcp.exceptions import FastMCPError, NotFoundError
    from fastmcp.server.dependencies import get_access_token
    from fastmcp.server.middleware import Middleware
    from fastmcp.tools.base import InputRequiredToolResult, ToolResult
except ImportError as error:
    raise MissingExtraError("fastmcp", "fastmcp") from error

if TYPE_CHECKING:
    from fastmcp.server.context import Context
    from fastmcp.server.middleware import CallNext, MiddlewareContext

    from loopwarden.events import Verdict
    from loopwarden.guard import LoopGuard, Verbs

ABILITIES: Final = Abilities(
    host="FastMCP",
    package="fastmcp>=4.0",
    warns="result",
    aborts="refuses",
    unknown_tools="call",
    compaction="no",
    call_ids=False,
    run_ids=False,
    turns=False,
)

RUN_HINT: Final = "loopwarden/run-id"
"""Key in the `_meta` of a request under which a client may name its run."""

AGENT_HINT: Final = "loopwarden/agent-id"
"""The same for the agent that asks, where several share a run."""

_ENDED: Final = "Every further call of a tool is refused as well: stop here, and say what is missing."
_NO_SESSIONS: Final = "2026-07-28"
"""Since this version of the protocol each request is a session of its own."""

_LONGEST: Final = 200
"""Characters of an id that comes from a client; a longer one is ignored."""

_MOST: Final = 10_000
"""Runs, and calls that wait for input, that are remembered; the oldest goes first."""

_inside: ContextVar[tuple[LoopGuard, ...]] = ContextVar("loopwarden_fastmcp", default=())
"""Guards that watch the call that goes on here: what it calls in turn is no call of the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Whose calls they are."""

    verbs: Verbs
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A call that was asked for, and what the guard said."""

    run: _Run
    call_id: str
    tool: str
    verdict: Verdict

    def ended(self, **outcome: Any) -> None:
        """Tell the guard what came of it."""
        self.run.verbs.after(self.call_id, run_id=self.run.run_id, **outcome)


class LoopGuardMiddleware(Middleware):
    """Watches the tool calls that clients make.

    The session is the client: the process with stdio, the session id where the protocol has a stable one,
    else who asks. A run is what the client names in `_meta`, else the calls of a session that follow each
    other without a long pause.

    Args:
        guard: The guard; several servers may share it.
        idle_seconds: A session without a call for longer begins a new run.
    """

    def __init__(self, guard: LoopGuard, *, idle_seconds: float = 600.0) -> None:
        self._guard = guard
        self._idle = idle_seconds
        self._process = f"process-{uuid.uuid4().hex}"
        self._runs: OrderedDict[tuple[str, str | None], tuple[str, float]] = OrderedDict()
        self._asking: OrderedDict[tuple[str, ...], _Call] = OrderedDict()
        self._lock = threading.Lock()  # servers may run in threads of their own

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """May the call run, and what came of it?"""
        outer = _inside.get()
        if any(guard is self._guard for guard in outer):
            return await call_next(context)
        message = context.message
        run = self._run(context.fastmcp_context)
        call = self._asked(run, message)
        if call.verdict.action in ("block", "abort"):
            return ToolResult(content=_refusal(call.verdict), is_error=True)
        token = _inside.set((*outer, self._guard))
        try:
            result = await call_next(context)
        except Exception as error:
            noted = _failed(call, error)
            if noted is None:
                raise
            return noted
        except BaseException as error:  # cancelled, as by a client's time limit
            call.ended(error=error)
            raise
        finally:
            _inside.reset(token)
        if isinstance(result, InputRequiredToolResult):
            with self._lock:
                _keep(self._asking, _place(run, message), call)
            return result
        return _answered(call, result)

    def _asked(self, run: _Run, message: Any) -> _Call:
        """The call; the same one where the client asks again with the input that was missing."""
        if message.input_responses is not None or message.request_state is not None:
            with self._lock:
                known = self._asking.pop(_place(run, message), None)
            if known is not None:
                return known
        call_id = uuid.uuid4().hex
        verdict = run.verbs.before(message.name, message.arguments or {}, call_id=call_id, run_id=run.run_id)
        return _Call(run=run, call_id=call_id, tool=message.name, verdict=verdict)

    def _run(self, context: Context | None) -> _Run:
        session = self._session(context)
        verbs = self._guard.session(session)
        request = context.request_context if context is not None else None
        hints = (request.meta if request is not None else None) or {}
        agent, named = _short(hints.get(AGENT_HINT)), _short(hints.get(RUN_HINT))
        if named is not None:
            return _Run(verbs=verbs, run_id=named if agent is None else f"{named}/{agent}")
        now = time.monotonic()
        with self._lock:
            run_id, last = self._runs.pop((session, agent), (None, now))
            over = run_id is not None and now - last > self._idle
            current = f"run-{uuid.uuid4().hex}" if run_id is None or over else run_id
            _keep(self._runs, (session, agent), (current, now))
        if over:
            verbs.forget(run_id=run_id)
        return _Run(verbs=verbs, run_id=current)

    def _session(self, context: Context | None) -> str:
        """Who asks, as far as that can be known."""
        request = context.request_context if context is not None else None
        if context is None or request is None or context.transport == "stdio":
            return self._process
        if request.request is not None and context.transport != "sse":
            return _short(request.request.headers.get("mcp-session-id")) or _client(request)
        return self._process if request.protocol_version >= _NO_SESSIONS else context.session_id


def _client(request: Any) -> str:
    """Who asks over HTTP without a session: a digest of the user, else the address, and the client's name."""
    token = get_access_token()
    if token is not None:
        claims = token.claims or {}
        who = [token.client_id, claims.get("iss"), claims.get("sub") or getattr(token, "subject", None)]
    else:
        address = request.request.client
        who = [None if address is None else address.host]
    told = getattr(request.session.client_params, "client_info", None)
    client = [] if told is None else [told.name, told.version]
    return f"client-{_digest([who, client])}"


def _place(run: _Run, message: Any) -> tuple[str, ...]:
    """What the parts of a call that asks the client for input have in common."""
    return str(run.verbs.session_id), run.run_id, message.name, _digest(message.arguments)


def _digest(value: Any) -> str:
    try:
        text = json.dumps(value, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):  # not from a client
        text = ""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _short(value: Any) -> str | None:
    """An id from a client, if it can be one: of some length, and without what would break a line of a log."""
    known = isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()
    return value if known else None


def _keep(table: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Put it at the end, and let go of the oldest."""
    table[key] = value
    if len(table) > _MOST:
        table.popitem(last=False)


def _refusal(verdict: Verdict) -> str:
    message = verdict.message or "refused"
    return f"{message} {_ENDED}" if verdict.action == "abort" else message


def _note(call: _Call) -> str | None:
    return call.verdict.message if call.verdict.action == "warn" and call.verdict.announce else None


def _failed(call: _Call, error: Exception) -> ToolResult | None:
    """Tell of a call that raised; with a warning due, what the host would make of it, and the warning."""
    missing = isinstance(error, NotFoundError) and str(error).startswith("Unknown tool")
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
    call.ended(error=cause, unknown_tool=call.tool if missing else None)
    note = _note(call)
    if note is None or not isinstance(error, FastMCPError | NotFoundError):
        return None
    said = f"Unknown tool: {call.tool!r}" if isinstance(error, NotFoundError) else str(error)
    return ToolResult(content=_texts(said, note), is_error=True)


def _answered(call: _Call, result: Any) -> Any:
    """Tell of a result, as it is without the warning that may be added to it."""
    if not isinstance(result, ToolResult):  # it goes on in the background: what comes of it is not known
        return result
    if result.is_error:
        call.ended(error=_said(result))
    else:
        call.ended(result=_given(result))
    note = _note(call)
    if note is None:
        return result
    return result.model_copy(update={"content": [*result.content, *_texts(note)]})


def _texts(*texts: str) -> list[Any]:
    """Blocks of text, of the type that this version of the host has for them."""
    return [block for text in texts for block in ToolResult(content=text).content]


def _said(result: ToolResult) -> str:
    """The text of a result, in one piece."""
    return "\n".join(block.text if block.type == "text" else repr(block) for block in result.content)


def _given(result: ToolResult) -> Any:
    """A result for the guard: its structured content, its text, or both where they say different things."""
    if any(block.type != "text" for block in result.content):
        content: Any = [block.model_dump(mode="json", exclude_none=True) for block in result.content]
    else:
        content = _said(result)
    structured = result.structured_content
    if structured is None or (isinstance(structured, dict) and structured.keys() == {"result"}):
        return content
    return structured if _is_json_of(content, structured) else [content, structured]


def _is_json_of(text: Any, value: Any) -> bool:
    try:
        return isinstance(text, str) and bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False
