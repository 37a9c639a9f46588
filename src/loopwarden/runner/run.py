"""One run from its task to its end: the model is asked, tools run, and what fails is made good.

A run is one or more runs of Pydantic AI: a new one begins after a compaction, after a fault of the provider
that may pass, and where a person wrote while the last word was said. To the guard they are one run.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai import Agent, direct
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelRequest, SystemPromptPart, UserPromptPart
from pydantic_ai.usage import UsageLimits
from pydantic_graph import End as GraphEnd

from loopwarden.adapters.pydantic_ai import GuardCapability
from loopwarden.errors import LoopAborted, LoopwardenError
from loopwarden.masking import clean, mask
from loopwarden.runner.compaction import INSTRUCTIONS, NothingFreed, compact
from loopwarden.runner.history import last_words, text_of, usable
from loopwarden.runner.models import settings_of, streaming
from loopwarden.runner.overflow import Overflow, overflow_of
from loopwarden.runner.retries import Backoff, Patience, in_words
from loopwarden.runner.seams import RunResult
from loopwarden.runner.steps import AheadOfOverflow, NothingSaid, RequestsUsedUp, Steps
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model
    from pydantic_ai.tools import Tool

    from loopwarden.events import AbortCode
    from loopwarden.runner.happenings import End
    from loopwarden.runner.live import Live

MOST_COMPACTIONS: Final = 3
"""Compactions in a row, each with a retry, without an answer of the model. Long work may take many more."""

_FAILURES: Final = 1_000_000
"""Failed calls are the guard's to judge, not the host's, and `Steps` counts empty replies: the host adds them
up over the whole run."""

_NO_REPLY: Final = "ended without content"
"""How Pydantic AI says that there was nothing in a stream, as where the address is that of a web page."""

_LONGEST: Final = 600


class Over(Exception):  # noqa: N818 - a signal, not a fault
    """The run can't go on.

    Attributes:
        message: Why, for a person.
    """

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What came of one run of the host: its last word, or the fault that ended it."""

    answer: str | None = None
    fault: Exception | None = None


