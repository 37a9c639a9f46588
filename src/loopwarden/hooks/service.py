"""The service that answers hook events: `python -m loopwarden.hooks.service`, started by the hook itself.

One process of a user, on a socket in the state folder, which nobody else can open. It keeps no state of its
own: all of it is in the files, so that a hook that answers by itself sees the same. It ends when nobody has
asked for a while, and when a hook of another version asks.
"""

from __future__ import annotations

import os
import socketserver
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from loopwarden.hooks.answering import Answering
from loopwarden.hooks.answers import SILENCE, Answer
from loopwarden.hooks.faults import note_fault
from loopwarden.hooks.places import LOCK_FILE, SOCKET_FILE, state_folder
from loopwarden.process_lock import TakenError, take
from loopwarden_hook import MOST_BYTES, VERSION, VERSION_WANTED, fits_socket

if TYPE_CHECKING:
    from pathlib import Path

IDLE_SECONDS: Final = 20 * 60.0
"""It ends when nobody has asked for so long."""

_LOOK_SECONDS: Final = 2.0
"""How often that is looked at."""

_READ_SECONDS: Final = 5.0
"""How long a hook may take to say what it wants."""

_LONGEST_HEAD: Final = 4096
_MOST_VARIABLES: Final = 64 * 1024


class Service(socketserver.ThreadingUnixStreamServer):
    """Answers on a socket.

    Args:
        folder: The state folder.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answering = Answering(folder)
        self.asked = time.monotonic()
        self.over = threading.Event()
        path = folder / SOCKET_FILE
        path.unlink(missing_ok=True)
        super().__init__(str(path), _Visitor)
        path.chmod(0o600)

    def serve(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Answer until nobody has asked for so long, or the socket was removed."""
        thread = threading.Thread(target=self.serve_forever, daemon=True)
        thread.start()
        while not self.over.wait(_LOOK_SECONDS):
            if time.monotonic() - self.asked > idle_seconds or not (self.folder / SOCKET_FILE).exists():
                break
        self.shutdown()
        (self.folder / SOCKET_FILE).unlink(missing_ok=True)
        self.server_close()
        self.answering.close()


class _Visitor(socketserver.StreamRequestHandler):
    """One hook process."""

    timeout = _READ_SECONDS

    def handle(self) -> None:
        service = cast("Service", self.server)
        service.asked = time.monotonic()
        with suppress(OSError):
            answer = self._answer(service)
            if answer is not None:
                head = f"{answer.code} {len(answer.out)} {len(answer.err)}\n".encode()
                self.wfile.write(head + answer.out + answer.err)

    def _answer(self, service: Service) -> Answer | None:
        """What the hook prints; `None` for one that has to help itself."""
        words = self.rfile.readline(_LONGEST_HEAD).decode("utf-8", "surrogateescape").split()
        try:
            program, version, host, event, variables, payload = words
            sizes = int(variables), int(payload)
        except ValueError:
            return None
        if program != "loopwarden-hook":
            return None
        if host == VERSION_WANTED:
            return Answer(out=VERSION.encode())
        if version != VERSION:
            service.over.set()
            return None
        if not (0 <= sizes[0] <= _MOST_VARIABLES and 0 <= sizes[1] <= MOST_BYTES):
            return SILENCE
        text = self.rfile.read(sizes[0]).decode("utf-8", "surrogateescape")
        environment = dict(pair.split("=", 1) for pair in text.split("\0") if "=" in pair)
        data = self.rfile.read(sizes[1])
        return service.answering.answer(host, data, environment, None if event == "-" else event)


def main() -> None:
    """Serve the user's state folder, unless somebody does or its path is too long for a socket."""
    os.umask(0o077)
    folder = state_folder()
    if not fits_socket(str(folder)):
        return
    try:  # its age tells hooks that one has just been started
        lock = take(folder / LOCK_FILE)
    except TakenError:
        return
    except OSError as error:
        note_fault(folder, f"service: {error}")
        return
    try:
        Service(folder).serve()
    except OSError as error:
        note_fault(folder, f"service: {error}")
    finally:
        os.close(lock)


if __name__ == "__main__":
    main()
