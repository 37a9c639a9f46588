"""One gateway a folder: a lock that ends with the process, however it ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError
from loopwarden.gateway.places import LOCK_FILE

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST_PID: Final = 20


class FolderLock:
    """Holds a folder for this process until `release`.

    Raises:
        StoreError: Another gateway has it; the text names its process and the folder.
    """

    def __init__(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        try:
            self._descriptor = os.open(folder / LOCK_FILE, flags, 0o600)
        except OSError as error:
            raise StoreError(f"the folder {folder} can't be used: {error}") from None
        if not _claimed(self._descriptor):
            pid = _pid(self._descriptor)
            os.close(self._descriptor)
            raise StoreError(
                f"a gateway is running on the folder {folder} already (process {pid}); end it, or name"
                " another folder with --state"
            )
        try:
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())
        except OSError:  # a full disk: the lock is held all the same, and who asks is told `unknown`
            return

    def release(self) -> None:
        """Give the folder back."""
        os.close(self._descriptor)


def _claimed(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: there the port is what a second gateway stumbles over
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _pid(descriptor: int) -> str:
    text = os.read(descriptor, _LONGEST_PID).strip()
    return text.decode() if text.isdigit() else "unknown"
