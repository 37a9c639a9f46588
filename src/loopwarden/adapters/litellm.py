"""The LiteLLM proxy: the guard as a callback, for every agent that talks to its models through the proxy.

In the proxy's `config.yaml`:

    litellm_settings:
      callbacks: loopwarden.adapters.litellm.proxy_guard

`proxy_guard` takes the configuration that `LoopGuard()` finds (`LOOPWARDEN_CONFIG`). For more, make a
`LoopGuardCallback` in a file beside `config.yaml` and name that. A refused call never gets to the agent: the
model is shown the refusal and asked again, within the same request. An aborted run is answered with status
422, and so is every later request of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from loopwarden.adapters import Abilities
from loopwarden.adapters.litellm_conversations import Conversations
from loopwarden.adapters.litellm_formats import DIALECTS, asked_in, tools_of
from loopwarden.adapters.litellm_streams import STREAMS, Stream
from loopwarden.errors import LoopAborted, MissingExtraError
from loopwarden.guard import LoopGuard
from loopwarden.telemetry import log

try:
    from fastapi import HTTPException
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as error:
    raise MissingExtraError("litellm", "litellm") from error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator

    from loopwarden.adapters.litellm_conversations import Conversation, Scope
    from loopwarden.adapters.litellm_formats import Chat, Item
    from loopwarden.events import Verdict
    from loopwarden.transcripts.messages import Message

ABILITIES: Final = Abilities(
    host="LiteLLM proxy",
    package="litellm[proxy]>=1.108",
    warns="result",
    aborts="ends",
    unknown_tools="call",
    compaction="inferred",
    call_ids=True,
    run_ids=False,
    turns=True,
)

ABORT_STATUS: Final = 422
"""Clients try again after 408, 409, 429 and 5xx, and some compact the history after 400."""

_GENERATED: Final = "litellm_session_id_generated"
"""Set in the metadata where the host made an id up, which then is another one in each request."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Request:
    """A request that waits for its reply.

    Attributes:
        keys: What stood in it before the host added its own.
        told: What the client says, read.
        sent: The history as the model gets it.
        part: It holds only what is new.
    """

    dialect: Chat
    scope: Scope
    conversation: Conversation
    keys: frozenset[str]
    told: list[Message]
    sent: list[Item]
    part: bool


class LoopGuardCallback(CustomLogger):
    """Guards the agents behind a proxy.

    Args:
        guard: The guard; `None`: `LoopGuard()`. With a store, several workers share the conversations.
        asks_again: How often the model is asked again for one request because its calls were refused; after
            that it may only answer in words.
        max_conversations: Most conversations that are kept; those that were idle for longest go first.

    Raises:
        ValueError: A number is out of range.
        ConfigError: As for `LoopGuard`.
    """

    def __init__(
        self, guard: LoopGuard | None = None, *, asks_again: int = 3, max_conversations: int = 10_000
    ) -> None:
        super().__init__()
        if asks_again < 0 or max_conversations < 1:
            raise ValueError(f"{asks_again=}, {max_conversations=}; allowed: 0 or more, 1 or more")
        self._guard = guard if guard is not None else LoopGuard()
        self._asks_again = asks_again
        self._conversations = Conversations(self._guard, max_conversations)
        self._requests: WeakKeyDictionary[Any, _Request] = WeakKeyDictionary()

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> None:
        """A request came: tell the guard the results, and put the notes on them.

        Raises:
            HTTPException: The run was ended.
        """
        try:
            self._heard(getattr(user_api_key_dict, "api_key", None), data, call_type)
        except LoopAborted as aborted:
            raise _refusal(aborted.verdict) from None
        except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
            log.logger.exception("fault in the guard: the request is let through")

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> Any:
        """The model replied: what may the agent run?

        Raises:
            HTTPException: The run was ended, or the model does not answer without a refused call.
        """
        request = self._request(data)
        if request is None:
            return None
        answer = response
        for left in range(self._asks_again, -2, -1):
            refused, whole = self._said(request, partial(request.dialect.reply, answer), left)
            if not whole:
                if refused:
                    request.dialect.strip(answer, refused)
                return answer
            answer = await self._asked(request, data, user_api_key_dict, in_words=not left)
        return answer

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """The model replies bit by bit: calls are held back until they are judged.

        Raises:
            StreamRefused: The run was ended, or the model does not answer without a refused call.
        """
        request = self._request(request_data)
        if request is None:
            async for chunk in response:
                yield chunk
            return
        stream = STREAMS[request.dialect.route]()
        for left in range(self._asks_again, -2, -1):
            held: list[Any] = []
            async for chunk in response:
                for unit, is_call in _units(stream, chunk):
                    if held or is_call:
                        held.append(unit)
                    elif (passed := _passed(stream, unit)) is not None:
                        yield passed
            try:
                refused, whole = self._said(request, stream.reply, left)
            except HTTPException as refusal:
                raise StreamRefused(refusal) from None
            if not whole:
                for unit in held:
                    if (passed := _passed(stream, unit, refused)) is not None:
                        yield passed
                if (rest := stream.rest()) is not None:
                    yield rest
                return
            stream.again()
            response = await self._asked(request, request_data, user_api_key_dict, in_words=not left)

    def _heard(self, api_key: str | None, data: dict[str, Any], call_type: str) -> None:
        dialect = DIALECTS.get(call_type)
        items = dialect.items(data) if dialect is not None else None
        waiting = data.get("litellm_logging_obj")
        if dialect is None or items is None or waiting is None:
            return
        known = self._requests.get(waiting)
        if known is not None:  # the host asks the hooks again, for another model
            if items != known.sent:
                data[dialect.field] = known.sent
            return
        scope = api_key, _session(data)
        told, part = dialect.parsed(items), dialect.is_part(data)
        conversation = self._conversations.of(scope, told)
        try:
            conversation.heard(told, tools_of(data), part=part)
        except LoopAborted:
            self._conversations.keep(scope, told, conversation)
            raise
        sent = conversation.shown(dialect, items)
        if sent != items:
            data[dialect.field] = sent
        self._requests[waiting] = _Request(
            dialect=dialect,
            scope=scope,
            conversation=conversation,
            keys=frozenset(data),
            told=told,
            sent=sent,
            part=part,
        )

    def _request(self, data: dict[str, Any]) -> _Request | None:
        waiting = data.get("litellm_logging_obj")
        return None if waiting is None else self._requests.pop(waiting, None)

    def _said(
        self, request: _Request, reply: Callable[[], list[Item]], left: int
    ) -> tuple[dict[str, str], bool]:
        """The refusals of a reply by call id, and whether the model is to be asked again.

        Raises:
            HTTPException: The guard ends the run, or the model would be asked too often (`left` below 0).
        """
        try:
            refused, whole = self._judged(request, reply())
        except LoopAborted as aborted:
            raise _refusal(aborted.verdict) from None
        except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
            log.logger.exception("fault in the guard: the reply is let through")
            return {}, False
        if whole and left < 0:
            raise _refusal(None, next(iter(refused.values())))
        return refused, whole

    def _judged(self, request: _Request, reply: list[Item]) -> tuple[dict[str, str], bool]:
        dialect, conversation = request.dialect, request.conversation
        said = dialect.parsed(reply)
        try:
            allowed, refused = conversation.said(request.told, said, part=request.part)
        except LoopAborted:
            self._conversations.keep(request.scope, request.told, conversation)
            raise
        if refused:
            anchor = allowed[0] if allowed else _anchor(request.told)
            conversation.remember(anchor, reply, refused, beside=bool(allowed))
        if refused and not allowed:
            request.sent = [*request.sent]
            dialect.put(request.sent, [*reply, *dialect.refusals(refused, reply)])
            return refused, True
        words = said if not allowed else ()
        self._conversations.keep(request.scope, request.told, conversation, allowed, words)
        return refused, False

    async def _asked(
        self, request: _Request, data: dict[str, Any], user_api_key_dict: Any, *, in_words: bool
    ) -> Any:
        """Ask the model again, the way the host asked it."""
        from litellm.proxy import proxy_server
        from litellm.proxy.route_llm_request import route_request

        again = {key: value for key, value in data.items() if key in request.keys}
        del again["litellm_logging_obj"]
        again |= {key: dict(again[key]) for key in ("metadata", "litellm_metadata") if again.get(key)}
        again[request.dialect.field] = request.sent
        if in_words:
            again["tool_choice"] = request.dialect.in_words
        call = await route_request(
            data=again,
            llm_router=proxy_server.llm_router,
            user_model=proxy_server.user_model,
            route_type=request.dialect.route,
            user_api_key_dict=user_api_key_dict,
        )
        return await call


