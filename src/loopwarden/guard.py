"""The door: `LoopGuard` feeds the core, keeps the runs apart, and never breaks the agent.

Everything that talks to the guard talks to this module: adapters, hooks, the transcript scan, tests.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from contextlib import AbstractContextManager, contextmanager, nullcontext
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar, cast, get_args, overload

from loopwarden.core.settings import Mode, Settings
from loopwarden.errors import StoreError
from loopwarden.events import ALLOW, Compaction, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.guarded import Blocks, guarded, is_out_of_time, is_stop, said
from loopwarden.live_runs import Over, Told
from loopwarden.opening import opened
from loopwarden.runs import Runs
from loopwarden.shared_runs import SharedRun, SharedRuns
from loopwarden.stores import IDLE_SECONDS, MAX_RUNS, Store
from loopwarden.telemetry.faults import Faults
from loopwarden.telling import Telling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from loopwarden.config import Config
    from loopwarden.core.run_state import RunState
    from loopwarden.events import Event, Verdict
    from loopwarden.journaled_runs import JournaledRuns
    from loopwarden.remote import RemoteRun, RemoteRuns
    from loopwarden.telling import Listener, Observer

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

OnError: TypeAlias = Literal["allow", "raise"]
"""What a fault in the guard itself does: log it and let the call run, or raise it (for tests)."""

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
        if door._watched:
            return self.feed(
                ToolCall(
                    tool=tool, arguments=arguments, call_id=call_id, run_id=run_id, turn_id=turn_id, at=at
                )
            )
        try:
            with door._lock:
                key = self.session_id, run_id
                runs = door._runs
                state = runs.newest if key == runs.newest_key else runs.get(key)
                verdict = state.call(tool, arguments, call_id, turn_id, at)
        except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
            return door._fault()
        if verdict.detector is not None:
            call = ToolCall(
                tool=tool, arguments=arguments, call_id=call_id, run_id=run_id, turn_id=turn_id, at=at
            )
            door._telling.found(self.session_id, call, verdict)
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
        """A call ended. Meanings as in `Outcome`; a `TimeoutError` and being cancelled count as out of time.

        What was stopped (`KeyboardInterrupt`, `SystemExit`, `GeneratorExit`) is taken back.

        Returns:
            A verdict; `abort` when the post-compaction guard ends the run here.
        """
        door = self._door
        try:
            if error is not None and not isinstance(error, str):
                if is_stop(error):
                    return self.retract((call_id,), run_id=run_id, at=at)
                timed_out = timed_out or is_out_of_time(error)
                error = said(error)
            if door._watched:
                return self.feed(
                    Outcome(
                        call_id=call_id,
                        result=result,
                        error=error,
                        unknown_tool=unknown_tool,
                        timed_out=timed_out,
                        run_id=run_id,
                        at=at,
                    )
                )
            with door._lock:
                key = self.session_id, run_id
                runs = door._runs
                state = runs.newest if key == runs.newest_key else runs.get(key)
                verdict = state.outcome(call_id, result, error, unknown_tool, timed_out)
        except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
            return door._fault()
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
            door._telling.found(self.session_id, outcome, verdict)
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
        self._door._forget(self.session_id, run_id)

    def save(self, *, run_id: str | None = None) -> bytes | None:
        """The state of a run as JSON bytes: digests and counters, no arguments or results.

        Returns:
            What `restore` takes; `None` for a run that is not known.
        """
        return self._door._save(self.session_id, run_id)

    def restore(self, saved: bytes, *, run_id: str | None = None) -> None:
        """Go on from a saved state, in place of whatever this run had.

        Raises:
            StoreError: It is damaged, or of another version; a gateway takes none and gives none.
        """
        self._door._restore(self.session_id, saved, run_id)

    def feed(self, event: Event) -> Verdict:
        """Any event, as a value; the verbs above make one and call this."""
        return self._door._feed(self.session_id, event)


class LoopGuard(Verbs):
    """Watches the tool calls of agents and says when they go round in circles.

    Thread-safe and fork-safe. State is kept per session and run, in memory or in a store that several
    processes share.

    Args:
        config: A `tools.loopDetection` block, a `Config`, the path of a file, or `None` for the file
            that `load_config()` finds (the defaults where there is none: rolling detectors observe,
            the post-compaction guard acts). With a gateway its configuration counts: give none.
        agent_id: Whose overrides of the configuration apply.
        mode: `enforce` acts on verdicts; `observe` only says what it would have done. `None`: enforce.
        store: `memory:` (default) keeps the runs in this process; `sqlite:PATH`, `redis://...` or a `Store`
            shares them; `http://HOST:PORT` asks a gateway (`loopwarden gateway`).
        on_verdict: Listeners.
        record: Where the run record goes: `True` for `loopwarden.records.default_path()`, a path (SQLite if
            it ends in `.db`, `.sqlite` or `.sqlite3`, else JSON lines), or a `RunRecorder`.
        on_error: What a fault in the guard does to the agent.
        max_runs: Runs kept at once; those that were idle for longest are forgotten first.
        idle_seconds: Runs that were idle for longer are forgotten. A `Store` and a gateway have own bounds.

    Attributes:
        shared: The runs in the store; `None`: they are in this process or at a gateway.

    Raises:
        ConfigError: The configuration is wrong.
        StoreError: The store can't be opened.
        MissingExtraError: The package that the store needs is not installed.
        ValueError: `mode` or `on_error` is none of its values, a number is out of range, or a configuration
            is given where the one of a gateway counts.
        TypeError: `store` is neither an address nor a store.
    """

    def __init__(
        self,
        config: Config | Settings | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        *,
        agent_id: str | None = None,
        mode: Mode | None = None,
        store: Store | str = "memory:",
        on_verdict: Iterable[Listener] = (),
        record: Observer | str | os.PathLike[str] | bool | None = None,
        on_error: OnError = "allow",
        max_runs: int = MAX_RUNS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        for name, value, allowed in (("mode", mode, Mode), ("on_error", on_error, OnError)):
            if value is not None and value not in get_args(allowed):
                raise ValueError(f"{name}={value!r}; allowed: {', '.join(get_args(allowed))}")
        self.session_id = None
        self._door = self
        self.settings, self._runs = opened(
            config, agent_id, mode, store, max_runs, idle_seconds, strict=on_error == "raise"
        )
        self.shared = self._runs if isinstance(self._runs, SharedRuns) else None
        shared = self.shared.store if self.shared is not None else None
        self._telling = Telling(
            self.settings, on_verdict, record, agent_id=agent_id, store=shared, raises=on_error == "raise"
        )
        self._watched = self._telling.observer is not None
        self._on_error = on_error
        self._faults = Faults()
        self._lock = _lock_of(self._runs)
        self._numbers = itertools.count(1)
        self._blocks = Blocks()
        _guards.add(self)

    def session(self, session_id: str) -> GuardSession:
        """The same verbs, bound to a session: its runs are apart from those of other sessions."""
        return GuardSession(self, session_id)

    def close(self) -> None:
        """Give back what a shared store and the record hold open; the guard is not used afterwards."""
        self._telling.close()
        if not isinstance(self._runs, Runs):
            self._runs.close()

    @contextmanager
    def run(self, run_id: str | None = None) -> Iterator[str]:
        """The calls of tools made with `@guard.tool` in this block belong to one run.

        Args:
            run_id: Its id; `None` makes one up. The state is dropped at the end of the block; where several
                of this process have the id, in each other or beside each other, at the end of the last.
        """
        name = run_id
        if name is None:
            name = f"run-{next(self._numbers) if isinstance(self._runs, Runs) else token_hex(8)}"
        with self._blocks.block(name, lambda: self.forget(run_id=name)):
            yield name

    @overload
    def tool(self, function: Callable[Parameters, Result], /) -> Callable[Parameters, Result]: ...

    @overload
    def tool(
        self, function: None = None, /, *, name: str | None = None
    ) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]: ...

    def tool(self, function: Any = None, /, *, name: str | None = None) -> Any:
        """Guard a plain function, sync or async, that an agent calls as a tool, inside of `run()`.

        Outside of it all calls of the process are one run, which one abort ends for good. A refused call
        returns the refusal as text. A warning goes into text (after a blank line) or a dict (as
        `loop_warning`); for other results it is only logged. An aborted run raises `LoopAborted`.

        Raises:
            TypeError: The function is a generator, or has no name and none is given.

        Args:
            function: The function; its name is the tool's name.
            name: Another name for the tool.
        """
        if function is None:
            return lambda found: guarded(self, found, name)
        return guarded(self, function, name)

    async def feed_all(self, events: Sequence[Told]) -> list[Verdict]:
        """Events of different runs at once, in a store that keeps journals; each mark counts once."""
        for session, event, _ in events:
            if isinstance(event, Over):
                self._telling.forgotten(session, event.run_id)
        try:
            answers = await cast("JournaledRuns", self._runs).tell_awaited(events)
        except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
            return [self._fault()] * len(events)
        for (session, event, _), (verdict, compared, again) in zip(events, answers, strict=True):
            if not (again or isinstance(event, Over)):
                self._telling.answered(session, event, verdict, compared)
        return [answer.verdict for answer in answers]

    def _forget(self, session_id: str | None, run_id: str | None) -> None:
        try:
            self._telling.forgotten(session_id, run_id)  # first: also while the store is down
            with self._lock:
                self._runs.forget((session_id, run_id))
        except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
            self._fault()

    def _save(self, session_id: str | None, run_id: str | None) -> bytes | None:
        with self._lock:
            return self._runs.save((session_id, run_id))

    def _restore(self, session_id: str | None, saved: bytes, run_id: str | None) -> None:
        with self._lock:
            self._runs.restore((session_id, run_id), saved)

    def _feed(self, session_id: str | None, event: Event) -> Verdict:
        try:
            verdict, compared = self._examine(session_id, event)
        except Exception:  # noqa: BLE001 - a fault in the guard never breaks the agent
            return self._fault()
        self._telling.answered(session_id, event, verdict, compared)
        return verdict

    def _fault(self) -> Verdict:
        """The failure policy, the only one: called while an exception is handled."""
        if self._on_error == "raise":
            raise  # noqa: PLE0704 - the exception that is being handled
        if not isinstance(sys.exception(), StoreError):  # the log tells of those once, not each time
            self._faults.tell("fault in the guard: the call is let through")
        return ALLOW

    def _examine(self, session_id: str | None, event: Event) -> tuple[Verdict, bytes | None]:
        with self._lock:
            same = (session_id, event.run_id) == self._runs.newest_key and type(event) is not Compaction
            state = self._runs.newest if same else self._state(session_id, event)
            state.compared = None
            return state.apply(event), state.compared

    def _state(self, session_id: str | None, event: Event) -> RunState | SharedRun | RemoteRun:
        runs = self._runs
        if type(event) is Compaction and event.continues is not None and event.continues != event.run_id:
            runs.move((session_id, event.continues), (session_id, event.run_id))
        return runs.get((session_id, event.run_id))


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
        return self._door._examine(self.session_id, event)


def _lock_of(runs: Runs | SharedRuns | RemoteRuns) -> AbstractContextManager[object]:
    """Runs in a store need no lock, and nobody should wait for another one's answer from it."""
    return threading.Lock() if isinstance(runs, Runs) else nullcontext()


def _after_fork() -> None:
    for guard in list(_guards):
        guard._lock = _lock_of(guard._runs)
        guard._blocks.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
