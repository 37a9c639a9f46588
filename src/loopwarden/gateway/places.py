"""Where the gateway keeps what outlives it: one folder of the user's, for the owner only."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from loopwarden.errors import StoreError

ROOT: Final = "LOOPWARDEN_STATE"
"""The variable that names another folder to put ours in."""

FOLDER: Final = "gateway"
TOKEN_FILE: Final = "token"  # noqa: S105 - the name of a file
DATABASE_FILE: Final = "gateway.db"
JOURNAL_FILE: Final = "journal.db"
LOCK_FILE: Final = "gateway.lock"
RECORD_FILE: Final = "runs.jsonl"


def default_folder() -> Path:
    """The folder where none is named.

    `gateway` below what `LOOPWARDEN_STATE` names, else below `$XDG_STATE_HOME/loopwarden`, by default
    `~/.local/state/loopwarden`.

    Raises:
        StoreError: The user has no home.
    """
    named = os.environ.get(ROOT)
    if named:
        return Path(named).absolute() / FOLDER
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        below = Path(base) if base.startswith("/") else Path.home() / ".local/state"
    except RuntimeError:
        raise StoreError(f"no folder for the state of the gateway: set {ROOT} to one") from None
    return below / "loopwarden" / FOLDER


def made(folder: Path) -> Path:
    """The folder, made if it is missing, closed to other people.

    Raises:
        StoreError: It can't be made or closed, or belongs to somebody else.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name != "nt":
            found = folder.stat()
            if found.st_uid != os.geteuid():
                raise StoreError(f"{folder} belongs to another user; name another folder with --state")
            if found.st_mode & 0o077:
                folder.chmod(stat.S_IMODE(found.st_mode) & 0o700)
    except OSError as error:
        raise StoreError(f"no folder for the state of the gateway: {error}; name one with --state") from None
    return folder
