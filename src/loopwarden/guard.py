"""The door: `LoopGuard` feeds the core, keeps the runs apart, and never breaks the agent.

Everything that talks to the guard talks to this module: adapters, hooks, the transcript scan, tests.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeAlias, TypeVar, get_args, overload

from loopwarden.core.settings import Mode, Settings
from loopwarden.events import ALLOW, Compaction, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.guarded import current_run, guarded
from loopwarden.runs import MAX_RUNS, Runs
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from loopwarden.config import Config
    from loopwarden.core.run_state import RunState
    from loopwarden.events import Event, Verdict

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

Listener: TypeAlias = "Callable[[Verdict, Event], None]"
"""Told of every verdict that found something; what it raises is logged and goes no further."""

OnError: TypeAlias = Literal["allow", "raise"]
"""What a fault in the guard itself does: log it and let the call run, or raise it (for tests)."""

_LOGGED: Final = 1024
"""Loops that are remembered as logged."""

_guards: weakref.WeakSet[LoopGuard] = weakref.WeakSet()


class Verbs:
    """What can be told to the guard, and what it answers.

    Attributes:
        session_id: The session that the verbs are bound to; `None` for the guard's own.
    """

    session_id: str | None
    _door: LoopGuard

    def before(
        self,
        tool: str,
        arguments: object = None,
        *,
        call_id: str,
        run_id: str | None = None,
        turn_id: str | None = None,
        at: float | None = None,
    ) -> Verdict:
        """The model asks for a tool: may it run? Meanings as in `ToolCall`.

        Returns:
            A verdict; on `block` and `abort` the call must not run, and no outcome is to be reported.
        """
        door = self._door
        try:
            with door._lock:  # noqa: SLF001 - one module
                key = self.session_id, run_id
                runs = door._runs  # noqa: SLF001 - one module
                state = runs.newest if key == runs.newest_key else runs.get(key)
                verdict = state.call(tool, arguments, call_id, turn_id, at)
        except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
            return door._fault()  # noqa: SLF001 - one module
        if verdict.detector is not None:
            call = ToolCall(
                tool=tool, arguments=arguments, call_id=call_id, run_id=run_id, turn_id=turn_id, at=at
            )
            door._tell(self.session_id, verdict, call)  # noqa: SLF001 - one module
        return verdict

    def after(
        self,
        call_id: str,
        *,
        result: object = None,
        error: str | BaseException | None = None,
        run_id: str | None = None,
        unknown_tool: str | None = None,
        timed_out: bool = False,
        at: float | None = None,
    ) -> Verdict:
        """A call ended. Meanings as in `Outcome`; a `TimeoutError` counts as out of time.

        Returns:
            A verdict; `abort` when the post-compaction guard ends the run here.
        """
        door = self._door
        try:
            if error is not None and not isinstance(error, str):
                timed_out = timed_out or isinstance(error, TimeoutError)
                error = _said(error)
            with door._lock:  # noqa: SLF001 - one module
                key = self.session_id, run_id
                runs = door._runs  # noqa: SLF001 - one module
                state = runs.newest if key == runs.newest_key else runs.get(key)
                verdict = state.outcome(call_id, result, error, unknown_tool, timed_out)
        except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
            return door._fault()  # noqa: SLF001 - one module
        if verdict.detector is not None:
            outcome = Outcome(
                call_id=call_id,
                result=result,
                error=error,
                unknown_tool=unknown_tool,
                timed_out=timed_out,
                run_id=run_id,
                at=at,
            )
            door._tell(self.session_id, verdict, outcome)  # noqa: SLF001 - one module
        return verdict

    def compacted(
        self, *, run_id: str | None = None, continues: str | None = None, at: float | None = None
    ) -> Verdict:
        """The history was compacted and the model is asked again; `continues` names the old run id."""
        return self.feed(Compaction(run_id=run_id, continues=continues, at=at))

    def user_message(self, *, run_id: str | None = None, at: float | None = None) -> Verdict:
        """A person wrote."""
        return self.feed(UserMessage(run_id=run_id, at=at))

    def retract(
        self, call_ids: Iterable[str], *, run_id: str | None = None, at: float | None = None
    ) -> Verdict:
        """A model reply failed and is made again: its calls are rolled back."""
        return self.feed(Retraction(call_ids=tuple(call_ids), run_id=run_id, at=at))

    def forget(self, *, run_id: str | None = None) -> None:
        """A run is over: drop its state."""
        self._door._forget(self.session_id, run_id)  # noqa: SLF001 - one module

    def save(self, *, run_id: str | None = None) -> bytes | None:
        """The state of a run as JSON bytes: digests and counters, no arguments or results.

        Returns:
            What `restore` takes; `None` for a run that is not known.
        """
        return self._door._save(self.session_id, run_id)  # noqa: SLF001 - one module

    def restore(self, saved: bytes, *, run_id: str | None = None) -> None:
        """Go on from a saved state, in place of whatever this run had.

        Raises:
            StoreError: It is damaged, or of another version.
        """
        self._door._restore(self.session_id, saved, run_id)  # noqa: SLF001 - one module

    def feed(self, event: Event) -> Verdict:
        """Any event, as a value; the verbs above make one and call this."""
        return self._door._feed(self.session_id, event)  # noqa: SLF001 - one module


class LoopGuard(Verbs):
    """Watches the tool calls of agents and says when they go round in circles.

    Thread-safe and fork-safe. State is kept in memory, per session and run.

    Args:
        config: A `tools.loopDetection` block, a `Config`, the path of a file, or `None` for the file
            that `load_config()` finds (the defaults where there is none: rolling detectors observe,
            the post-compaction guard acts).
        agent_id: Whose overrides of the configuration apply.
        mode: `enforce` acts on verdicts; `observe` only says what it would have done. `None`: enforce.
        on_verdict: Listeners.
        on_error: What a fault in the guard does to the agent.
        max_runs: Runs kept at once.

    Raises:
        ConfigError: The configuration is wrong.
        ValueError: `mode` or `on_error` is none of its values.
    """

    def __init__(
        self,
        config: Config | Settings | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        *,
        agent_id: str | None = None,
        mode: Mode | None = None,
        on_verdict: Iterable[Listener] = (),
        on_error: OnError = "allow",
        max_runs: int = MAX_RUNS,
    ) -> None:
        for name, value, allowed in (("mode", mode, Mode), ("on_error", on_error, OnError)):
            if value is not None and value not in get_args(allowed):
                raise ValueError(f"{name}={value!r}; allowed: {', '.join(get_args(allowed))}")
        self.session_id = None
        self._door = self
        self.settings = _settings(config, agent_id, mode)
        self._runs = Runs(self.settings, max_runs)
        self._listeners = tuple(on_verdict)
        self._on_error = on_error
        self._logged: dict[tuple[str | None, str | None, str | None], None] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        _guards.add(self)

    def session(self, session_id: str) -> GuardSession:
        """The same verbs, bound to a session: its runs are apart from those of other sessions."""
        return GuardSession(self, session_id)

    @contextmanager
    def run(self, run_id: str | None = None) -> Iterator[str]:
        """The calls of tools made with `@guard.tool` in this block belong to one run.

        Args:
            run_id: Its id; `None` makes one up. The state is dropped at the end of the block.
        """
        name = run_id if run_id is not None else f"run-{next(self._numbers)}"
        token = current_run.set(name)
        try:
            yield name
        finally:
            current_run.reset(token)
            self.forget(run_id=name)

    @overload
    def tool(self, function: Callable[Parameters, Result], /) -> Callable[Parameters, Result]: ...

    @overload
    def tool(
        self, function: None = None, /, *, name: str | None = None
    ) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]: ...

    def tool(self, function: Any = None, /, *, name: str | None = None) -> Any:
        """Guard a plain function, sync or async, that an agent calls as a tool.

        A refused call returns the refusal as text instead of running. A warning is added to a result
        that is text (after a blank line) or a dict (under `loop_warning`); other results stay as they
        are, and the warning is only logged. An aborted run raises `LoopAborted`.

        Raises:
            TypeError: The function is a generator, or has no name and none is given.

        Args:
            function: The function; its name is the tool's name.
            name: Another name for the tool.
        """
        if function is None:
            return lambda found: guarded(self, found, name)
        return guarded(self, function, name)

    def _forget(self, session_id: str | None, run_id: str | None) -> None:
        with self._lock:
            self._runs.forget((session_id, run_id))

    def _save(self, session_id: str | None, run_id: str | None) -> bytes | None:
        with self._lock:
            return self._runs.save((session_id, run_id))

    def _restore(self, session_id: str | None, saved: bytes, run_id: str | None) -> None:
        with self._lock:
            self._runs.restore((session_id, run_id), saved)

    def _feed(self, session_id: str | None, event: Event) -> Verdict:
        try:
            with self._lock:
                verdict = self._state(session_id, event).apply(event)
        except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
            return self._fault()
        if verdict.detector is not None or type(event) is Compaction:
            self._tell(session_id, verdict, event)
        return verdict

    def _fault(self) -> Verdict:
        """The failure policy, the only one: called while an exception is handled."""
        if self._on_error == "raise":
            raise  # noqa: PLE0704 - the exception that is being handled
        log.logger.exception("fault in the guard: the call is let through")
        return ALLOW

    def _examine(self, session_id: str | None, event: Event) -> tuple[Verdict, bytes | None]:
        with self._lock:
            same = (session_id, event.run_id) == self._runs.newest_key and type(event) is not Compaction
            state = self._runs.newest if same else self._state(session_id, event)
            state.compared = None
            return state.apply(event), state.compared

    def _state(self, session_id: str | None, event: Event) -> RunState:
        runs = self._runs
        if type(event) is Compaction and event.continues is not None and event.continues != event.run_id:
            runs.move((session_id, event.continues), (session_id, event.run_id))
        return runs.get((session_id, event.run_id))

    def _tell(self, session_id: str | None, verdict: Verdict, event: Event) -> None:
        """Log what was found and tell the listeners; an ended run is told of once."""
        if type(event) is Compaction and self.settings.enabled is not False:
            log.armed(self.settings.post_compaction_window)
        if verdict.detector is None or (verdict.action == "abort" and not verdict.announce):
            return
        if (
            self.settings.enabled is not None
            or verdict.would is None
            or self._is_new(session_id, verdict, event)
        ):
            log.found(verdict, event)
        for listener in self._listeners:
            try:
                listener(verdict, event)
            except Exception:
                if self._on_error == "raise":
                    raise
                log.logger.exception("fault in a listener")

    def _is_new(self, session_id: str | None, verdict: Verdict, event: Event) -> bool:
        """With `enabled` unset nothing acts, and each loop is logged once (SPEC section 8)."""
        loop = session_id, event.run_id, verdict.key
        if loop in self._logged:
            return False
        self._logged[loop] = None
        if len(self._logged) > _LOGGED:
            del self._logged[next(iter(self._logged))]
        return True


class GuardSession(Verbs):
    """The verbs of `LoopGuard`, bound to one session."""

    def __init__(self, guard: LoopGuard, session_id: str) -> None:
        self._door = guard
        self.session_id = session_id

    def examine(self, event: Event) -> tuple[Verdict, bytes | None]:
        """`feed` for reports: logs nothing, tells no listener, and raises a fault.

        Returns:
            The verdict, and what the call or outcome was compared by (its signature or fingerprint);
            `None` for other events, where everything is off, and for an id that was met before.
        """
        return self._door._examine(self.session_id, event)  # noqa: SLF001 - one module


def _said(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - the tool's own exception may be broken too
        return type(error).__name__


def _settings(config: Any, agent_id: str | None, mode: Mode | None) -> Settings:
    if isinstance(config, Settings):
        return replace(config, mode=mode) if mode is not None else config
    from loopwarden.config import Config, load_config

    if not isinstance(config, Config):
        config = load_config(Path(config) if isinstance(config, str | os.PathLike) else config)
        for problem in config.warnings:
            log.logger.warning("config: %s", problem)
    settings: Settings = config.settings(agent_id, mode or "enforce")
    return settings


def _after_fork() -> None:
    for guard in list(_guards):
        guard._lock = threading.Lock()  # noqa: SLF001 - one module


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
