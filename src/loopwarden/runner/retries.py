"""What is tried again: a provider that is busy or broken, a connection that was lost; with growing pauses."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic_ai import exceptions

if TYPE_CHECKING:
    from collections.abc import Callable

_STATUSES: Final = frozenset({408, 409, 425, 429})
_SERVER: Final = 500
_FINAL: Final = tuple(
    kind
    for kind in (
        getattr(exceptions, "ModelQuotaExceededError", None),  # waiting does not help
        getattr(exceptions, "ModelRequestRejectedError", None),
        getattr(exceptions, "ContentFilterError", None),
    )
    if kind is not None
)
_MESSAGES: Final = ("error", "message", "detail", "msg")
_DEEPEST: Final = 4
_TRANSPORT: Final = frozenset({"TransportError", "APIConnectionError"})
"""Base classes of what HTTP clients and providers' clients raise when a connection is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How often and after how long a request is made again.

    Attributes:
        tries: Retries of one request.
        first: Seconds before the first one; each further one waits twice as long.
        longest: Seconds of a pause at most.
        asked: Seconds at most where the provider asks for more; if it asks for longer, the run ends.
    """

    tries: int = 4
    first: float = 0.5
    longest: float = 8.0
    asked: float = 60.0


class Patience:
    """The retries of one request after the other.

    Args:
        backoff: How often and how long.
        notice: Told of each retry, in words for a person.
    """

    def __init__(self, backoff: Backoff, notice: Callable[[str], None]) -> None:
        self._backoff = backoff
        self._notice = notice
        self._tried = 0

    def rest(self) -> None:
        """A request was answered: the next one has all its retries."""
        self._tried = 0

    async def waits(self, error: BaseException) -> bool:
        """Wait, and say whether to try again after this fault."""
        backoff = self._backoff
        if not may_pass(error) or self._tried >= backoff.tries:
            return False
        pause = min(backoff.first * 2**self._tried, backoff.longest) * random.uniform(0.75, 1)  # noqa: S311 - no secret
        asked = getattr(error, "retry_after", None)
        if isinstance(asked, int | float):
            if asked > backoff.asked:
                return False
            pause = max(asked, 0.0)
        self._tried += 1
        what = said(error)
        self._notice(f"{what}; trying again in {pause:.1f} s ({self._tried} of {backoff.tries})")
        await asyncio.sleep(pause)
        return True


def may_pass(error: BaseException) -> bool:
    """Whether the same request may work later: 408, 409, 429, 5xx, a lost connection."""
    if isinstance(error, _FINAL) or getattr(error, "provider_retry_hint", None) is False:
        return False
    if isinstance(error, exceptions.ModelHTTPError):
        return error.status_code in _STATUSES or error.status_code >= _SERVER
    if isinstance(error, exceptions.ModelAPIError):
        return True
    return any(kind.__name__ in _TRANSPORT for kind in type(error).__mro__)


def said(error: BaseException) -> str:
    """A fault of the provider in a few words."""
    if isinstance(error, exceptions.ModelHTTPError):
        return f"the provider answered {error.status_code}"
    if getattr(error, "in_stream", False) or isinstance(error, exceptions.ModelAPIError):
        return "the connection to the provider was lost"
    return type(error).__name__


def in_words(error: BaseException) -> str:
    """A fault that ends a run: of a provider's answer its status and what it says, not how it is written."""
    if not isinstance(error, exceptions.ModelHTTPError):
        return f"{type(error).__name__}: {error}"
    message = _message(error.body, 0)
    return said(error) if message is None else f"{said(error)}: {message}"


def _message(body: object, depth: int) -> str | None:
    """What an answer says in its body, wherever providers put it."""
    if isinstance(body, str):
        return body.strip() or None
    if isinstance(body, list):
        body = body[0] if body else None
    if not isinstance(body, dict) or depth > _DEEPEST:
        return None
    found = (_message(body[name], depth + 1) for name in _MESSAGES if body.get(name))
    return next((one for one in found if one is not None), None)
