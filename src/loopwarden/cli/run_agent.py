"""`loopwarden run`: an agent does a task, and what it does is shown as it does it."""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from loopwarden.cli.options import ConfigFile, idle, load_acting
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.cli.run_view import View
    from loopwarden.config import Config
    from loopwarden.config.runtime import ListedAgent
    from loopwarden.runner.happenings import Happening
    from loopwarden.runner.journal import Journal
    from loopwarden.runner.seams import RunResult

EXITS: Final = {"done": 0, "aborted": 1, "failed": 3, "cancelled": 130}
"""Exit codes by the end of the run."""

DEFAULT_RECORD = "default"
_DEFAULT_AGENT: Final = "main"


def run_agent(
    task: Annotated[str, typer.Argument(metavar="TASK", help="What the agent is told.")],
    agent: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Which agent of the configuration; not needed if it lists only one."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="In place of the agent's: a Pydantic AI model as openai:gpt-5, or replay:FILE, which plays a"
            " recorded agent, offline.",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="An OpenAI-compatible server, in place of the agent's."),
    ] = None,
    config: ConfigFile = None,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on with this session; made up if not given.")
    ] = None,
    mode: Annotated[
        Literal["enforce", "observe"],
        typer.Option(metavar="MODE", help="enforce: act. observe: only say what would be done."),
    ] = "enforce",
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where the session is kept; by default a file of its own for each session."
        ),
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Keep a record of what the guard found; `default` for the one that `loopwarden runs` reads.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line for each thing that happens.")
    ] = False,
) -> None:
    """Have an agent do a task, with the guard between it and its tools.

    Shows what the agent says, the calls it makes with shortened arguments, and the first line of each result,
    with warnings and refusals in place. With a model replay:FILE the calls and results are those of a
    recorded agent, in any format that scan knows; nothing of it is executed, and no key is needed.

    Ctrl-C ends the run and what it started; a second one at once.

    Exit code: 0 the agent is done, 1 the guard ended the run, 2 wrong use, a wrong configuration or an output
    that can't be written, 3 the model or the runner failed, 130 the run was ended with Ctrl-C.
    """
    chosen, loaded = _chosen(config, agent, model, base_url)
    _log_to_stderr()
    if mode == "enforce" and (reason := idle(loaded.settings(chosen.id).enabled)) is not None:
        typer.echo(f"loopwarden: {reason}", err=True)
    import asyncio

    from loopwarden.runner.models import model_of

    model_of(chosen)  # what is wrong with it is said before anything begins
    name = session or f"session-{token_hex(6)}"
    result = asyncio.run(_run(chosen, loaded, task, name, mode, journal, record, as_json))
    if not as_json and session is None:
        typer.echo(f"loopwarden: go on with --session {name}", err=True)
    raise typer.Exit(EXITS.get(result.reason, EXITS["failed"]))


def _chosen(
    path: Path | None, agent: str | None, model: str | None, base_url: str | None
) -> tuple[ListedAgent, Config]:
    """The agent, with what the command line says of it, and the configuration."""
    from loopwarden.config.runtime import ListedAgent, runtime_of

    loaded = load_acting(path)
    agents = runtime_of(loaded).agents
    known = ", ".join(agents) or "none"
    where = loaded.source or "there is no configuration file"
    if agents and agent is None and len(agents) > 1:
        raise typer.BadParameter(f"say which agent; {where} lists: {known}", param_hint="--agent")
    found = agents.get(agent) if agent is not None else next(iter(agents.values()), None)
    if found is None:
        if agents or model is None:
            said = f"{agent!r} is not in the configuration" if agent is not None else "there is no agent"
            hint = "" if agents else "; give a --model to run one without"
            raise typer.BadParameter(f"{said} ({where}); it lists: {known}{hint}", param_hint="--agent")
        found = ListedAgent(id=agent or _DEFAULT_AGENT)
    changed = {name: value for name, value in (("model", model), ("base_url", base_url)) if value is not None}
    return found.model_copy(update=changed), loaded


