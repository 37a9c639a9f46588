"""`exec`: runs a command line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field
from pydantic_ai import RunContext, Tool, ToolReturn
from pydantic_ai.exceptions import ToolFailed

from loopwarden.runner.folder import OutsideError
from loopwarden.runner.policy import rule
from loopwarden.runner.tools.arguments import RETRIES, Arguments
from loopwarden.runner.tools.shapes import TEXT, refused, shaped

if TYPE_CHECKING:
    from loopwarden.runner.commands import Command
    from loopwarden.runner.policy import Ruling
    from loopwarden.runner.tools.bench import Bench

ASK_SECONDS: Final = 300
"""How long a person is waited for."""

_TAIL: Final = 4000
"""Bytes of the output so far that are shown of a command that goes on."""

_DESCRIPTION = """\
Run a shell command in the workspace; gives its output (standard output and error together) and exit code. \
When a command ends, processes that it left behind are ended too."""

_SESSIONS = """ A command that takes long goes on in the background: the result names a sessionId for the \
tool `process`. Use background for servers and watchers."""


class ExecArguments(Arguments):
    """Arguments of `exec`."""

    command: Annotated[str, Field(min_length=1, max_length=32_768, description="Shell command line.")]
    workdir: Annotated[
        str | None, Field(max_length=4096, description="Folder inside the workspace to run in.")
    ] = None
    timeout: Annotated[
        float | None, Field(gt=0, le=86_400, description="Seconds after which it is ended.")
    ] = None
    background: Annotated[bool, Field(description="Return at once and let it go on.")] = False
    yield_ms: Annotated[
        int | None,
        Field(ge=0, le=600_000, description="Milliseconds to wait before it goes on in the background."),
    ] = None


def exec_tool(bench: Bench, *, sessions: bool) -> Tool[Any]:
    """The tool.

    The policy is asked where the arguments are checked, which the adapter does before it asks the guard:
    a command that it denies is no call that the guard lets through or refuses, and takes nobody's probe.
    The guard is then told of a call that failed, so that an agent which goes on asking is stopped in the
    end. A command that a person has to allow is a call as any other: the guard is asked first, since
    nobody should be bothered with one that it refuses, and the person's answer is the outcome
    (`approval-...`, SPEC section 3).

    Args:
        bench: What it works with.
        sessions: Whether the agent can look after background sessions; else nothing goes there.
    """

    async def run(arguments: ExecArguments) -> ToolReturn[str]:
        return await _run(bench, arguments, sessions=sessions)

    def check(_: RunContext[Any], arguments: ExecArguments) -> None:
        ruling = rule(bench.agent.tools.exec, arguments.command)
        if ruling.decision == "deny":
            raise ToolFailed(
                f"The command was not run: the exec policy denies it ({ruling.reason}). "
                "It will be denied again; do it another way, or say that you can't."
            )

    return Tool(
        run,
        takes_ctx=False,
        name="exec",
        description=_DESCRIPTION + (_SESSIONS if sessions else ""),
        args_validator=check,
        max_retries=RETRIES,
    )


async def _run(bench: Bench, arguments: ExecArguments, *, sessions: bool) -> ToolReturn[str]:
    rules = bench.agent.tools.exec
    ruling = rule(rules, arguments.command)
    if ruling.decision == "deny":  # in case that nobody has checked
        return refused(f"denied: {ruling.reason}")
    try:
        folder = await asyncio.to_thread(bench.folder.folder, arguments.workdir)
    except (OutsideError, OSError) as error:
        return refused(f"workdir: {error}")
    if arguments.background and not sessions:
        return refused("background: this agent has no tool for background sessions")
    if arguments.background and not bench.processes.room():
        return refused("too many background sessions; end one with the tool `process` first")
    if ruling.decision == "ask":
        answer = await _approval(bench, arguments.command, ruling)
        if answer is not None:
            return answer
    try:
        command = await bench.processes.start(
            arguments.command, folder, names=tuple(rules.environment), write_to=arguments.background
        )
    except (OSError, RuntimeError, ValueError) as error:
        return refused(f"the command could not be started: {error}")
    timeout = rules.timeout_seconds if arguments.timeout is None else arguments.timeout
    if arguments.background:
        bench.processes.keep(command, seconds=arguments.timeout)
        return _going_on(command)
    patience = rules.yield_seconds if arguments.yield_ms is None else arguments.yield_ms / 1000
    try:
        if sessions and patience < timeout:
            if not await _ended(command, patience):
                if bench.processes.room():
                    left = None if arguments.timeout is None else arguments.timeout - patience
                    bench.processes.keep(command, seconds=left)
                    return _going_on(command)
                await _in_time(bench, command, timeout - patience)
        else:
            await _in_time(bench, command, timeout)
    finally:
        if not command.background:  # also when cancelled
            bench.processes.kill_now(command)
            bench.processes.drop(command)
    return _over(command, timeout)


async def _ended(command: Command, seconds: float) -> bool:
    try:
        await asyncio.wait_for(command.over.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def _in_time(bench: Bench, command: Command, seconds: float) -> None:
    if not await _ended(command, seconds):
        await bench.processes.kill(command, timed_out=True)


def _facts(command: Command) -> dict[str, Any]:
    return {
        "pid": command.process.pid,
        "cwd": str(command.folder),
        "startedAt": int(command.started_at * 1000),
    }


def _going_on(command: Command) -> ToolReturn[str]:
    tail = command.output.tail(_TAIL)
    command.polled = command.output.size
    text = f"The command goes on in the background as session {command.id}. Look after it with `process`."
    return shaped(
        f"{text}\nOutput so far:\n{tail}" if tail else text,
        {"status": "running", "sessionId": command.id, "tail": tail, **_facts(command)},
    )


def _over(command: Command, timeout: float) -> ToolReturn[str]:
    output = command.output.text(TEXT)
    notes = []
    if command.timed_out:
        notes.append(f"The command was ended after {timeout:g} seconds.")
    elif command.exit_signal is not None:
        notes.append(f"The command was ended by {command.exit_signal}.")
    else:
        notes.append(f"Exit code {command.exit_code}.")
    if command.leftovers and not command.timed_out:
        notes.append("Processes that it left behind were ended; use background to keep one.")
    return shaped(
        "\n".join([output.rstrip("\n") or "(no output)", *notes]),
        {
            "status": command.status,
            "exitCode": command.exit_code,
            "exitSignal": command.exit_signal,
            "timedOut": command.timed_out,
            "aggregated": output,
            "truncated": command.output.size > TEXT,
            "durationMs": int(command.duration * 1000),
            **_facts(command),
        },
    )


async def _approval(bench: Bench, command: str, ruling: Ruling) -> ToolReturn[str] | None:
    """What a person says; `None`: the command may run."""
    if bench.ask is None:
        return _not_run("approval-unavailable", command, ruling.reason, "Nobody is there to be asked.", bench)
    question = f"Agent {bench.agent.id} wants to run in {bench.folder.root}: {command}"
    async with bench.asking:
        try:
            allowed = await asyncio.wait_for(bench.ask(question), ASK_SECONDS)
        except TimeoutError:
            return _not_run("approval-pending", command, ruling.reason, "Nobody has answered yet.", bench)
    if allowed:
        return None
    return _not_run("approval-denied", command, ruling.reason, "The person said no.", bench)


def _not_run(status: str, command: str, reason: str, warning: str, bench: Bench) -> ToolReturn[str]:
    return shaped(
        f"The command was not run: it needs a person's approval ({reason}). {warning} "
        "Do it another way, or say what you need.",
        {
            "status": status,
            "reason": reason,
            "host": "runner",
            "command": command,
            "warning": warning,
            "runId": bench.run,
        },
    )