def _units(stream: Stream, chunk: Any) -> Iterator[tuple[Any, bool]]:
    """The units of a chunk, and which belongs to a call; a chunk that can't be read passes as it is."""
    try:
        yield from [(unit, stream.is_call(unit)) for unit in stream.units(chunk)]
    except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
        log.logger.exception("fault in the guard: a chunk is let through")
        yield chunk, False


def _passed(stream: Stream, unit: Any, refused: Collection[str] = ()) -> Any:
    try:
        return stream.passed(unit, refused)
    except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
        log.logger.exception("fault in the guard: a chunk is let through")
        return unit


def _anchor(told: list[Message]) -> str | None:
    """The first call of the newest reply that asks for any."""
    return next((asked[0] for message in reversed(told) if (asked := asked_in([message]))), None)


def _session(data: dict[str, Any]) -> str | None:
    """The session that the client named, by a header or in the metadata."""
    metadata = [data[key] for key in ("metadata", "litellm_metadata") if isinstance(data.get(key), dict)]
    if any(each.get(_GENERATED) for each in metadata):
        return None
    named = [data.get("litellm_session_id"), *(each.get("session_id") for each in metadata)]
    return next((name for name in named if isinstance(name, str) and name), None)


def _refusal(verdict: Verdict | None, text: str | None = None) -> HTTPException:
    detail: dict[str, Any] = {"error": text, "code": "tool_call_refused"}
    if verdict is not None:
        detail = {
            "error": verdict.message,
            "code": verdict.error,
            "detector": verdict.detector,
            "tool": verdict.tool,
            "count": verdict.count,
        }
    refusal = HTTPException(ABORT_STATUS, detail)
    refusal.type = detail["code"]  # the host puts it into the answer
    return refusal


class StreamRefused(Exception):  # noqa: N818 - an answer to the client
    """What ends a stream that has begun; the host drops the connection at an `HTTPException`.

    Attributes:
        message: For the client, as `type`, `code`, `param` and `status_code` are.
    """

    def __init__(self, refusal: HTTPException) -> None:
        self.message = refusal.detail["error"]
        self.type = self.code = refusal.detail["code"]
        self.param = None
        self.status_code = refusal.status_code
        super().__init__(self.message)


def __getattr__(name: str) -> Any:
    if name != "proxy_guard":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    callback = LoopGuardCallback()
    globals()[name] = callback
    return callback
