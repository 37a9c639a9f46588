"""Plain functions as guarded tools: what `LoopGuard.tool` makes."""

from __future__ import annotations

import functools
import inspect
import itertools
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from loopwarden.errors import LoopAborted

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.events import Verdict

current_run: Final[ContextVar[str | None]] = ContextVar("loopwarden_run", default=None)
"""The run that calls of guarded functions belong to."""

_numbers = itertools.count(1)


class Asked(Protocol):
    """Who is asked: a `LoopGuard`."""

    def before(self, tool: str, arguments: object, *, call_id: str, run_id: str | None, at: float) -> Verdict:
        """May the call run?"""

    def after(
        self,
        call_id: str,
        *,
        result: object = None,
        error: BaseException | None = None,
        run_id: str | None,
    ) -> Verdict:
        """What came of it."""


def guarded(guard: Asked, function: Callable[..., Any], name: str | None) -> Callable[..., Any]:
    """A function that asks the guard before it runs, and tells it what came of it."""
    tool = name if name is not None else function.__name__
    by_name = inspect.signature(function)

    def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str | None, Verdict]:
        call_id = f"call-{next(_numbers)}"
        run_id = current_run.get()
        arguments = _arguments(by_name, args, kwargs)
        verdict = guard.before(tool, arguments, call_id=call_id, run_id=run_id, at=time.monotonic())
        _leave(verdict)
        return call_id, run_id, verdict

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def asynchronous(*args: Any, **kwargs: Any) -> Any:
            call_id, run_id, verdict = enter(args, kwargs)
            if verdict.action == "block":
                return verdict.message
            try:
                result = await function(*args, **kwargs)
            except BaseException as error:
                _leave(guard.after(call_id, error=error, run_id=run_id))
                raise
            _leave(guard.after(call_id, result=result, run_id=run_id))
            return _warned(result, verdict)

        return asynchronous

    @functools.wraps(function)
    def synchronous(*args: Any, **kwargs: Any) -> Any:
        call_id, run_id, verdict = enter(args, kwargs)
        if verdict.action == "block":
            return verdict.message
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            _leave(guard.after(call_id, error=error, run_id=run_id))
            raise
        _leave(guard.after(call_id, result=result, run_id=run_id))
        return _warned(result, verdict)

    return synchronous


def _leave(verdict: Verdict) -> None:
    if verdict.action == "abort":
        raise LoopAborted(verdict)


def _arguments(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, so that the way they are passed makes no difference."""
    if not args:
        return kwargs
    try:
        return dict(signature.bind(*args, **kwargs).arguments)
    except TypeError:  # the function will say so itself
        return {"args": args, **kwargs}


def _warned(result: Any, verdict: Verdict) -> Any:
    if verdict.action != "warn" or not verdict.announce or verdict.message is None:
        return result
    if type(result) is str:
        return f"{result}\n\n{verdict.message}"
    if type(result) is dict:
        return {**result, "loop_warning": verdict.message}
    return result
