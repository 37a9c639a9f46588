"""`process` and `command_status`: commands that go on in the background."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field
from pydantic_ai import Tool, ToolReturn

from loopwarden.runner.processes import INPUT_BYTES, InputError
from loopwarden.runner.tools.arguments import RETRIES, Arguments
from loopwarden.runner.tools.shapes import TEXT, refused, shaped

if TYPE_CHECKING:
    from loopwarden.runner.commands import Command
    from loopwarden.runner.tools.bench import Bench

LINES: Final = 200
"""Lines of a log that are given where the model asks for no number."""

_TAIL: Final = 2000
"""Bytes of the output by which two polls are compared, along with the number of all bytes."""

_SHOWN: Final = 200
"""Characters of a command line in a list."""

_PROCESS = """\
Look after commands that go on in the background: list them; poll one for new output and its end; log gives
lines of its output (the last ones, or from offset on); write sends text to its input; kill ends it."""


class ProcessArguments(Arguments):
    """Arguments of `process`."""

    action: Annotated[Literal["list", "poll", "log", "write", "kill"], Field(description="What to do.")]
    session_id: Annotated[
        str | None, Field(max_length=100, description="Which command; all actions but list need it.")
    ] = None
    wait_ms: Annotated[int, Field(ge=0, le=60_000, description="poll: milliseconds to wait for news.")] = 0
    offset: Annotated[
        int | None, Field(ge=1, le=10**9, description="log: first line, from 1. Unset: the last lines.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=2000, description="log: most lines to give.")] = LINES
    data: Annotated[
        str, Field(max_length=INPUT_BYTES, description="write: text; end it with a newline to enter a line.")
    ] = ""
    eof: Annotated[bool, Field(description="write: close the standard input afterwards.")] = False


class StatusArguments(Arguments):
    """Arguments of `command_status`."""

    session_id: Annotated[str, Field(max_length=100, description="Which command.")]
    wait_ms: Annotated[int, Field(ge=0, le=60_000, description="Milliseconds to wait for news.")] = 0


def process_tool(bench: Bench) -> Tool[Any]:
    """The tool `process`."""

    async def run(arguments: ProcessArguments) -> ToolReturn[str]:
        return await _run(bench, arguments)

    return Tool(run, takes_ctx=False, name="process", description=_PROCESS, max_retries=RETRIES)


def status_tool(bench: Bench) -> Tool[Any]:
    """The tool `command_status`: a poll."""

    async def run(arguments: StatusArguments) -> ToolReturn[str]:
        command = bench.processes.find(arguments.session_id)
        if command is None:
            return _unknown(arguments.session_id)
        return await _poll(command, arguments.wait_ms)

    description = (
        "How a command in the background is doing: new output since it was last asked for, and its end."
    )
    return Tool(run, takes_ctx=False, name="command_status", description=description, max_retries=RETRIES)


async def _run(bench: Bench, arguments: ProcessArguments) -> ToolReturn[str]:
    if arguments.action == "list":
        return _list(bench)
    if arguments.session_id is None:
        return refused(f"{arguments.action}: needs a sessionId")
    command = bench.processes.find(arguments.session_id)
    if command is None:
        return _unknown(arguments.session_id)
    if arguments.action == "poll":
        return await _poll(command, arguments.wait_ms)
    if arguments.action == "log":
        return _log(command, arguments.offset, arguments.limit)
    if arguments.action == "write":
        return await _write(bench, command, arguments)
    await bench.processes.kill(command)
    return shaped(f"Ended. {_state(command)}", _status(command))


def _list(bench: Bench) -> ToolReturn[str]:
    sessions = list(bench.processes.sessions())
    rows = [
        {"sessionId": command.id, "command": command.text[:_SHOWN], **_status(command)}
        for command in sessions
    ]
    lines = [f"{row['sessionId']}: {row['status']}: {row['command']}" for row in rows]
    return shaped("\n".join(lines) or "No background sessions.", {"sessions": rows})


async def _poll(command: Command, wait_ms: int) -> ToolReturn[str]:
    """New output and the state. The guard compares the state, the last output and how much there was."""
    if wait_ms and not command.over.is_set() and command.polled == command.output.size:
        await command.reader.more(wait_ms / 1000)
    output = command.output
    fresh = output.since(command.polled, TEXT)
    command.polled = output.size
    return shaped(
        f"{fresh.rstrip()}\n{_state(command)}" if fresh else f"(no new output)\n{_state(command)}",
        {
            **_status(command),
            "sessionId": command.id,
            "aggregated": output.tail(_TAIL),
            "totalChars": output.size,
            "truncated": output.truncated,
        },
    )


def _log(command: Command, offset: int | None, limit: int) -> ToolReturn[str]:
    output = command.output
    lines = output.text().split("\n")
    if lines[-1] == "":
        lines.pop()
    begin = max(0, len(lines) - limit) if offset is None else offset - 1
    page = "\n".join(lines[begin : begin + limit])
    cut = len(page) > TEXT
    if cut:
        page = page[-TEXT:] if offset is None else page[:TEXT]
    shown = len(lines[begin : begin + limit])
    where = f"Lines {begin + 1} to {begin + shown} of {len(lines)}" if shown else f"{len(lines)} lines in all"
    return shaped(
        "\n".join(
            [page, f"[{where}{', cut' if cut else ''}. {_state(command)}]"] if page else [f"[{where}.]"]
        ),
        {
            **_status(command),
            "sessionId": command.id,
            "aggregated": page,
            "totalLines": output.lines,
            "totalChars": output.size,
            "truncated": output.truncated or cut,
        },
    )


async def _write(bench: Bench, command: Command, arguments: ProcessArguments) -> ToolReturn[str]:
    try:
        await bench.processes.write(command, arguments.data.encode(), eof=arguments.eof)
    except InputError as error:
        return refused(f"{command.id}: {error}")
    end = " and closed its input" if arguments.eof else ""
    return shaped(
        f"Wrote {len(arguments.data)} characters{end}.", {**_status(command), "sessionId": command.id}
    )


def _status(command: Command) -> dict[str, Any]:
    return {
        "status": command.status,
        "exitCode": command.exit_code,
        "exitSignal": command.exit_signal,
        "timedOut": command.timed_out,
    }


def _state(command: Command) -> str:
    if command.status == "running":
        return "Still running."
    if command.timed_out:
        return "It was ended for running too long."
    if command.exit_signal is not None:
        return f"It was ended by {command.exit_signal}."
    return f"Exit code {command.exit_code}."


def _unknown(session_id: str) -> ToolReturn[str]:
    return refused(
        f"there is no background session {shlex.quote(session_id)}; list shows those that are known"
    )