class Run:
    """Drives one run.

    Args:
        live: What is known of the run.
        model: The model.
        tools: What the agent can do.
        backoff: How requests are tried again.
        keep: Takes the history, before each request and at the end.

    Attributes:
        messages: The history as far as it got.
    """

    def __init__(
        self,
        live: Live,
        model: Model,
        tools: Sequence[Tool[Any]],
        *,
        backoff: Backoff,
        keep: Callable[[Sequence[ModelMessage]], None],
    ) -> None:
        self._live = live
        self._model = streaming(model)
        self._keep = keep
        self._settings = settings_of(live.agent)
        self._patience = Patience(backoff, live.notice)
        self._agent = Agent(
            self._model,
            instructions=live.agent.instructions,
            tools=list(tools),
            retries={"tools": _FAILURES, "output": _FAILURES},
            model_settings=self._settings,
        )
        self._unanswered = 0  # compactions since the model last answered
        self.messages: list[ModelMessage] = []

    async def drive(self, task: str, history: Sequence[ModelMessage]) -> RunResult:
        """Run to the end, whatever happens; nothing is raised.

        Args:
            task: What a person, a schedule or another agent wants.
            history: The session before.
        """
        self.messages = list(history)
        try:
            async with self._model:
                answer = await self._answer(task)
        except LoopAborted as aborted:
            verdict = aborted.verdict
            return self._over("aborted", verdict.message or str(aborted), verdict.error)
        except asyncio.CancelledError:
            return self._over("cancelled", "the run was cancelled")
        except Over as over:
            return self._over("failed", over.message)
        except (NothingSaid, RequestsUsedUp, LoopwardenError) as error:
            return self._over("failed", str(error))
        except Exception as error:  # noqa: BLE001 - every end is told
            words = _in_short(error)
            if _unforeseen(error):
                log.logger.error("a run ended by a fault: %s", words)
            return self._over("failed", words)
        return self._over("done", None, answer=answer)

    def _over(
        self, reason: End, message: str | None, code: AbortCode | None = None, answer: str | None = None
    ) -> RunResult:
        live = self._live
        live.over = True
        self.messages = usable(self.messages)
        unread = live.read()
        if unread:  # the next run of the session reads it
            self.messages.append(ModelRequest(parts=[UserPromptPart(text) for text in unread]))
        self._keep(self.messages)
        if answer is None:
            answer = last_words(self.messages)
        return RunResult(
            run=live.run,
            session=live.session,
            reason=reason,
            code=code,
            message=message,
            answer=answer,
            tokens=live.input_tokens + live.output_tokens,
            requests=live.requests,
        )

    async def _answer(self, task: str) -> str:
        live = self._live
        prompt: str | None = task
        fresh = False
        while True:
            attempt = await self._attempt(prompt, fresh)
            prompt, fresh = None, False
            fault = attempt.fault
            if fault is None:
                if live.said:  # written while the last word was said
                    prompt = "\n\n".join(live.read())
                    continue
                live.over = True
                return attempt.answer or ""
            overflow = self._overflow(fault)
            self.messages = usable(self.messages, asks_again=True)
            if overflow is not None:
                cause = "ahead" if isinstance(fault, AheadOfOverflow) else "overflow"
                await self._compact(overflow, cause)
                fresh = True
            elif isinstance(fault, LoopAborted | RequestsUsedUp) or not await self._patience.waits(fault):
                raise fault

    async def _attempt(self, prompt: str | None, fresh: bool) -> _Attempt:
        """One run of the host; the history goes on with what it got to."""
        live = self._live
        guard = GuardCapability(
            live.guard,
            session_id=live.session,
            run_id=live.run,
            compared=_compared,
            heard=live.heard,
        )
        steps = Steps(live, saved=self._keep, answered=self._answered, fresh=fresh)
        started = None
        try:
            async with self._agent.iter(
                prompt,
                message_history=self.messages,
                conversation_id=live.session,
                capabilities=[guard, steps],
                usage_limits=UsageLimits(request_limit=None),  # `maxRequests` counts over all of them
            ) as started:
                node = started.next_node
                while not isinstance(node, GraphEnd):
                    node = await started.next(node)
            result = started.result
        except Exception as fault:  # noqa: BLE001 - the caller decides what comes of it
            return _Attempt(fault=fault)
        finally:
            if started is not None:
                self.messages = started.all_messages()
        return _Attempt(answer=None if result is None else str(result.output))

    def _answered(self) -> None:
        self._patience.rest()
        self._unanswered = 0

    def _overflow(self, fault: Exception) -> Overflow | None:
        if isinstance(fault, AheadOfOverflow):
            return Overflow(tokens=fault.tokens, window=self._live.agent.context_window)
        if isinstance(fault, LoopAborted | RequestsUsedUp):
            return None
        return overflow_of(fault)

    async def _compact(self, overflow: Overflow, cause: str) -> None:
        live = self._live
        if self._unanswered >= MOST_COMPACTIONS:
            raise Over(f"the context overflowed again after {MOST_COMPACTIONS} compactions in a row")
        window = overflow.window or live.agent.context_window
        live.notice("the context is full: its older part is summed up")
        try:
            made = await compact(self.messages, self._summarise, window=window, tokens=overflow.tokens)
        except NothingFreed as nothing:
            raise Over(
                f"the context overflowed and compaction freed no room: about {nothing.before} tokens before, "
                f"{nothing.after} after"
            ) from nothing
        self.messages = made.messages
        live.compactions += 1
        self._unanswered += 1
        verdict = live.verbs.compacted(run_id=live.run)
        live.tell(
            "compaction",
            number=live.compactions,
            tokens_before=made.before,
            tokens_after=made.after,
            cause=cause,
            window=live.window,
        )
        if verdict.detector is not None:
            live.heard(None, verdict)
        if verdict.action == "abort":
            raise LoopAborted(verdict)

    async def _summarise(self, record: str) -> str:
        """The model's summary of a record; its own request, without tools."""
        live = self._live
        request = ModelRequest(parts=[SystemPromptPart(INSTRUCTIONS), UserPromptPart(record)])
        while True:
            if live.requests >= live.agent.max_requests:
                raise RequestsUsedUp(f"the run has made {live.requests} model requests (maxRequests)")
            try:
                response = await direct.model_request(self._model, [request], model_settings=self._settings)
                break
            except Exception as fault:
                if overflow_of(fault) is not None or not await self._patience.waits(fault):
                    raise
        self._patience.rest()
        live.counted(response.usage)
        summary = text_of(response).strip()
        if not summary:
            raise Over("the context overflowed and the model gave no summary of the history")
        return summary


def _compared(result: Any) -> object:
    """What the guard compares: the structure that a tool gives beside its text, else the text."""
    structure = getattr(result, "metadata", None)
    if isinstance(structure, dict) and structure.keys() & {"content", "details"}:
        return structure
    return getattr(result, "return_value", result)


def _unforeseen(error: BaseException) -> bool:
    """Faults of the provider are no news for the log."""
    return not type(error).__module__.startswith(("pydantic_ai.", "openai.", "anthropic.", "httpx"))


def _in_short(error: BaseException) -> str:
    if isinstance(error, UnexpectedModelBehavior) and _NO_REPLY in str(error):
        return (
            "what the server answered is no reply of a model; see whether the address is right (baseUrl, "
            "which most often ends in /v1)"
        )
    return clean(mask(in_words(error)[: 4 * _LONGEST]), _LONGEST)
