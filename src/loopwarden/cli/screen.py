"""The console that commands print to where rich lays out what they say."""

from __future__ import annotations

import errno
import os

from rich.console import Console


class Screen(Console):
    """A console that leaves it to the command line to say how a command ends."""

    def on_broken_pipe(self) -> None:
        """Raise: rich itself would end the program with 1, which means here that a loop was found."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