async def _run(
    agent: ListedAgent,
    config: Config,
    task: str,
    session: str,
    mode: Literal["enforce", "observe"],
    journal_file: Path | None,
    record: str | None,
    as_json: bool,
) -> RunResult:
    from loopwarden.cli.run_signals import ended_by_signals
    from loopwarden.cli.terminal import asking
    from loopwarden.config.runtime import runtime_of
    from loopwarden.config.wording import named
    from loopwarden.guard import LoopGuard
    from loopwarden.runner.engine import Runner
    from loopwarden.runner.places import forget_old, session_file, sessions_folder
    from loopwarden.runner.process_tree import end_marked, owner_of
    from loopwarden.runner.resume import take_over

    runtime = runtime_of(config)
    runtime.agents[agent.id] = agent
    guards: dict[str, LoopGuard] = {}

    def guard_of(agent_id: str) -> LoopGuard:
        if agent_id not in guards:
            kept = True if record == DEFAULT_RECORD else record
            guards[agent_id] = LoopGuard(config, agent_id=agent_id, mode=mode, record=kept)
        return guards[agent_id]

    run_id = f"run-{token_hex(12)}"
    runner: Runner

    def end() -> None:
        runner.cancel(run_id)

    watch = _watcher(as_json, end)
    with ExitStack() as opened:
        owner = None
        journal = _journal(journal_file or session_file(sessions_folder(), session))
        if journal is not None:
            opened.enter_context(journal)
            known = journal.session(session)
            if known is not None and known.agent != agent.id:
                raise typer.BadParameter(
                    f"{session} is a session of agent {named(known.agent)}, not of {named(agent.id)}",
                    param_hint="--session",
                )
            owner = owner_of(journal.path)
            end_marked(owner)  # what a process that was killed in this session has left running
        runner = Runner(runtime, guard_of, journal=journal, watch=[watch], ask=asking(), owner=owner)
        try:
            before = None if journal is None else take_over(journal, guard_of(agent.id), session, run_id)
            if before is not None:
                watch.say("goes on", f"with what the guard knew of {before}, which was interrupted")
            with ended_by_signals(end):
                result = await runner.run(agent.id, task, session_id=session, run_id=run_id)
            if watch.closed is not None:
                raise OSError(watch.closed.errno, watch.closed.strerror, "standard output")
            return result
        finally:
            await runner.close()
            for guard in guards.values():
                guard.close()
            if journal_file is None:
                forget_old(sessions_folder())


def _journal(path: Path) -> Journal | None:
    """The journal; `None` where the disk is full, since that ends no run."""
    from loopwarden.runner.journal import DiskFullError, Journal

    try:
        return Journal(path)
    except DiskFullError as error:
        typer.echo(f"loopwarden: {error}; the run goes on, and this session is not kept", err=True)
        return None


def _watcher(as_json: bool, gone: Callable[[], None]) -> View | _Lines:
    """What is told of everything."""
    if as_json:
        return _Lines(gone)
    from loopwarden.cli.run_view import View
    from loopwarden.cli.screen import Screen

    return View(Screen(highlight=False), gone)


class _Lines:
    """A watcher that writes one JSON object a line; as `View` otherwise."""

    def __init__(self, gone: Callable[[], None]) -> None:
        self._gone = gone
        self.closed: OSError | None = None

    def __call__(self, happening: Happening) -> None:
        from loopwarden.runner.plain_json import to_json

        if self.closed is not None:
            return
        fields = ("kind", "agent", "session", "run", "time", "number", "data")
        try:
            sys.stdout.write(to_json({name: getattr(happening, name) for name in fields}) + "\n")
            sys.stdout.flush()
        except OSError as error:
            self.closed = error
            self._gone()

    def say(self, word: str, text: str) -> None:
        """Nothing: what is for people only."""


def _log_to_stderr() -> None:
    """What the guard finds is shown in place; of the log only the rest is for people."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("loopwarden: %(message)s"))
    handler.addFilter(lambda entry: not hasattr(entry, log.FACTS))
    log.logger.addHandler(handler)
