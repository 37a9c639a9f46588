"""Ctrl-C and other requests to end: the first ends the run, the second the program."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BY_SIGNAL: Final = 128


@contextmanager
def ended_by_signals(end: Callable[[], object]) -> Iterator[None]:
    """While inside, signals call `end`; the second one ends the process where it stands."""
    loop = asyncio.get_running_loop()
    seen = False

    def heard(number: int) -> None:
        nonlocal seen
        if seen:
            with suppress(OSError):
                sys.stdout.flush()
            _end_children()
            os._exit(_BY_SIGNAL + number)
        seen = True
        typer.echo("loopwarden: ending the run; once more to end at once", err=True)
        end()

    for number in _SIGNALS:
        loop.add_signal_handler(number, heard, number)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def _end_children() -> None:
    """Kill what this process started, each with its process group, where there is a `/proc` to find them."""
    own = str(os.getpid())
    for found in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            if found.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[1] == own:
                process = int(found.parent.name)
                if os.getpgid(process) == process:
                    os.killpg(process, signal.SIGKILL)
                else:
                    os.kill(process, signal.SIGKILL)
