"""Plain functions as guarded tools: what `LoopGuard.tool` makes."""

from __future__ import annotations

import functools
import inspect
import time
import weakref
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, Protocol

from loopwarden.errors import LoopAborted
from loopwarden.guarded.blocks import current_run
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from loopwarden.core.settings import Settings
    from loopwarden.events import Verdict

_first_calls: Final[weakref.WeakKeyDictionary[Asked, str]] = weakref.WeakKeyDictionary()
"""By guard the first call of a function of its outside of a run."""

_UNKNOWN: Final = inspect.Signature(
    [
        inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
    ]
)


class Asked(Protocol):
    """Who is asked: a `LoopGuard`."""

    @property
    def settings(self) -> Settings:
        """What it acts by."""

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
    """A function that asks the guard before it runs, and tells it what came of it.

    Raises:
        TypeError: It is a generator function, whose call is over before anything came of it; or it has no
            name and none is given.
    """
    tool = name if name is not None else getattr(function, "__name__", None)
    if tool is None:
        raise TypeError(f"{function!r} has no name; give one: guard.tool(name=...)")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{tool} is a generator function: its call ends before its items are made. Guard a function "
            "that returns them all, or call before() and after() around the iteration."
        )
    try:
        by_name = inspect.signature(function)
    except ValueError:  # some built-in functions have none
        by_name = _UNKNOWN
    own = _owner(function, by_name)

    def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str | None, Verdict]:
        call_id = f"call-{token_hex(8)}"  # unlike those of other processes that share the run
        run_id = current_run.get()
        if run_id is None:
            _unscoped(guard, tool, call_id)
        arguments = _arguments(by_name, own, args, kwargs)
        verdict = guard.before(tool, arguments, call_id=call_id, run_id=run_id, at=time.time())
        _leave(verdict)
        return call_id, run_id, verdict

    def raised(call_id: str, run_id: str | None, error: BaseException) -> None:
        verdict = guard.after(call_id, error=error, run_id=run_id)
        if isinstance(error, Exception):  # else it is cancelled, which must go on; the next call is told
            _leave(verdict)

    async def awaited(
        start: Callable[[], Awaitable[Any]], call_id: str, run_id: str | None, verdict: Verdict
    ) -> Any:
        try:
            result = await start()
        except BaseException as error:
            raised(call_id, run_id, error)
            raise
        _leave(guard.after(call_id, result=result, run_id=run_id))
        return _warned(result, verdict)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def asynchronous(*args: Any, **kwargs: Any) -> Any:
            call_id, run_id, verdict = enter(args, kwargs)
            if verdict.action == "block":
                return verdict.message
            return await awaited(lambda: function(*args, **kwargs), call_id, run_id, verdict)

        return asynchronous

    @functools.wraps(function)
    def synchronous(*args: Any, **kwargs: Any) -> Any:
        call_id, run_id, verdict = enter(args, kwargs)
        if verdict.action == "block":
            return verdict.message
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            raised(call_id, run_id, error)
            raise
        if inspect.iscoroutine(result):  # a plain function or an object that hands on an async one
            return awaited(lambda: result, call_id, run_id, verdict)
        _leave(guard.after(call_id, result=result, run_id=run_id))
        return _warned(result, verdict)

    return synchronous


def _unscoped(guard: Asked, tool: str, call_id: str) -> None:
    """A call outside of a run: a server that forgot to open one should hear of it, once."""
    first = _first_calls.setdefault(guard, call_id)
    if first == call_id and guard.settings.enabled is not False:
        log.logger.warning(
            "%s was called outside of guard.run(): such calls of this process count as one run",
            log.one_word(tool),
        )


def _leave(verdict: Verdict) -> None:
    if verdict.action == "abort":
        raise LoopAborted(verdict)


def _owner(function: Callable[..., Any], signature: inspect.Signature) -> str | None:
    """Name of the parameter that takes the object of a method; it is no argument that the model gave."""
    inside, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    first = next(iter(signature.parameters), None)
    return first if inside and not inside.endswith("<locals>") and first in {"self", "cls"} else None


def _arguments(
    signature: inspect.Signature, own: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Arguments by name with the defaults, so that the way they are passed makes no difference."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # the function will say so itself
        return {"args": args, **kwargs}
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD and not arguments[name].keys() & arguments.keys():
            arguments.update(arguments.pop(name))
    if own is not None:
        del arguments[own]
    return arguments


def _warned(result: Any, verdict: Verdict) -> Any:
    if verdict.action != "warn" or not verdict.announce or verdict.message is None:
        return result
    if type(result) is str:
        return f"{result}\n\n{verdict.message}"
    if type(result) is dict:
        return {**result, "loop_warning": verdict.message}
    return result
