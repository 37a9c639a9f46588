"""Where `loopwarden run` keeps its sessions: a journal for each, in one folder, for the owner only."""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError
from loopwarden.runner.owned_file import lock_beside, owned
from loopwarden.state_folder import folder

if TYPE_CHECKING:
    from pathlib import Path

FOLDER: Final = "sessions"

MOST_FILES: Final = 200
"""Sessions that are kept; those that were idle for longest go first."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}")
_SUFFIX: Final = ".db"


def sessions_folder() -> Path:
    """`sessions` below what `LOOPWARDEN_STATE` names, else below the user's state folder.

    Raises:
        StoreError: The user has no home.
    """
    return folder(FOLDER, "the sessions")


def session_file(below: Path, session: str) -> Path:
    """The journal of a session; an id that is no good name of a file is written as its digest."""
    if _PLAIN.fullmatch(session) and not session.endswith("."):
        return below / f"{session}{_SUFFIX}"
    return below / f".{sha256(session.encode('utf-8', 'replace')).hexdigest()[:32]}{_SUFFIX}"


def forget_old(below: Path, most: int = MOST_FILES) -> None:
    """Remove the journals of sessions that nobody used for longest, unless somebody has one open."""
    found: list[tuple[float, Path]] = []
    with suppress(OSError):
        for path in below.iterdir():
            if path.name.endswith(_SUFFIX):
                with suppress(OSError):
                    found.append((path.stat().st_mtime, path))
    for _, path in sorted(found, reverse=True)[most:]:
        with suppress(StoreError, OSError), owned(path):
            for name in ("", "-wal", "-shm"):
                path.with_name(f"{path.name}{name}").unlink(missing_ok=True)
            lock_beside(path).unlink(missing_ok=True)
