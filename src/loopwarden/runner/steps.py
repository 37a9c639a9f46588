"""A run seen from inside of Pydantic AI: each request, each reply, each call and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import (
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolReturnPart,
    UserPromptPart,
)

from loopwarden.errors import LoopAborted
from loopwarden.guarded import said
from loopwarden.runner.history import context_of, drop_structure, text_of
from loopwarden.runner.tools.shapes import ended

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pydantic_ai import RunContext
    from pydantic_ai.messages import AgentStreamEvent, ModelMessage, ModelResponse, ToolCallPart
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import ToolDefinition

    from loopwarden.runner.live import Live

FILLED: Final = 0.9
"""Part of the context window that a request may take; the rest is for the reply."""

EMPTY: Final = 3
"""Replies in a row that say nothing and ask for nothing, after which the model is asked again."""

_LONGEST: Final = 4_000
"""Characters of a tool's fault."""


class AheadOfOverflow(Exception):  # noqa: N818 - a signal, not a fault
    """The next request would not fit.

    Attributes:
        tokens: Its length, about.
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        super().__init__(f"about {tokens} tokens")


class RequestsUsedUp(Exception):  # noqa: N818 - a signal, not a fault
    """The run has made as many requests as it may."""


class NothingSaid(Exception):  # noqa: N818 - a signal, not a fault
    """The model's replies are empty, one after the other."""


def _words(error: Exception) -> str:
    """A tool's fault, for the model."""
    return said(error)[:_LONGEST]


@dataclass(eq=False)
class Steps(AbstractCapability[Any]):
    """Tells what happens, hands over what a person wrote, and stops ahead of an overflow.

    Attributes:
        live: The run.
        saved: Told of the history before each request.
        answered: Told of each reply.
        fresh: The first request goes out whatever its length, since the history was just compacted.
    """

    live: Live
    saved: Callable[[Sequence[ModelMessage]], None]
    answered: Callable[[], None]
    fresh: bool = False
    _empty: int = field(default=0, init=False)

    @classmethod
    def get_serialization_name(cls) -> None:
        """No part of an agent's specification."""
        return

    async def before_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the host passes it
        request_context: ModelRequestContext,
    ) -> ModelRequestContext:
        """The last moment before the model is asked."""
        live = self.live
        most = live.agent.max_requests
        if live.requests >= most:
            raise RequestsUsedUp(f"the run has made {most} model requests (maxRequests)")
        messages = request_context.messages
        texts = live.read()
        if texts:
            request = messages[-1]
            request.parts = [*request.parts, *(UserPromptPart(text) for text in texts)]
        drop_structure(messages)
        self.saved(messages)
        window = live.agent.context_window
        if window is not None and not self.fresh:
            tokens = context_of(messages)
            if tokens > window * FILLED:
                raise AheadOfOverflow(tokens)
        self.fresh = False
        if self._empty:
            live.notice(f"the model's reply was empty; asking again ({self._empty} of {EMPTY})")
        return request_context

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,  # noqa: ARG002 - the host passes it
        response: ModelResponse,
    ) -> ModelResponse:
        """The model has answered."""
        self.answered()
        self.live.counted(response.usage)
        text = text_of(response)
        self._empty = 0 if text.strip() or response.tool_calls else self._empty + 1
        if self._empty > EMPTY:
            why = f" (finish reason: {response.finish_reason})" if response.finish_reason else ""
            raise NothingSaid(f"the model's last {self._empty} replies had neither text nor a call{why}")
        if text:
            self.live.tell("text", text=text, partial=False)
        for call in response.tool_calls:
            self.live.tell(
                "call",
                tool=call.tool_name,
                arguments=call.args_as_dict(),
                call_id=call.tool_call_id,
                turn_id=f"{ctx.run_id}/{ctx.run_step}",
            )
        return response

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the host passes it
        *,
        call: ToolCallPart,  # noqa: ARG002 - the same
        tool_def: ToolDefinition,  # noqa: ARG002 - the same
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """A tool's fault is its result; the agent goes on."""
        try:
            return await handler(args)
        except LoopAborted:
            raise
        except Exception as error:
            if type(error).__module__.startswith("pydantic_ai."):  # how the host ends or defers a call
                raise
            raise ToolFailed(_words(error)) from error

    async def on_event(self, ctx: RunContext[Any], *, event: AgentStreamEvent) -> None:  # noqa: ARG002 - the same
        """Pieces of text and results of calls, as they come."""
        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            self._piece(event.part.content)
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
            self._piece(event.delta.content_delta)
        elif isinstance(event, FunctionToolResultEvent):
            part: Any = event.part
            is_return = isinstance(part, ToolReturnPart)
            details = part.metadata if is_return else None
            failed = isinstance(details, dict) and bool(details.get("isError"))
            how = ended(details)
            self.live.tell(
                "outcome",
                call_id=part.tool_call_id,
                ok=is_return and part.outcome == "success" and not failed,
                text=part.model_response_str(wrap_if_error=False) if is_return else part.model_response(),
                **({} if how is None else {"ended": how}),
            )

    def _piece(self, text: str) -> None:
        if text:
            self.live.tell("text", text=text, partial=True)
