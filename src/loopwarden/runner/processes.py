"""Commands as processes: started in a process group of their own, watched, kept as sessions, ended whole.

One `Processes` belongs to one session of an agent and outlives its runs. A command is over when its shell has
ended and nobody holds its output open any more; what it left running in its group is ended then. Commands
that go on in the background are sessions: bounded in number and in output, forgotten some time after their
end, and all ended by `close`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from typing import TYPE_CHECKING, Final

from loopwarden.runner.commands import Command, Reader
from loopwarden.runner.output import Output
from loopwarden.runner.process_tree import MARK, end_leftovers, end_marked, signal_group

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping
    from pathlib import Path


MOST_RUNNING: Final = 16
MOST_FINISHED: Final = 32
"""Background sessions of one owner; of finished ones the oldest are forgotten."""

MOST_AT_ONCE: Final = 48
"""Commands of one owner that run, those that are waited for included."""

KEPT_SECONDS: Final = 1800
"""A finished session is forgotten after this."""

GRACE_SECONDS: Final = 2.0
"""Between the request to end and the end by force."""

INPUT_BYTES: Final = 64 * 1024
"""Written to a process at once."""

_SHELLS: Final = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
_HANDED_ON: Final = ("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")


class InputError(Exception):
    """Nothing could be written to a command; the text says why."""


class Processes:
    """The commands of one session. To be used on one event loop; `close` it at the end.

    Args:
        owner: What their marks begin with; `None`: nobody looks for them after a crash.
    """

    def __init__(self, owner: str | None = None) -> None:
        stem = secrets.token_hex(8)
        self._stem = stem if owner is None else f"{owner}.{stem}"
        self._number = 0
        self._commands: dict[str, Command] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()

    async def start(
        self, text: str, folder: Path, *, names: tuple[str, ...] = (), write_to: bool = False
    ) -> Command:
        """Start a command line in a shell.

        Args:
            text: The command line.
            folder: Where.
            names: Variables handed on besides the few that every command gets.
            write_to: Whether its standard input can be written to; else it is empty.

        Raises:
            OSError: There is no shell, the folder is gone, or too many processes run.
            RuntimeError: This is closed, or too many commands run already.
            ValueError: The command has a NUL character or no encoding.
        """
        if self._closed.is_set():
            raise RuntimeError("the session is over")
        if sum(not command.over.is_set() for command in self._commands.values()) >= MOST_AT_ONCE:
            raise RuntimeError(f"{MOST_AT_ONCE} commands run already")
        self._number += 1
        mark = f"{self._stem}.{self._number}"
        shell = next((path for path in _SHELLS if os.access(path, os.X_OK)), "/bin/sh")
        output = Output()
        reader = Reader(output)
        read_end, write_end = os.pipe()
        try:
            pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: reader, os.fdopen(read_end, "rb", 0)
            )
        except BaseException:
            os.close(write_end)
            raise
        try:
            process = await asyncio.create_subprocess_exec(
                shell,
                "-c",
                "--",
                text,
                stdin=asyncio.subprocess.PIPE if write_to else asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                cwd=folder,
                env=environment(os.environ, names) | {MARK: mark},
                start_new_session=True,
            )
        except BaseException:
            pipe.close()
            end_marked(mark)  # cancelled when it was there already
            raise
        finally:
            os.close(write_end)
        command = Command(
            id=f"exec-{self._number}-{secrets.token_hex(2)}",
            text=text,
            folder=folder,
            mark=mark,
            process=process,
            output=output,
            pipe=pipe,
            reader=reader,
        )
        self._commands[command.id] = command
        self._task(self._watch(command))
        if self._closed.is_set():  # in the meantime
            self.kill_now(command)
        return command

    def room(self) -> bool:
        """Whether one more command may go on in the background."""
        return sum(command.ended_at is None for command in self.sessions()) < MOST_RUNNING

    def keep(self, command: Command, *, seconds: float | None = None) -> None:
        """Make a command a background session, which is ended after `seconds` more, if given."""
        command.background = True
        if seconds is not None:
            self._task(self._end_after(command, seconds))

    def drop(self, command: Command) -> None:
        """Forget a command; one that is being ended is still waited for by `close`."""
        command.dropped = True
        if command.over.is_set():
            self._commands.pop(command.id, None)

    def sessions(self) -> Iterator[Command]:
        """The background sessions, the oldest first."""
        self._forget()
        return iter([command for command in self._commands.values() if command.background])

    def find(self, session_id: str) -> Command | None:
        """The background session of that id."""
        self._forget()
        command = self._commands.get(session_id)
        return command if command is not None and command.background else None

    async def write(self, command: Command, data: bytes, *, eof: bool = False) -> None:
        """Write to a command's standard input, and close it if `eof`.

        Raises:
            InputError: It has none, or doesn't read it.
        """
        stdin = command.process.stdin
        if command.over.is_set() or stdin is None or stdin.is_closing():
            raise InputError("it has no open input (only commands that were started with background have)")
        if stdin.transport.get_write_buffer_size() + len(data) > INPUT_BYTES:
            raise InputError("it has not read what was written before")
        try:
            stdin.write(data)
            async with asyncio.timeout(GRACE_SECONDS):
                await stdin.drain()
            if eof:
                stdin.close()
        except TimeoutError:
            raise InputError("it does not read its input; what was written waits for it") from None
        except OSError as error:
            raise InputError("it has closed its input") from error

    async def kill(self, command: Command, *, timed_out: bool = False) -> None:
        """End a command: ask, wait a moment, then by force; returns when it is over."""
        if command.over.is_set():
            return
        command.timed_out = command.timed_out or timed_out
        try:
            if command.process.returncode is None:
                signal_group(command.process.pid, signal.SIGTERM)
                await _within_grace(command.over)
        finally:
            self.kill_now(command)
        if not await _within_grace(command.over):
            command.pipe.close()  # held by something that got away
        await command.over.wait()

    def kill_now(self, command: Command) -> None:
        """End a command by force; it is over a moment later."""
        if command.over.is_set():
            return
        if command.process.returncode is None:
            signal_group(command.process.pid, signal.SIGKILL)
            end_marked(command.mark)
        else:
            end_leftovers(command.process.pid, command.mark)

    async def close(self) -> None:
        """End all commands and all that they started; may be called again."""
        self._closed.set()
        for command in self._commands.values():
            self.kill_now(command)
        end_marked(self._stem)
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=GRACE_SECONDS)
        for command in self._commands.values():
            command.pipe.close()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=GRACE_SECONDS)
        for task in tuple(self._tasks):  # a process that can't even be killed is not waited for
            task.cancel()
        end_marked(self._stem)
        self._commands.clear()

    async def _watch(self, command: Command) -> None:
        """Wait until a command is over, then end what it left behind."""
        process, reader = command.process, command.reader
        await reader.ended.wait()
        await process.wait()
        command.leftovers = await asyncio.to_thread(end_leftovers, process.pid, command.mark)
        if process.stdin is not None:
            process.stdin.close()
        command.duration = time.monotonic() - command.began
        command.ended_at = time.time()
        command.over.set()
        reader.news.set()
        if command.dropped:
            self._commands.pop(command.id, None)

    async def _end_after(self, command: Command, seconds: float) -> None:
        try:
            await asyncio.wait_for(command.over.wait(), seconds)
        except TimeoutError:
            await self.kill(command, timed_out=True)

    def _task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _forget(self) -> None:
        """Drop finished sessions that are old or too many."""
        oldest = time.time() - KEPT_SECONDS
        finished = [command for command in self._commands.values() if command.ended_at is not None]
        finished = [command for command in finished if command.background]
        for index, command in enumerate(finished):
            if len(finished) - index > MOST_FINISHED or (command.ended_at or 0) < oldest:
                self.drop(command)


async def _within_grace(event: asyncio.Event) -> bool:
    """Wait for an event, but not long; whether it came."""
    try:
        await asyncio.wait_for(event.wait(), GRACE_SECONDS)
    except TimeoutError:
        return False
    return True


def environment(variables: Mapping[str, str], names: tuple[str, ...] = ()) -> dict[str, str]:
    """What a command is given of the environment: a few variables without secrets, and the named ones."""
    handed_on = {
        name: value
        for name, value in variables.items()
        if name in _HANDED_ON or name in names or name.startswith("LC_")
    }
    return {"TERM": "dumb", "PATH": os.defpath} | handed_on
