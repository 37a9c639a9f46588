"""What all coding agents share: the service, the state, the configuration, and the log of faults."""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from loopwarden.config import load_config
from loopwarden.errors import ConfigError
from loopwarden.hooks.answering import MODE, config_path
from loopwarden.hooks.checking import Finding
from loopwarden.hooks.damage import is_damage
from loopwarden.hooks.faults import faults
from loopwarden.hooks.ledger_file import opened_to_read
from loopwarden.hooks.places import LOCK_FILE, RUNS_FILE, SESSIONS_FILE, SOCKET_FILE
from loopwarden.state_folder import VARIABLE
from loopwarden_hook import VERSION, VERSION_WANTED, fits_socket

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_ASK_SECONDS: Final = 2.0
_RECENT: Final = 24 * 3600.0
_SHOWN: Final = 3
_STEP: Final = 1000
_NOT_ENABLED: Final = {
    True: "does not set enabled: the rolling detectors only observe, the post-compaction guard acts",
    False: "sets enabled to false: the guard is off, the post-compaction guard too",
}
"""What a configuration does, by whether `enabled` is left out."""

_UNITS: Final = ("bytes", "kB", "MB", "GB")


def check_machine(
    state: Path, environment: Mapping[str, str], project: Path, now: float | None = None
) -> list[Finding]:
    """Look at all of it.

    Args:
        state: The state folder.
        environment: Variables.
        project: The project that people are in.
        now: Seconds since the epoch.
    """
    return [
        *_config(environment, project),
        *_service(state),
        *_files(state),
        *_faults(state, time.time() if now is None else now),
    ]


def _config(environment: Mapping[str, str], project: Path) -> Iterator[Finding]:
    path = config_path(environment, str(project))
    mode = environment.get(MODE)
    if mode == "observe":
        yield Finding(level="note", text=f"{MODE} is observe: loops are counted, nothing is refused")
    if path is None:
        yield Finding(level="ok", text="no configuration: every detector is on")
        return
    try:
        config = load_config(path)
    except ConfigError as error:
        text = f"the configuration can't be used, so that every call passes: {str(error).strip()}"
        yield Finding(level="wrong", text=text, todo=f"loopwarden config check --config {path}")
        return
    values = {one.field: one for one in config.explain(None)}
    enabled = values.get("enabled")
    if enabled is None or enabled.value is True:
        yield Finding(level="ok", text=f"configuration: {path}")
    else:
        text = f"the configuration {path} {_NOT_ENABLED[enabled.value is None]}"
        yield Finding(level="wrong", text=text, todo="set tools.loopDetection.enabled to true in it")


def _service(state: Path) -> Iterator[Finding]:
    if not fits_socket(str(state)):
        text = f"no service, as the path of {state} is too long for a socket; hooks answer by themselves"
        yield Finding(level="note", text=text, todo=f"set {VARIABLE} to a shorter one to have them faster")
        return
    process = _process(state / LOCK_FILE)
    who = f", process {process}" if process is not None else ""
    try:
        version = _version(state / SOCKET_FILE)
    except TimeoutError:
        text = f"the service{who}{',' if who else ''} does not answer; hooks answer by themselves meanwhile"
        todo = f"kill -9 {process or 'PROCESS'}; a hook starts another one"
        yield Finding(level="wrong", text=text, todo=todo)
        return
    if version is None:
        text = "the service is not running; the next hook starts it"
        yield Finding(level="ok", text=text)
    elif version != VERSION:
        text = f"the service is of version {version}, this is {VERSION}; the next hook replaces it"
        yield Finding(level="note", text=text)
    else:
        yield Finding(level="ok", text=f"the service is running (version {version}{who})")


def _version(path: Path) -> str | None:
    """The version of the service; `None` where none answers.

    Raises:
        TimeoutError: There is one, and it doesn't answer.
    """
    if not hasattr(socket, "AF_UNIX"):
        return None
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ASK_SECONDS)
            connection.connect(str(path))
            connection.sendall(f"loopwarden-hook {VERSION} {VERSION_WANTED} - 0 0\n".encode())
            data = b""
            while len(data) < 200 and (piece := connection.recv(200)):  # noqa: PLR2004 - more than an answer
                data += piece
    except TimeoutError:
        raise
    except OSError:
        return None
    head, _, said = data.partition(b"\n")
    return (said if head else b"").decode("utf-8", "replace") or "unknown"


def _process(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None


def _files(state: Path) -> Iterator[Finding]:
    mode = state.stat().st_mode
    if os.name != "nt" and mode & 0o077:
        how = "write in" if mode & 0o022 else "look into"
        yield Finding(level="wrong", text=f"other people can {how} {state}", todo=f"chmod 700 {state}")
    paths = [path for path in (state / SESSIONS_FILE, state / RUNS_FILE) if path.exists()]
    closed = [path for path in (state, *paths) if not os.access(path, os.R_OK | os.W_OK)]
    if closed:
        names = ", ".join(map(str, closed))
        text = f"no permission to read and write {names}: nothing can be counted, so that every call passes"
        yield Finding(
            level="wrong", text=text, todo=f"give it back: chmod u+rwX {' '.join(map(str, closed))}"
        )
    for path in paths:
        fault = _fault(path) if os.access(path, os.R_OK) else None
        if fault is not None:
            yield fault
    said = ", ".join(f"{path.name} {_size(path)}" for path in paths)
    yield Finding(level="ok", text=f"state in {state}: {said or 'nothing yet'}")


def _fault(path: Path) -> Finding | None:
    """What is wrong with a database that may be read."""
    try:
        with closing(opened_to_read(path)) as connection:
            said = [row[0] for row in connection.execute("PRAGMA quick_check(1)")]
        damage = said != ["ok"]
        reason = said[0].splitlines()[0]
    except sqlite3.Error as error:
        damage, reason = is_damage(error), str(error)
        if not damage:
            todo = "look again in a moment; if it stays so, see which process has it open"
            return Finding(level="wrong", text=f"{path} can't be used: {reason}", todo=todo)
    if not damage:
        return None
    lost = "what was counted so far" if path.name == RUNS_FILE else "pauses, allowed loops, and what was done"
    todo = f"remove {path}, if the next hook does not set it aside; lost are {lost}"
    return Finding(level="wrong", text=f"{path} is damaged: {reason}", todo=todo)


def _size(path: Path) -> str:
    size, place = float(path.stat().st_size), 0
    while size >= _STEP and place < len(_UNITS) - 1:
        size, place = size / _STEP, place + 1
    return f"{size:.0f} {_UNITS[place]}"


def _faults(state: Path, now: float) -> Iterator[Finding]:
    recent = [line for line in faults(state, 200) if _moment(line) > now - _RECENT]
    if recent:
        shown = "; ".join(recent[-_SHOWN:])
        many = f"{len(recent)} faults" if len(recent) > 1 else "1 fault"
        text = f"{many} in the last 24 hours, where calls may have passed unseen: {shown}"
        yield Finding(level="wrong", text=text, todo=f"see {state / 'faults.log'}")


def _moment(line: str) -> float:
    try:
        return datetime.fromisoformat(line.split(maxsplit=1)[0]).astimezone(UTC).timestamp()
    except (ValueError, IndexError, OverflowError):
        return 0.0
