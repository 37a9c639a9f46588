"""Ends a process with all that it started, also what left its process group.

Each command carries a mark in its environment, which what it starts inherits. Where there is a `/proc`
(Linux) the processes with the mark are found and ended; elsewhere only the process group is. A process that
clears its environment and starts a session of its own (`env -i setsid ...`) escapes: this keeps order, it is
no jail.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from hashlib import blake2b
from pathlib import Path
from typing import Final

MARK: Final = "LOOPWARDEN_EXEC"
"""Variable with the mark: `STEM.NUMBER`, one stem for all commands of a session; see `owner_of`."""

_OWNER_BYTES: Final = 8

_LOOKS: Final = 8
_MOMENT: Final = 0.003
"""Seconds between two looks for what has no environment yet."""

_NEW: Final = 0.5
"""Seconds after which a process without an environment was started so."""

_ENVIRONMENT: Final = 256 * 1024
"""Bytes of a process's environment that are looked at."""


def owner_of(path: Path) -> str:
    """The beginning of the marks of all who work with a file that one process owns at a time.

    What a process that was killed left running carries it, so that the next owner can end that with
    `end_marked`.
    """
    return blake2b(os.fsencode(path.absolute()), digest_size=_OWNER_BYTES).hexdigest()


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal the process group that `pid` leads; nothing happens if there is none."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def end_leftovers(pid: int, mark: str) -> int:
    """Kill what a command left behind that is over itself (its leader has been waited for).

    Args:
        pid: The leader's.
        mark: The command's mark.

    Returns:
        How many processes were found; 0 or 1 where there is no `/proc`.
    """
    found = end_marked(mark)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:  # the number is not in use again, so the group is still the command's
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
            found = max(found, 1)
    except PermissionError:
        pass
    return found


def end_marked(mark: str) -> int:
    """Kill the processes that carry `mark`, or a mark below it, and say how many there were.

    Looks again until none is left, since one may start another while it is looked for, and one that is just
    becoming another program shows no environment for a moment.
    """
    ended: set[int] = set()
    for _ in range(_LOOKS):
        marked, blank = _marked(mark)
        fresh = set(marked) - ended
        if not fresh and not any(map(_is_new, blank)):
            break
        if not fresh:
            time.sleep(_MOMENT)
        for pid in fresh:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended |= fresh
    return len(ended)


def _marked(mark: str) -> tuple[list[int], list[int]]:
    """Processes of this user that carry the mark, and those whose environment is empty.

    Not those that are over and only wait to be noticed.
    """
    exact, below = f"{MARK}={mark}".encode(), f"{MARK}={mark}.".encode()
    found: list[int] = []
    blank: list[int] = []
    try:
        entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    except OSError:
        return found, blank
    own = os.getpid()
    for entry in entries:
        if int(entry.name) == own:
            continue
        try:
            with (entry / "environ").open("rb") as file:
                variables = file.read(_ENVIRONMENT).split(b"\0")
        except OSError:
            continue
        if variables == [b""]:
            blank.append(int(entry.name))
        elif any(variable == exact or variable.startswith(below) for variable in variables):
            found.append(int(entry.name))
    return found, blank


def _is_new(pid: int) -> bool:
    """Whether a process runs, and for a moment only."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        up = float(Path("/proc/uptime").read_text("ascii").split()[0])
        age = up - int(after_name[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):  # over by now
        return False
    return after_name[0] not in {"Z", "X"} and age < _NEW
