"""Processes that append to one file take turns, so that none sees half of what another writes.

The lock belongs to the open file: it ends with the process that holds it, and a child process that goes on
with its parent's descriptor shares it. A process that was stopped in the middle of its turn is not waited for
long, and where the system or the disk has no such lock nobody waits.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform == "win32":

    def _lock(descriptor: int) -> None:
        raise OSError(f"no lock for {descriptor}")

    def _unlock(descriptor: int) -> None:
        """There is none."""

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


PATIENCE_SECONDS: Final = 2.0
"""How long a turn is waited for; the agent waits with it."""

_SHORTEST_PAUSE: Final = 0.0005
_LONGEST_PAUSE: Final = 0.02


class Turns:
    """The turns of one writer, which must not ask for two at once."""

    def __init__(self) -> None:
        self._patience = PATIENCE_SECONDS

    @contextmanager
    def taken(self, descriptor: int) -> Iterator[bool]:
        """Whether others wait until the block ends. After one that never let go, no other is waited for."""
        held = self._take(descriptor)
        self._patience = PATIENCE_SECONDS if held else 0.0
        try:
            yield held
        finally:
            if held:
                with suppress(OSError):  # the descriptor was closed by someone else, and the lock with it
                    _unlock(descriptor)

    def _take(self, descriptor: int) -> bool:
        until, pause = time.monotonic() + self._patience, _SHORTEST_PAUSE
        while True:
            try:
                _lock(descriptor)
            except BlockingIOError:
                if time.monotonic() >= until:
                    return False
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except OSError:  # a disk without locks
                return False
            else:
                return True
