"""The command `loopwarden-hook HOST [EVENT]`: one hook event from standard input, one answer to the host.

A coding agent starts it for each event, and waits. So it imports next to nothing: it hands the event to a
service of this user on a socket, which has everything loaded. Where there is none it answers by itself, and
starts one for the next time; `LOOPWARDEN_SERVICE=off` does without. Whatever fails, the agent goes on: the
exit code is 0 and nothing is printed.
"""

from __future__ import annotations

import os
import sys
import time

VERSION = "0.1.0"
"""That of the package; a service of another version is not asked."""

VERSION_WANTED = "-version"
"""In place of a host: the service says its version."""

PASSED_ON = (
    "CLAUDE_CODE_ENTRYPOINT",
    "LOOPWARDEN_ATTENDED",
    "LOOPWARDEN_CONFIG",
    "LOOPWARDEN_MODE",
    "LOOPWARDEN_RECORD",
)
"""Variables of the hook process that an answer depends on."""

MOST_BYTES = 64 * 1024 * 1024
"""The longest event; a longer one is not looked at."""

_SECONDS = 5.0
"""How long a hook may take; after that the agent goes on. `LOOPWARDEN_TIMEOUT` names another number."""

_LEAST_SECONDS, _MOST_SECONDS = 0.05, 600.0

_ASK_SECONDS = 3.0
"""How long the service is waited for, at most half of what a hook may take."""

STUCK_SECONDS = 60.0
"""A service that did not answer is not asked again for so long."""

STUCK_FILE = "service.stuck"
"""In the state folder: its age says when that was."""

_START_SECONDS = 10.0
"""A service that was started less than this ago is not started again."""

_LONGEST_SOCKET = 100
"""Bytes of a socket's path; the system's limit is a little higher."""


def main() -> int:
    """Run the command; it ends the process."""
    words = sys.argv[1:]
    if len(words) not in (1, 2) or words[0].startswith("-"):
        print("usage: loopwarden-hook HOST [EVENT] < event.json", file=sys.stderr)  # noqa: T201 - a command
        return 0 if words in (["-h"], ["--help"]) else 1  # 2 would refuse the call
    host, event = words[0], words[1] if len(words) > 1 else ""
    code, out, err = 0, b"", b""
    try:
        fill_streams()
        _limit()
        payload = _read()
        folder = state_folder()
        if payload is None:
            _note_long(host)
            os._exit(0)
        answer = _ask(folder, host, event, payload)
        if answer is None:
            code, out, err = _by_itself(folder, host, event, payload)
        else:
            code, out, err = answer
    except BaseException:  # noqa: BLE001, S110 - the agent goes on, whatever it is; what is known was logged
        pass
    _write(1, out)
    _write(2, err)
    os._exit(code)


def fill_streams() -> None:
    """Give a process the standard streams that it was started without: empty, or not to be written.

    Else the next file that is opened takes the number of one, and gets what is written to that.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # the lowest number that is free, which is this one
            os.set_inheritable(os.open(os.devnull, os.O_WRONLY if number > 1 else os.O_RDONLY), True)


def state_folder() -> str:
    """The folder with the state; the rule is that of `loopwarden.hooks.places`.

    Raises:
        OSError: The user has no home that can be used.
    """
    named = os.environ.get("LOOPWARDEN_STATE")
    if named:
        return named
    base = os.environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):
        if os.name != "nt" and not os.environ.get("HOME", "/").startswith("/"):
            raise OSError("HOME is no whole path, so that there is no folder for the state")
        base = os.path.expanduser("~/.local/state")  # noqa: PTH111 - pathlib takes longer than all of this
    return f"{base}/loopwarden/hooks"


def request(host: str, event: str, payload: bytes) -> bytes:
    """What is sent to the service: a line with lengths, the variables, the event."""
    known = (f"{name}={os.environ[name]}" for name in PASSED_ON if name in os.environ)
    variables = "\0".join(known).encode("utf-8", "surrogateescape")
    head = f"loopwarden-hook {VERSION} {host} {event or '-'} {len(variables)} {len(payload)}\n"
    return head.encode("utf-8", "surrogateescape") + variables + payload


def fits_socket(folder: str) -> bool:
    """Whether there can be a service for a state folder: the path of a socket may not be long."""
    return len(os.fsencode(f"{folder}/service.sock")) <= _LONGEST_SOCKET


def _ask(folder: str, host: str, event: str, payload: bytes) -> tuple[int, bytes, bytes] | None:
    """Ask the service; `None` where there is none, or it doesn't answer."""
    if os.environ.get("LOOPWARDEN_SERVICE") == "off" or not fits_socket(folder) or _is_stuck(folder):
        return None
    try:
        data = _exchange(f"{folder}/service.sock", request(host, event, payload))
        head, _, rest = data.partition(b"\n")
        code, out, err = map(int, head.split())
    except TimeoutError:
        _note_stuck(folder)
        return None
    except (OSError, ImportError, ValueError):
        return None
    return (code, rest[:out], rest[out:]) if len(rest) == out + err else None


def _exchange(path: str, said: bytes) -> bytes:
    from _socket import AF_UNIX, SOCK_STREAM, socket  # `socket` takes as long as all the rest

    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(min(_ASK_SECONDS, _seconds() / 2))
        connection.connect(path)
        connection.sendall(said)
        data = b""
        while piece := connection.recv(65536):
            data += piece
    finally:
        connection.close()
    return data


def _is_stuck(folder: str) -> bool:
    """Whether the service did not answer a moment ago."""
    try:
        age = time.time() - os.stat(f"{folder}/{STUCK_FILE}").st_mtime  # noqa: PTH116 - as above
    except OSError:
        return False
    return 0 <= age < STUCK_SECONDS


def _note_stuck(folder: str) -> None:
    from pathlib import Path

    from loopwarden.hooks.faults import note_fault

    try:
        path = Path(folder, STUCK_FILE)
        path.touch(mode=0o600)
    except OSError:
        pass
    text = f"the service did not answer; hooks answer by themselves for {STUCK_SECONDS:.0f} seconds"
    note_fault(Path(folder), text)


def _by_itself(folder: str, host: str, event: str, payload: bytes) -> tuple[int, bytes, bytes]:
    from loopwarden.hooks.answering import Answering
    from loopwarden.hooks.places import state_folder as made_folder

    answering = Answering(made_folder())
    answer = answering.answer(host, payload, os.environ, event or None)
    answering.close()
    _start_service(folder)
    return answer.code, answer.out, answer.err


def _start_service(folder: str) -> None:
    """Start a service that outlives this process and holds nothing of it open."""
    lock = f"{folder}/service.lock"
    if os.environ.get("LOOPWARDEN_SERVICE") == "off" or os.name == "nt":
        return
    if not fits_socket(folder) or _is_stuck(folder):
        return
    try:
        if time.time() - os.stat(lock).st_mtime < _START_SECONDS:  # noqa: PTH116 - as above
            return
    except OSError:
        pass
    import subprocess

    subprocess.Popen(
        [sys.executable, "-m", "loopwarden.hooks.service"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={**os.environ, "LOOPWARDEN_STATE": os.path.abspath(folder)},  # noqa: PTH100 - as above
    )


def _read() -> bytes | None:
    """The event; `None` for one that is too long, which is read to its end all the same."""
    pieces, length = [], 0
    while piece := os.read(0, 1024 * 1024):
        length += len(piece)
        if length <= MOST_BYTES:
            pieces.append(piece)
        else:
            pieces.clear()
    return b"".join(pieces) if length <= MOST_BYTES else None


def _note_long(host: str) -> None:
    from loopwarden.hooks.faults import note_fault
    from loopwarden.hooks.places import state_folder as made_folder

    note_fault(made_folder(), f"{host}: the event is longer than {MOST_BYTES >> 20} MB, so it passed unseen")


def _write(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        pass


def _limit() -> None:
    """Let the agent go on when this takes too long."""
    if os.name == "nt":
        return
    import signal

    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, _seconds())


def _seconds() -> float:
    """How long this may take."""
    try:
        seconds = float(os.environ.get("LOOPWARDEN_TIMEOUT") or _SECONDS)
    except ValueError:
        seconds = _SECONDS
    return min(max(_LEAST_SECONDS, seconds), _MOST_SECONDS)
